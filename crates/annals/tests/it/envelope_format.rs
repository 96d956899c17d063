//! The stored bytes of snapshots and durable state: golden ones are read and written unchanged, and
//! every change to them is corrupt.
//!
//! A line of a fixture has a name, the persistence id, the envelope's bytes in hex, the items in
//! DynamoDB JSON and their content. Another program made the bytes from `docs/format.md`.

use std::sync::Arc;
use std::time::Duration;

use annals::items::{
    Condition, Item, Items, Key, Scan, TableSpec, Value, item_from_json, scan_all,
};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshot, SnapshotPosition, Snapshots};
use annals::state::{NewState, State, StateError, States};
use annals::verify::Verify;
use annals::{Error, ErrorKind, ManualClock, Payload, PersistenceId, Random, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_testkit::store;
use futures::{StreamExt, TryStreamExt};
use serde_json::Value as Json;

use annals_testkit::journals::number;

const TIME_MS: u64 = 1_700_000_000_000;
/// The first token of this seed is the golden one.
const SEED: u64 = 7;

struct Golden {
    name: String,
    id: PersistenceId,
    items: Vec<Item>,
    holds: Json,
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn golden(fixture: &str) -> Vec<Golden> {
    let parsed = fixture.lines().map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, id, bytes, items, holds] = columns[..] else {
            panic!("{line}");
        };
        let items: Vec<Json> = serde_json::from_str(items).unwrap();
        let items: Vec<Item> = items.iter().map(|i| item_from_json(i).unwrap()).collect();
        let sealed = items[0].get("c").unwrap().as_bytes().unwrap();
        assert_eq!(*sealed, unhex(bytes), "{name}");
        Golden {
            name: name.to_owned(),
            id: id.parse().unwrap(),
            items,
            holds: serde_json::from_str(holds).unwrap(),
        }
    });
    parsed.collect()
}

fn golden_snapshots() -> Vec<Golden> {
    golden(include_str!("../fixtures/v1/snapshots.txt"))
}

fn golden_states() -> Vec<Golden> {
    golden(include_str!("../fixtures/v1/states.txt"))
}

impl Golden {
    fn payload(&self) -> Payload {
        let text = |name: &str| self.holds[name].as_str().unwrap();
        Payload::new(text("codec").parse().unwrap(), unhex(text("payload")))
            .manifest(text("manifest"))
            .schema(self.holds["schema"].as_u64().unwrap() as u32)
    }

    fn number(&self, name: &str) -> u64 {
        self.holds[name].as_u64().unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        let anchor = self.holds["anchor"].as_u64();
        let (at, time_ms) = (number(self.number("number")), self.number("time_ms"));
        let mut snapshot = Snapshot::new(self.id.clone(), at, time_ms, self.payload());
        snapshot.anchor = anchor.and_then(SequenceNumber::new);
        snapshot
    }

    fn state(&self) -> State {
        let is_deleted = self.holds["deleted"].as_bool().unwrap();
        let (revision, time_ms) = (self.number("revision"), self.number("time_ms"));
        let mut state = State::new(self.id.clone(), revision, time_ms);
        state.tag = self.holds["tag"].as_str().unwrap().to_owned();
        state.value = (!is_deleted).then(|| self.payload());
        state
    }
}

struct World {
    items: Arc<dyn Items>,
    snapshots: Snapshots,
    states: States,
}

fn table_of(settings: &AnyLayout, is_state: bool) -> TableSpec {
    let tables = settings.tables().unwrap();
    match is_state {
        true => tables.state.unwrap(),
        false => tables.snapshot,
    }
}

/// Snapshots and states over a store that holds these items.
async fn holding(items: &[Item], is_state: bool) -> World {
    let (memory, settings): (Arc<dyn Items>, _) = (Arc::new(Memory::new()), AnyLayout::default());
    for table in settings.tables().unwrap().all() {
        let created = memory.create_table(table, Default::default());
        created.await.unwrap();
    }
    let table = table_of(&settings, is_state);
    for item in items {
        let put = memory.put(&table, item.clone(), Condition::Absent).await;
        put.unwrap();
    }
    let clock = Arc::new(ManualClock::at_ms(TIME_MS));
    let random = || Random::seeded(SEED);
    World {
        snapshots: settings
            .snapshots(&store(memory.clone(), clock.clone(), random()))
            .unwrap(),
        states: settings
            .states(&store(memory.clone(), clock, random()))
            .unwrap(),
        items: memory,
    }
}

