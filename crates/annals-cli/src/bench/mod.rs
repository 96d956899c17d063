//! What this machine's disk can do, what the bare engine makes of it, and what the embedded
//! store, the journal, the log and entities make of that: durable puts, appends, replays, sweeps,
//! playbacks, commands and recoveries, in one run, as ratios.
//!
//! Promises: every contender syncs before it acknowledges, writes the same payloads from the same
//! number of writers, and takes turns with the others, so that a noisy machine disturbs all alike.
//! Never: is a test. Nothing passes or fails by a time.

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

/// One line of the result: durable puts a second of each contender, and how ours compares.
///
/// See [`StorePlan`] for an example.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoreRow {
    /// How many writers put at once.
    pub(crate) writers: usize,
    /// How many bytes each payload has.
    pub(crate) payload_bytes: usize,
    /// Append and sync to a plain file, in groups: the limit.
    pub(crate) raw: f64,
    /// The engine alone, in groups: keys and bytes, no conditions.
    pub(crate) engine: f64,
    /// The engine alone, each writer syncing for itself.
    pub(crate) engine_ungrouped: f64,
    /// The embedded store: items, put where absent.
    pub(crate) ours: f64,
    /// Ours against the engine in groups: the median of the laps. All else is of that lap.
    pub(crate) ours_to_engine: f64,
    /// Ours against the limit, in that lap.
    pub(crate) ours_to_raw: f64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StorePlan {
    /// How many laps each contender runs.
    pub(crate) laps: usize,
    /// How long a lap lasts at the most.
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

/// Measures durable puts in `folder` (which it makes and removes), calling `report` with each
/// line as it is known.
///
/// # Errors
/// As [`Embedded::open`](annals::embedded::Embedded::open), and `Invalid` where the folder exists.
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

/// Measures in a folder that is made before and removed afterwards.
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
