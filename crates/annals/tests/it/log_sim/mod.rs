//! The log under faults, simulated by seed: two sources, a journal with two writers, two pumps of it,
//! two sweepers and a follower on one store, with failures before and after a write is stored,
//! unprocessed items, crashes between any two requests, work that is dropped half done or done twice,
//! records that are repeated, out of order or late, and ids that both sources use for different events
//! at the same time.
//!
//! Checked after each run: every acknowledged record, and every event of the journal, is played back
//! once, in order, and nothing else. The follower got every event once, in order, and never one at or
//! after the horizon. Every event that it missed was reported as late, and was late: a record that was
//! acknowledged within the allowed lateness of its time reached the follower, even if sweeps were
//! dropped. Without one of the guards (`tamper.rs`) some run fails.
//!
//! `ANNALS_SEED=n` runs one seed, `ANNALS_SEEDS=n` runs `n` seeds.

mod journal;
mod process;
mod shared;
mod tamper;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use annals::items::Items;
use annals::journal::Journal;
use annals::log::{Log, LogEvent, LogPosition, Record, Span, Time};
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
/// Few, to keep the suite fast; `.ci/run` runs many more, optimised.
const FEW_SEEDS: u64 = 20;
const START: u64 = 1_700_000_000_000;
const LATENESS: u64 = 5_000;

/// What the processes observed.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// Every record that was ever sent.
    sent: BTreeMap<String, Record>,
    /// Every event that was surely appended to the journal, and when.
    appended: BTreeMap<String, u64>,
    /// The acknowledged ones.
    acked: BTreeSet<String>,
    /// Those that were acknowledged within the allowed lateness.
    in_time: BTreeSet<String>,
    /// Events that sweeps reported as late.
    late: BTreeSet<String>,
    /// The acknowledged records with ids that both sources use.
    shared: shared::Acked,
    followed: Vec<LogPosition>,
    violations: Vec<String>,
    counts: Counts,
}

/// How often each outcome happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    acked: u64,
    shared: u64,
    dead_letters: u64,
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

/// The store of one process, with its own faults, and perhaps without a guard.
#[derive(Clone)]
pub(crate) struct Handle {
    faulty: Arc<Faulty>,
    items: Arc<dyn Items>,
}

pub(crate) struct World {
    items: Arc<dyn Items>,
    clock: Arc<ManualClock>,
    /// The layout of the journal.
    journals: AnyLayout,
    /// Whether sweeps are dropped half done: their reports of late events are lost then.
    drops_sweeps: bool,
    observed: Mutex<Observed>,
}

impl World {
    fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap()
    }

    fn settings(parts: u32) -> LogSettings {
        let mut settings = LogSettings::default();
        settings.slot_parts = parts;
        settings.allowed_lateness_ms = LATENESS;
        settings.sweep_segments = 2;
        settings.concurrency = 3;
        settings.playback_ahead = 2;
        settings.follow_poll_ms = 1;
        settings
    }

    /// A process that starts: it retries until it has opened the log.
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

async fn run(seed: u64, guard: Guard) -> (Vec<String>, Counts) {
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
        observed: Mutex::default(),
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
            world.observed().violations.push(format!("{panic}"));
        }
    }
    settle(&world, &healthy, &journal).await;
    if !world.observed().violations.is_empty() {
        // It might wait forever for an event that was lost.
        follower.abort();
    }
    if let Err(panic) = follower.await {
        world.observed().violations.push(format!("{panic}"));
    }
    check(&world, &healthy, &journal).await;
    let observed = std::mem::take(&mut *world.observed());
    (observed.violations, observed.counts)
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
        guard => Arc::new(Tampered::over(faulty.clone(), guard)),
    };
    Handle { faulty, items }
}

/// Every process but the follower. The guard is removed from those that it protects.
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
    // In some worlds the sweepers have different settings for slot parts.
    let other = [parts, parts, 2][random.below(3) as usize];
    for parts in [parts, other] {
        let handle = handle(world, random, of_sweep);
        let sweep = process::sweep(world.clone(), handle, draw(), parts);
        tasks.push(tokio::spawn(sweep));
    }
    tasks
}

/// Pumps and sweeps the rest, and moves the horizon past everything.
async fn settle(world: &World, healthy: &Log, journal: &Journal) {
    world.clock.advance(std::time::Duration::from_millis(
        1_000_000_000 + 2 * LATENESS,
    ));
    let pumped = journal::pump_the_rest(journal.clone(), healthy.clone()).await;
    let report = healthy.sweep().await;
    let mut observed = world.observed();
    if pumped.is_err() || report.failure.is_some() || report.left > 0 {
        observed.violations.push(format!(
            "the last pass and sweep complete: {pumped:?}, {report:?}"
        ));
    }
    observed
        .late
        .extend(report.late_events.iter().map(ToString::to_string));
}

