//! Everything at once, by seed: `ANNALS_SEEDS` says how many (default 3), `ANNALS_SEED` which one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals::projection::Running;
use annals::{Clock, SystemClock};

use crate::databases::Db;
use crate::ledger::Booked;
use crate::stage::{Counter, Stage, caught_up, until, with_dead_letters};
use crate::tap::{Fault, Tap};

pub(crate) async fn rows_equal_the_journal_whatever_fails<D: Db>() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("ANNALS_SEED") {
        Some(seed) => run::<D>(seed).await,
        None => {
            for seed in 0..number("ANNALS_SEEDS").unwrap_or(3) {
                run::<D>(seed).await;
            }
        }
    }
}

type Dice = Arc<Mutex<fastrand::Rng>>;

fn roll(dice: &Dice, sides: usize) -> usize {
    dice.lock().unwrap().usize(..sides)
}

fn fault(dice: &Dice) -> Fault {
    let sleep = Duration::from_millis(roll(dice, 600) as u64);
    match roll(dice, 9) {
        0 | 1 => Fault::Drop(1 + roll(dice, 25)),
        2 => Fault::LoseAnswer,
        3 => Fault::Pause(1 + roll(dice, 25), sleep),
        4 => Fault::Refuse,
        _ => Fault::None,
    }
}

fn event(dice: &Dice) -> Booked {
    let cents = u32::try_from(roll(dice, 1000)).unwrap();
    match roll(dice, 30) {
        0 => Booked::Broken(cents),
        1 => Booked::Panics(cents),
        2 => Booked::Orphan(cents),
        _ => Booked::Cents(cents),
    }
}

async fn run<D: Db>(seed: u64) {
    println!("{} seed {seed}: ANNALS_SEED={seed}", D::NAME);
    let dice: Dice = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
    let mut stage = Stage::<D>::new().await;
    let mut taps = Vec::new();
    let mut runners: Vec<Running<()>> = Vec::new();
    // So many calls have faults.
    let calls = Counter::default();
    for _ in 0..40 {
        match roll(&dice, 8) {
            0 if runners.len() < 3 => {
                let faults = {
                    let (dice, calls) = (dice.clone(), calls.clone());
                    move |_| match calls.next() {
                        n if n < 60 => fault(&dice),
                        _ => Fault::None,
                    }
                };
                let tap = Tap::new(stage.sink().await, faults);
                taps.push(tap.clone());
                let starting = stage.annals.projections().target(tap);
                let starting = starting.shares(2).settings(with_dead_letters());
                runners.push(starting.start().await.unwrap());
            }
            1 if !runners.is_empty() => {
                let runner = runners.swap_remove(roll(&dice, runners.len()));
                runner.stop().await;
            }
            2 => {
                let sleep = Duration::from_millis(roll(&dice, 150) as u64);
                SystemClock::new().sleep(sleep).await;
            }
            3 if !runners.is_empty() => {
                stage
                    .annals
                    .projections()
                    .retry("ledger", None)
                    .await
                    .unwrap();
            }
            _ => {
                let account = ["a", "b", "c", "d", "e"][roll(&dice, 5)];
                let events: Vec<Booked> = (0..=roll(&dice, 3)).map(|_| event(&dice)).collect();
                stage.append(account, &events).await;
            }
        }
    }
    calls.set(1_000_000);
    stage.switches.is_fixed.store(true, Ordering::SeqCst);
    let starting = stage.annals.projections().target(stage.sink().await);
    let starting = starting.shares(2).settings(with_dead_letters());
    runners.push(starting.start().await.unwrap());
    caught_up(&runners[0]).await;
    for tap in taps {
        tap.awake().await;
    }
    no_dead_letters(&stage).await;
    stage.check().await;
    for runner in runners {
        runner.stop().await;
    }
    stage.close().await;
}

/// Retries dead letters until there are none.
async fn no_dead_letters<D: Db>(stage: &Stage<D>) {
    until("the end of the dead letters", async || {
        let dead = stage.dead_letters().await;
        if !dead.is_empty() {
            let retried = stage.annals.projections().retry("ledger", None).await;
            retried.unwrap();
        }
        dead.is_empty().then_some(())
    })
    .await;
}
