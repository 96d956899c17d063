//! The journal on the embedded store against the bare engine: appends that write as many bytes,
//! and a replay.

use std::path::Path;
use std::sync::Arc;

use super::contenders;
use super::race::{self, Race};
use super::replay::{self, ReplayPlan, ReplayRow};
use super::{Contender, Payload, StorePlan, in_folder, make};
use crate::embedded::Embedded;
use crate::items::Items;
use crate::journal::{Append, Expected, Journal};
use crate::settings::{EmbeddedSettings, Settings};
use crate::{Clock, Codec, NewEvent, Random, Result};

/// The bytes of one event's payload.
pub(super) const EVENT_BYTES: usize = 200;

/// How much is measured.
///
/// ```
/// use annals::SystemClock;
/// use annals::bench::{JournalPlan, JournalRow, ReplayPlan, StorePlan, measure_journal};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path().join("bench");
/// let plan = JournalPlan {
///     appends: StorePlan { laps: 1, lap_time: Duration::from_millis(1) },
///     replay: ReplayPlan { events: 100, laps: 1 },
/// };
/// let mut replayed = 0;
/// let report = |row| {
///     if let JournalRow::Replay(row) = row {
///         replayed = row.events;
///     }
/// };
/// measure_journal(&folder, plan, Arc::new(SystemClock::new()), report).await?;
/// assert_eq!(replayed, 100);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalPlan {
    /// Of appends.
    pub appends: StorePlan,
    /// Of the replay.
    pub replay: ReplayPlan,
}

/// One line of the result.
///
/// See [`JournalPlan`] for an example.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalRow {
    /// Appends, one line for each number of writers and events.
    Appends(AppendsRow),
    /// The replay, the last line.
    Replay(ReplayRow),
}

/// Appends a second, and how ours compares.
///
/// See [`JournalPlan`] for an example.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendsRow {
    /// How many writers append at once, each to an id of its own.
    pub writers: usize,
    /// How many events of 200 B an append has.
    pub events: usize,
    /// The engine alone, in groups: a value of as many bytes.
    pub engine: f64,
    /// The journal, each append durable before it is acknowledged.
    pub ours: f64,
    /// Ours against the engine: the median of the laps. The rates are those of that lap.
    pub ours_to_engine: f64,
}

/// Measures durable appends and a long replay in `folder` (which it makes and removes), calling
/// `report` with each line as it is known.
///
/// # Errors
/// As [`Embedded::open`] and [`Journal::append`], and `Invalid` where the folder exists.
pub async fn measure_journal(
    folder: &Path,
    plan: JournalPlan,
    clock: Arc<dyn Clock>,
    mut report: impl FnMut(JournalRow),
) -> Result<()> {
    let measure = async {
        for (writers, events) in [(1, 1), (1, 10), (64, 1), (64, 10)] {
            let payload = Payload::new(writers, events * EVENT_BYTES);
            let row = measure_appends(folder, plan.appends, &clock, (payload, events)).await?;
            report(JournalRow::Appends(row));
        }
        let row = replay::measure(folder, plan.replay, &*clock).await?;
        report(JournalRow::Replay(row));
        Ok(())
    };
    in_folder(folder, measure).await
}

async fn measure_appends(
    folder: &Path,
    plan: StorePlan,
    clock: &Arc<dyn Clock>,
    (payload, events): (Payload, usize),
) -> Result<AppendsRow> {
    let folder = folder.join(format!("{}-{events}", payload.writers));
    make(&folder)?;
    let contenders = [
        contenders::engine(&folder.join("engine"))?,
        ours(&folder.join("ours"), events, clock.clone()).await?,
    ];
    let race = Race {
        laps: plan.laps,
        lap_time: plan.lap_time,
        clock: clock.clone(),
    };
    let laps = race::race(&race, payload, &contenders).await?;
    let lap = race::median_lap(laps, 1, 0);
    Ok(AppendsRow {
        writers: payload.writers,
        events,
        engine: race::rate(&lap, 0),
        ours: race::rate(&lap, 1),
        ours_to_engine: race::ratio(&lap, 1, 0),
    })
}

/// The journal: each payload is cut into events and appended to an id that is new.
async fn ours(folder: &Path, events: usize, clock: Arc<dyn Clock>) -> Result<Contender> {
    let settings = Settings::default();
    let items: Arc<dyn Items> = Arc::new(Embedded::open(folder, &EmbeddedSettings::default())?);
    let table = settings.layout.tables(&settings)?.journal;
    items.create_table(&table, Default::default()).await?;
    let journal = Journal::open(items, &settings, clock, Random::from_machine()).await?;
    Ok(Contender::new(move |number, payload| {
        let journal = journal.clone();
        async move {
            let chunks = payload.chunks(payload.len().div_ceil(events).max(1));
            let events = chunks
                .map(|chunk| NewEvent::new(Codec::Bytes, chunk.to_vec()).manifest("Deposited"));
            let append = Append::of(events.collect::<Vec<_>>());
            let id = format!("Account|{number}").parse()?;
            journal.append(&id, Expected::Empty, append).await?;
            Ok(())
        }
    }))
}
