//! Snapshots and values too large for an item, interrupted at the worst moments: completed writes are
//! complete, and orphaned chunks are swept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use annals::items::{
    BatchError, Billing, Condition, Cost, Got, Item, Items, Key, KeyPart, Page, Query, Scan,
    TableName, TableSpec, Write, WriteError, scan_all,
};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshots};
use annals::state::{StateError, States};
use annals::verify::{Problem, Remedy, Verify};
use annals::{Codec, Error, ErrorKind, ManualClock, Payload, Random};
use annals_jvm::AnyLayout;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::store;
use async_trait::async_trait;
use futures::TryStreamExt;

use annals_testkit::journals::{id, number};

const HOUR: Duration = Duration::from_secs(3_600);

/// What happens while an item is put that speaks for parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    /// Hours pass, and parts are swept.
    Swept,
    /// The answer is lost, somebody deletes it, and the client puts it again.
    Deleted,
    /// The same, and somebody replaces it.
    Replaced,
}

/// A store on which large writes can be cut off, take very long, and be met by others.
#[derive(Debug)]
struct Stage {
    inner: Arc<Memory>,
    clock: Arc<ManualClock>,
    /// Items that speak for others do not land.
    loses_items: AtomicBool,
    /// Parts cannot be deleted.
    loses_deletes: AtomicBool,
    is_slow: AtomicBool,
    meanwhile: Mutex<Option<Meanwhile>>,
    /// Deletions of parts are held back, and come later.
    holds_deletes: AtomicBool,
    held: Mutex<Vec<(TableSpec, Key, Condition)>>,
    me: Weak<Stage>,
}

fn is_set(switch: &AtomicBool) -> bool {
    switch.load(Ordering::SeqCst)
}

fn set(switch: &AtomicBool, on: bool) {
    switch.store(on, Ordering::SeqCst);
}

fn is_chunk(key: &Key) -> bool {
    matches!(&key.partition, KeyPart::S(partition) if partition.starts_with("p:"))
}

#[async_trait]
impl Items for Stage {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> annals::Result<Got> {
        self.inner.get(table, keys).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        if is_set(&self.loses_items) {
            return Err(Error::unavailable("cut off").into());
        }
        let meanwhile = self.meanwhile.lock().unwrap().take();
        match meanwhile {
            None => self.inner.put(table, item, condition).await,
            Some(Meanwhile::Swept) => {
                self.clock.advance(3 * HOUR);
                assert_eq!(swept(&self.others()).await, 2);
                self.inner.put(table, item, condition).await
            }
            Some(meanwhile) => {
                let put = self.inner.put(table, item.clone(), condition.clone());
                put.await?;
                self.meet(meanwhile).await;
                // As clients repeat it: what they answer tells that there were two requests.
                let two = |cost: Cost| Cost {
                    requests: 2,
                    ..cost
                };
                match self.inner.put(table, item, condition).await {
                    Ok(cost) => Ok(two(cost)),
                    Err(WriteError::Refused { existing, cost }) => Err(WriteError::Refused {
                        existing,
                        cost: two(cost),
                    }),
                    Err(error) => Err(error),
                }
            }
        }
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        if is_chunk(&key) && is_set(&self.loses_deletes) {
            return Err(Error::unavailable("cut off").into());
        }
        if is_chunk(&key) && is_set(&self.holds_deletes) {
            let held = (table.clone(), key, condition);
            self.held.lock().unwrap().push(held);
            return Ok(Cost::request());
        }
        self.inner.delete(table, key, condition).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        let is_delete = |write: &Write| matches!(write, Write::Delete(key) if is_chunk(key));
        if writes.iter().any(is_delete) && is_set(&self.loses_deletes) {
            return Err(BatchError {
                remaining: writes,
                cost: Cost::ZERO,
                cause: Error::unavailable("cut off"),
            });
        }
        if is_set(&self.is_slow) {
            self.clock.advance(Duration::from_secs(11 * 60));
        }
        self.inner.write(table, writes).await
    }

