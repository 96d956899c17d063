//! What the embedded store takes as it grows tenfold, up to a number of events of 200 B.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals::journal::Window;
use annals::{Event, PersistenceId};
use futures::TryStreamExt;
use serde_json::json;

use crate::Result;
use crate::appends::payload;
use crate::machine;
use crate::ours::Ours;
use crate::writer::{Append, Writer};

const WRITERS: u64 = 256;
/// Events of an id.
const EACH: u64 = 1_000;
/// Events of an append while the store is filled.
const BATCH: u64 = 1;

pub(crate) async fn run(folder: &Path, most: u64) -> Result<()> {
    let folder = folder.join("annals");
    let mut held = 0;
    let mut events = 10_000;
    while events <= most {
        let written = machine::bytes_written();
        let (start, cpu) = (Instant::now(), machine::cpu_seconds());
        let store = Ours::open(&folder).await?;
        fill(Arc::new(store), held, events).await?;
        let (took, cpu) = (start.elapsed(), machine::cpu_seconds() - cpu);
        let added = (events - held) as f64;
        let written = (machine::bytes_written() - written) as f64 / added;
        let resident = machine::resident_mib();
        held = events;

        let start = Instant::now();
        let store = Ours::open(&folder).await?;
        let opened = start.elapsed();
        let replayed = replay(&store, held).await?;
        let start = Instant::now();
        let ids = store.journal().persistence_ids("");
        let ids = ids
            .try_fold(0u64, |count, _| async move { Ok(count + 1) })
            .await?;
        let listed = start.elapsed();
        drop(store);
        let line = json!({
            "events": held,
            "appends_per_second": (added / took.as_secs_f64()).round(),
            "cpu_us_per_append": (cpu * 1e7 / added).round() / 10.0,
            "bytes_on_disk_per_event": machine::disk_bytes(&folder)? / held,
            "bytes_written_per_event": written.round(),
            "resident_mib": resident,
            "open_ms": opened.as_millis(),
            "replay_events_per_second": replayed.round(),
            "ids": ids,
            "ids_per_second": (ids as f64 / listed.as_secs_f64()).round(),
        });
        println!("{line}");
        events *= 10;
    }
    Ok(())
}

/// Appends until there are so many events.
async fn fill(store: Arc<Ours>, held: u64, events: u64) -> Result<()> {
    let payload = payload(200);
    let (first, last) = (held / EACH, events / EACH);
    let tasks = (0..WRITERS).map(|writer| {
        let (store, payload) = (store.clone(), payload.clone());
        tokio::spawn(async move {
            let mine: Vec<Arc<str>> = (first + writer..last)
                .step_by(WRITERS as usize)
                .map(|id| format!("Account|{id}").into())
                .collect();
            for after in (0..EACH).step_by(BATCH as usize) {
                for id in &mine {
                    let (id, payload) = (id.clone(), payload.clone());
                    store
                        .append(Append {
                            id,
                            after,
                            payload,
                            events: BATCH,
                        })
                        .await?;
                }
            }
            Ok::<_, crate::Error>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

/// Replays ids spread over the store for a second; returns events per second.
async fn replay(store: &Ours, held: u64) -> Result<f64> {
    let (start, ids) = (Instant::now(), held / EACH);
    let (mut read, mut at) = (0, 0);
    while start.elapsed() < Duration::from_secs(1) {
        at = (at + 7_919) % ids;
        let id: PersistenceId = format!("Account|{at}").parse()?;
        let events: Vec<Event> = store
            .journal()
            .replay(&id, Window::ALL)
            .try_collect()
            .await?;
        read += events.len();
    }
    Ok(read as f64 / start.elapsed().as_secs_f64())
}