impl World {
    /// Everything that is stored, the item before its chunks.
    async fn stored(&self, is_state: bool) -> Vec<Item> {
        let table = Arc::new(table_of(&AnyLayout::default(), is_state));
        let all = scan_all(self.items.clone(), table, Scan::whole());
        let mut all: Vec<Item> = all.try_collect().await.unwrap();
        all.sort_by_key(|item| {
            let text = |name: &str| format!("{:?}", item.get(name));
            (item.get("c").is_none(), text("p"), text("n"))
        });
        all
    }

    /// The only snapshot, through every way to load it.
    async fn snapshot(&self, golden: &Golden) -> Result<Option<Snapshot>, Error> {
        let all = self.snapshots.find(&golden.id, Criteria::ALL);
        let found = all.collect::<Vec<_>>().await.into_iter().next();
        let found = found.transpose()?;
        let loaded = self.snapshots.load(&golden.id, Criteria::ALL).await?;
        assert_eq!(loaded, found, "{}", golden.name);
        Ok(found)
    }

    /// The value, or none with the revision of its deletion.
    async fn state(&self, id: &PersistenceId) -> Result<(Option<State>, u64), Error> {
        let found = self.states.get(id).await?;
        Ok((found, self.states.revision(id).await?))
    }
}

/// What a state is read as.
fn as_read(state: State) -> (Option<State>, u64) {
    let revision = state.revision;
    (Some(state).filter(|state| state.value.is_some()), revision)
}

#[tokio::test]
async fn golden_snapshots_are_read() {
    let all = golden_snapshots();
    assert_eq!(all.len(), 5);
    for golden in all {
        let world = holding(&golden.items, false).await;
        let found = world.snapshot(&golden).await.unwrap();
        assert_eq!(found, Some(golden.snapshot()), "{}", golden.name);
    }
}

#[tokio::test]
async fn golden_states_are_read() {
    let all = golden_states();
    assert_eq!(all.len(), 6);
    for golden in all {
        let world = holding(&golden.items, true).await;
        let found = world.state(&golden.id).await.unwrap();
        assert_eq!(found, as_read(golden.state()), "{}", golden.name);
    }
}

/// The current code writes the golden bytes, except for those compressed by another program, and
/// small payloads that are chunked only in the fixture.
fn is_written_so(golden: &Golden) -> bool {
    !["packed", "parts"].contains(&golden.name.as_str())
}

#[tokio::test]
async fn golden_snapshots_are_written() {
    for golden in golden_snapshots().into_iter().filter(is_written_so) {
        let (world, snapshot) = (holding(&[], false).await, golden.snapshot());
        let place = SnapshotPosition::new(snapshot.sequence_number, snapshot.anchor);
        let saved = world.snapshots.save(&golden.id, place, snapshot.payload);
        saved.await.unwrap();
        assert_eq!(world.stored(false).await, golden.items, "{}", golden.name);
    }
}

/// A value of the revision before, so that the golden one can be written.
async fn prepare(world: &World, golden: &Golden) {
    let before = golden.state().revision - 1;
    if before > 0 {
        // Its bytes do not matter: only the attribute is read.
        let item = Item::new().with("p", format!("s:{}", golden.id));
        let (table, item) = (
            table_of(&AnyLayout::default(), true),
            item.with("r", before).with("c", vec![1u8]),
        );
        let put = world.items.put(&table, item, Condition::Absent).await;
        put.unwrap();
    }
}

#[tokio::test]
async fn golden_states_are_written() {
    for golden in golden_states().into_iter().filter(is_written_so) {
        let (world, state) = (holding(&[], true).await, golden.state());
        prepare(&world, &golden).await;
        let written = match state.value {
            Some(value) => {
                let new = NewState::from(value).tag(state.tag);
                world.states.upsert(&golden.id, state.revision, new).await
            }
            None => {
                let deleted = world.states.delete(&golden.id, Some(state.revision));
                deleted.await.map(|_| ())
            }
        };
        written.unwrap();
        assert_eq!(world.stored(true).await, golden.items, "{}", golden.name);
    }
}

