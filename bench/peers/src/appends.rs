//! Durable appends with an expected version: each writer has ids of its own and knows their versions.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use crate::Result;
use crate::machine::{self, median, spread};
use crate::ours::Ours;
use crate::raw::Raw;
use crate::sqlite::Sqlite;
use crate::writer::{Append, Writer};

/// Bytes of a payload, events of an append, writers.
const CELLS: [(usize, u64, usize); 8] = [
    (200, 1, 1),
    (200, 1, 16),
    (200, 1, 64),
    (200, 1, 256),
    (1024, 1, 16),
    (1024, 1, 64),
    (1024, 1, 256),
    (1024, 10, 64),
];
/// Ids of a writer, used in turn.
const IDS: u64 = 16;

/// Measures all cells, or the one of this number.
pub(crate) async fn run(folder: &Path, seconds: u64, rounds: u64, only: Option<u64>) -> Result<()> {
    for (cell, (bytes, events, writers)) in CELLS.into_iter().enumerate() {
        if only.is_some_and(|only| only != cell as u64) {
            continue;
        }
        let folder = folder.join(cell.to_string());
        std::fs::create_dir(&folder)?;
        let contenders: Vec<Arc<dyn Writer>> = vec![
            Arc::new(Raw::create(&folder.join("raw"))?),
            Arc::new(Sqlite::create(&folder.join("sqlite"))?),
            Arc::new(Ours::open(&folder.join("annals")).await?),
        ];
        let mut loads: Vec<Load> = Vec::new();
        for _ in &contenders {
            loads.push(Load::new(payload(bytes), events, writers));
        }
        let mut laps: Vec<Vec<Lap>> = Vec::new();
        // The first round warms up.
        for round in 0..=rounds {
            let mut order: Vec<usize> = (0..contenders.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            let mut lap = vec![Lap::default(); contenders.len()];
            for at in order {
                lap[at] = loads[at]
                    .lap(&contenders[at], Duration::from_secs(seconds))
                    .await?;
            }
            if round > 0 {
                laps.push(lap);
            }
        }
        print(&contenders, (bytes, events, writers), &laps);
        drop(contenders);
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

fn print(contenders: &[Arc<dyn Writer>], cell: (usize, u64, usize), laps: &[Vec<Lap>]) {
    let (bytes, events, writers) = cell;
    let rates = |at: usize| laps.iter().map(|lap| lap[at].rate).collect::<Vec<_>>();
    let cpu = |at: usize| median(&laps.iter().map(|lap| lap[at].cpu).collect::<Vec<_>>());
    let ours = contenders.len() - 1;
    let mut line = json!({"bytes": bytes, "events": events, "writers": writers});
    for (at, contender) in contenders.iter().enumerate() {
        let name = contender.name();
        line[format!("{name}_events_per_second")] = json!(median(&rates(at)).round());
        line[format!("{name}_cpu_us_per_event")] = json!((cpu(at) * 10.0).round() / 10.0);
        if at != ours {
            let ratios: Vec<f64> = laps
                .iter()
                .map(|lap| lap[ours].rate / lap[at].rate)
                .collect();
            line[format!("annals_to_{name}")] = spread(&ratios);
        }
    }
    println!("{line}");
}

/// A payload of JSON: text of this many bytes with the quotes. It does not compress well.
pub(crate) fn payload(bytes: usize) -> Bytes {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-";
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let letter = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        LETTERS[(state >> 58) as usize]
    };
    let text: Vec<u8> = (2..bytes).map(letter).collect();
    [b"\"", &*text, b"\""].concat().into()
}

/// The load on one contender, with the versions of all ids.
pub(crate) struct Load {
    payload: Bytes,
    events: u64,
    versions: Vec<Vec<(Arc<str>, u64)>>,
}

/// What came of one lap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lap {
    /// Events a second.
    pub(crate) rate: f64,
    /// Microseconds of CPU time per event, of the whole process.
    pub(crate) cpu: f64,
    /// Of each append.
    pub(crate) latencies: Vec<Duration>,
}

impl Load {
    pub(crate) fn new(payload: Bytes, events: u64, writers: usize) -> Self {
        Self::named("Account", payload, events, writers)
    }

    /// The load on ids of a category, which have no events.
    pub(crate) fn named(
        category: &'static str,
        payload: Bytes,
        events: u64,
        writers: usize,
    ) -> Self {
        let ids = |writer: usize| {
            (0..IDS).map(move |id| (Arc::<str>::from(format!("{category}|{writer}-{id}")), 0))
        };
        Self {
            payload,
            events,
            versions: (0..writers).map(|writer| ids(writer).collect()).collect(),
        }
    }

    pub(crate) async fn lap(&mut self, to: &Arc<dyn Writer>, time: Duration) -> Result<Lap> {
        let (start, cpu) = (Instant::now(), machine::cpu_seconds());
        let mut tasks = Vec::new();
        for mut versions in std::mem::take(&mut self.versions) {
            let (to, payload, events) = (to.clone(), self.payload.clone(), self.events);
            tasks.push(tokio::spawn(async move {
                let mut latencies = Vec::new();
                'lap: loop {
                    for (id, after) in &mut versions {
                        let began = Instant::now();
                        if began - start >= time {
                            break 'lap;
                        }
                        let (id, payload) = (id.clone(), payload.clone());
                        let append = Append {
                            id,
                            after: *after,
                            payload,
                            events,
                        };
                        to.append(append).await?;
                        *after += events;
                        latencies.push(began.elapsed());
                    }
                }
                Ok::<_, crate::Error>((versions, latencies))
            }));
        }
        let mut lap = Lap::default();
        for task in tasks {
            let (versions, latencies) = task.await??;
            self.versions.push(versions);
            lap.latencies.extend(latencies);
        }
        let events = lap.latencies.len() as f64 * self.events as f64;
        lap.rate = events / start.elapsed().as_secs_f64();
        lap.cpu = (machine::cpu_seconds() - cpu) * 1e6 / events;
        Ok(lap)
    }
}
