//! Appends in one process, with the load that `scripts/load` sends to a server: the baseline for
//! throughput over HTTP.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::race::{self, Race};
use super::{Contender, Payload, in_folder};
use annals::embedded::Embedded;
use annals::journal::Expected;
use annals::layout::{AnnalsLayout, Layout};
use annals::settings::EmbeddedSettings;
use annals::store::Store;
use annals::{Clock, Codec, NewEvent, Result};

/// The load. Each append has one JSON event and no expectation, and is durable when it is
/// acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadPlan {
    /// The number of concurrent writers.
    pub(crate) writers: usize,
    /// The number of ids, which writers use in rotation.
    pub(crate) ids: u64,
    /// The size of an event's payload.
    pub(crate) payload_bytes: usize,
    /// The duration; the warm-up takes as long again.
    pub(crate) time: Duration,
}

impl Default for LoadPlan {
    fn default() -> Self {
        Self {
            writers: 64,
            ids: 128,
            payload_bytes: 200,
            time: Duration::from_secs(5),
        }
    }
}

/// Appends per second in `folder`, which it creates and removes.
///
/// # Errors
/// As [`Embedded::open`] and [`annals::journal::Journal::append`], and `Invalid` if the folder
/// exists.
pub(crate) async fn measure_load(
    folder: &Path,
    plan: LoadPlan,
    clock: Arc<dyn Clock>,
) -> Result<f64> {
    let mut rate = f64::NAN;
    let measure = async {
        let contenders = [journal(&folder.join("journal"), plan, clock.clone()).await?];
        let race = Race {
            laps: 1,
            lap_time: plan.time,
            clock,
        };
        // All appends have the same payload, which the contender creates.
        let payload = Payload::new(plan.writers, 0);
        let laps = race::race(&race, payload, &contenders).await?;
        rate = race::rate(&race::median_lap(laps, 0, 0), 0);
        Ok(())
    };
    in_folder(folder, measure).await?;
    Ok(rate)
}

async fn journal(folder: &Path, plan: LoadPlan, clock: Arc<dyn Clock>) -> Result<Contender> {
    let layout = AnnalsLayout::default();
    let items = Embedded::open(folder, &EmbeddedSettings::default())?;
    let store = Store::new(items).with_clock(clock);
    layout.tables()?.create_missing(&store).await?;
    let journal = layout.journal(&store).await?;
    let text = "x".repeat(plan.payload_bytes.saturating_sub(2));
    let (payload, ids) = (format!("\"{text}\""), plan.ids.max(1));
    Ok(Contender::new(move |number, _| {
        let (journal, payload) = (journal.clone(), payload.clone());
        async move {
            let id = format!("load|{}", number % ids).parse()?;
            let event = NewEvent::new(Codec::Json, payload);
            journal.append(&id, Expected::Any, event).await?;
            Ok(())
        }
    }))
}
