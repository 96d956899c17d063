//! The processes: each ingests, sweeps or follows, with its own faults.

use std::sync::Arc;
use std::time::Duration;

use annals::log::{Ingested, Log, LogPosition, Playback, Record, Span, Time};
use annals::{Clock, Random};
use futures::TryStreamExt;
use serde_json::json;

use super::{Handle, LATENESS, START, World, end, shared};

pub(super) const STEPS: usize = 14;

/// Restarts a process that crashed. Returns whether it had.
pub(super) fn restart(world: &World, handle: &Handle) -> bool {
    let is_crashed = handle.faulty.is_crashed();
    if is_crashed {
        world.observed().counts.crashes += 1;
        handle.faulty.revive();
    }
    is_crashed
}

pub(super) async fn wait(random: &Random, turns: u64) {
    for _ in 0..random.below(turns) {
        tokio::task::yield_now().await;
    }
}

/// Ingests records: mostly new ones, some late, some that either source sent before.
pub(super) async fn ingest(world: Arc<World>, handle: Handle, random: Random, source: u32) {
    let log = world.open(&handle, 1).await;
    for step in 0..STEPS {
        restart(&world, &handle);
        world
            .clock
            .advance(Duration::from_millis(random.below(3_000)));
        let now = world.clock.now_ms();
        let mut records = Vec::new();
        for n in 0..1 + random.below(20) {
            let id = format!("{source}-{step}-{n}");
            let ago = match random.below(10) {
                0 => random.below(10 * LATENESS),
                _ => random.below(LATENESS),
            };
            let time = Time::from_ms(now.saturating_sub(ago).max(START)).unwrap();
            // Some share a millisecond; the start is a multiple of fifty.
            let grain = [1, 50][random.below(2) as usize];
            let time = Time::from_ms(time.ms() - time.ms() % grain).unwrap();
            let record = Record::json("sim", id.parse().unwrap(), time, &json!({"n": n}));
            world.observed().sent.insert(id, record.clone());
            records.push(record);
        }
        again(&world, &random, &mut records);
        if random.below(3) > 0 {
            ingest_batch(&world, &log, records).await;
        } else {
            for record in records.into_iter().take(3) {
                let outcome = log.ingest_one(record.clone()).await;
                note(&world, &record, &outcome);
            }
        }
        let step = shared::Step { source, step };
        shared::ingest(&world, &log, &random, step).await;
        wait(&random, 60).await;
    }
}

/// Adds records that were sent before, and shuffles all of them.
fn again(world: &World, random: &Random, records: &mut Vec<Record>) {
    let observed = world.observed();
    let known: Vec<&Record> = observed.sent.values().collect();
    for _ in 0..random.below(6) {
        let record = known[random.below(known.len() as u64) as usize];
        records.push(record.clone());
    }
    for n in (1..records.len()).rev() {
        records.swap(n, random.below(n as u64 + 1) as usize);
    }
}

async fn ingest_batch(world: &World, log: &Log, records: Vec<Record>) {
    let report = log.ingest(records.clone()).await;
    for (record, outcome) in records.iter().zip(&report.outcomes) {
        note(world, record, outcome);
    }
}

fn note(world: &World, record: &Record, outcome: &Ingested) {
    let mut observed = world.observed();
    match outcome {
        Ingested::Stored | Ingested::Present => {
            observed.acked.insert(record.event_id.to_string());
            if world.clock.now_ms() <= record.time.ms() + LATENESS {
                observed.in_time.insert(record.event_id.to_string());
            }
        }
        Ingested::Unknown(_) => observed.counts.unknown += 1,
        other => observed.violations.push(format!("{record:?}: {other:?}")),
    }
}

/// Sweeps, and sometimes links; some sweeps are dropped half done.
pub(super) async fn sweep(world: Arc<World>, handle: Handle, random: Random, parts: u32) {
    let log = world.open(&handle, parts).await;
    for _ in 0..STEPS {
        restart(&world, &handle);
        if world.drops_sweeps && random.below(2) == 0 {
            let turns = random.below(120);
            tokio::select! {
                biased;
                _ = log.sweep() => {}
                () = wait_all(turns) => world.observed().counts.dropped += 1,
            }
        } else {
            let report = log.sweep().await;
            let mut observed = world.observed();
            observed.counts.moved += report.moved;
            observed.counts.repeated += report.repeated;
            observed.counts.left += report.left;
            observed.counts.failed_sweeps += u64::from(report.failure.is_some());
            observed
                .late
                .extend(report.late_events.iter().map(ToString::to_string));
            if report.stuck > 0 {
                observed.violations.push(format!("{report:?}"));
            }
        }
        if random.below(4) == 0 {
            // It may fail; it is repeated later.
            let _ = log.link(Span::ALL).await;
        }
        wait(&random, 80).await;
    }
    restart(&world, &handle);
}

pub(super) async fn wait_all(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Follows to the end, resuming after its position when something fails.
pub(super) async fn follow(world: Arc<World>, handle: Handle, healthy: Log) {
    let log = world.open(&handle, 1).await;
    let mut position: Option<LogPosition> = None;
    loop {
        restart(&world, &handle);
        let mut playback = Playback::since(Time::from_ms(START).unwrap()).until(end());
        playback.after = position.clone();
        let mut events = log.follow(playback);
        loop {
            match events.try_next().await {
                Ok(None) => return,
                Ok(Some(event)) => {
                    let horizon = healthy.horizon().await.unwrap();
                    let mut observed = world.observed();
                    if horizon.is_none_or(|horizon| event.time >= horizon) {
                        observed
                            .violations
                            .push(format!("past the horizon: {event:?}"));
                    }
                    position = Some(event.position());
                    observed.followed.push(event.position());
                }
                Err(_) => {
                    world.observed().counts.reopened += 1;
                    break;
                }
            }
        }
        tokio::task::yield_now().await;
    }
}
