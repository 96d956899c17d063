//! The latency of appends while the index flushes and merges, next to the raw log's.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::Result;
use crate::appends::{Lap, Load, payload};
use crate::ours::Ours;
use crate::raw::Raw;
use crate::writer::Writer;

/// Bytes of a payload, writers.
const CELLS: [(usize, usize); 2] = [(200, 64), (1024, 64)];

pub(crate) async fn run(folder: &Path, seconds: u64) -> Result<()> {
    for (bytes, writers) in CELLS {
        let raw: Arc<dyn Writer> = Arc::new(Raw::create(&folder.join(format!("raw-{bytes}")))?);
        let ours = folder.join(format!("annals-{bytes}"));
        let ours: Arc<dyn Writer> = Arc::new(Ours::open(&ours).await?);
        let mut loads = [&raw, &ours].map(|_| Load::new(payload(bytes), 1, writers));
        let time = Duration::from_secs(seconds);
        let (mut laps, mut line) = (Vec::new(), json!({"bytes": bytes, "writers": writers}));
        for (contender, load) in [&raw, &ours].into_iter().zip(&mut loads) {
            load.lap(contender, Duration::from_secs(1)).await?;
            let lap = load.lap(contender, time).await?;
            for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
                line[format!("{}_{name}_us", contender.name())] =
                    json!(percentile(&lap, share).as_micros());
            }
            laps.push(lap);
        }
        let highest = |lap: &Lap| percentile(lap, 0.999).as_secs_f64();
        let ratio = highest(&laps[1]) / highest(&laps[0]);
        line["p999_annals_to_raw"] = json!((ratio * 100.0).round() / 100.0);
        println!("{line}");
    }
    Ok(())
}

fn percentile(lap: &Lap, share: f64) -> Duration {
    let mut sorted = lap.latencies.clone();
    sorted.sort_unstable();
    let at = (sorted.len() as f64 * share) as usize;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}
