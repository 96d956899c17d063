//! What the journal and the snapshots of the `akka` layout cost, in requests and units, exactly, and
//! beside it what the JVM plugin's own requests cost. `--nocapture` prints the table.
//!
//! Assumptions as in the plugin's description: payloads of 1,024 bytes, ids of 36 characters, ten
//! shards, all reads consistent. Opening the journal is not part of an operation; appends come from
//! a process that has recovered the id.

use std::sync::Arc;

use annals::counting::Counting;
use annals::items::{Cost, Items};
use annals::journal::{Journal, Window};
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshots};
use annals::{Codec, ManualClock, NewEvent, Payload, PersistenceId, Random, SequenceNumber};
use futures::TryStreamExt;

use crate::akka_plugin::akka;
use crate::journals::{after, number, open_as};

/// Requests, write units, read units.
type Spent = (u64, u64, u64);

fn id() -> PersistenceId {
    "0f8fad5b-d9cb-469f-a165-70867728950e".parse().unwrap()
}

fn event() -> NewEvent {
    NewEvent::new(Codec::Bytes, vec![7; 1_024])
}

struct Bed {
    counting: Arc<Counting>,
    items: Arc<dyn Items>,
}

impl Bed {
    async fn new() -> Self {
        let counting = Arc::new(Counting::new(Arc::new(Memory::new())));
        let items: Arc<dyn Items> = counting.clone();
        let settings = akka();
        for table in settings.layout.tables(&settings).unwrap().all() {
            let created = items.create_table(table, Default::default());
            created.await.unwrap();
        }
        Self { counting, items }
    }

    /// An id with so many events, each of its own, and a journal that has recovered it.
    async fn with(events: u64) -> (Self, Journal) {
        let bed = Self::new().await;
        let journal = open_as(&bed.items, &akka()).await;
        for n in 0..events {
            append(&journal, n, 1).await;
        }
        let journal = open_as(&bed.items, &akka()).await;
        // So that its own record is not part of an operation either.
        let other: PersistenceId = "other".parse().unwrap();
        journal.append(&other, after(0), event()).await.unwrap();
        let read: Vec<_> = journal
            .replay(&id(), Window::ALL)
            .try_collect()
            .await
            .unwrap();
        assert_eq!(read.len() as u64, events);
        bed.counting.take();
        (bed, journal)
    }

    fn spent(&self) -> Spent {
        let Cost {
            requests,
            write_units,
            read_half_units,
        } = self.counting.take().total().cost;
        assert_eq!(read_half_units % 2, 0, "all reads are consistent");
        (requests, write_units, read_half_units / 2)
    }
}

async fn append(journal: &Journal, last: u64, count: usize) {
    let events = vec![event(); count];
    let appended = journal.append(&id(), after(last), events).await.unwrap();
    assert_eq!(appended.first.get(), last + 1);
}

async fn persist(last: u64, count: usize) -> Spent {
    let (bed, journal) = Bed::with(last).await;
    append(&journal, last, count).await;
    bed.spent()
}

async fn highest(events: u64) -> Spent {
    let (bed, _) = Bed::with(events).await;
    let journal = open_as(&bed.items, &akka()).await;
    bed.counting.take();
    let found = journal.highest(&id()).await.unwrap();
    assert_eq!(found, SequenceNumber::new(events));
    bed.spent()
}

async fn recover(events: u64) -> Spent {
    let (bed, _) = Bed::with(events).await;
    let journal = open_as(&bed.items, &akka()).await;
    bed.counting.take();
    let read: Vec<_> = journal
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(read.len() as u64, events);
    bed.spent()
}

async fn delete(events: u64) -> Spent {
    let (bed, journal) = Bed::with(events).await;
    journal.delete_to(&id(), number(events)).await.unwrap();
    bed.spent()
}

async fn purge() -> Spent {
    let (bed, journal) = Bed::with(0).await;
    journal.purge(&id()).await.unwrap();
    bed.spent()
}

/// Saving a snapshot of 100 KB, and loading the latest.
async fn snapshot() -> [Spent; 2] {
    let bed = Bed::new().await;
    let clock = Arc::new(ManualClock::at_ms(1_000));
    let snapshots = Snapshots::open(bed.items.clone(), &akka(), clock, Random::seeded(1));
    let snapshots = snapshots.unwrap();
    let state = Payload::new(Codec::Bytes, vec![7; 100 * 1_024]);
    bed.counting.take();
    snapshots.save(&id(), number(1), state).await.unwrap();
    let saved = bed.spent();
    snapshots.load(&id(), Criteria::ALL).await.unwrap().unwrap();
    [saved, bed.spent()]
}

