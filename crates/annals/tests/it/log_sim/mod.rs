//! The log on a bad day, from one seed: two sources, a journal with two writers, two pumps of it, two
//! sweepers and a follower over one store, with faults before and after a write landed, unprocessed
//! items, crashes between any two requests, work that is dropped half done or done twice, records
//! twice, out of order and late, and ids that both sources use for different things at one time.
//!
//! Checked after each run: every record that was acknowledged, and every event of the journal, is
//! played back once, in order, and nothing else; the follower had every event once, in order, and
//! never one at or behind the horizon; what it missed was told as late, and was not in time: every
//! record that was acknowledged within the allowed lateness of its time reached the follower, also
//! where sweeps were dropped. With a guard taken away (`tamper.rs`) some run fails.
//!
//! `ANNALS_SEED=n` runs one seed, `ANNALS_SEEDS=n` runs so many.

mod journal;
mod process;
mod shared;
mod tamper;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use annals::items::Items;
use annals::journal::Journal;
use annals::log::{Log, LogEvent, Place, Record, Span, Time};
use annals::memory::Memory;
use annals::settings::LogSettings;
use annals::store::Store;
use annals::{ManualClock, Random};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_testkit::faulty::{Faults, Faulty};
use futures::TryStreamExt;
use tamper::{Guard, Tampered};

const SEEDS: u64 = 100;
const START: u64 = 1_700_000_000_000;
const LATENESS: u64 = 5_000;

/// What the processes were told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Every record that was ever brought.
    brought: BTreeMap<String, Record>,
    /// Every event that was appended to the journal for sure, and when.
    appended: BTreeMap<String, u64>,
    /// Those that are known to be in.
    acked: BTreeSet<String>,
    /// Those of them that were in before the allowed lateness was over.
    in_time: BTreeSet<String>,
    /// Events that sweeps told as late.
    late: BTreeSet<String>,
    /// What is known to be in of the ids that both sources use.
    shared: shared::Acked,
    followed: Vec<Place>,
    violations: Vec<String>,
    met: Met,
}

/// How often what the simulation is about has happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    acked: u64,
    shared: u64,
    aside: u64,
    left: u64,
    unknown: u64,
    moved: u64,
    repeated: u64,
    failed_sweeps: u64,
    dropped: u64,
    crashes: u64,
    late: u64,
    missed: u64,
    in_time: u64,
    followed: u64,
    reopened: u64,
    passes: u64,
    failed_passes: u64,
    dropped_passes: u64,
    pumped: u64,
}

/// The store as one process has it: with faults of its own, and perhaps without a guard.
#[derive(Clone)]
pub(crate) struct Handle {
    faulty: Arc<Faulty>,
    items: Arc<dyn Items>,
}

pub(crate) struct World {
    items: Arc<dyn Items>,
    clock: Arc<ManualClock>,
    /// Where the journal is.
    journals: AnyLayout,
    /// Whether sweeps are dropped half done: then nobody hears what they found late.
    drops_sweeps: bool,
    told: Mutex<Told>,
}

