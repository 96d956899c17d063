//! The exact cost of the journal of the `j5ik2o` layout, in requests and units, compared with the
//! plugin's own requests. `--nocapture` prints the table.
//!
//! Assumptions as in the plugin's description: payloads of 1,024 bytes, an id of 40 characters, an
//! index that projects everything, so that each write costs twice. The plugin reads the index, at
//! half the price and eventually consistent; we read the table, strongly consistent. Appends come
//! from a process that has recovered the id.

use std::sync::Arc;

use annals::items::{Cost, Items};
use annals::journal::{Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::store::Store;
use annals::{Codec, NewEvent, PersistenceId, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_jvm::settings::PartitionKeyKind::{self, PersistenceIdBased, SequenceNumberBased};
use futures::TryStreamExt;

use crate::j5ik2o_plugin::{ID, j5ik2o};
use annals_testkit::journals::{after, number, open_as};

/// Requests, write units, and read units times two.
type Spent = (u64, u64, u64);

fn id() -> PersistenceId {
    ID.parse().unwrap()
}

fn event() -> NewEvent {
    NewEvent::new(Codec::Bytes, vec![7; 1_024])
}

struct Bed {
    counting: Store,
    items: Arc<dyn Items>,
    settings: AnyLayout,
}

impl Bed {
    async fn new(settings: AnyLayout) -> Self {
        let counting = Store::from(Arc::new(Memory::new()));
        let items: Arc<dyn Items> = counting.items().clone();
        let table = settings.tables().unwrap().journal;
        let created = items.create_table(&table, Default::default());
        created.await.unwrap();
        Self {
            counting,
            items,
            settings,
        }
    }

    /// An id with this many events, one per append.
    async fn with(kind: PartitionKeyKind, events: u64) -> Self {
        let bed = Self::new(j5ik2o(kind)).await;
        let journal = bed.open().await;
        for n in 0..events {
            append(&journal, n, 1).await;
        }
        bed
    }

    async fn open(&self) -> Journal {
        open_as(&self.items, &self.settings).await
    }

    /// A journal that has recovered the id.
    async fn recovered(&self) -> Journal {
        let journal = self.open().await;
        read(&journal, Window::ALL).await;
        self.counting.take_counts();
        journal
    }

    fn spent(&self) -> Spent {
        let Cost {
            requests,
            write_units,
            read_half_units,
        } = self.counting.take_counts().total().cost;
        (requests, write_units, read_half_units)
    }
}

async fn append(journal: &Journal, last: u64, count: usize) {
    let events = vec![event(); count];
    let appended = journal.append(&id(), after(last), events).await.unwrap();
    assert_eq!(appended.first.get(), last + 1);
}

async fn read(journal: &Journal, window: Window) -> u64 {
    let read = journal.replay(&id(), window).try_collect::<Vec<_>>().await;
    read.unwrap().len() as u64
}

async fn persist(kind: PartitionKeyKind, count: usize) -> Spent {
    let bed = Bed::with(kind, 5).await;
    let journal = bed.recovered().await;
    append(&journal, 5, count).await;
    bed.spent()
}

async fn recover(kind: PartitionKeyKind, events: u64) -> Spent {
    let bed = Bed::with(kind, events).await;
    let journal = bed.open().await;
    bed.counting.take_counts();
    assert_eq!(read(&journal, Window::ALL).await, events);
    bed.spent()
}

/// The events after a snapshot of all but the last three.
async fn tail(kind: PartitionKeyKind) -> Spent {
    let bed = Bed::with(kind, 100).await;
    let journal = bed.open().await;
    bed.counting.take_counts();
    assert_eq!(read(&journal, Window::from(number(98))).await, 3);
    bed.spent()
}

async fn highest(kind: PartitionKeyKind, events: u64) -> Spent {
    let bed = Bed::with(kind, events).await;
    let journal = bed.open().await;
    bed.counting.take_counts();
    let found = journal.highest(&id()).await.unwrap();
    assert_eq!(found, SequenceNumber::new(events));
    bed.spent()
}

/// Deletes the next hundred after `deleted` events.
async fn delete(kind: PartitionKeyKind, soft: bool, deleted: u64) -> Spent {
    let mut bed = Bed::with(kind, deleted + 101).await;
    bed.settings.j5ik2o.dynamo_db_journal.soft_delete = soft;
    let journal = bed.open().await;
    if deleted > 0 {
        journal.delete_to(&id(), number(deleted)).await.unwrap();
    }
    let journal = bed.open().await;
    bed.counting.take_counts();
    let next = number(deleted + 100);
    journal.delete_to(&id(), next).await.unwrap();
    bed.spent()
}

/// An operation, what it costs here with keys by id and by number, and what the plugin's requests
/// cost.
struct Line {
    what: &'static str,
    by_id: Spent,
    by_number: Spent,
    plugins: Spent,
}

async fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for (what, plugins) in [
        ("persist 1", (1, 4, 0)),
        ("persist 10 at once", (1, 40, 0)),
        ("persist 30 at once", (2, 120, 0)),
        ("highest", (1, 0, 1)),
        ("highest of an unknown id", (1, 0, 1)),
        ("recover 1", (2, 0, 2)),
        ("recover 100", (2, 0, 35)),
        ("recover 10,000", (21, 0, 3_341)),
        ("recover 3 behind a snapshot", (2, 0, 2)),
        ("delete 100", (5, 400, 34)),
        ("delete 100 after 9,900", (24, 400, 3_340)),
        ("remove 100", (5, 400, 34)),
        ("remove 100 after 900", (5, 400, 34)),
    ] {
        let cost = async |kind| match what {
            "persist 1" => persist(kind, 1).await,
            "persist 10 at once" => persist(kind, 10).await,
            "persist 30 at once" => persist(kind, 30).await,
            "highest" => highest(kind, 50).await,
            "highest of an unknown id" => highest(kind, 0).await,
            "recover 1" => recover(kind, 1).await,
            "recover 100" => recover(kind, 100).await,
            "recover 10,000" => recover(kind, 10_000).await,
            "recover 3 behind a snapshot" => tail(kind).await,
            "delete 100" => delete(kind, true, 0).await,
            "delete 100 after 9,900" => delete(kind, true, 9_900).await,
            "remove 100" => delete(kind, false, 0).await,
            _ => delete(kind, false, 900).await,
        };
        lines.push(Line {
            what,
            by_id: cost(PersistenceIdBased).await,
            by_number: cost(SequenceNumberBased).await,
            plugins,
        });
    }
    lines
}

#[tokio::test]
async fn every_operation_has_its_documented_cost() {
    let lines = lines().await;
    println!("requests, write units, read units times two: by id, by number, the plugin");
    for line in &lines {
        let shown = [line.by_id, line.by_number, line.plugins].map(|spent| format!("{spent:?}"));
        println!(
            "{:28} {:18} {:18} {:18}",
            line.what, shown[0], shown[1], shown[2]
        );
    }
    let found: Vec<(&str, Spent, Spent)> = lines
        .iter()
        .map(|line| (line.what, line.by_id, line.by_number))
        .collect();
    // Deleting the next hundred costs the same however many are deleted; the plugin reads them all
    // again each time.
    let deletion = ((12, 402, 74), (11, 402, 40));
    let deletes = |what| (what, deletion.0, deletion.1);
    let written: [(&str, Spent, Spent); 13] = [
        ("persist 1", (1, 4, 0), (1, 4, 0)),
        ("persist 10 at once", (10, 40, 0), (10, 40, 0)),
        ("persist 30 at once", (30, 120, 0), (30, 120, 0)),
        ("highest", (3, 0, 5), (3, 0, 5)),
        ("highest of an unknown id", (3, 0, 5), (3, 0, 5)),
        ("recover 1", (3, 0, 5), (3, 0, 5)),
        ("recover 100", (3, 0, 69), (3, 0, 37)),
        ("recover 10,000", (15, 0, 6_501), (15, 0, 3_241)),
        ("recover 3 behind a snapshot", (3, 0, 7), (3, 0, 6)),
        deletes("delete 100"),
        deletes("delete 100 after 9,900"),
        deletes("remove 100"),
        deletes("remove 100 after 900"),
    ];
    assert_eq!(found, written);
}
