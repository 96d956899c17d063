//! Snapshots and values too large for an item, interrupted at the worst moments: completed writes are
//! complete, and orphaned chunks are swept.

use std::sync::Arc;
use std::time::Duration;

use annals::items::Items;
use annals::layout::Layout;
use annals::snapshot::{Criteria, Snapshots};
use annals::state::{StateError, States};
use annals::verify::{Problem, Remedy, Verify};
use annals::{Codec, ErrorKind, Payload, Random};
use annals_jvm::AnyLayout;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::hooked::Hooked;
use annals_testkit::journals::{id, number};
use annals_testkit::store;
use futures::TryStreamExt;

use crate::chunk_stage::{HOUR, Stage, is_set, noise, set};

/// Opens snapshots and states, as one process.
fn open(stage: &Stage, items: Arc<dyn Items>, seed: u64) -> Both {
    let (settings, clock) = (AnyLayout::default(), stage.clock.clone());
    let store = |items| store(items, clock.clone(), Random::seeded(seed));
    Both {
        snapshots: settings.snapshots(&store(items.clone())).unwrap(),
        states: settings.states(&store(items)).unwrap(),
    }
}

/// A store, and a process on it.
async fn stage() -> (Arc<Hooked<Stage>>, Both) {
    let stage = Stage::new().await;
    let both = open(&stage, stage.clone(), 1);
    (stage, both)
}

/// Another process, without faults.
fn others(stage: &Stage) -> Both {
    open(stage, stage.memory.clone(), 1_000)
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

    /// Saves a snapshot, or writes a value with a revision.
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
            Kind::Snapshot => self
                .snapshots
                .delete(&id(), Criteria::ALL)
                .await
                .map(|_| ()),
            Kind::State => Ok(self.states.delete(&id(), None).await.map(|_| ())?),
        }
    }

    #[track_caller]
    fn assert_is(found: annals::Result<Option<Payload>>, want: &Payload) {
        assert!(found.unwrap().as_ref() == Some(want), "another payload");
    }
}

/// Two incompressible chunks.
fn large(seed: u64) -> Payload {
    Payload::new(Codec::Bytes, noise(&Random::seeded(seed), 60_000))
}

/// Sweeps; returns the number of orphaned chunks. A check before it finds as many.
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
        let (stage, both) = stage().await;
        set(&stage.loses_items, true);
        let cut_off = both.write(kind, 1, large(1)).await;
        assert_eq!(cut_off.unwrap_err().kind(), ErrorKind::Unavailable);
        set(&stage.loses_items, false);
        assert_eq!(stage.chunks().await, 2);
        stage.clock.advance(HOUR);
        assert_eq!(swept(&both).await, 0);
        stage.clock.advance(Duration::from_millis(1));
        // A write that was completed meanwhile keeps its chunks.
        both.write(kind, 1, large(2)).await.unwrap();
        stage.clock.advance(2 * HOUR);
        assert_eq!(swept(&both).await, 2);
        assert_eq!(stage.chunks().await, 2);
        Both::assert_is(both.read(kind).await, &large(2));
    }
}

#[tokio::test]
async fn a_sweep_of_young_chunks_is_refused() {
    let (_, both) = stage().await;
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
        let (stage, both) = stage().await;
        both.write(kind, 1, large(1)).await.unwrap();
        set(&stage.loses_deletes, true);
        both.write(kind, 2, large(2)).await.unwrap();
        Both::assert_is(both.read(kind).await, &large(2));
        both.delete(kind).await.unwrap();
        assert_eq!(both.read(kind).await.unwrap(), None);
        set(&stage.loses_deletes, false);
        assert_eq!(stage.chunks().await, 4);
        assert_eq!(swept(&both).await, 0, "they are young");
        stage.clock.advance(2 * HOUR);
        assert_eq!(swept(&both).await, 4);
        assert_eq!(stage.chunks().await, 0);
    }
}

