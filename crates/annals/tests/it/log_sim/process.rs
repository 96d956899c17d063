//! What each process does: bring records, sweep, follow; with faults of its own.

use std::sync::Arc;
use std::time::Duration;

use annals::log::{Ingested, Log, Place, Playback, Record, Span, Time};
use annals::{Clock, Random};
use futures::TryStreamExt;
use serde_json::json;

use super::{Handle, LATENESS, START, World, end, shared};

pub(super) const STEPS: usize = 14;

/// A process that crashed starts again; answers whether it had.
pub(super) fn restart(world: &World, handle: &Handle) -> bool {
    let is_crashed = handle.faulty.is_crashed();
    if is_crashed {
        world.told().met.crashes += 1;
        handle.faulty.revive();
    }
    is_crashed
}

pub(super) async fn wait(random: &Random, turns: u64) {
    for _ in 0..random.below(turns) {
        tokio::task::yield_now().await;
    }
}

/// Brings records: mostly new ones of just now, some late, some that it or the other brought before.
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
            world.told().brought.insert(id, record.clone());
            records.push(record);
        }
        again(&world, &random, &mut records);
        if random.below(3) > 0 {
            bring(&world, &log, records).await;
        } else {
            for record in records.into_iter().take(3) {
                let outcome = log.ingest_one(record.clone()).await;
                note(&world, &record, &outcome);
            }
        }
        shared::bring(&world, &log, &random, (source, step)).await;
        wait(&random, 60).await;
    }
}

/// Adds records that were brought before, and mixes all of them.
fn again(world: &World, random: &Random, records: &mut Vec<Record>) {
    let told = world.told();
    let known: Vec<&Record> = told.brought.values().collect();
    for _ in 0..random.below(6) {
        let record = known[random.below(known.len() as u64) as usize];
        records.push(record.clone());
    }
    for n in (1..records.len()).rev() {
        records.swap(n, random.below(n as u64 + 1) as usize);
    }
}

async fn bring(world: &World, log: &Log, records: Vec<Record>) {
    let report = log.ingest(records.clone()).await;
    for (record, outcome) in records.iter().zip(&report.outcomes) {
        note(world, record, outcome);
    }
}

fn note(world: &World, record: &Record, outcome: &Ingested) {
    let mut told = world.told();
    match outcome {
        Ingested::Stored | Ingested::Present => {
            told.acked.insert(record.event_id.to_string());
            if world.clock.now_ms() <= record.time.ms() + LATENESS {
                told.in_time.insert(record.event_id.to_string());
            }
        }
        Ingested::Unknown(_) => told.met.unknown += 1,
        other => told.violations.push(format!("{record:?}: {other:?}")),
    }
}

/// Sweeps, and links now and then; some sweeps are dropped half done.
pub(super) async fn sweep(world: Arc<World>, handle: Handle, random: Random, parts: u32) {
    let log = world.open(&handle, parts).await;
    for _ in 0..STEPS {
        restart(&world, &handle);
        if world.drops_sweeps && random.below(2) == 0 {
            let turns = random.below(120);
            tokio::select! {
                biased;
                _ = log.sweep() => {}
                () = wait_all(turns) => world.told().met.dropped += 1,
            }
        } else {
            let report = log.sweep().await;
            let mut told = world.told();
            told.met.moved += report.moved;
            told.met.repeated += report.repeated;
            told.met.left += report.left;
            told.met.failed_sweeps += u64::from(report.failure.is_some());
            told.late
                .extend(report.late_events.iter().map(ToString::to_string));
            if report.stuck > 0 {
                told.violations.push(format!("{report:?}"));
            }
        }
        if random.below(4) == 0 {
            // It may fail; it is repeated some other time.
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

/// Follows to the end, going on behind its place whenever something fails.
pub(super) async fn follow(world: Arc<World>, handle: Handle, healthy: Log) {
    let log = world.open(&handle, 1).await;
    let mut place: Option<Place> = None;
    loop {
        restart(&world, &handle);
        let mut playback = Playback::since(Time::from_ms(START).unwrap()).until(end());
        playback.after = place.clone();
        let mut events = log.follow(playback);
        loop {
            match events.try_next().await {
                Ok(None) => return,
                Ok(Some(event)) => {
                    let horizon = healthy.horizon().await.unwrap();
                    let mut told = world.told();
                    if horizon.is_none_or(|horizon| event.time >= horizon) {
                        told.violations.push(format!("past the horizon: {event:?}"));
                    }
                    place = Some(event.place());
                    told.followed.push(event.place());
                }
                Err(_) => {
                    world.told().met.reopened += 1;
                    break;
                }
            }
        }
        tokio::task::yield_now().await;
    }
}