/// An operation, what it costs here, and what the plugin's requests cost.
struct Line {
    what: &'static str,
    ours: Spent,
    plugins: Spent,
}

impl Line {
    /// Where ours takes more.
    fn verdict(&self) -> String {
        let (ours, plugins) = (self.ours, self.plugins);
        let more = |ours: u64, plugins: u64, what: &str| {
            let more = ours.checked_sub(plugins).filter(|more| *more > 0);
            more.map(|more| format!("{more} {what} more"))
        };
        let all = [
            more(ours.0, plugins.0, "requests"),
            more(ours.1, plugins.1, "write units"),
            more(ours.2, plugins.2, "read units"),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

async fn lines() -> Vec<Line> {
    let [saved, loaded] = snapshot().await;
    let line = |what, ours, plugins| Line {
        what,
        ours,
        plugins,
    };
    vec![
        line("persist 1", persist(5, 1).await, (1, 2, 0)),
        line(
            "persist 1, every hundredth",
            persist(99, 1).await,
            (1, 3, 0),
        ),
        line("persist 10 at once", persist(5, 10).await, (1, 20, 0)),
        line("persist 100 at once", persist(5, 100).await, (5, 201, 0)),
        line("highest of 1", highest(1).await, (2, 0, 11)),
        line("highest of 50", highest(50).await, (2, 0, 26)),
        line("highest of 99", highest(99).await, (2, 0, 40)),
        line("highest of 199", highest(199).await, (2, 0, 41)),
        line("highest of an unknown id", highest(0).await, (3, 0, 21)),
        line("recover 1", recover(1).await, (4, 0, 22)),
        line("recover 99", recover(99).await, (4, 0, 80)),
        line("recover 100", recover(100).await, (5, 0, 52)),
        line("recover 10,000", recover(10_000).await, (104, 0, 3_121)),
        line("delete 10,000", delete(10_000).await, (405, 20_002, 21)),
        line("purge of an empty id", purge().await, (6, 21, 21)),
        // Twice the item, of the same size: the index by time carries everything.
        line("save a snapshot of 100 KB", saved, (1, 202, 0)),
        line("load the latest snapshot", loaded, (1, 0, 26)),
    ]
}

#[tokio::test]
async fn every_operation_costs_what_is_written_here() {
    let lines = lines().await;
    println!("requests, write units, read units");
    for line in &lines {
        let (ours, plugins) = (format!("{:?}", line.ours), format!("{:?}", line.plugins));
        let (what, verdict) = (line.what, line.verdict());
        println!("{what:26} {ours:20} plugin {plugins:20} {verdict}");
    }
    let ours: Vec<(&str, Spent)> = lines.iter().map(|line| (line.what, line.ours)).collect();
    let written = [
        ("persist 1", (1, 2, 0)),
        ("persist 1, every hundredth", (2, 3, 0)),
        ("persist 10 at once", (10, 20, 0)),
        ("persist 100 at once", (101, 201, 0)),
        ("highest of 1", (3, 0, 22)),
        ("highest of 50", (3, 0, 22)),
        ("highest of 99", (3, 0, 22)),
        ("highest of 199", (3, 0, 22)),
        ("highest of an unknown id", (3, 0, 22)),
        ("recover 1", (3, 0, 22)),
        ("recover 99", (3, 0, 51)),
        ("recover 100", (4, 0, 52)),
        ("recover 10,000", (103, 0, 3_022)),
        ("delete 10,000", (507, 20_002, 3_023)),
        ("purge of an empty id", (4, 20, 22)),
        ("save a snapshot of 100 KB", (1, 202, 0)),
        ("load the latest snapshot", (1, 0, 26)),
    ];
    assert_eq!(ours, written);
    // What it takes more, and why: `highest` reads the low mark too, since what the plugin failed to
    // delete stands where the last event is looked for, and looks behind the last hundred; a deletion
    // reads what it empties, to know an append again. Requests are more where the plugin's batches
    // have no condition.
    let units = lines.iter().filter(|line| {
        let ((_, write, read), (_, plugins_write, plugins_read)) = (line.ours, line.plugins);
        write > plugins_write || read > plugins_read
    });
    let units: Vec<&str> = units.map(|line| line.what).collect();
    let known = [
        "highest of 1",
        "highest of an unknown id",
        "delete 10,000",
        "purge of an empty id",
    ];
    assert_eq!(units, known);
    let recovered = recover(1).await;
    assert!(recovered.0 <= 3 && recovered.2 <= 23, "{recovered:?}");
}
