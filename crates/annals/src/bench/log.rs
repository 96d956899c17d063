//! The log on the embedded store against the bare engine: ingest, sweep and playback of the events of
//! an hour, and the memory that the playback takes.
//!
//! The bare engine does no more than the work itself, in batches of a thousand with a sync each: it
//! inserts values of as many bytes, moves them from one keyspace to another, and scans them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use futures::TryStreamExt;
use serde_json::json;

use super::memory::Stretch;
use super::{Payload, in_folder};
use crate::embedded::{Embedded, stored_bytes};
use crate::items::{Items, Scan, scan_pages};
use crate::log::{Log, Record, Span, Time};
use crate::settings::{EmbeddedSettings, LogSettings};
use crate::{Clock, Error, Result};

/// The bytes of one event's text.
const TEXT_BYTES: usize = 200;
/// How many records are ingested at once, and values written at once.
const BATCH: u64 = 1_000;
/// When the hour begins.
const START_MS: u64 = 1_521_230_400_000;
const HOUR_MS: u64 = 3_600_000;

/// How much is measured.
///
/// See [`measure_log`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlan {
    /// How many events the hour has, spread evenly over its 3,600 slots.
    pub events: u64,
}

impl Default for LogPlan {
    fn default() -> Self {
        Self { events: 1_000_000 }
    }
}

/// One step: events a second, and how ours compares.
///
/// See [`measure_log`] for an example.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRow {
    /// `ingest`, `sweep` or `playback`.
    pub step: &'static str,
    /// How many events.
    pub events: u64,
    /// Events a second of the log.
    pub ours: f64,
    /// Values a second of the engine alone.
    pub engine: f64,
    /// Ours against the engine.
    pub ours_to_engine: f64,
    /// The most memory that the step added to what the process had when it began, the engine's cache
    /// included, in MiB, where the system tells.
    pub peak_mib_added: Option<u64>,
}

/// Measures the three steps in `folder` (which it makes and removes), calling `report` with each.
///
/// ```
/// use annals::SystemClock;
/// use annals::bench::{LogPlan, measure_log};
/// use std::sync::Arc;
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// let (plan, clock) = (LogPlan { events: 1_000 }, Arc::new(SystemClock::new()));
/// let mut steps = Vec::new();
/// measure_log(&folder.path().join("bench"), plan, clock, |row| steps.push(row.step)).await?;
/// assert_eq!(steps, ["ingest", "sweep", "playback"]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`Embedded::open`] and the log's steps, and `Invalid` where the folder exists.
pub async fn measure_log(
    folder: &Path,
    plan: LogPlan,
    clock: Arc<dyn Clock>,
    mut report: impl FnMut(LogRow),
) -> Result<()> {
    let measure = async {
        let items: Arc<dyn Items> = {
            let settings = EmbeddedSettings::default();
            Arc::new(Embedded::open(&folder.join("ours"), &settings)?)
        };
        let log = Log::create(items.clone(), &LogSettings::default(), clock.clone()).await?;
        let bare = Bare::open(&folder.join("bare"))?;
        let timer = Timer {
            clock: &*clock,
            events: plan.events,
        };
        let ours = timer.time(ingest(&log, plan.events)).await?;
        let values = values_of(&log, &items).await?;
        let engine = timer.time(bare.insert(values)).await?;
        report(timer.row("ingest", ours, engine));
        let ours = timer.time(sweep(&log, plan.events)).await?;
        let engine = timer.time(bare.move_all()).await?;
        report(timer.row("sweep", ours, engine));
        let ours = timer.time(playback(&log, plan.events)).await?;
        let engine = timer.time(bare.scan(plan.events)).await?;
        report(timer.row("playback", ours, engine));
        Ok(())
    };
    in_folder(folder, measure).await
}

/// How long a step took, and what memory.
#[derive(Clone, Copy)]
struct Took {
    time: Duration,
    added_kib: Option<u64>,
}

struct Timer<'a> {
    clock: &'a dyn Clock,
    events: u64,
}

impl Timer<'_> {
    async fn time(&self, step: impl Future<Output = Result<()>>) -> Result<Took> {
        let stretch = Stretch::begin();
        let start = self.clock.monotonic();
        step.await?;
        Ok(Took {
            time: self.clock.monotonic() - start,
            added_kib: stretch.and_then(Stretch::added_kib),
        })
    }

    fn row(&self, step: &'static str, ours: Took, engine: Took) -> LogRow {
        let rate = |took: Took| self.events as f64 / took.time.as_secs_f64();
        LogRow {
            step,
            events: self.events,
            ours: rate(ours),
            engine: rate(engine),
            ours_to_engine: rate(ours) / rate(engine),
            peak_mib_added: ours.added_kib.map(|kib| kib.div_ceil(1024)),
        }
    }
}

