//! Entities on the embedded store: commands compared with appends to the bare journal, the memory
//! of idle entities, and recoveries compared with bare replays of the same events.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};

use super::race::{self, Race};
use super::{Contender, Payload as Load, StorePlan, in_folder, journal, make, memory};
use annals::entity::{
    AskError, Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Region, Stored, persist,
};
use annals::journal::{Expected, Window};
use annals::{Annals, Clock, Codec, Error, NewEvent, Payload, Result, SequenceNumber};

/// The number of ids: a multiple of the writers, so that no two use one at the same time (`race`).
const IDS: u64 = 1_024;
/// Concurrent recoveries, and concurrent replays to compare them with.
const AT_ONCE: usize = 32;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntitiesPlan {
    /// For commands and appends.
    pub(crate) commands: StorePlan,
    /// The number of entities to load.
    pub(crate) entities: usize,
    /// The number of events of each entity.
    pub(crate) events: usize,
    /// The memory in use, in bytes; by default the process's resident memory.
    pub(crate) heap_bytes: fn() -> Option<u64>,
}

impl Default for EntitiesPlan {
    fn default() -> Self {
        Self {
            commands: StorePlan::default(),
            entities: 10_000,
            events: 10,
            heap_bytes: memory::resident_bytes,
        }
    }
}

/// One line of the result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EntitiesRow {
    /// Commands, one line for each number of clients.
    Commands(CommandsRow),
    /// Loaded entities, the last line.
    Resident(ResidentRow),
}

/// Commands per second, and the ratio to appends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CommandsRow {
    /// The number of concurrent clients, each with its own entity at a time.
    pub(crate) askers: usize,
    /// The bare journal: durable appends of one event of 200 B.
    pub(crate) journal: f64,
    /// The region: commands that persist one event of 200 B.
    pub(crate) region: f64,
    /// Ratio of region to journal: the median of the laps. The rates are from that lap.
    pub(crate) region_to_journal: f64,
}

/// Loaded entities.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResidentRow {
    /// How many.
    pub(crate) entities: usize,
    /// How many events each has.
    pub(crate) events: usize,
    /// The memory of an idle entity, in bytes, if known.
    pub(crate) bytes_each: Option<f64>,
    /// Recoveries per second.
    pub(crate) recoveries: f64,
    /// Replays of the same ids per second by the bare journal.
    pub(crate) replays: f64,
    /// Ratio of recoveries to replays.
    pub(crate) recoveries_to_replays: f64,
}

/// The state: the total size of the added bytes.
#[derive(Debug, Default)]
struct Tally(u64);

#[derive(Debug)]
struct Added(Vec<u8>);

struct Add(Vec<u8>);

impl EntityEvent for Added {
    fn to_event(&self) -> Result<NewEvent> {
        Ok(NewEvent::new(Codec::Bytes, self.0.clone()).manifest("Deposited"))
    }

    fn from_event(event: &NewEvent) -> Result<Option<Self>> {
        Ok(Some(Self(event.payload.to_vec())))
    }
}

impl annals::entity::EventOf<Tally> for Added {}

impl Stored for Tally {
    fn to_payload(&self) -> Result<Payload> {
        Ok(Payload::new(Codec::Bytes, self.0.to_be_bytes().to_vec()))
    }

    fn from_payload(payload: &Payload) -> Result<Self> {
        let bytes = payload.bytes.as_ref().try_into();
        let bytes = bytes.map_err(|cause| Error::corrupt("no tally").because(cause))?;
        Ok(Self(u64::from_be_bytes(bytes)))
    }
}

impl Entity for Tally {
    const TYPE: &'static str = "Tally";
    type Event = Added;
    type Error = Infallible;

    fn apply(&mut self, event: &Added) {
        self.0 += event.0.len() as u64;
    }
}

impl Handle<Add> for Tally {
    type Reply = u64;

    fn handle(&self, command: &Add, _: &Cx<'_>) -> Result<Effect<Self, u64>, Infallible> {
        Ok(persist(Added(command.0.clone())).reply(|tally| tally.0))
    }
}

/// Measures entities in `folder` (which it creates and removes); calls `report` with each line.
///
/// # Errors
/// As [`Annals::embedded`] and [`Region::ask`], and `Invalid` if the folder exists.
pub(crate) async fn measure_entities(
    folder: &Path,
    plan: EntitiesPlan,
    clock: Arc<dyn Clock>,
    mut report: impl FnMut(EntitiesRow),
) -> Result<()> {
    let measure = async {
        for askers in [1, 64] {
            let row = measure_commands(folder, plan.commands, &clock, askers).await?;
            report(EntitiesRow::Commands(row));
        }
        let row = measure_resident(folder, plan, &*clock).await?;
        report(EntitiesRow::Resident(row));
        Ok(())
    };
    in_folder(folder, measure).await
}

async fn measure_commands(
    folder: &Path,
    plan: StorePlan,
    clock: &Arc<dyn Clock>,
    askers: usize,
) -> Result<CommandsRow> {
    let folder = folder.join(format!("{askers}"));
    make(&folder)?;
    let journal = Annals::embedded(folder.join("journal")).await?;
    let region = Annals::embedded(folder.join("region")).await?;
    let contenders = [appends(&journal)?, commands(&region)];
    let race = Race {
        laps: plan.laps,
        lap_time: plan.lap_time,
        clock: clock.clone(),
    };
    let load = Load::new(askers, journal::EVENT_BYTES);
    let laps = race::race(&race, load, &contenders).await?;
    let lap = race::median_lap(laps, 1, 0);
    Ok(CommandsRow {
        askers,
        journal: race::rate(&lap, 0),
        region: race::rate(&lap, 1),
        region_to_journal: race::ratio(&lap, 1, 0),
    })
}

