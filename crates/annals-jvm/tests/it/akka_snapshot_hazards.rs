//! What goes wrong with snapshots under the JVM plugin's own algorithms, and does not under ours.

use std::sync::Arc;
use std::time::Duration;

use annals::items::{Item, Items, Query, TableSpec, Value};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshots};
use annals::{Codec, ManualClock, Payload, PersistenceId, Random};
use annals_testkit::store;
use futures::TryStreamExt;

use crate::akka_plugin::{ID, akka};
use annals_testkit::journals::number;

fn id() -> PersistenceId {
    ID.parse().unwrap()
}

struct Bed {
    items: Arc<dyn Items>,
    table: TableSpec,
    clock: Arc<ManualClock>,
    snapshots: Snapshots,
}

impl Bed {
    async fn new() -> Self {
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let settings = akka();
        let table = settings.tables().unwrap().snapshot;
        let created = items.create_table(&table, Default::default());
        created.await.unwrap();
        let clock = Arc::new(ManualClock::at_ms(1_000));
        let random = Random::seeded(1);
        let store = store(items.clone(), clock.clone(), random);
        let opened = settings.snapshots(&store);
        Self {
            snapshots: opened.unwrap(),
            items,
            table,
            clock,
        }
    }

    async fn save(&self, n: u64, bytes: usize) {
        self.clock.advance(Duration::from_millis(10));
        let state = Payload::new(Codec::Bytes, vec![n as u8; bytes]);
        self.snapshots.save(&id(), number(n), state).await.unwrap();
    }

    async fn load(&self, criteria: Criteria) -> Option<u64> {
        let found = self.snapshots.load(&id(), criteria).await.unwrap();
        found.map(|found| found.sequence_number.get())
    }

    fn query(&self) -> Query {
        Query::of(format!("journal-P-{ID}")).descending()
    }

    /// The first page of the plugin's query.
    async fn page(&self, query: Query) -> Vec<Item> {
        self.items.query(&self.table, query).await.unwrap().items
    }
}

fn time_of(item: &Item) -> u64 {
    item.get("ts").and_then(Value::as_u64).unwrap()
}

fn number_of(item: &Item) -> u64 {
    item.get("seq").and_then(Value::as_u64).unwrap()
}

#[tokio::test]
async fn h10_a_snapshot_within_both_bounds_is_found_after_one_that_is_not() {
    let bed = Bed::new().await;
    bed.save(11, 10).await;
    let until = 1_000 + 10;
    bed.save(12, 10).await;
    let criteria = Criteria::ALL.up_to(number(12)).until_ms(until);
    // The plugin reads one, and then checks its time.
    let first = bed.page(bed.query().limit(1)).await;
    assert!(
        first.iter().all(|item| time_of(item) > until),
        "nothing is found"
    );
    assert_eq!(bed.load(criteria).await, Some(11));
}

#[tokio::test]
async fn h10_every_page_is_deleted() {
    let bed = Bed::new().await;
    for n in 1..=10 {
        bed.save(n, 190_000).await;
    }
    let first = bed.page(bed.query()).await;
    assert!(first.len() < 10, "the plugin deletes {} of 10", first.len());
    bed.snapshots.delete(&id(), Criteria::ALL).await.unwrap();
    let left = bed.snapshots.find(&id(), Criteria::ALL);
    let left: Vec<_> = left.try_collect().await.unwrap();
    assert!(left.is_empty());
}

#[tokio::test]
async fn h10_a_slow_clock_hides_no_snapshot() {
    let bed = Bed::new().await;
    bed.clock.advance(Duration::from_secs(60));
    bed.save(11, 10).await;
    // A node whose clock is a minute behind saves the next one.
    let slow = Arc::new(ManualClock::at_ms(1_000));
    let slow = akka()
        .snapshots(&store(bed.items.clone(), slow, Random::seeded(2)))
        .unwrap();
    let state = Payload::new(Codec::Text, "newer");
    slow.save(&id(), number(12), state).await.unwrap();
    let newest = bed.page(bed.query().on("ts-idx").limit(1)).await;
    assert_eq!(
        number_of(&newest[0]),
        11,
        "the plugin recovers from the older"
    );
    assert_eq!(bed.load(Criteria::ALL).await, Some(12));
}
