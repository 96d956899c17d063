//! Benchmarks of the disk, the bare engine, the embedded store, the journal, the log and entities:
//! durable puts, appends, replays, sweeps, playbacks, commands and recoveries, as ratios.
//!
//! Guarantees: every contender syncs before it acknowledges, and writes the same payloads from the
//! same number of writers. Contenders alternate, so that noise on the machine affects all of them.
//! Never: is a test. Nothing passes or fails by its speed.

mod contenders;
mod dynamodb;
mod engine_call;
mod entities;
mod journal;
mod load;
mod log;
mod memory;
mod race;
mod replay;
#[cfg(test)]
mod tests;

pub(crate) use contenders::{Contender, Payload};
pub(crate) use dynamodb::{ClientPlan, ClientRow, measure_client};
pub(crate) use entities::{CommandsRow, EntitiesPlan, EntitiesRow, ResidentRow, measure_entities};
pub(crate) use journal::{AppendsRow, JournalPlan, JournalRow, measure_journal};
pub(crate) use load::{LoadPlan, measure_load};
pub(crate) use log::{LogPlan, LogRow, measure_log};
pub(crate) use race::{Race, race};
pub(crate) use replay::ReplayRow;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals::settings::EmbeddedSettings;
use annals::{Clock, Error, Result};

/// One line of the result: durable puts per second of each contender, and our ratios.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoreRow {
    /// The number of concurrent writers.
    pub(crate) writers: usize,
    /// The size of each payload.
    pub(crate) payload_bytes: usize,
    /// A raw log with group commit: the limit.
    pub(crate) raw: f64,
    /// The bare engine with group commit: keys and bytes, no conditions.
    pub(crate) engine: f64,
    /// The bare engine, each put with its own sync.
    pub(crate) engine_ungrouped: f64,
    /// The embedded store: conditional puts of new items.
    pub(crate) ours: f64,
    /// Our ratio to the engine with group commit: the median lap, which all figures are from.
    pub(crate) ours_to_engine: f64,
    /// Our ratio to the limit, in that lap.
    pub(crate) ours_to_raw: f64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StorePlan {
    /// How many laps each contender runs.
    pub(crate) laps: usize,
    /// The time limit of a lap.
    pub(crate) lap_time: Duration,
}

impl Default for StorePlan {
    fn default() -> Self {
        Self {
            laps: 5,
            lap_time: Duration::from_millis(600),
        }
    }
}

/// Measures durable puts in `folder` (which it creates and removes); calls `report` with each line.
///
/// # Errors
/// As [`Embedded::open`](annals::embedded::Embedded::open), and `Invalid` if the folder exists.
pub(crate) async fn measure_store(
    folder: &Path,
    plan: StorePlan,
    clock: Arc<dyn Clock>,
    mut report: impl FnMut(StoreRow),
) -> Result<()> {
    let measure = async {
        for (writers, bytes) in [(1, 200), (1, 1024), (64, 200), (64, 1024)] {
            report(measure_row(folder, plan, &clock, Payload::new(writers, bytes)).await?);
        }
        Ok(())
    };
    in_folder(folder, measure).await
}

fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir(folder).map_err(|cause| {
        Error::invalid("cannot make a folder for the benchmark")
            .fact("folder", folder.display())
            .because(cause)
    })
}

/// Creates a folder, measures in it, and removes it.
async fn in_folder(folder: &Path, measure: impl Future<Output = Result<()>>) -> Result<()> {
    make(folder)?;
    let outcome = measure.await;
    std::fs::remove_dir_all(folder).map_err(|cause| {
        Error::invalid("cannot remove the folder of the benchmark")
            .fact("folder", folder.display())
            .because(cause)
    })?;
    outcome
}

async fn measure_row(
    folder: &Path,
    plan: StorePlan,
    clock: &Arc<dyn Clock>,
    payload: Payload,
) -> Result<StoreRow> {
    let folder = folder.join(format!("{}-{}", payload.writers, payload.bytes));
    make(&folder)?;
    let contenders = [
        contenders::raw(&folder.join("raw"))?,
        contenders::engine(&folder.join("engine"))?,
        contenders::engine_ungrouped(&folder.join("alone"))?,
        contenders::ours(&folder.join("ours"), &EmbeddedSettings::default()).await?,
    ];
    let race = Race {
        laps: plan.laps,
        lap_time: plan.lap_time,
        clock: clock.clone(),
    };
    let laps = race::race(&race, payload, &contenders).await?;
    let lap = race::median_lap(laps, 3, 1);
    let [raw, engine, engine_ungrouped, ours] = [0, 1, 2, 3].map(|i| race::rate(&lap, i));
    Ok(StoreRow {
        writers: payload.writers,
        payload_bytes: payload.bytes,
        raw,
        engine,
        engine_ungrouped,
        ours,
        ours_to_engine: race::ratio(&lap, 3, 1),
        ours_to_raw: race::ratio(&lap, 3, 0),
    })
}
