//! Verification of journals that are being written: operations in flight are not findings, and damage
//! is still found.
//!
//! Every request of the writer, the deleter and the verification is a step, and a seed chooses who
//! makes the next one. A pause of the verification is many steps of the others. Deterministic: no
//! runtime is involved.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use annals::journal::{Append, Expected, Journal};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::verify::{Finding, Problem, Verify};
use annals::{Clock, PersistenceId, Random};
use annals_jvm::LayoutName;
use annals_testkit::store;
use async_trait::async_trait;
use futures::TryStreamExt;
use futures::executor::block_on;

use super::Bed;
use crate::j5ik2o_state_schedules::Stepped;
use annals_testkit::journals::{id, number, text};

/// A clock whose pauses take a number of steps.
#[derive(Debug)]
struct Pausing(u64);

#[async_trait]
impl Clock for Pausing {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {
        let mut left = self.0;
        std::future::poll_fn(|_| match left {
            0 => Poll::Ready(()),
            _ => {
                left -= 1;
                Poll::Pending
            }
        })
        .await;
    }
}

fn stepped(bed: &Bed, memory: &Arc<Memory>, pause: u64) -> Journal {
    let random = Random::seeded(1);
    let items = Arc::new(Stepped::slow(memory, random.clone()));
    let clock = Arc::new(Pausing(pause));
    let store = store(items, clock, random.clone());
    let opened = bed.settings.journal(&store);
    interleaved(opened, &mut [], &random).unwrap()
}

/// Appends batches, for ever.
async fn write(journal: Journal, id: PersistenceId) {
    for n in 1u64.. {
        let events = (0..1 + n % 7).map(|m| text(format!("{n} {m}")));
        let events = Append::of(events.collect::<Vec<_>>());
        journal.append(&id, Expected::Any, events).await.unwrap();
    }
}

/// Deletes after the writer, for ever.
async fn delete(journal: Journal, id: PersistenceId) {
    loop {
        let highest = journal.highest(&id).await.unwrap().unwrap();
        let to = highest.get().saturating_sub(9).max(1);
        journal.delete_to(&id, number(to)).await.unwrap();
    }
}

/// More steps than any verification takes.
const STEPS_MAX: usize = 200_000;

/// A task that never ends.
type Other = Pin<Box<dyn Future<Output = ()>>>;

/// The seed chooses who makes the next step, until the verification is done.
fn interleaved<T>(looking: impl Future<Output = T>, others: &mut [Other], random: &Random) -> T {
    let mut context = Context::from_waker(Waker::noop());
    let mut looking = pin!(looking);
    // The others are in the middle of an operation when it starts.
    for _ in 0..random.below(400) {
        for other in others.iter_mut() {
            assert!(other.as_mut().poll(&mut context).is_pending());
        }
    }
    for _ in 0..STEPS_MAX {
        // The verification gets half of the steps, or it would never catch up with the writer.
        let turn = random.below(2 * others.len().max(1) as u64) as usize;
        match others.get_mut(turn) {
            Some(other) => assert!(other.as_mut().poll(&mut context).is_pending()),
            None => {
                if let Poll::Ready(found) = looking.as_mut().poll(&mut context) {
                    return found;
                }
            }
        }
    }
    panic!("the verification does not end");
}

/// The findings during writes and deletions; `damage` is done before.
async fn live(layout: LayoutName, seed: u64, is_damaged: bool) -> (Vec<Finding>, Vec<Finding>) {
    let memory = Arc::new(Memory::new());
    let settings = annals_jvm::AnyLayout {
        layout,
        ..Default::default()
    };
    let bed = Bed::on(memory.clone(), settings).await;
    // Up to a hundred, so that markers move.
    bed.fill(&id(), &[10; 9]).await;
    let broken: PersistenceId = "broken".parse().unwrap();
    if is_damaged {
        bed.fill(&broken, &[1; 5]).await;
        let rows = bed.items().await.into_iter();
        let lost = rows.filter(|item| format!("{item:?}").contains("broken"));
        let lost: Vec<_> = lost.filter(|item| bed.number_of(item) == Some(3)).collect();
        assert_eq!(lost.len(), 1, "{layout}");
        bed.remove(&lost[0]).await;
    }
    let journal = stepped(&bed, &memory, 1_500);
    let random = Random::seeded(seed);
    let writer = stepped(&bed, &memory, 1);
    // They continue between verifications: a dropped task would be an interrupted operation.
    let mut others: Vec<Other> = vec![
        Box::pin(write(writer.clone(), id())),
        Box::pin(delete(writer, id())),
    ];
    let whose = id();
    let one = journal.verify(&whose, Verify::Check);
    let one = interleaved(one, &mut others, &random).unwrap();
    let all = journal.verify_all(Verify::Check).try_concat();
    let all = interleaved(all, &mut others, &random).unwrap();
    (one, all)
}

#[test]
fn operations_in_flight_are_not_findings() {
    block_on(async {
        for layout in LayoutName::ALL {
            for seed in 0..12 {
                let (one, all) = live(layout, seed, false).await;
                assert_eq!((one, all), (vec![], vec![]), "{layout} {seed}");
            }
        }
    });
}

#[test]
fn damage_is_found_during_writes() {
    block_on(async {
        for layout in LayoutName::ALL {
            for seed in 0..5 {
                let (_, all) = live(layout, seed, true).await;
                assert_eq!(all.len(), 1, "{layout} {seed}: {all:?}");
                assert_eq!(all[0].problem, Problem::Gap, "{layout} {seed}");
                let numbers = all[0].numbers.map(|(from, to)| (from.get(), to.get()));
                assert_eq!(numbers, Some((3, 3)), "{layout} {seed}");
            }
        }
    });
}

/// A batch that begins between check and repair is not treated as interrupted.
#[test]
fn a_repair_does_not_touch_operations_in_flight() {
    block_on(async {
        for layout in LayoutName::ALL {
            for seed in 0..10 {
                let memory = Arc::new(Memory::new());
                let settings = annals_jvm::AnyLayout {
                    layout,
                    ..Default::default()
                };
                let bed = Bed::on(memory.clone(), settings).await;
                bed.fill(&id(), &[1, 1, 3, 1, 1]).await;
                // A permanent damage that can be repaired.
                let old = bed.row(2).await;
                bed.delete_to(5).await;
                bed.put(old).await;
                let journal = stepped(&bed, &memory, 1_000);
                let writer = stepped(&bed, &memory, 1);
                // Every append is acknowledged: its batch is not closed before it is complete.
                let mut others: Vec<Other> = vec![Box::pin(write(writer, id()))];
                let random = Random::seeded(seed);
                let whose = id();
                let look = journal.verify(&whose, Verify::Repair);
                let found = interleaved(look, &mut others, &random).unwrap();
                assert_eq!(found.len(), 1, "{layout} {seed}: {found:?}");
                assert_eq!(found[0].problem, Problem::Leftover, "{layout} {seed}");
            }
        }
    });
}