/// Chunks are written like the golden ones: two chunks, keys with token, number and checksum.
#[tokio::test]
async fn chunks_are_written_like_the_golden_ones() {
    let random = Random::seeded(1);
    let noise: Vec<u8> = (0..60_000)
        .flat_map(|_| random.bits().to_le_bytes())
        .collect();
    let (checksum, token) = (crc32fast::hash(&noise), Random::seeded(SEED).bits());
    let cut = 396 * 1024;
    let id: PersistenceId = "Cart|parts".parse().unwrap();
    for is_state in [false, true] {
        let world = holding(&[], is_state).await;
        let payload = Payload::new(annals::Codec::Protobuf, noise.clone());
        if is_state {
            let golden = &golden_states()[4];
            prepare(&world, golden).await;
            let new = NewState::from(payload).tag("blue");
            world.states.upsert(&id, 26, new).await.unwrap();
        } else {
            let saved = world.snapshots.save(&id, number(10), payload);
            saved.await.unwrap();
        }
        let stored = world.stored(is_state).await;
        let parts = [&noise[..cut], &noise[cut..]].into_iter().zip(0u64..);
        let parts = parts.map(|(piece, index)| {
            let item = match is_state {
                true => {
                    Item::new().with("p", format!("p:{token:016x}{checksum:08x}:1a:{index}:{id}"))
                }
                false => Item::new()
                    .with("p", format!("p:{token:016x}:10:{checksum:08x}:{id}"))
                    .with("n", index),
            };
            item.with("b", piece.to_vec()).with("t", TIME_MS)
        });
        assert!(stored[1..].iter().cloned().eq(parts), "state: {is_state}");
        let sealed = stored[0].get("c").unwrap().as_bytes().unwrap();
        assert_eq!(sealed[..2], [1, 2]);
    }
}

/// Every value an attribute might be altered to, of every type.
fn others(value: Option<&Value>) -> Vec<Option<Value>> {
    let mut others = vec![
        None,
        Some(Value::Null),
        Some(Value::Bool(true)),
        Some(Value::Bool(false)),
        Some(Value::from("")),
        Some(Value::from("blue")),
        Some(Value::from("26")),
        Some(Value::from(vec![1u8, 0, 255])),
        Some(Value::L(vec![Value::from(1u64)])),
        Some(Value::M(Default::default())),
        Some(Value::Ss(["a".to_owned()].into())),
        Some(Value::Ns([1u64.into()].into())),
    ];
    others.extend((0..30u64).chain([300, u64::MAX]).map(|n| Some(n.into())));
    others.push(Some(Value::from(-1i64)));
    others.retain(|other| other.as_ref() != value);
    others
}

/// All ways to alter, remove or add one attribute of one of the items.
fn altered(items: &[Item]) -> Vec<Vec<Item>> {
    let mut all = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let known = ["b", "c", "d", "f", "r", "R", "t", "x"].into_iter();
        for name in known {
            for other in others(item.get(name)) {
                let mut items = items.to_vec();
                items[at].remove(name);
                if let Some(other) = other {
                    items[at].insert(name, other);
                }
                all.push(items);
            }
        }
        let name = if item.get("c").is_some() { "c" } else { "b" };
        let bytes = item.get(name).unwrap().as_bytes().unwrap();
        for place in 0..bytes.len() {
            for flip in 1..=255 {
                let mut bytes = bytes.to_vec();
                bytes[place] ^= flip;
                let mut items = items.to_vec();
                items[at].insert(name, bytes);
                all.push(items);
            }
            let mut items = items.to_vec();
            items[at].insert(name, bytes[..place].to_vec());
            all.push(items);
        }
    }
    all
}

fn assert_corrupt(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
}

#[tokio::test]
async fn every_change_to_a_snapshot_but_its_hint_is_corrupt() {
    for golden in golden_snapshots() {
        let want = golden.snapshot();
        for items in altered(&golden.items) {
            let world = holding(&items, false).await;
            match world.snapshot(&golden).await {
                Ok(found) => {
                    let found = found.unwrap();
                    let anchor = found.anchor;
                    assert!(anchor.is_none_or(|anchor| anchor <= found.sequence_number));
                    let mut want = want.clone();
                    want.anchor = anchor;
                    assert_eq!(found, want, "{}: {items:?}", golden.name);
                }
                Err(error) => assert_corrupt(&error),
            }
        }
    }
}

#[tokio::test]
async fn every_change_to_a_state_is_corrupt() {
    for golden in golden_states() {
        let want = as_read(golden.state());
        let (mut right, mut told) = (0, 0);
        for items in altered(&golden.items) {
            let world = holding(&items, true).await;
            match world.state(&golden.id).await {
                Ok(found) => {
                    assert_eq!(found, want, "{}: {items:?}", golden.name);
                    right += 1;
                }
                Err(error) => {
                    assert_corrupt(&error);
                    told += 1;
                }
            }
            check_write(&world, &golden).await;
        }
        assert!(right > 0 && told > 1_000, "{}: {told}", golden.name);
    }
}

/// Even if the content matches its checksum: conditions are decided by these attributes.
#[tokio::test]
async fn a_value_with_attributes_of_another_is_corrupt() {
    for golden in golden_states() {
        for name in ["r", "R", "t", "d"] {
            for other in others(golden.items[0].get(name)) {
                let mut items = golden.items.clone();
                let had = items[0].remove(name);
                match other {
                    Some(other) => items[0].insert(name, other),
                    None if had.is_none() => continue,
                    None => {}
                }
                let world = holding(&items, true).await;
                assert_corrupt(&world.state(&golden.id).await.unwrap_err());
            }
        }
    }
}