async fn check(world: &World, healthy: &Log, journal: &Journal) {
    let played: Vec<LogEvent> = healthy.playback(Span::ALL).try_collect().await.unwrap();
    let stats = healthy.stats().await.unwrap();
    let journaled = journal::events(journal).await;
    shared::check(world, healthy, &played).await;
    let mut observed = world.observed();
    let mut violations = Vec::new();
    if stats.buffered != 0 {
        violations.push(format!("the buffer is not empty: {stats:?}"));
    }
    let positions: Vec<LogPosition> = played.iter().map(LogEvent::position).collect();
    if !positions.is_sorted_by(|a, b| a < b) {
        violations.push(format!("played back twice, or out of order: {positions:?}"));
    }
    for event in &played {
        let id = event.event_id.as_str();
        let is_sent = match (observed.sent.get(id), journaled.get(id)) {
            (Some(record), _) => record.time == event.time && record.payload.data() == event.data(),
            (None, Some(journaled)) => journal::is_same(event, journaled),
            (None, None) => shared::is_shared(id) && shared::is_sent(&observed, event),
        };
        if !is_sent {
            violations.push(format!("was not sent, or not with this content: {event:?}"));
        }
    }
    let ids: BTreeSet<String> = played.iter().map(|e| e.event_id.to_string()).collect();
    let due = observed.acked.iter().chain(journaled.keys());
    let lost: Vec<_> = due.filter(|id| !ids.contains(*id)).collect();
    if !lost.is_empty() {
        violations.push(format!(
            "acknowledged or in the journal, but lost: {lost:?}"
        ));
    }
    let vanished = observed
        .appended
        .keys()
        .find(|id| !journaled.contains_key(*id));
    if let Some(id) = vanished {
        violations.push(format!("the journal lost an event: {id}"));
    }
    let followed: BTreeSet<LogPosition> = observed.followed.iter().cloned().collect();
    if !observed.followed.is_sorted_by(|a, b| a < b) {
        violations.push("followed twice, or out of order".to_owned());
    }
    let missed = positions.iter().filter(|event| !followed.contains(event));
    let missed: Vec<String> = missed.map(|event| event.event_id.to_string()).collect();
    let unreported: Vec<_> = missed
        .iter()
        .filter(|id| !observed.late.contains(*id))
        .collect();
    if !unreported.is_empty() && !world.drops_sweeps {
        violations.push(format!("missed, and not reported as late: {unreported:?}"));
    }
    let in_time: Vec<_> = missed
        .iter()
        .filter(|id| observed.in_time.contains(*id))
        .collect();
    if !in_time.is_empty() {
        violations.push(format!("missed, although in time: {in_time:?}"));
    }
    observed.counts.in_time = observed.in_time.len() as u64;
    observed.counts.missed = missed.len() as u64;
    observed.counts.late = observed.late.len() as u64;
    observed.counts.acked = observed.acked.len() as u64;
    observed.counts.followed = observed.followed.len() as u64;
    observed.violations.extend(violations);
}

fn setting(name: &str) -> Option<u64> {
    let set = std::env::var(name).ok()?;
    Some(set.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn the_log_keeps_its_guarantees() {
    let seeds = match setting("ANNALS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("ANNALS_SEEDS").unwrap_or(FEW_SEEDS),
    };
    let runs = seeds.end - seeds.start;
    let mut all = Counts::default();
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let (violations, counts) = runtime.unwrap().block_on(run(seed, Guard::Kept));
        let violations = violations.join("\n");
        assert!(violations.is_empty(), "ANNALS_SEED={seed}:\n{violations}");
        all.add(counts);
    }
    println!("{all:?}");
    // A simulation in which nothing happens proves nothing.
    assert!(runs < 100 || all.is_enough(runs), "{all:?}");
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.acked += other.acked;
        self.shared += other.shared;
        self.dead_letters += other.dead_letters;
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
            && self.dead_letters > runs
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

/// Without the guard some guarantee does not hold.
fn check_fails_without(guard: Guard) {
    let breaks = |seed: &u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let (violations, _) = runtime.unwrap().block_on(run(*seed, guard));
        !violations.is_empty()
    };
    let found = (0..SEEDS).find(breaks);
    println!("without {guard:?} seed {found:?} fails");
    assert!(found.is_some(), "{guard:?}");
}

#[test]
fn deleting_a_record_before_its_event_is_stored_fails() {
    check_fails_without(Guard::DeletedFirst);
}

#[test]
fn storing_an_event_before_its_index_entry_fails() {
    check_fails_without(Guard::StoredFirst);
}

#[test]
fn saving_a_checkpoint_before_its_events_fails() {
    check_fails_without(Guard::SavedFirst);
}

#[test]
fn sweeping_without_claims_fails() {
    check_fails_without(Guard::Unclaimed);
}

#[test]
fn publishing_a_horizon_that_was_not_reached_fails() {
    check_fails_without(Guard::HorizonAhead);
}
