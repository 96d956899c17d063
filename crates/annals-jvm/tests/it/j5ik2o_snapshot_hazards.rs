//! What goes wrong with snapshots under the algorithms of j5ik2o's plugin, and does not under ours.

use std::sync::Arc;
use std::time::Duration;

use annals::items::{Condition, Items, Query, Scan, Value, scan_all};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshots};
use annals::store::Store;
use annals::{Codec, ErrorKind, ManualClock, Payload, PersistenceId, Random, Result};
use annals_jvm::AnyLayout;
use annals_jvm::j5ik2o::{J5ik2oSnapshots, PartitionKeyResolver, Resolvers, SortKeyResolver};
use annals_jvm::settings::PartitionKeyKind;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::store;
use futures::TryStreamExt;

use crate::j5ik2o_stores_plugin::{ID, PluginSnapshots, TWINS, j5ik2o};
use annals_testkit::journals::number;

fn id(text: &str) -> PersistenceId {
    text.parse().unwrap()
}

fn text(text: &str) -> Payload {
    Payload::new(Codec::Text, text.to_owned())
}

struct Bed {
    memory: Arc<Memory>,
    counting: Store,
    items: Arc<dyn Items>,
    settings: AnyLayout,
    clock: Arc<ManualClock>,
    snapshots: Snapshots,
    plugin: PluginSnapshots,
}

impl Bed {
    async fn new() -> Self {
        Self::with(j5ik2o()).await
    }

    async fn with(settings: AnyLayout) -> Self {
        let memory = Arc::new(Memory::new());
        let counting = Store::from(memory.clone());
        let items: Arc<dyn Items> = counting.items().clone();
        let table = settings.tables().unwrap().snapshot;
        let created = items.create_table(&table, Default::default());
        created.await.unwrap();
        let clock = Arc::new(ManualClock::at_ms(1_000));
        Self {
            snapshots: open(&items, &settings, &clock),
            plugin: PluginSnapshots::new(&items, &settings),
            memory,
            counting,
            items,
            settings,
            clock,
        }
    }

    async fn save(&self, n: u64, bytes: usize) {
        self.clock.advance(Duration::from_millis(10));
        let state = Payload::new(Codec::Bytes, vec![n as u8; bytes]);
        let saved = self.snapshots.save(&id(ID), number(n), state).await;
        saved.unwrap();
    }

    async fn load(&self, criteria: Criteria) -> Option<u64> {
        let found = self.snapshots.load(&id(ID), criteria).await.unwrap();
        found.map(|found| found.sequence_number.get())
    }

    /// How many half read units were spent since the last time.
    fn read(&self) -> u64 {
        self.counting.take_counts().total().cost.read_half_units
    }
}

fn open(items: &Arc<dyn Items>, settings: &AnyLayout, clock: &Arc<ManualClock>) -> Snapshots {
    let (clock, random) = (clock.clone(), Random::seeded(1));
    settings
        .snapshots(&store(items.clone(), clock, random))
        .unwrap()
}

#[tokio::test]
async fn a_load_up_to_a_number_reads_one_snapshot() {
    let bed = Bed::new().await;
    for n in 1..=10 {
        bed.save(n, 100 * 1_024).await;
    }
    bed.read();
    assert_eq!(bed.plugin.load(ID, Some(9), None).await, Some(9));
    let plugins = bed.read();
    assert_eq!(bed.load(Criteria::ALL.up_to(number(9))).await, Some(9));
    let ours = bed.read();
    // Ours is strongly consistent, at twice the price of each byte.
    assert!(ours < plugins / 2, "ours {ours}, the plugin's {plugins}");
    assert_eq!(ours, 2 * 26);
}

#[tokio::test]
async fn a_load_up_to_a_time_reads_every_page() {
    let bed = Bed::new().await;
    for n in 1..=5 {
        bed.save(n, 300 * 1_024).await;
    }
    let until = 1_000 + 10;
    assert_eq!(bed.plugin.load(ID, None, Some(until)).await, None);
    assert_eq!(bed.load(Criteria::ALL.until_ms(until)).await, Some(1));
}

#[tokio::test]
async fn lower_bounds_count() {
    let bed = Bed::new().await;
    bed.save(1, 10).await;
    assert_eq!(bed.plugin.load(ID, None, None).await, Some(1));
    let criteria = Criteria::ALL.at_least(number(2));
    assert_eq!(bed.load(criteria).await, None);
    let criteria = Criteria::ALL.since_ms(2_000);
    assert_eq!(bed.load(criteria).await, None);
}