#[tokio::test]
async fn a_refused_value_removes_its_chunks_and_is_a_conflict() {
    let (stage, both) = stage().await;
    both.write(Kind::State, 1, large(1)).await.unwrap();
    for (is_lost, left) in [(false, 2), (true, 4)] {
        set(&stage.loses_deletes, is_lost);
        let refused = both.states.upsert(&id(), 1, large(2)).await;
        assert!(matches!(
            refused,
            Err(StateError::Conflict { found: 1, .. })
        ));
        assert_eq!(stage.chunks().await, left);
    }
    set(&stage.loses_deletes, false);
    stage.clock.advance(2 * HOUR);
    assert_eq!(swept(&both).await, 2);
    Both::assert_is(both.read(Kind::State).await, &large(1));
}

#[tokio::test]
async fn a_write_that_stalled_during_a_sweep_is_complete() {
    for kind in KINDS {
        let (stage, both) = stage().await;
        let (sweeper, clock) = (others(&stage), stage.clock.clone());
        stage.before_put.set(async move {
            clock.advance(3 * HOUR);
            assert_eq!(swept(&sweeper).await, 2);
        });
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
        let (stage, both) = stage().await;
        set(&stage.is_slow, true);
        let late = both.write(kind, 1, large(1)).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(both.read(kind).await.unwrap(), None);
        set(&stage.is_slow, false);
        both.write(kind, 1, large(1)).await.unwrap();
    }
}

/// Another process replaces or deletes the snapshot, with its chunks.
async fn meet(stage: Arc<Hooked<Stage>>, is_replaced: bool) {
    let other = open(&stage, stage.clone(), 1_000);
    match is_replaced {
        true => other.save(Payload::new(Codec::Text, "other")).await,
        false => {
            let deleted = other.snapshots.delete(&id(), Criteria::ALL).await;
            deleted.map(|_| ())
        }
    }
    .unwrap();
    let left = if is_set(&stage.holds_deletes) { 2 } else { 0 };
    assert_eq!(stage.chunks().await, left);
}

/// Even if another process deletes the chunks of the first put, before or after the second one.
#[tokio::test]
async fn a_snapshot_that_its_client_puts_twice_is_complete() {
    for (is_replaced, is_held) in [(false, false), (false, true), (true, false), (true, true)] {
        let (stage, both) = stage().await;
        stage.between_puts.set(meet(stage.clone(), is_replaced));
        set(&stage.holds_deletes, is_held);
        both.save(large(1)).await.unwrap();
        Both::assert_is(both.read(Kind::Snapshot).await, &large(1));
        let held = std::mem::take(&mut *stage.held.lock().unwrap());
        assert_eq!(held.len(), if is_held { 2 } else { 0 });
        for (table, key, condition) in held {
            let _ = stage.memory.delete(&table, key, condition).await;
        }
        Both::assert_is(both.read(Kind::Snapshot).await, &large(1));
        stage.clock.advance(2 * HOUR);
        assert_eq!(swept(&both).await, 0);
        Both::assert_is(both.read(Kind::Snapshot).await, &large(1));
    }
}

/// Whichever is last, the stored snapshot is complete, and a sweep leaves only its chunks.
#[tokio::test]
async fn concurrent_saves_of_one_number_leave_one_complete_snapshot() {
    let mut left = 0;
    for seed in 0..30 {
        let stage = Stage::new().await;
        let others = others(&stage);
        others.save(large(9)).await.unwrap();
        let saves = (0..3).map(|n| {
            let random = Random::seeded(seed * 10 + n);
            let faults = Faults {
                delay: 1_000,
                ..Faults::none()
            };
            let slow = Faulty::new(stage.memory.clone(), random, faults);
            let both = open(&stage, Arc::new(slow), seed * 10 + n);
            async move { both.save(large(n)).await }
        });
        for saved in futures::future::join_all(saves).await {
            saved.unwrap();
        }
        stage.clock.advance(2 * HOUR);
        left += swept(&others).await;
        assert_eq!(stage.chunks().await, 2, "seed {seed}");
        let found = others.read(Kind::Snapshot).await.unwrap().unwrap();
        assert!((0..3).any(|n| found == large(n)), "seed {seed}");
    }
    assert!(left > 0, "no seed left orphans");
}