fn record(n: u64, events: u64) -> Result<Record> {
    let time = Time::from_ms(START_MS + n * HOUR_MS / events.max(1))?;
    let text = Payload::new(1, TEXT_BYTES / 2).of(n);
    let text: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
    let id = format!("shardId-000000000000:{n:056}").parse()?;
    Ok(Record::json("bench", id, time, &json!({"text": text})))
}

async fn ingest(log: &Log, events: u64) -> Result<()> {
    let mut n = 0;
    while n < events {
        let end = events.min(n + BATCH);
        let records = (n..end).map(|n| record(n, events)).collect::<Result<_>>()?;
        let told = log.ingest(records).await;
        if let Some((_, error)) = told.problems().next() {
            return Err(error.clone());
        }
        n = end;
    }
    Ok(())
}

async fn sweep(log: &Log, events: u64) -> Result<()> {
    let report = log.sweep().await;
    match report.failure {
        Some(error) => Err(error),
        None => expect(report.moved, events),
    }
}

async fn playback(log: &Log, events: u64) -> Result<()> {
    let span = Span::new(Time::from_ms(START_MS)?, Time::from_ms(START_MS + HOUR_MS)?)?;
    let mut played = log.playback(span);
    let mut count = 0;
    while played.try_next().await?.is_some() {
        count += 1;
    }
    expect(count, events)
}

/// A measurement of something else is none.
fn expect(found: u64, wanted: u64) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "events of the log are missing. wanted=`{wanted}`, found=`{found}`"
    )))
}

/// What the buffer has, as the engine's own bytes.
async fn values_of(log: &Log, items: &Arc<dyn Items>) -> Result<Vec<Vec<u8>>> {
    let table = log.tables().buffer.clone();
    let mut pages = scan_pages(items.clone(), table, Scan::whole());
    let mut values = Vec::new();
    while let Some(page) = pages.try_next().await? {
        values.extend(page.items.iter().map(stored_bytes));
    }
    Ok(values)
}

/// The engine alone, with two keyspaces.
struct Bare {
    db: Database,
    buffer: Keyspace,
    events: Keyspace,
}

fn broken(cause: fjall::Error) -> Error {
    Error::unavailable("the bare engine failed").because(cause)
}

/// The engine may wait for the disk, so its calls leave the caller's thread.
async fn off_thread<T: Send + 'static>(
    call: impl FnOnce() -> fjall::Result<T> + Send + 'static,
) -> Result<T> {
    let called = tokio::task::spawn_blocking(call).await;
    let called = called.map_err(|e| Error::unavailable("a call was cut off").because(e))?;
    called.map_err(broken)
}

impl Bare {
    fn open(path: &Path) -> Result<Self> {
        let open = || {
            let db = Database::builder(path).open()?;
            let keyspace = |name: &str| db.keyspace(name, KeyspaceCreateOptions::default);
            let (buffer, events) = (keyspace("buffer")?, keyspace("events")?);
            fjall::Result::Ok(Self { db, buffer, events })
        };
        open().map_err(broken)
    }

    async fn insert(&self, values: Vec<Vec<u8>>) -> Result<()> {
        let (db, buffer) = (self.db.clone(), self.buffer.clone());
        off_thread(move || {
            let numbered: Vec<(u64, Vec<u8>)> = (0..).zip(values).collect();
            for chunk in numbered.chunks(BATCH as usize) {
                let mut batch = db.batch().durability(Some(PersistMode::SyncData));
                for (n, value) in chunk {
                    batch.insert(&buffer, n.to_be_bytes(), value.as_slice());
                }
                batch.commit()?;
            }
            Ok(())
        })
        .await
    }

    /// Reads every value and writes it elsewhere, then removes it.
    async fn move_all(&self) -> Result<()> {
        let (db, buffer, events) = (self.db.clone(), self.buffer.clone(), self.events.clone());
        off_thread(move || {
            let mut entries = buffer.iter();
            loop {
                let mut batch = db.batch().durability(Some(PersistMode::SyncData));
                let mut removal = db.batch().durability(Some(PersistMode::SyncData));
                for entry in entries.by_ref().take(BATCH as usize) {
                    let (key, value) = entry.into_inner()?;
                    removal.remove(&buffer, key.clone());
                    batch.insert(&events, key, value);
                }
                if batch.is_empty() {
                    return Ok(());
                }
                batch.commit()?;
                removal.commit()?;
            }
        })
        .await
    }

    async fn scan(&self, wanted: u64) -> Result<()> {
        let events = self.events.clone();
        let scan = move || {
            let mut count = 0;
            for entry in events.iter() {
                let value = entry.value()?;
                count += u64::from(!value.is_empty());
            }
            Ok(count)
        };
        expect(off_thread(scan).await?, wanted)
    }
}
