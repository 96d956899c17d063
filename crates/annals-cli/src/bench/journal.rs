//! The journal on the embedded store compared with the bare engine: appends of equal size, and a
//! replay.

use std::path::Path;
use std::sync::Arc;

use super::contenders;
use super::race::{self, Race};
use super::replay::{self, ReplayPlan, ReplayRow};
use super::{Contender, Payload, StorePlan, in_folder, make};
use annals::embedded::Embedded;
use annals::journal::{Append, Expected};
use annals::layout::{AnnalsLayout, Layout};
use annals::settings::EmbeddedSettings;
use annals::store::Store;
use annals::{Clock, Codec, NewEvent, Result};

/// The size of an event's payload.
pub(super) const EVENT_BYTES: usize = 200;

/// How much is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalPlan {
    /// For appends.
    pub(crate) appends: StorePlan,
    /// For the replay.
    pub(crate) replay: ReplayPlan,
}

/// One line of the result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JournalRow {
    /// Appends, one line for each number of writers and events.
    Appends(AppendsRow),
    /// The replay, the last line.
    Replay(ReplayRow),
}

/// Appends per second, and our ratio to the engine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AppendsRow {
    /// The number of concurrent writers, each with its own id.
    pub(crate) writers: usize,
    /// Events of 200 B per append.
    pub(crate) events: usize,
    /// The bare engine with group commit: a value of equal size.
    pub(crate) engine: f64,
    /// The journal, each append durable before it is acknowledged.
    pub(crate) ours: f64,
    /// Our ratio to the engine: the median of the laps. The rates are from that lap.
    pub(crate) ours_to_engine: f64,
}

/// Measures durable appends and a long replay in `folder` (which it creates and removes); calls
/// `report` with each line.
///
/// # Errors
/// As [`Embedded::open`] and [`Journal::append`](annals::journal::Journal::append), and `Invalid`
/// if the folder exists.
pub(crate) async fn measure_journal(
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

/// The journal: each payload is split into events and appended to a new id.
async fn ours(folder: &Path, events: usize, clock: Arc<dyn Clock>) -> Result<Contender> {
    let layout = AnnalsLayout::default();
    let items = Embedded::open(folder, &EmbeddedSettings::default())?;
    let store = Store::new(items).with_clock(clock);
    layout.tables()?.create_missing(&store).await?;
    let journal = layout.journal(&store).await?;
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