    async fn query(&self, table: &TableSpec, query: Query) -> annals::Result<Page> {
        self.inner.query(table, query).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> annals::Result<Page> {
        self.inner.scan(table, scan).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> annals::Result<()> {
        self.inner.create_table(spec, billing).await
    }

    async fn describe_table(&self, name: &TableName) -> annals::Result<Option<TableSpec>> {
        self.inner.describe_table(name).await
    }

    async fn drop_table(&self, name: &TableName) -> annals::Result<bool> {
        self.inner.drop_table(name).await
    }
}

impl Stage {
    async fn new() -> Arc<Self> {
        let (inner, settings) = (Arc::new(Memory::new()), AnyLayout::default());
        for table in settings.tables().unwrap().all() {
            let created = inner.create_table(table, Default::default());
            created.await.unwrap();
        }
        Arc::new_cyclic(|me| Self {
            inner,
            clock: Arc::new(ManualClock::at_ms(1_700_000_000_000)),
            loses_items: AtomicBool::new(false),
            loses_deletes: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            meanwhile: Mutex::default(),
            holds_deletes: AtomicBool::new(false),
            held: Mutex::default(),
            me: me.clone(),
        })
    }

    fn open(&self, items: Arc<dyn Items>, seed: u64) -> Both {
        let (settings, clock) = (AnyLayout::default(), self.clock.clone());
        let random = || Random::seeded(seed);
        Both {
            snapshots: settings
                .snapshots(&store(items.clone(), clock.clone(), random()))
                .unwrap(),
            states: settings.states(&store(items, clock, random())).unwrap(),
        }
    }

    /// Another process, which nothing befalls.
    fn others(&self) -> Both {
        self.open(self.inner.clone(), 1_000)
    }

    /// Another process deletes or replaces the snapshot.
    async fn meet(&self, meanwhile: Meanwhile) {
        let other = self.open(self.me.upgrade().unwrap(), 1_000);
        match meanwhile {
            Meanwhile::Replaced => other.save(Payload::new(Codec::Text, "other")).await,
            _ => other.snapshots.delete(&id(), Criteria::ALL).await,
        }
        .unwrap();
        let left = if is_set(&self.holds_deletes) { 2 } else { 0 };
        assert_eq!(self.parts().await, left);
    }

    /// How many parts are stored.
    async fn parts(&self) -> usize {
        let (mut parts, settings) = (0, AnyLayout::default());
        for table in settings.tables().unwrap().all() {
            let all = scan_all(self.inner.clone(), table.clone().into(), Scan::whole());
            let all: Vec<Item> = all.try_collect().await.unwrap();
            parts += all.iter().filter(|item| item.get("b").is_some()).count();
        }
        parts
    }
}

struct Both {
    snapshots: Snapshots,
    states: States,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Snapshot,
    State,
}

const KINDS: [Kind; 2] = [Kind::Snapshot, Kind::State];

impl Both {
    async fn save(&self, payload: Payload) -> annals::Result<()> {
        self.snapshots.save(&id(), number(7), payload).await
    }

    /// Writes it, as a revision where it is a value.
    async fn write(&self, kind: Kind, revision: u64, payload: Payload) -> annals::Result<()> {
        match kind {
            Kind::Snapshot => self.save(payload).await,
            Kind::State => Ok(self.states.upsert(&id(), revision, payload).await?),
        }
    }

    async fn read(&self, kind: Kind) -> annals::Result<Option<Payload>> {
        Ok(match kind {
            Kind::Snapshot => {
                let all = self.snapshots.find(&id(), Criteria::ALL);
                let mut all: Vec<_> = all.try_collect().await?;
                all.pop().map(|found| found.payload)
            }
            Kind::State => self.states.get(&id()).await?.and_then(|found| found.value),
        })
    }

    async fn delete(&self, kind: Kind) -> annals::Result<()> {
        match kind {
            Kind::Snapshot => self.snapshots.delete(&id(), Criteria::ALL).await,
            Kind::State => Ok(self.states.delete(&id(), None).await?),
        }
    }

    #[track_caller]
    fn assert_is(found: annals::Result<Option<Payload>>, want: &Payload) {
        assert!(found.unwrap().as_ref() == Some(want), "another payload");
    }
}

/// Two parts that do not compress.
fn large(seed: u64) -> Payload {
    let random = Random::seeded(seed);
    let words = (0..60_000).flat_map(|_| random.bits().to_le_bytes());
    Payload::new(Codec::Bytes, words.collect::<Vec<u8>>())
}

/// Sweeps; answers how many parts were orphans. Looking first finds as many.
async fn swept(both: &Both) -> usize {
    let mut count = 0;
    for verify in [Verify::Check, Verify::Repair] {
        let snapshots = both.snapshots.orphans(HOUR, verify).await.unwrap();
        let states = both.states.orphans(HOUR, verify).await.unwrap();
        let all: Vec<_> = snapshots.into_iter().chain(states).collect();
        let remedy = match verify {
            Verify::Check => Remedy::Repairable,
            Verify::Repair => Remedy::Repaired,
        };
        for found in &all {
            assert_eq!((found.problem, found.remedy), (Problem::Orphan, remedy));
            assert_eq!(found.persistence_id, Some(id()));
        }
        assert!(verify == Verify::Check || all.len() == count);
        count = all.len();
    }
    count
}

#[tokio::test]
async fn old_chunks_of_incomplete_writes_are_swept() {
    for kind in KINDS {
        let stage = Stage::new().await;
        let both = stage.open(stage.clone(), 1);
        set(&stage.loses_items, true);
        let cut_off = both.write(kind, 1, large(1)).await;
        assert_eq!(cut_off.unwrap_err().kind(), ErrorKind::Unavailable);
        set(&stage.loses_items, false);
        assert_eq!(stage.parts().await, 2);
        stage.clock.advance(HOUR);
        assert_eq!(swept(&both).await, 0);
        stage.clock.advance(Duration::from_millis(1));
        // What has landed meanwhile keeps its own.
        both.write(kind, 1, large(2)).await.unwrap();
        stage.clock.advance(2 * HOUR);
        assert_eq!(swept(&both).await, 2);
        assert_eq!(stage.parts().await, 2);
        Both::assert_is(both.read(kind).await, &large(2));
    }
}

#[tokio::test]
async fn a_sweep_of_young_chunks_is_refused() {
    let stage = Stage::new().await;
    let both = stage.open(stage.clone(), 1);
    let soon = HOUR - Duration::from_millis(1);
    let refused = [
        both.snapshots.orphans(soon, Verify::Check).await,
        both.states.orphans(soon, Verify::Check).await,
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_completed_write_succeeds_even_if_old_chunks_stay() {
    for kind in KINDS {
        let stage = Stage::new().await;
        let both = stage.open(stage.clone(), 1);
        both.write(kind, 1, large(1)).await.unwrap();
        set(&stage.loses_deletes, true);
        both.write(kind, 2, large(2)).await.unwrap();
        Both::assert_is(both.read(kind).await, &large(2));
        both.delete(kind).await.unwrap();
        assert_eq!(both.read(kind).await.unwrap(), None);
        set(&stage.loses_deletes, false);
        assert_eq!(stage.parts().await, 4);
        assert_eq!(swept(&both).await, 0, "they are young");
        stage.clock.advance(2 * HOUR);
        assert_eq!(swept(&both).await, 4);
        assert_eq!(stage.parts().await, 0);
    }
}

#[tokio::test]
async fn a_refused_value_removes_its_chunks_and_is_a_conflict() {
    let stage = Stage::new().await;
    let both = stage.open(stage.clone(), 1);
    both.write(Kind::State, 1, large(1)).await.unwrap();
    for (is_lost, left) in [(false, 2), (true, 4)] {
        set(&stage.loses_deletes, is_lost);
        let refused = both.states.upsert(&id(), 1, large(2)).await;
        assert!(matches!(
            refused,
            Err(StateError::Conflict { found: 1, .. })
        ));
        assert_eq!(stage.parts().await, left);
    }
    set(&stage.loses_deletes, false);
    stage.clock.advance(2 * HOUR);
    assert_eq!(swept(&both).await, 2);
    Both::assert_is(both.read(Kind::State).await, &large(1));
}

#[tokio::test]
async fn a_write_that_stalled_during_a_sweep_is_complete() {
    for kind in KINDS {
        let stage = Stage::new().await;
        let both = stage.open(stage.clone(), 1);
        *stage.meanwhile.lock().unwrap() = Some(Meanwhile::Swept);
        both.write(kind, 1, large(1)).await.unwrap();
        Both::assert_is(both.read(kind).await, &large(1));
        stage.clock.advance(2 * HOUR);
        assert_eq!(swept(&both).await, 0);
        Both::assert_is(both.read(kind).await, &large(1));
    }
}

#[tokio::test]
async fn a_write_that_took_too_long_is_not_put() {
    for kind in KINDS {
        let stage = Stage::new().await;
        let both = stage.open(stage.clone(), 1);
        set(&stage.is_slow, true);
        let late = both.write(kind, 1, large(1)).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(both.read(kind).await.unwrap(), None);
        set(&stage.is_slow, false);
        both.write(kind, 1, large(1)).await.unwrap();
    }
}

/// Its parts went with what others took for it, or are about to.
#[tokio::test]
async fn a_snapshot_that_its_client_puts_twice_is_complete() {
    let all = [Meanwhile::Deleted, Meanwhile::Replaced];
    for (meanwhile, is_held) in all.into_iter().flat_map(|m| [(m, false), (m, true)]) {
        let stage = Stage::new().await;
        let both = stage.open(stage.clone(), 1);
        *stage.meanwhile.lock().unwrap() = Some(meanwhile);
        set(&stage.holds_deletes, is_held);
        both.save(large(1)).await.unwrap();
        Both::assert_is(both.read(Kind::Snapshot).await, &large(1));
        let held = std::mem::take(&mut *stage.held.lock().unwrap());
        assert_eq!(held.len(), if is_held { 2 } else { 0 });
        for (table, key, condition) in held {
            let _ = stage.inner.delete(&table, key, condition).await;
        }
        Both::assert_is(both.read(Kind::Snapshot).await, &large(1));
        stage.clock.advance(2 * HOUR);
        assert_eq!(swept(&both).await, 0);
        Both::assert_is(both.read(Kind::Snapshot).await, &large(1));
    }
}

/// Whoever comes last, what is there is whole, and what a sweep leaves is its own.
#[tokio::test]
async fn concurrent_saves_of_one_number_leave_one_complete_snapshot() {
    let mut left = 0;
    for seed in 0..30 {
        let stage = Stage::new().await;
        let others = stage.others();
        others.save(large(9)).await.unwrap();
        let saves = (0..3).map(|n| {
            let random = Random::seeded(seed * 10 + n);
            let faults = Faults {
                delay: 1_000,
                ..Faults::none()
            };
            let slow = Faulty::new(stage.inner.clone(), random, faults);
            let both = stage.open(Arc::new(slow), seed * 10 + n);
            async move { both.save(large(n)).await }
        });
        for saved in futures::future::join_all(saves).await {
            saved.unwrap();
        }
        stage.clock.advance(2 * HOUR);
        left += swept(&others).await;
        assert_eq!(stage.parts().await, 2, "seed {seed}");
        let found = others.read(Kind::Snapshot).await.unwrap().unwrap();
        assert!((0..3).any(|n| found == large(n)), "seed {seed}");
    }
    assert!(left > 0, "no seed has left any");
}
