//! The exact cost of snapshots and durable state of the `j5ik2o` layout, in requests and units,
//! compared with the JVM plugin's own requests. `--nocapture` prints the table.
//!
//! Snapshots have 100 KB, values 1 KB, ids 40 characters. Our reads are strongly consistent, and
//! cost twice what the plugin's do, which are not.

use std::sync::Arc;

use annals::items::Items;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshots};
use annals::state::States;
use annals::store::Store;
use annals::{Codec, ManualClock, Payload, PersistenceId, Random};
use annals_jvm::AnyLayout;
use annals_jvm::settings::{PartitionKeyKind, SortKeyKind};
use annals_testkit::store;

use crate::j5ik2o_stores_plugin::j5ik2o;
use annals_testkit::journals::number;

/// Requests, write units, read units.
type Spent = (u64, u64, f64);

fn id() -> PersistenceId {
    "counter-875e6ce0425e4d2b8203f3b44b9b531a".parse().unwrap()
}

fn spread() -> AnyLayout {
    let mut settings = j5ik2o();
    let section = &mut settings.j5ik2o.dynamo_db_snapshot;
    section.partition_key_resolver_class_name = PartitionKeyKind::SequenceNumberBased;
    section.sort_key_resolver_class_name = SortKeyKind::SeqNr;
    settings
}

fn legacy() -> AnyLayout {
    let mut settings = j5ik2o();
    settings.j5ik2o.dynamo_db_snapshot.legacy_table_format = true;
    settings
}

struct Bed {
    counting: Store,
    snapshots: Snapshots,
    states: States,
}

impl Bed {
    async fn new(settings: AnyLayout) -> Self {
        let counting = Store::from(Arc::new(Memory::new()));
        let items: Arc<dyn Items> = counting.items().clone();
        for table in settings.tables().unwrap().all() {
            let created = items.create_table(table, Default::default());
            created.await.unwrap();
        }
        let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
        let store = store(items, clock, Random::seeded(1));
        Self {
            snapshots: settings.snapshots(&store).unwrap(),
            states: settings.states(&store).unwrap(),
            counting,
        }
    }

    fn spent(&self) -> Spent {
        let cost = self.counting.take_counts().total().cost;
        let read = cost.read_half_units as f64 / 2.0;
        (cost.requests, cost.write_units, read)
    }

    async fn save(&self, n: u64) -> Spent {
        self.save_as(n, 1).await
    }

    async fn save_as(&self, n: u64, byte: u8) -> Spent {
        let state = Payload::new(Codec::Bytes, vec![byte; 100 * 1_024]);
        self.counting.take_counts();
        self.snapshots.save(&id(), number(n), state).await.unwrap();
        self.spent()
    }

    async fn load(&self, criteria: Criteria) -> Spent {
        self.counting.take_counts();
        self.snapshots.load(&id(), criteria).await.unwrap();
        self.spent()
    }

    async fn delete(&self, criteria: Criteria) -> Spent {
        self.counting.take_counts();
        self.snapshots.delete(&id(), criteria).await.unwrap();
        self.spent()
    }

    async fn upsert(&self, revision: u64) -> Spent {
        let value = Payload::new(Codec::Bytes, vec![7; 700]);
        self.counting.take_counts();
        self.states.upsert(&id(), revision, value).await.unwrap();
        self.spent()
    }

    async fn get(&self) -> Spent {
        self.counting.take_counts();
        self.states.get(&id()).await.unwrap();
        self.spent()
    }

    async fn erase(&self, revision: u64) -> Spent {
        self.counting.take_counts();
        self.states.delete(&id(), Some(revision)).await.unwrap();
        self.spent()
    }
}