/// The bare journal: each append expects the last sequence number, as an entity does.
fn appends(annals: &Annals) -> Result<Contender> {
    let ids = (0..IDS).map(|n| Ok((format!("Tally|{n}").parse()?, AtomicU64::new(0))));
    let ids: Arc<Vec<_>> = Arc::new(ids.collect::<Result<_>>()?);
    let journal = annals.journal().clone();
    Ok(Contender::new(move |number, payload| {
        let (journal, ids) = (journal.clone(), ids.clone());
        async move {
            let Some((id, last)) = ids.get((number % IDS) as usize) else {
                unreachable!("there are so many ids")
            };
            let expected = SequenceNumber::new(last.load(Ordering::Relaxed));
            let expected = expected.map_or(Expected::Empty, Expected::Last);
            let event = NewEvent::new(Codec::Bytes, payload).manifest("Deposited");
            let appended = journal.append(id, expected, event).await?;
            last.store(appended.last.get(), Ordering::Relaxed);
            Ok(())
        }
    }))
}

fn commands(annals: &Annals) -> Contender {
    let region = annals.region::<Tally>(EntitySettings::new());
    let names: Arc<Vec<String>> = Arc::new((0..IDS).map(|n| n.to_string()).collect());
    Contender::new(move |number, payload| {
        let (region, names) = (region.clone(), names.clone());
        async move {
            let Some(name) = names.get((number % IDS) as usize) else {
                unreachable!("there are so many names")
            };
            region.ask(name, Add(payload)).await.map_err(failed)?;
            Ok(())
        }
    })
}

fn failed(error: AskError<Infallible>) -> Error {
    match error {
        AskError::Store(error) => error,
        other => Error::unavailable("a command failed").because(other),
    }
}

async fn measure_resident(
    folder: &Path,
    plan: EntitiesPlan,
    clock: &dyn Clock,
) -> Result<ResidentRow> {
    let folder = folder.join("resident");
    {
        let annals = Annals::embedded(&folder).await?;
        fill(&annals, plan).await?;
    }
    let replays = {
        let annals = Annals::embedded(&folder).await?;
        // The first one warms up the system's file cache.
        replay_all(&annals, plan).await?;
        rate(clock, plan.entities, replay_all(&annals, plan)).await?
    };
    let annals = Annals::embedded(&folder).await?;
    let settings = EntitySettings::new()
        .max_concurrent_recoveries(AT_ONCE)
        .passivate_after(Duration::from_secs(3_600));
    let region = annals.region::<Tally>(settings);
    let before = (plan.heap_bytes)();
    let recoveries = rate(clock, plan.entities, recover_all(&region, plan)).await?;
    let full = (plan.heap_bytes)();
    let bytes = full
        .zip(before)
        .map(|(full, before)| full.saturating_sub(before));
    assert_eq!(region.resident(), plan.entities, "all are in memory");
    Ok(ResidentRow {
        entities: plan.entities,
        events: plan.events,
        bytes_each: bytes.map(|bytes| bytes as f64 / plan.entities as f64),
        recoveries,
        replays,
        recoveries_to_replays: recoveries / replays,
    })
}

/// The rate per second of `count` operations.
async fn rate(
    clock: &dyn Clock,
    count: usize,
    work: impl Future<Output = Result<()>>,
) -> Result<f64> {
    let start = clock.monotonic();
    work.await?;
    let took = clock.monotonic() - start;
    Ok(count as f64 / took.as_secs_f64())
}

async fn fill(annals: &Annals, plan: EntitiesPlan) -> Result<()> {
    let load = Load::new(1, journal::EVENT_BYTES);
    let journal = annals.journal();
    let appends = (0..plan.entities).map(|n| async move {
        let id = format!("Tally|{n}").parse()?;
        let mut expected = Expected::Empty;
        for event in 0..plan.events {
            let payload = load.of((n * plan.events + event) as u64);
            let event = NewEvent::new(Codec::Bytes, payload).manifest("Deposited");
            let appended = journal.append(&id, expected, event).await?;
            expected = Expected::Last(appended.last);
        }
        Ok::<_, Error>(())
    });
    stream::iter(appends)
        .buffer_unordered(256)
        .try_collect()
        .await
}

async fn replay_all(annals: &Annals, plan: EntitiesPlan) -> Result<()> {
    let replays = (0..plan.entities).map(|n| {
        let journal = annals.journal().clone();
        let replay = async move {
            let id = format!("Tally|{n}").parse()?;
            let events = journal.replay(&id, Window::ALL);
            let sum = events.try_fold(0, |sum, event| {
                std::future::ready(Ok(sum + event.data.payload.len()))
            });
            sum.await
        };
        async {
            let ended = tokio::spawn(replay).await;
            ended.map_err(|cause| Error::unavailable("a replay was cut off").because(cause))?
        }
    });
    let bytes = stream::iter(replays)
        .buffer_unordered(AT_ONCE)
        .try_fold(0, |sum, bytes| std::future::ready(Ok(sum + bytes)));
    let bytes = bytes.await?;
    assert_eq!(bytes, plan.entities * plan.events * journal::EVENT_BYTES);
    Ok(())
}

async fn recover_all(region: &Region<Tally>, plan: EntitiesPlan) -> Result<()> {
    let views = (0..plan.entities).map(|n| {
        let region = region.clone();
        async move { region.view(&n.to_string(), |tally| tally.0).await }
    });
    let bytes = stream::iter(views)
        .buffer_unordered(AT_ONCE)
        .try_fold(0, |sum, bytes| std::future::ready(Ok(sum + bytes)));
    let wanted = plan.entities * plan.events * journal::EVENT_BYTES;
    assert_eq!(bytes.await?, wanted as u64);
    Ok(())
}
