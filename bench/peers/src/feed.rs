//! The feed: catching up compared with replaying the same events id by id; what a follower costs the
//! writers; and how long after its acknowledgement an event arrives.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use annals::Annals;
use futures::TryStreamExt;
use serde_json::json;

use crate::Result;
use crate::appends::{Load, payload};
use crate::machine::{resident_mib, spread};
use crate::ours::Ours;
use crate::reads::{fill, scan_ours};
use crate::writer::{Append, Writer};

const WRITERS: usize = 64;
const IDS: u64 = 10_000;
const LAP: Duration = Duration::from_secs(3);
/// Appends of the measurement of latency, one after the other.
const PROBES: u64 = 2_000;

pub(crate) async fn run(folder: &Path, events: u64, rounds: u64) -> Result<()> {
    let ours = Arc::new(Ours::open(&folder.join("annals")).await?);
    let writer: Arc<dyn Writer> = ours.clone();
    let ids: Vec<Arc<str>> = (0..IDS).map(|id| format!("Account|{id}").into()).collect();
    let events = events / IDS * IDS;
    fill(&writer, &ids, events / IDS).await?;
    let (mut ratios, mut peak) = (Vec::new(), 0);
    for _ in 0..=rounds {
        let replay = scan_ours(ours.journal(), events).await?;
        let before = resident_mib();
        let feed = catch_up(ours.annals(), events).await?;
        peak = peak.max(resident_mib().saturating_sub(before));
        ratios.push(feed / replay);
    }
    println!(
        "{}",
        json!({"what": "catch-up", "events": events, "feed_to_replay": spread(&ratios[1..]),
            "mib_added": peak})
    );
    followed(&ours, &writer, rounds).await?;
    latency(&ours, &writer).await
}

pub(crate) async fn catch_up(annals: &Annals, events: u64) -> Result<f64> {
    let start = Instant::now();
    let (mut read, mut bytes) = (0, 0);
    let mut batches = annals.feed().batches();
    while let Some(batch) = batches.try_next().await? {
        for event in batch.into_events() {
            read += 1;
            bytes += event.data.payload.len() as u64;
        }
    }
    assert_eq!((read, bytes), (events, events * 200));
    Ok(read as f64 / start.elapsed().as_secs_f64())
}

/// Appends with and without a follower, in turn.
async fn followed(ours: &Arc<Ours>, writer: &Arc<dyn Writer>, rounds: u64) -> Result<()> {
    let mut load = Load::named("Followed", payload(200), 1, WRITERS);
    let mut ratios = Vec::new();
    for _ in 0..=rounds {
        let alone = load.lap(writer, LAP).await?;
        let seen = Arc::new(AtomicU64::new(0));
        let (annals, count) = (ours.annals().clone(), seen.clone());
        let follower = tokio::spawn(async move {
            let mut batches = annals.feed().category("Followed").follow();
            while let Ok(Some(batch)) = batches.try_next().await {
                count.fetch_add(batch.into_events().count() as u64, Ordering::Relaxed);
            }
        });
        // It catches up first.
        let mut before = u64::MAX;
        while before != seen.load(Ordering::Relaxed) {
            before = seen.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let with = load.lap(writer, LAP).await?;
        follower.abort();
        ratios.push(with.rate / alone.rate);
    }
    println!(
        "{}",
        json!({"what": "appends with a follower, relative to none", "writers": WRITERS,
            "ratio": spread(&ratios[1..])})
    );
    Ok(())
}

/// Between an answer and the arrival of the event, at a trickle.
async fn latency(ours: &Arc<Ours>, writer: &Arc<dyn Writer>) -> Result<()> {
    let mut batches = ours.annals().feed().category("Probe").follow();
    let id: Arc<str> = "Probe|1".into();
    let (mut appends, mut arrivals) = (Vec::new(), Vec::new());
    for after in 0..PROBES {
        let (id, payload, began) = (id.clone(), payload(200), Instant::now());
        let append = Append {
            id,
            after,
            payload,
            events: 1,
        };
        writer.append(append).await?;
        let answered = Instant::now();
        appends.push(answered - began);
        while let Some(batch) = batches.try_next().await? {
            if batch.into_events().next().is_some() {
                break;
            }
        }
        arrivals.push(answered.elapsed());
    }
    let at = |times: &mut Vec<Duration>, share: f64| {
        times.sort_unstable();
        let at = (times.len() as f64 * share) as usize;
        times.get(at).map_or(0, Duration::as_micros)
    };
    println!(
        "{}",
        json!({"what": "arrival after the answer", "append_p50_us": at(&mut appends, 0.5),
            "p50_us": at(&mut arrivals, 0.5), "p99_us": at(&mut arrivals, 0.99)})
    );
    Ok(())
}