/// An operation, what it costs here, and what the plugin's requests cost.
type Line = (&'static str, Spent, Spent);

async fn snapshots() -> Vec<Line> {
    let bed = Bed::new(j5ik2o()).await;
    let none = bed.load(Criteria::ALL).await;
    let first = bed.save(1).await;
    let over = bed.save_as(1, 2).await;
    for n in 2..=10 {
        bed.save(n).await;
    }
    let latest = bed.load(Criteria::ALL).await;
    let up_to = bed.load(Criteria::ALL.up_to(number(9))).await;
    let one = bed.delete(Criteria::at(number(10))).await;
    let all = bed.delete(Criteria::ALL).await;
    let legacy = Bed::new(legacy()).await;
    let spread = Bed::new(spread()).await;
    vec![
        ("save a snapshot of 100 KB", first, (1, 202, 0.0)),
        ("save it again", over, (1, 202, 0.0)),
        ("load the latest", latest, (1, 0, 13.0)),
        ("load the latest up to a number, of 9", up_to, (1, 0, 113.5)),
        ("load where there is none", none, (1, 0, 0.5)),
        ("delete one", one, (2, 202, 13.0)),
        ("delete 9", all, (2, 1_818, 113.5)),
        (
            "save in the older format",
            legacy.save(1).await,
            (1, 101, 0.0),
        ),
        ("load there", legacy.load(Criteria::ALL).await, (1, 0, 13.0)),
        (
            "delete one there",
            legacy.delete(Criteria::at(number(1))).await,
            (1, 101, 0.0),
        ),
        (
            "save, spread by number",
            spread.save(1).await,
            (1, 202, 0.0),
        ),
        ("load there", spread.load(Criteria::ALL).await, (1, 0, 13.0)),
        (
            "delete one there",
            spread.delete(Criteria::at(number(1))).await,
            (2, 202, 13.0),
        ),
    ]
}

async fn states() -> Vec<Line> {
    let bed = Bed::new(j5ik2o()).await;
    vec![
        ("get where there is none", bed.get().await, (1, 0, 0.5)),
        ("first upsert of 1 KB", bed.upsert(1).await, (1, 1, 0.0)),
        ("upsert", bed.upsert(2).await, (1, 1, 0.0)),
        ("get", bed.get().await, (1, 0, 0.5)),
        ("delete", bed.erase(3).await, (1, 1, 0.0)),
        ("get what is deleted", bed.get().await, (1, 0, 0.5)),
        ("upsert behind a deletion", bed.upsert(4).await, (1, 1, 0.0)),
        ("delete again", bed.erase(5).await, (1, 1, 0.0)),
    ]
}

#[tokio::test]
async fn every_operation_has_its_documented_cost() {
    let mut lines = snapshots().await;
    lines.extend(states().await);
    println!("requests, write units, read units");
    for (what, ours, plugins) in &lines {
        let (ours, plugins) = (format!("{ours:?}"), format!("{plugins:?}"));
        println!("{what:38} {ours:20} plugin {plugins}");
    }
    let ours: Vec<(&str, Spent)> = lines.iter().map(|line| (line.0, line.1)).collect();
    let written = [
        ("save a snapshot of 100 KB", (1, 202, 0.0)),
        ("save it again", (2, 303, 0.0)),
        ("load the latest", (1, 0, 26.0)),
        ("load the latest up to a number, of 9", (1, 0, 26.0)),
        ("load where there is none", (2, 0, 1.5)),
        ("delete one", (2, 202, 0.5)),
        ("delete 9", (3, 1_818, 114.0)),
        ("save in the older format", (1, 101, 0.0)),
        ("load there", (1, 0, 26.0)),
        ("delete one there", (1, 101, 0.0)),
        ("save, spread by number", (1, 202, 0.0)),
        ("load there", (1, 0, 13.0)),
        ("delete one there", (2, 202, 0.5)),
        ("get where there is none", (2, 0, 2.0)),
        ("first upsert of 1 KB", (3, 2, 1.0)),
        ("upsert", (1, 1, 0.0)),
        ("get", (1, 0, 1.0)),
        ("delete", (4, 3, 2.0)),
        ("get what is deleted", (2, 0, 2.0)),
        ("upsert behind a deletion", (5, 3, 2.0)),
        ("delete again", (4, 3, 2.0)),
    ];
    assert_eq!(ours, written);
    // More requests than the plugin: a save over another fails first, since the key might be another
    // id's; if the table has no snapshot the index is read too; a first value and a deletion must
    // prevent reuse of a revision.
}
