//! Appends as a server gets them, made in one process: what is left of them over HTTP is told
//! against this (`scripts/load`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::race::{self, Race};
use super::{Contender, Payload, in_folder};
use crate::embedded::Embedded;
use crate::items::Items;
use crate::journal::{Expected, Journal};
use crate::settings::{EmbeddedSettings, Settings};
use crate::{Clock, Codec, NewEvent, Random, Result};

/// Who appends, and where. Each append has one event of JSON, expects nothing and is durable when
/// it is answered.
///
/// ```
/// use annals::SystemClock;
/// use annals::bench::{LoadPlan, measure_load};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path().join("bench");
/// let plan = LoadPlan { ids: 4, writers: 2, time: Duration::from_millis(1), ..LoadPlan::default() };
/// let per_second = measure_load(&folder, plan, Arc::new(SystemClock::new())).await?;
/// assert!(per_second > 0.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadPlan {
    /// How many append at once.
    pub writers: usize,
    /// To how many ids, one behind the other.
    pub ids: u64,
    /// The bytes of an event's payload.
    pub payload_bytes: usize,
    /// For how long; as long again to warm up.
    pub time: Duration,
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

/// Appends a second in `folder`, which it makes and removes.
///
/// # Errors
/// As [`Embedded::open`] and [`Journal::append`], and `Invalid` where the folder exists.
pub async fn measure_load(folder: &Path, plan: LoadPlan, clock: Arc<dyn Clock>) -> Result<f64> {
    let mut rate = f64::NAN;
    let measure = async {
        let contenders = [journal(&folder.join("journal"), plan, clock.clone()).await?];
        let race = Race {
            laps: 1,
            lap_time: plan.time,
            clock,
        };
        // The payload is the same for all, and is made by the contender.
        let payload = Payload::new(plan.writers, 0);
        let laps = race::race(&race, payload, &contenders).await?;
        rate = race::rate(&race::median_lap(laps, 0, 0), 0);
        Ok(())
    };
    in_folder(folder, measure).await?;
    Ok(rate)
}

async fn journal(folder: &Path, plan: LoadPlan, clock: Arc<dyn Clock>) -> Result<Contender> {
    let settings = Settings::default();
    let items: Arc<dyn Items> = Arc::new(Embedded::open(folder, &EmbeddedSettings::default())?);
    let table = settings.layout.tables(&settings)?.journal;
    items.create_table(&table, Default::default()).await?;
    let journal = Journal::open(items, &settings, clock, Random::from_machine()).await?;
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