#[tokio::test]
async fn a_deletion_deletes_every_page() {
    for keys in [
        PartitionKeyKind::PersistenceIdBased,
        PartitionKeyKind::SequenceNumberBased,
    ] {
        let mut settings = j5ik2o();
        let section = &mut settings.j5ik2o.dynamo_db_snapshot;
        section.partition_key_resolver_class_name = keys;
        let bed = Bed::with(settings).await;
        for n in 1..=10 {
            bed.save(n, 300 * 1_024).await;
        }
        let first = bed.plugin.count(ID).await;
        assert!(first < 10, "the plugin deletes {first} of 10");
        let deleted = bed.snapshots.delete(&id(ID), Criteria::ALL).await;
        deleted.unwrap();
        assert_eq!(bed.load(Criteria::ALL).await, None);
        assert_eq!(bed.plugin.count(ID).await, 0);
    }
}

#[tokio::test]
async fn an_incomplete_deletion_is_an_error() {
    let bed = Bed::new().await;
    for n in 1..=5 {
        bed.save(n, 10).await;
    }
    let faults = Faults {
        unprocessed: 1_000,
        ..Faults::none()
    };
    let throttled = Faulty::new(bed.memory.clone(), Random::seeded(1), faults);
    let throttled: Arc<dyn Items> = Arc::new(throttled);
    let plugin = PluginSnapshots::new(&throttled, &bed.settings);
    let asked = plugin.delete(ID, 4).await;
    let left = bed.plugin.count(ID).await;
    assert!(
        left > 5 - asked,
        "{left} are left, and the plugin says nothing"
    );
    let ours = open(&throttled, &bed.settings, &bed.clock);
    let error = ours.delete(&id(ID), Criteria::ALL).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let deleted = bed.snapshots.delete(&id(ID), Criteria::ALL).await;
    deleted.unwrap();
    assert_eq!(bed.plugin.count(ID).await, 0);
}

#[tokio::test]
async fn a_key_of_another_id_is_not_overwritten() {
    let bed = Bed::new().await;
    let [one, other] = TWINS;
    bed.plugin.save(one, 7, 1).await;
    let saved = bed
        .snapshots
        .save(&id(other), number(7), text("mine"))
        .await;
    let error = saved.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let said = error.to_string();
    assert!(
        said.contains("id=`n`") && said.contains("other=`a`"),
        "{said}"
    );
    let found = bed.snapshots.load(&id(one), Criteria::ALL).await.unwrap();
    assert_eq!(found.unwrap().payload, text("jvm"));
    // Nor is it deleted, at its number or by criteria.
    for criteria in [Criteria::at(number(7)), Criteria::ALL] {
        let deleted = bed.snapshots.delete(&id(other), criteria).await;
        deleted.unwrap();
    }
    assert_eq!(bed.plugin.count(one).await, 1);
    // The plugin itself: one is lost without an error.
    bed.plugin.save(other, 7, 1).await;
    assert_eq!(bed.plugin.load(one, None, None).await, None);
}

#[tokio::test]
async fn rows_of_other_ids_in_the_same_range_are_skipped() {
    let bed = Bed::new().await;
    let [one, other] = TWINS;
    for n in [3, 5, 9] {
        let saved = bed.snapshots.save(&id(one), number(n), text("one")).await;
        saved.unwrap();
    }
    for n in [4, 10, 11] {
        let saved = bed
            .snapshots
            .save(&id(other), number(n), text("other"))
            .await;
        saved.unwrap();
    }
    for (who, want) in [(one, 9), (other, 11)] {
        let found = bed.snapshots.load(&id(who), Criteria::ALL).await.unwrap();
        assert_eq!(found.unwrap().sequence_number, number(want));
    }
    let deleted = bed.snapshots.delete(&id(one), Criteria::ALL).await;
    deleted.unwrap();
    assert_eq!(bed.plugin.count(one).await, 0);
    assert_eq!(bed.plugin.count(other).await, 3);
}

#[tokio::test]
async fn rows_under_older_keys_are_found_and_deleted() {
    let mut older = j5ik2o();
    let section = &mut older.j5ik2o.dynamo_db_snapshot;
    section.partition_key_resolver_class_name = PartitionKeyKind::SequenceNumberBased;
    let bed = Bed::new().await;
    let before = open(&bed.items, &older, &bed.clock);
    for n in [3, 4] {
        before.save(&id(ID), number(n), text("old")).await.unwrap();
    }
    assert_eq!(bed.load(Criteria::ALL).await, Some(4));
    // The plugin recomputes the key, and deletes nothing.
    bed.plugin.delete(ID, 4).await;
    assert_eq!(bed.plugin.count(ID).await, 2);
    bed.save(5, 10).await;
    assert_eq!(bed.load(Criteria::ALL.up_to(number(4))).await, Some(4));
    let deleted = bed.snapshots.delete(&id(ID), Criteria::at(number(4))).await;
    deleted.unwrap();
    assert_eq!(bed.load(Criteria::ALL.up_to(number(4))).await, Some(3));
    let deleted = bed.snapshots.delete(&id(ID), Criteria::ALL).await;
    deleted.unwrap();
    assert_eq!(bed.plugin.count(ID).await, 0);
}