/// A writer gets the damage as an error too, and never a wrong revision.
async fn check_write(world: &World, golden: &Golden) {
    let revision = golden.state().revision;
    for next in [1, revision, revision + 1] {
        match world
            .states
            .upsert(&golden.id, next, Payload::default())
            .await
        {
            Ok(()) => return,
            Err(StateError::Conflict { found, .. }) => assert_eq!(found, revision),
            Err(error) => assert_corrupt(&error.into()),
        }
    }
}

/// Under another key everything is damage: another id's, another number's.
#[tokio::test]
async fn an_envelope_under_another_key_is_corrupt() {
    let other: PersistenceId = "Cart|43".parse().unwrap();
    for golden in golden_states() {
        let stray = golden.items[0].clone().with("p", format!("s:{other}"));
        let world = holding(&[stray], true).await;
        assert_corrupt(&world.state(&other).await.unwrap_err());
    }
    for mut golden in golden_snapshots() {
        let item = golden.items[0].clone();
        let elsewhere = item.clone().with("n", 8u64);
        let world = holding(&[elsewhere], false).await;
        assert_corrupt(&world.snapshot(&golden).await.unwrap_err());
        let elsewhere = item.with("p", format!("s:{other}"));
        let world = holding(&[elsewhere], false).await;
        golden.id = other.clone();
        assert_corrupt(&world.snapshot(&golden).await.unwrap_err());
    }
}

/// A snapshot is not a value, and a value is not a snapshot, whatever the table names.
#[tokio::test]
async fn a_snapshot_is_not_read_as_a_value_or_vice_versa() {
    let (snapshot, state) = (&golden_snapshots()[0], &golden_states()[0]);
    let without_number = snapshot.items[0].iter().filter(|(name, _)| *name != "n");
    let item: Item = without_number.map(|(n, v)| (n, v.clone())).collect();
    let world = holding(&[item.with("r", 1u64)], true).await;
    assert_corrupt(&world.state(&snapshot.id).await.unwrap_err());
    let item = state.items[0].clone().with("n", 1u64);
    let world = holding(&[item], false).await;
    assert_corrupt(&world.snapshot(state).await.unwrap_err());
}

#[tokio::test]
async fn a_missing_chunk_is_corrupt() {
    let golden = (golden_snapshots().remove(4), golden_states().remove(4));
    for lost in [1, 2] {
        let mut items = golden.0.items.clone();
        items.remove(lost);
        let world = holding(&items, false).await;
        assert_corrupt(&world.snapshot(&golden.0).await.unwrap_err());
        let mut items = golden.1.items.clone();
        items.remove(lost);
        let world = holding(&items, true).await;
        assert_corrupt(&world.state(&golden.1.id).await.unwrap_err());
    }
}

/// Even if the item that refers to them is damaged: it may be repaired.
#[tokio::test]
async fn a_sweep_keeps_golden_chunks() {
    let hour = Duration::from_secs(3_600);
    let golden = (golden_snapshots().remove(4), golden_states().remove(4));
    let sets = [(golden.0.items, false), (golden.1.items, true)];
    for (items, is_state) in sets {
        for is_damaged in [false, true] {
            let mut items = items.clone();
            for part in &mut items[1..] {
                part.insert("t", 1u64);
            }
            if is_damaged {
                items[0].insert("c", vec![1u8, 2, 3, 4, 5]);
            }
            let world = holding(&items, is_state).await;
            let swept = match is_state {
                true => world.states.orphans(hour, Verify::Repair).await,
                false => world.snapshots.orphans(hour, Verify::Repair).await,
            };
            assert_eq!(swept.unwrap(), []);
            assert_eq!(world.stored(is_state).await.len(), 3);
        }
    }
}

/// A deletion by criteria finds snapshots by their keys, even if they are damaged.
#[tokio::test]
async fn a_damaged_snapshot_can_be_deleted() {
    for golden in golden_snapshots() {
        let damaged = golden.items[0].clone().with("c", vec![1u8]);
        let key = Key::new(format!("s:{}", golden.id));
        let key = key.sorted(golden.number("number"));
        let world = holding(&[damaged], false).await;
        let at = Criteria::at(golden.snapshot().sequence_number);
        world.snapshots.delete(&golden.id, at).await.unwrap();
        let table = table_of(&AnyLayout::default(), false);
        let found = world.items.get(&table, vec![key]).await.unwrap().items;
        assert_eq!(found, [None]);
    }
}