impl World {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }

    fn settings(parts: u32) -> LogSettings {
        LogSettings {
            slot_parts: parts,
            allowed_lateness_ms: LATENESS,
            sweep_segments: 2,
            concurrency: 3,
            playback_ahead: 2,
            follow_poll_ms: 1,
            ..LogSettings::default()
        }
    }

    /// A process that starts: it tries until it has opened the log.
    async fn open(&self, handle: &Handle, parts: u32) -> Log {
        let settings = Self::settings(parts);
        loop {
            handle.faulty.revive();
            let opened = Log::open(
                Store::from(handle.items.clone()).with_clock(self.clock.clone()),
                &settings,
            )
            .await;
            if let Ok(log) = opened {
                return log;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn end() -> Time {
    Time::from_ms(START + 1_000_000_000).unwrap()
}

async fn run(seed: u64, guard: Guard) -> (Vec<String>, Met) {
    let random = Random::seeded(seed);
    let parts = [1, 1, 3][random.below(3) as usize];
    let layouts = [
        LayoutName::Annals,
        LayoutName::Annals,
        LayoutName::Akka,
        LayoutName::J5ik2o,
    ];
    let world = Arc::new(World {
        items: Arc::new(Memory::new()),
        clock: Arc::new(ManualClock::at_ms(START)),
        journals: AnyLayout {
            layout: layouts[random.below(4) as usize],
            ..AnyLayout::default()
        },
        drops_sweeps: random.below(4) == 0,
        told: Mutex::default(),
    });
    let settings = World::settings(parts);
    let healthy = Log::create(
        Store::from(world.items.clone()).with_clock(world.clock.clone()),
        &settings,
    );
    let healthy = healthy.await.unwrap();
    let journal = journal::create(&world).await;
    let follower = tokio::spawn(process::follow(
        world.clone(),
        handle(&world, &random, Guard::Kept),
        healthy.clone(),
    ));
    for task in processes(&world, &random, parts, guard) {
        if let Err(panic) = task.await {
            world.told().violations.push(format!("{panic}"));
        }
    }
    settle(&world, &healthy, &journal).await;
    if !world.told().violations.is_empty() {
        // It might wait for ever for what went wrong.
        follower.abort();
    }
    if let Err(panic) = follower.await {
        world.told().violations.push(format!("{panic}"));
    }
    check(&world, &healthy, &journal).await;
    let told = std::mem::take(&mut *world.told());
    (told.violations, told.met)
}

fn handle(world: &World, random: &Random, guard: Guard) -> Handle {
    let faults = Faults {
        crash: 8,
        ..Faults::bad_day()
    };
    let drawn = Random::seeded(random.bits());
    let faulty = Arc::new(Faulty::new(world.items.clone(), drawn, faults));
    let items: Arc<dyn Items> = match guard {
        Guard::Kept => faulty.clone(),
        guard => Arc::new(Tampered::new(faulty.clone(), guard)),
    };
    Handle { faulty, items }
}

/// Everybody but the follower. The guard is taken away where it guards.
fn processes(
    world: &Arc<World>,
    random: &Random,
    parts: u32,
    guard: Guard,
) -> Vec<tokio::task::JoinHandle<()>> {
    let whole = || handle(world, random, Guard::Kept);
    let (of_sweep, of_pump) = match guard {
        Guard::SavedFirst => (Guard::Kept, guard),
        guard => (guard, Guard::Kept),
    };
    let draw = || Random::seeded(random.bits());
    let mut tasks = Vec::new();
    for n in 0..2 {
        let world = || world.clone();
        tasks.push(tokio::spawn(process::ingest(world(), whole(), draw(), n)));
        tasks.push(tokio::spawn(journal::append(world(), whole(), draw(), n)));
    }
    for _ in 0..2 {
        let handle = handle(world, random, of_pump);
        tasks.push(tokio::spawn(journal::pump(world.clone(), handle, draw())));
    }
    // In some worlds the sweepers do not agree over how many parts a slot is spread.
    let other = [parts, parts, 2][random.below(3) as usize];
    for parts in [parts, other] {
        let handle = handle(world, random, of_sweep);
        let sweep = process::sweep(world.clone(), handle, draw(), parts);
        tasks.push(tokio::spawn(sweep));
    }
    tasks
}

/// Pumps and sweeps what is left, and lets the horizon pass everything.
async fn settle(world: &World, healthy: &Log, journal: &Journal) {
    world.clock.advance(std::time::Duration::from_millis(
        1_000_000_000 + 2 * LATENESS,
    ));
    let pumped = journal::pump_the_rest(journal.clone(), healthy.clone()).await;
    let report = healthy.sweep().await;
    let mut told = world.told();
    if pumped.is_err() || report.failure.is_some() || report.left > 0 {
        told.violations.push(format!(
            "the last pass and sweep get through: {pumped:?}, {report:?}"
        ));
    }
    told.late
        .extend(report.late_events.iter().map(ToString::to_string));
}

async fn check(world: &World, healthy: &Log, journal: &Journal) {
    let played: Vec<LogEvent> = healthy.playback(Span::ALL).try_collect().await.unwrap();
    let stats = healthy.stats().await.unwrap();
    let journaled = journal::events(journal).await;
    shared::check(world, healthy, &played).await;
    let mut told = world.told();
    let mut violations = Vec::new();
    if stats.buffered != 0 {
        violations.push(format!("everything is moved: {stats:?}"));
    }
    let places: Vec<Place> = played.iter().map(LogEvent::place).collect();
    if !places.is_sorted_by(|a, b| a < b) {
        violations.push(format!("played back once each, in order: {places:?}"));
    }
    for event in &played {
        let id = event.event_id.as_str();
        let is_brought = match (told.brought.get(id), journaled.get(id)) {
            (Some(record), _) => record.time == event.time && record.payload.data() == event.data(),
            (None, Some(journaled)) => journal::is_same(event, journaled),
            (None, None) => shared::is_shared(id) && shared::is_brought(&told, event),
        };
        if !is_brought {
            violations.push(format!("{event:?} was not brought, or not so"));
        }
    }
    let ids: BTreeSet<String> = played.iter().map(|e| e.event_id.to_string()).collect();
    let due = told.acked.iter().chain(journaled.keys());
    let lost: Vec<_> = due.filter(|id| !ids.contains(*id)).collect();
    if !lost.is_empty() {
        violations.push(format!(
            "acknowledged or in the journal, and lost: {lost:?}"
        ));
    }
    let vanished = told.appended.keys().find(|id| !journaled.contains_key(*id));
    if let Some(id) = vanished {
        violations.push(format!("the journal lost an event: {id}"));
    }
    let followed: BTreeSet<Place> = told.followed.iter().cloned().collect();
    if !told.followed.is_sorted_by(|a, b| a < b) {
        violations.push("the follower had each event once, in order".to_owned());
    }
    let missed = places.iter().filter(|place| !followed.contains(place));
    let missed: Vec<String> = missed.map(|place| place.event_id.to_string()).collect();
    let untold: Vec<_> = missed
        .iter()
        .filter(|id| !told.late.contains(*id))
        .collect();
    if !untold.is_empty() && !world.drops_sweeps {
        violations.push(format!("missed, and not told as late: {untold:?}"));
    }
    let in_time: Vec<_> = missed
        .iter()
        .filter(|id| told.in_time.contains(*id))
        .collect();
    if !in_time.is_empty() {
        violations.push(format!("missed, although in time: {in_time:?}"));
    }
    told.met.in_time = told.in_time.len() as u64;
    told.met.missed = missed.len() as u64;
    told.met.late = told.late.len() as u64;
    told.met.acked = told.acked.len() as u64;
    told.met.followed = told.followed.len() as u64;
    told.violations.extend(violations);
}

fn setting(name: &str) -> Option<u64> {
    let set = std::env::var(name).ok()?;
    Some(set.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn every_promise_of_the_log_is_kept() {
    let seeds = match setting("ANNALS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("ANNALS_SEEDS").unwrap_or(SEEDS),
    };
    let runs = seeds.end - seeds.start;
    let mut all = Met::default();
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let (violations, met) = runtime.unwrap().block_on(run(seed, Guard::Kept));
        let violations = violations.join("\n");
        assert!(violations.is_empty(), "ANNALS_SEED={seed}:\n{violations}");
        all.add(met);
    }
    println!("{all:?}");
    // A simulation that meets nothing proves nothing.
    assert!(runs < 100 || all.is_enough(runs), "{all:?}");
}

impl Met {
    fn add(&mut self, other: Self) {
        self.acked += other.acked;
        self.shared += other.shared;
        self.aside += other.aside;
        self.left += other.left;
        self.unknown += other.unknown;
        self.moved += other.moved;
        self.repeated += other.repeated;
        self.failed_sweeps += other.failed_sweeps;
        self.dropped += other.dropped;
        self.crashes += other.crashes;
        self.late += other.late;
        self.missed += other.missed;
        self.in_time += other.in_time;
        self.followed += other.followed;
        self.reopened += other.reopened;
        self.passes += other.passes;
        self.failed_passes += other.failed_passes;
        self.dropped_passes += other.dropped_passes;
        self.pumped += other.pumped;
    }

    fn is_enough(&self, runs: u64) -> bool {
        self.acked > 20 * runs
            && self.followed > 20 * runs
            && self.unknown > runs
            && self.shared > 10 * runs
            && self.aside > runs
            && self.repeated > runs
            && self.failed_sweeps > runs
            && self.crashes > runs
            && self.late > runs
            && self.missed > runs
            && self.in_time > 10 * runs
            && self.reopened > runs
            && self.dropped > 0
            && self.passes > runs
            && self.failed_passes > runs
            && self.dropped_passes > runs / 4
            && self.pumped > 5 * runs
    }
}

/// The guard is there for something: without it some promise does not hold.
fn check_missed(guard: Guard) {
    let breaks = |seed: &u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let (violations, _) = runtime.unwrap().block_on(run(*seed, guard));
        !violations.is_empty()
    };
    let found = (0..SEEDS).find(breaks);
    println!("{guard:?} is missed by seed {found:?}");
    assert!(found.is_some(), "{guard:?}");
}

#[test]
fn a_record_that_is_deleted_before_its_event_is_stored_is_missed() {
    check_missed(Guard::DeletedFirst);
}

#[test]
fn an_event_that_is_stored_before_its_slot_is_in_the_index_is_missed() {
    check_missed(Guard::StoredFirst);
}

#[test]
fn a_checkpoint_that_is_saved_before_its_events_are_in_is_missed() {
    check_missed(Guard::SavedFirst);
}

#[test]
fn a_claim_that_nobody_sees_is_missed() {
    check_missed(Guard::Unclaimed);
}

#[test]
fn a_horizon_that_was_not_reached_is_missed() {
    check_missed(Guard::HorizonAhead);
}
