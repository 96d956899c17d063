//! Items written by Pekko's and Akka's plugins: every golden item is read as they read it.
//!
//! `journal.jsonl` and `snapshot.jsonl` are all items of the plugin's tables, `expected.jsonl` is
//! what the plugin itself read from them (`interop/pekko/README.md`). Every difference is named here
//! with its reason.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use annals::items::{
    Condition, IndexSpec, Item, Items, KeyAttribute, KeySchema, Projection, Scan, TableSpec, Value,
    item_from_json, scan_all,
};
use annals::journal::{Expected, Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshot, Snapshots};
use annals::{Error, ErrorKind, Event, ManualClock, Payload, PersistenceId, Random};
use annals::{Result, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_jvm::settings::SnapshotOrder;
use annals_testkit::store;
use futures::TryStreamExt;
use serde_json::Value as Json;

use crate::jvm_lines;
use annals_testkit::journals::{number, text};

/// The plugins.
const PLUGINS: [&str; 2] = ["pekko", "akka"];
/// The journals that share the tables, and the number of shards of their markers.
const JOURNALS: [(&str, u32); 2] = [("journal", 10), ("other", 3)];

/// A deletion ended inside a batch. The plugin drops the rest, though it was acknowledged; we
/// deliver it, since its other members are deleted and not missing.
const CUT_BY_DELETION: [(&str, RangeInclusive<u64>); 2] =
    [("batch-long", 196..=205), ("deleted-in-batch", 7..=8)];

fn lines(plugin: &str, name: &str) -> Vec<Json> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let text = std::fs::read_to_string(folder.join(plugin).join(name)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// What the plugin read, of one kind.
fn expected(plugin: &str, kind: &str) -> Vec<Json> {
    let lines = lines(plugin, "expected.jsonl").into_iter();
    let of_kind = lines.filter_map(|mut line| line.get_mut(kind).map(Json::take));
    of_kind.collect()
}

fn items(plugin: &str, table: &str) -> Vec<Item> {
    let lines = lines(plugin, &format!("{table}.jsonl")).into_iter();
    lines
        .map(|line| item_from_json(&line["Item"]).unwrap())
        .collect()
}

fn settings(journal: &str) -> AnyLayout {
    let shards = JOURNALS.iter().find(|(name, _)| *name == journal);
    AnyLayout {
        layout: LayoutName::Akka,
        journal_table: Some("their-journal".parse().unwrap()),
        snapshot_table: Some("their-snapshots".parse().unwrap()),
        journal_name: journal.to_owned(),
        sequence_shards: shards.unwrap().1,
        ..AnyLayout::default()
    }
}

fn tables() -> (TableSpec, TableSpec) {
    let settings = settings("journal");
    let tables = settings.tables().unwrap();
    (tables.journal, tables.snapshot)
}

async fn fill(memory: &Memory, table: &TableSpec, items: Vec<Item>) {
    let created = memory.create_table(table, Default::default()).await;
    created.unwrap();
    for item in items {
        let put = memory.put(table, item, Condition::Absent).await;
        put.unwrap();
    }
}

/// A store with all items of a plugin.
async fn holding(plugin: &str) -> Arc<Memory> {
    let (memory, (journal, snapshot)) = (Memory::new(), tables());
    fill(&memory, &journal, items(plugin, "journal")).await;
    fill(&memory, &snapshot, items(plugin, "snapshot")).await;
    Arc::new(memory)
}

async fn open(memory: &Arc<Memory>, journal: &str) -> Journal {
    let clock = Arc::new(ManualClock::at_ms(1_800_000_000_000));
    let settings = settings(journal);
    let store = store(memory.clone(), clock, Random::seeded(1));
    let opened = settings.journal(&store);
    opened.await.unwrap()
}

fn open_snapshots(memory: &Arc<Memory>, journal: &str, order: SnapshotOrder) -> Snapshots {
    let settings = AnyLayout {
        snapshot_order: order,
        ..settings(journal)
    };
    let clock = Arc::new(ManualClock::at_ms(1_800_000_000_000));
    settings
        .snapshots(&store(memory.clone(), clock, Random::seeded(1)))
        .unwrap()
}

async fn replay(journal: &Journal, id: &PersistenceId) -> Result<Vec<Event>> {
    journal.replay(id, Window::ALL).try_collect().await
}

fn id_of(line: &Json) -> PersistenceId {
    line["persistenceId"].as_str().unwrap().parse().unwrap()
}

fn is_about(line: &Json, entity: &Json) -> bool {
    ["journal", "persistenceId"]
        .iter()
        .all(|name| line[*name] == entity[*name])
}

#[tokio::test]
async fn every_golden_event_is_replayed_as_the_plugin_replays_it() {
    for plugin in PLUGINS {
        let memory = holding(plugin).await;
        let (entities, events) = (expected(plugin, "entity"), expected(plugin, "event"));
        assert_eq!((entities.len(), events.len()), (55, 1_037));
        for entity in &entities {
            let journal = open(&memory, entity["journal"].as_str().unwrap()).await;
            let (id, want) = (
                id_of(entity),
                events.iter().filter(|event| is_about(event, entity)),
            );
            let want: Vec<&Json> = want.collect();
            assert_eq!(want.len() as u64, entity["events"].as_u64().unwrap());
            let mut found = replay(&journal, &id).await.unwrap();
            if let Some((_, cut)) = CUT_BY_DELETION
                .iter()
                .find(|(name, _)| *name == id.as_str())
            {
                let numbers = found.iter().map(|event| event.sequence_number.get());
                let numbers: Vec<u64> = numbers.take(cut.clone().count()).collect();
                assert_eq!(numbers, Vec::from_iter(cut.clone()), "{plugin} {id}");
                found.drain(..numbers.len());
            }
            assert_eq!(found.len(), want.len(), "{plugin} {id}");
            for (event, line) in found.into_iter().zip(want) {
                check_event(&event, line);
            }
            let highest = journal.highest(&id).await.unwrap();
            let highest = highest.map_or(0, SequenceNumber::get);
            assert_eq!(
                highest,
                entity["highest"].as_u64().unwrap(),
                "{plugin} {id}"
            );
        }
    }
}

#[track_caller]
fn check_event(event: &Event, line: &Json) {
    assert_eq!(
        event.sequence_number.get(),
        line["sequenceNr"].as_u64().unwrap()
    );
    // The plugin stores neither times nor tags, but the manifest of an event adapter.
    assert_eq!((event.time_ms, event.data.tags.len()), (0, 0), "{line}");
    let adapter = event
        .data
        .metadata
        .get("adapter-manifest")
        .map(String::as_str);
    let is_adapted = line["type"] == "versioned";
    assert_eq!(adapter, is_adapted.then_some("adapted"), "{line}");
    jvm_lines::check(line, &Payload::from(event.data.clone()));
}

/// Numbers of an interrupted batch are explained by its members: replays do not fail, and the history
/// continues after them.
#[tokio::test]
async fn histories_continue_after_the_plugins_events() {
    for plugin in PLUGINS {
        let memory = holding(plugin).await;
        for entity in expected(plugin, "entity") {
            let (id, highest) = (id_of(&entity), entity["highest"].as_u64().unwrap());
            let journal = open(&memory, entity["journal"].as_str().unwrap()).await;
            let before = replay(&journal, &id).await.unwrap();
            let appended = journal.append(&id, Expected::Any, text("ours")).await;
            let first = appended.unwrap().first.get();
            // The last member of `torn`, 37 to 39, is missing. The next event gets its number, so
            // that the batch can never be completed.
            assert_eq!(first, highest + 1, "{plugin} {id}");
            let journal = open(&memory, entity["journal"].as_str().unwrap()).await;
            let mut after = replay(&journal, &id).await.unwrap();
            assert_eq!(after.pop().unwrap().data.payload, "ours", "{plugin} {id}");
            assert_eq!(after, before, "{plugin} {id}");
        }
    }
}

fn criteria_of(line: &Json) -> Criteria {
    let bound = |name: &str| line["criteria"].get(name).map(|n| n.as_u64().unwrap());
    let all = Criteria::ALL;
    all.at_least(bound("minSequenceNr").map_or(all.min_number, number))
        .up_to(bound("maxSequenceNr").map_or(all.max_number, number))
        .since_ms(bound("minTimestamp").unwrap_or(all.min_time_ms))
        .until_ms(bound("maxTimestamp").unwrap_or(all.max_time_ms))
}

#[track_caller]
fn check_snapshot(found: Option<&Snapshot>, want: &Json) {
    let Some(found) = found else {
        return assert!(want.is_null(), "{want}");
    };
    assert_eq!(
        found.sequence_number.get(),
        want["sequenceNr"].as_u64().unwrap()
    );
    assert_eq!(found.time_ms, want["timestamp"].as_u64().unwrap(), "{want}");
    jvm_lines::check(want, &found.payload);
}

#[tokio::test]
async fn every_golden_snapshot_is_loaded_as_the_plugin_loads_it() {
    for plugin in PLUGINS {
        let memory = holding(plugin).await;
        let all = expected(plugin, "snapshot");
        assert_eq!(all.len(), 24);
        let mut missed = 0;
        for line in &all {
            let journal = line["journal"].as_str().unwrap();
            let snapshots = open_snapshots(&memory, journal, SnapshotOrder::Timestamp);
            let criteria = criteria_of(line);
            let found = snapshots.load(&id_of(line), criteria).await.unwrap();
            let is_both =
                criteria.max_number < SequenceNumber::LAST && criteria.max_time_ms < u64::MAX;
            if is_both && line["found"].is_null() {
                // With both bounds, the plugin checks only the first snapshot by number, and finds
                // none if that is too young. We find the older one.
                assert_eq!(found.unwrap().payload.bytes, "at 10", "{line}");
                missed += 1;
                continue;
            }
            check_snapshot(found.as_ref(), &line["found"]);
        }
        assert_eq!(missed, 1);
    }
}

/// By default the newest is the one with the highest number.
#[tokio::test]
async fn golden_snapshots_are_found_by_number_too() {
    for plugin in PLUGINS {
        let memory = holding(plugin).await;
        let snapshots = open_snapshots(&memory, "journal", SnapshotOrder::SequenceNumber);
        let all = expected(plugin, "snapshot");
        let of_id = all
            .iter()
            .filter(|line| line["persistenceId"] == "snapshots");
        let mut found = Vec::new();
        for line in of_id {
            let loaded = snapshots
                .load(&id_of(line), criteria_of(line))
                .await
                .unwrap();
            found.push(loaded.map_or(0, |snapshot| snapshot.sequence_number.get()));
        }
        // By the criteria of the fixture: none, numbers up to 14, 29, 11 to 19; times; both.
        assert_eq!(found, [30, 10, 20, 15, 10, 30, 0, 10, 10], "{plugin}");
        let stored: Vec<Snapshot> = snapshots
            .find(&"snapshots".parse().unwrap(), Criteria::ALL)
            .try_collect()
            .await
            .unwrap();
        let numbers = stored.iter().map(|snapshot| snapshot.sequence_number.get());
        assert_eq!(Vec::from_iter(numbers), [30, 20, 15, 10], "{plugin}");
    }
}

/// The plugin lists the ids whose first event is stored. We also list those whose events are deleted,
/// since their numbers are never reused.
#[tokio::test]
async fn every_id_is_listed_for_its_own_journal() {
    for plugin in PLUGINS {
        let memory = holding(plugin).await;
        let indexed = indexed(plugin).await;
        for (name, _) in JOURNALS {
            let entities = expected(plugin, "entity").into_iter();
            let of_journal = entities.filter(|entity| entity["journal"] == name);
            let used = of_journal.filter(|entity| entity["highest"] != 0);
            let want: BTreeSet<PersistenceId> = used.map(|entity| id_of(&entity)).collect();
            for memory in [&memory, &indexed] {
                let journal = open(memory, name).await;
                let found = journal.persistence_ids("").try_collect::<Vec<_>>();
                let found = found.await.unwrap();
                assert_eq!(found.len(), want.len(), "{plugin} {name}");
                assert_eq!(BTreeSet::from_iter(found), want, "{plugin} {name}");
            }
        }
    }
}

/// As [`holding`], with the index by which the plugin lists ids.
async fn indexed(plugin: &str) -> Arc<Memory> {
    let (memory, (journal, _)) = (Memory::new(), tables());
    let key = KeySchema::new(KeyAttribute::number("num")).sorted(KeyAttribute::text("par"));
    let index = IndexSpec::global("persistence-ids-idx".parse().unwrap(), key);
    let table = journal.with_index(index.projecting(Projection::KeysOnly));
    fill(&memory, &table.unwrap(), items(plugin, "journal")).await;
    Arc::new(memory)
}

/// The items of an id, in the order of numbers, and its high markers.
fn items_of(items: &[Item], id: &str, highest: u64) -> Vec<Item> {
    let events = (0..=highest / 100).map(|hundred| format!("journal-P-{id}-{hundred}"));
    let marks = (0..10).map(|shard| format!("journal-SH-{id}-{shard}"));
    let partitions: Vec<_> = events.chain(marks).map(Value::from).collect();
    let of_id = partitions.iter().flat_map(|partition| {
        let of_partition = items
            .iter()
            .filter(|item| item.get("par") == Some(partition));
        of_partition.cloned().collect::<Vec<_>>()
    });
    of_id.collect()
}

/// An item without the attributes that differ between appends, and without our own.
fn bare(mut item: Item) -> Item {
    item.remove("writer_uuid");
    item.remove("time");
    item.remove("crc");
    item
}

/// Events that were read are written as the plugin wrote them, attribute by attribute, with markers.
#[tokio::test]
async fn events_are_written_back_as_the_plugin_wrote_them() {
    // Other settings of Jackson's, strings as Java wrote them, items of the older generation.
    let others = ["gzip", "lz4", "java-strings", "old-format"];
    for plugin in PLUGINS {
        let (memory, golden) = (holding(plugin).await, items(plugin, "journal"));
        let journal = open(&memory, "journal").await;
        let mut compared = 0;
        for entity in expected(plugin, "entity") {
            let (id, highest) = (id_of(&entity), entity["highest"].as_u64().unwrap());
            let is_whole = entity["events"] == highest && entity["journal"] == "journal";
            if !is_whole || highest == 0 || others.contains(&id.as_str()) {
                continue;
            }
            let want = items_of(&golden, id.as_str(), highest);
            let copy = Memory::new();
            fill(&copy, &tables().0, Vec::new()).await;
            let copy = Arc::new(copy);
            let copied = open(&copy, "journal").await;
            let mut append = Vec::new();
            for (event, item) in replay(&journal, &id).await.unwrap().into_iter().zip(&want) {
                append.push(event.data);
                if item.get("idx") == item.get("cnt") {
                    let events = std::mem::take(&mut append);
                    copied.append(&id, Expected::Any, events).await.unwrap();
                }
            }
            let scanned = scan_all(copy, Arc::new(tables().0), Scan::whole());
            let mut scanned: Vec<Item> = scanned.try_collect().await.unwrap();
            scanned.sort_by_key(|item| item.get("num").and_then(Value::as_u64));
            let found = items_of(&scanned, id.as_str(), highest)
                .into_iter()
                .map(bare);
            let want = want.into_iter().map(bare);
            assert_eq!(Vec::from_iter(found), Vec::from_iter(want), "{plugin} {id}");
            compared += 1;
        }
        assert_eq!(compared, 31, "{plugin}");
    }
}

/// The name and value of an item's bytes.
fn bytes_of(item: &Item) -> Option<(&'static str, Vec<u8>)> {
    let names = ["event", "pay", "pay_data"];
    let found = names.map(|name| item.get(name).and_then(Value::as_bytes).map(|b| (name, b)));
    let (name, bytes) = found.into_iter().flatten().next()?;
    Some((name, bytes.to_vec()))
}

/// These items with each byte changed in turn, in three ways.
fn damaged(item: &Item) -> impl Iterator<Item = Item> + '_ {
    let (name, bytes) = bytes_of(item).unwrap();
    let places = (0..bytes.len()).flat_map(|place| [0x01, 0x80, 0xFF].map(|flip| (place, flip)));
    places.map(move |(place, flip)| {
        let mut bytes = bytes.clone();
        bytes[place] ^= flip;
        let mut item = item.clone();
        item.insert(name, bytes);
        item
    })
}

/// Serializers have no checksum: damage that results in a valid payload cannot be detected. It is
/// never worse than another value, or `Corrupt`.
#[tokio::test]
async fn a_damaged_event_is_another_value_or_corrupt() {
    let ids = [
        "payloads",
        "payload-tagged",
        "old-format",
        "gzip",
        "lz4",
        "java-strings",
    ];
    let (mut corrupt, mut other) = (0, 0);
    for plugin in PLUGINS {
        let (memory, (table, _)) = (holding(plugin).await, tables());
        let journal = open(&memory, "journal").await;
        for id in ids {
            let partition = Value::from(format!("journal-P-{id}-0"));
            let of_id = items(plugin, "journal").into_iter();
            for item in of_id.filter(|item| item.get("par") == Some(&partition)) {
                let at = number(item.get("num").unwrap().as_u64().unwrap());
                let window = Window::from(at).to(at);
                let id = id.parse().unwrap();
                for damaged in damaged(&item) {
                    memory
                        .put(&table, damaged, Condition::Always)
                        .await
                        .unwrap();
                    let found = journal.replay(&id, window).try_collect::<Vec<_>>();
                    count(found.await.map(|_| ()), (&mut corrupt, &mut other));
                }
                memory.put(&table, item, Condition::Always).await.unwrap();
            }
        }
    }
    assert!(corrupt > 1_000 && other > 1_000, "{corrupt} {other}");
}

#[tokio::test]
async fn a_damaged_snapshot_is_another_value_or_corrupt() {
    let (mut corrupt, mut other) = (0, 0);
    for plugin in PLUGINS {
        let (memory, (_, table)) = (holding(plugin).await, tables());
        let snapshots = open_snapshots(&memory, "journal", SnapshotOrder::SequenceNumber);
        for item in items(plugin, "snapshot") {
            let partition = item.get("par").and_then(Value::as_str).unwrap();
            let Some(id) = partition.strip_prefix("journal-P-") else {
                continue;
            };
            let at = number(item.get("seq").unwrap().as_u64().unwrap());
            for damaged in damaged(&item) {
                memory
                    .put(&table, damaged, Condition::Always)
                    .await
                    .unwrap();
                let found = snapshots.find(&id.parse().unwrap(), Criteria::at(at));
                let found = found.try_collect::<Vec<_>>().await;
                count(found.map(|_| ()), (&mut corrupt, &mut other));
            }
            memory.put(&table, item, Condition::Always).await.unwrap();
        }
    }
    assert!(corrupt > 200 && other > 1_000, "{corrupt} {other}");
}

#[track_caller]
fn count(found: Result<(), Error>, (corrupt, other): (&mut u64, &mut u64)) {
    match found {
        Ok(()) => *other += 1,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
            *corrupt += 1;
        }
    }
}
