//! Several processes over one store on a bad day, from one seed: faults before and after a write
//! landed, throttling, freezing and thawing, crashes between any two requests, deletions.
//!
//! Checked after each run: nothing acknowledged is missing or changed, nothing refused is visible,
//! no number is used twice, batches are whole, every window replays right, the highest is right.
//!
//! `ANNALS_SEED=n` runs one seed, `ANNALS_SEEDS=n` so many.

mod process;
mod tamper;

use std::str::FromStr;
use std::sync::{Arc, Mutex};

use annals::faulty::{Faults, Faulty};
use annals::items::Items;
use annals::journal::Append;
use annals::memory::Memory;
use annals::tck::aftermath::Aftermath;
use annals::tck::record::{Outcome, Record, label};
use annals::{Codec, ManualClock, NewEvent, Random};

use crate::journals::{create, open_at};
use process::{Process, World, id, noise};
use tamper::{Guard, Tampered};

/// How many persistence ids there are.
const IDS: usize = 2;
const SEEDS: u64 = 1_000;
const PROCESSES: usize = 3;
const STEPS: usize = 9;

fn setting(name: &str) -> Option<u64> {
    let set = std::env::var(name).ok()?;
    Some(u64::from_str(&set).unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Freezes and thaws processes; all are thawed at the end.
async fn disturb(handles: Vec<Arc<Faulty>>, random: Random) {
    for _ in 0..12 {
        let handle = &handles[random.below(handles.len() as u64) as usize];
        handle.freeze();
        for _ in 0..random.below(150) {
            tokio::task::yield_now().await;
        }
        handle.thaw();
        for _ in 0..random.below(50) {
            tokio::task::yield_now().await;
        }
    }
}

/// In some worlds the first id is about to enter its second bucket.
async fn prepare(world: &World, random: &Random) {
    create(&*world.items).await;
    if random.below(12) == 0 {
        let count = 996 + random.below(6);
        let attempt = world.record().begin(0, count);
        let events = (0..count)
            .map(|place| NewEvent::new(Codec::Bytes, label(attempt, place, count)))
            .collect::<Vec<_>>();
        let journal = open_at(world.items.clone(), world.clock.clone(), 0).await;
        let appended = journal
            .append(&id(0), crate::journals::after(0), Append::of(events))
            .await
            .unwrap();
        world.record().acked(attempt, 1, appended.last.get());
    }
}

async fn run(seed: u64, guard: Guard, noise: Arc<[u8]>) -> Record {
    let random = Random::seeded(seed);
    let world = Arc::new(World {
        items: Arc::new(Tampered {
            inner: Arc::new(Memory::new()),
            guard,
            random: Random::seeded(random.bits()),
        }),
        clock: Arc::new(ManualClock::at_ms(1_700_000_000_000)),
        record: Mutex::new(Record::of(IDS)),
        noise,
    });
    prepare(&world, &random).await;
    let faults = Faults {
        crash: 8,
        ..Faults::bad_day()
    };
    let (mut handles, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        let items: Arc<dyn Items> = world.items.clone();
        let handle = Arc::new(Faulty::new(items, Random::seeded(random.bits()), faults));
        handles.push(handle.clone());
        let (world, random) = (world.clone(), Random::seeded(random.bits()));
        tasks.push(tokio::spawn(async move {
            let process = Process::start(world, handle, random).await;
            process.run(STEPS).await;
        }));
    }
    tasks.push(tokio::spawn(disturb(
        handles,
        Random::seeded(random.bits()),
    )));
    for task in tasks {
        if let Err(panic) = task.await {
            world.record().violated(format!("{panic}"));
        }
    }
    let mut record = std::mem::take(&mut *world.record());
    let open = async || open_at(world.items.clone(), world.clock.clone(), 0).await;
    for index in 0..IDS {
        let aftermath = Aftermath {
            index,
            id: &id(index),
            random: &random,
        };
        aftermath.check(&mut record, open).await;
    }
    record
}

/// One seed on a runtime of its own, so that nothing of another decides how it runs.
fn run_alone(seed: u64, guard: Guard, noise: &Arc<[u8]>) -> Record {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(run(seed, guard, noise.clone()))
}

#[test]
fn the_journal_keeps_its_promises() {
    let seeds = match setting("ANNALS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("ANNALS_SEEDS").unwrap_or(SEEDS),
    };
    let noise = noise();
    let mut met = Met::default();
    for seed in seeds.clone() {
        let record = run_alone(seed, Guard::Kept, &noise);
        assert!(
            record.violations.is_empty(),
            "ANNALS_SEED={seed}:\n{}",
            record.violations.join("\n")
        );
        met.add(&record);
    }
    // A simulation that meets nothing proves nothing.
    let runs = seeds.end - seeds.start;
    let is_met = met.acked > 5 * runs && met.refused > runs && met.cut_off > runs / 10;
    assert!(runs < 100 || is_met && met.unknown > runs / 10, "{met:?}");
    println!("{met:?}");
}

/// How often what the simulation is about has happened.
#[derive(Debug, Default)]
struct Met {
    acked: u64,
    refused: u64,
    unknown: u64,
    cut_off: u64,
}

impl Met {
    fn add(&mut self, record: &Record) {
        for attempt in record.attempts.values() {
            match attempt.outcome {
                Outcome::Acked(_) => self.acked += 1,
                Outcome::Refused => self.refused += 1,
                Outcome::Unknown => self.unknown += 1,
            }
        }
        let tried = record.deletion_tried.iter().zip(&record.deleted);
        self.cut_off += tried.filter(|(tried, done)| tried > done).count() as u64;
    }
}

#[test]
fn the_same_seed_ends_the_same() {
    let noise = noise();
    for seed in 0..5 {
        let ends = [(); 2].map(|()| run_alone(seed, Guard::NoCondition, &noise));
        let [one, other] = ends.map(|end| format!("{end:?}"));
        assert_eq!(one, other, "seed {seed}");
    }
}

/// The guard is there for something: without it the promises do not hold.
fn check_missed(guard: Guard) {
    let noise = noise();
    let mut runs = (0..200).map(|seed| run_alone(seed, guard, &noise).violations);
    let broken = runs.find(|violations| !violations.is_empty());
    println!("{}", broken.expect("the guard is missed").join("\n"));
}

#[test]
fn without_the_condition_events_are_lost() {
    check_missed(Guard::NoCondition);
}

#[test]
fn without_the_token_a_lost_answer_is_a_conflict() {
    check_missed(Guard::NoToken);
}

#[test]
fn without_marks_numbers_are_used_twice() {
    check_missed(Guard::NoMarks);
}