#[tokio::test]
async fn tables_of_the_older_format_have_id_and_number_as_key() {
    let mut settings = j5ik2o();
    settings.j5ik2o.dynamo_db_snapshot.legacy_table_format = true;
    let bed = Bed::with(settings).await;
    for n in 1..=5 {
        bed.save(n, 300 * 1_024).await;
    }
    bed.save(5, 10).await;
    assert_eq!(bed.load(Criteria::ALL).await, Some(5));
    assert_eq!(bed.load(Criteria::ALL.until_ms(1_010)).await, Some(1));
    let all = scan_all(
        bed.items.clone(),
        bed.plugin.table.clone().into(),
        Scan::whole(),
    );
    let all: Vec<_> = all.try_collect().await.unwrap();
    for item in &all {
        let names: Vec<&str> = item.iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "crc",
                "created",
                "persistence-id",
                "sequence-nr",
                "snapshot"
            ]
        );
    }
    let deleted = bed.snapshots.delete(&id(ID), Criteria::at(number(5))).await;
    deleted.unwrap();
    assert_eq!(bed.load(Criteria::ALL).await, Some(4));
    let deleted = bed.snapshots.delete(&id(ID), Criteria::ALL).await;
    deleted.unwrap();
    assert_eq!(bed.load(Criteria::ALL).await, None);
}

#[tokio::test]
async fn a_snapshot_has_the_plugins_attributes() {
    let bed = Bed::new().await;
    let saved = bed.snapshots.save(&id(ID), number(7), text("hello")).await;
    saved.unwrap();
    let query = Query::of(format!("my-{:040}", 5));
    let page = bed.items.query(&bed.plugin.table, query).await.unwrap();
    let item = &page.items[0];
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap().to_owned();
    assert_eq!(text("skey"), format!("1-{:019}", 7));
    assert_eq!(text("persistence-id"), ID);
    let snapshot = item.get("snapshot").and_then(Value::as_bytes).unwrap();
    assert_eq!(&snapshot[..], b"\x04\0\0\0\x14\0\0\0hello");
    // And one of ours: the checksum.
    assert_eq!(item.len(), 7);
}

#[tokio::test]
async fn oversized_snapshots_are_rejected_with_a_clear_error() {
    let bed = Bed::new().await;
    let large = Payload::new(Codec::Bytes, vec![0; 400 * 1_024]);
    let error = bed.snapshots.save(&id(ID), number(1), large).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("one item of at most 409600"));
    // An id that the resolvers have no key for.
    let saved = bed
        .snapshots
        .save(&id("counter-"), number(1), text("x"))
        .await;
    assert_eq!(saved.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_row_whose_number_cannot_be_read_is_skipped() {
    let bed = Bed::new().await;
    bed.save(1, 10).await;
    bed.save(2, 10).await;
    let query = Query::of(format!("my-{:040}", 5)).descending().limit(1);
    let page = bed.items.query(&bed.plugin.table, query).await.unwrap();
    let damaged = page.items[0].clone().with("created", "yesterday");
    let put = bed.items.put(&bed.plugin.table, damaged, Condition::Always);
    put.await.unwrap();
    assert_eq!(bed.load(Criteria::ALL).await, Some(1));
}

/// All of an id's snapshots in a partition of its own.
#[derive(Debug)]
struct ByName;

impl PartitionKeyResolver for ByName {
    fn resolve(&self, id: &PersistenceId, _number: u64) -> Result<String> {
        Ok(format!("snapshots of {id}"))
    }

    fn is_constant(&self) -> bool {
        true
    }
}

impl SortKeyResolver for ByName {
    fn resolve(&self, _id: &PersistenceId, number: u64) -> Result<String> {
        // Not unique for every number.
        Ok(format!("{:019}", number / 2))
    }

    fn is_ordered(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn custom_resolvers_work_and_their_mistakes_are_errors() {
    let bed = Bed::new().await;
    let resolvers = Resolvers {
        partition: Arc::new(ByName),
        sort: Arc::new(ByName),
    };
    let store = Store::from(bed.items.clone()).with_clock(bed.clock.clone());
    let layout = J5ik2oSnapshots::open_with(&store, &bed.settings, resolvers.clone());
    let snapshots = Snapshots::new(Arc::new(layout.unwrap()), &store);
    let [one, other] = TWINS;
    for who in [one, other] {
        snapshots
            .save(&id(who), number(2), text(who))
            .await
            .unwrap();
    }
    let found = snapshots.load(&id(one), Criteria::ALL).await.unwrap();
    assert_eq!(found.unwrap().payload, text(one));
    let saved = snapshots.save(&id(one), number(3), text("x")).await;
    assert_eq!(saved.unwrap_err().kind(), ErrorKind::Invalid);
    let found = snapshots.load(&id(one), Criteria::ALL).await.unwrap();
    assert_eq!(found.unwrap().sequence_number, number(2));
    let mut legacy = bed.settings.clone();
    legacy.j5ik2o.dynamo_db_snapshot.legacy_table_format = true;
    let refused = J5ik2oSnapshots::open_with(&store, &legacy, resolvers);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}
