//! The log on the embedded store compared with the bare engine: ingest, sweep and playback of the
//! events of an hour, and the memory of the playback.
//!
//! The bare engine only does the necessary reads and writes, in batches of a thousand with a sync
//! each: it inserts values of equal size under the buffer keys of the records; moves each to the
//! key of its event, with an entry in the keyspace of the time index; then scans the index and gets
//! each event. It does not look for existing items, validate, encode, decode, or pass data between
//! threads. Creating records, and reading ours to fill the engine, is not measured.

use annals::store::Store;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use futures::TryStreamExt;
use serde_json::json;

use super::engine_call::{broken, off_thread};
use super::memory::Stretch;
use super::{Payload, in_folder};
use annals::embedded::{Embedded, stored_bytes};
use annals::items::{Item, Items, Scan, Value, scan_pages};
use annals::log::{Log, Record, Span, Time};
use annals::settings::{EmbeddedSettings, LogSettings};
use annals::{Clock, Error, Result};

/// The size of an event's text.
const TEXT_BYTES: usize = 200;
/// Records per ingest, and values per batch.
const BATCH: u64 = 1_000;
/// The start of the hour.
const START_MS: u64 = 1_521_230_400_000;
const HOUR_MS: u64 = 3_600_000;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPlan {
    /// The number of events in the hour, spread evenly over its 3,600 slots.
    pub(crate) events: u64,
}

impl Default for LogPlan {
    fn default() -> Self {
        Self { events: 1_000_000 }
    }
}

/// One step: events per second, and our ratio to the engine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogRow {
    /// `ingest`, `sweep` or `playback`.
    pub(crate) step: &'static str,
    /// The number of events.
    pub(crate) events: u64,
    /// Events per second of the log.
    pub(crate) ours: f64,
    /// Values per second of the bare engine.
    pub(crate) engine: f64,
    /// Our ratio to the engine.
    pub(crate) ours_to_engine: f64,
    /// Peak memory above the start of the step, including the engine's cache, in MiB, if known.
    pub(crate) peak_mib_added: Option<u64>,
}

/// Measures the three steps in `folder` (which it creates and removes); calls `report` with each.
///
/// # Errors
/// As [`Embedded::open`] and the log's steps, and `Invalid` if the folder exists.
pub(crate) async fn measure_log(
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
        let log = Log::create(
            Store::from(items.clone()).with_clock(clock.clone()),
            &LogSettings::default(),
        )
        .await?;
        let bare = Bare::open(&folder.join("bare"))?;
        let timer = Timer {
            clock: &*clock,
            events: plan.events,
        };
        let ours = ingest(&log, &timer).await?;
        let engine = bare.insert(&log, &items, &timer).await?;
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

/// The time and memory that a step took.
#[derive(Clone, Copy)]
struct Took {
    time: Duration,
    stretch: Option<Stretch>,
    added_kib: Option<u64>,
}

impl Took {
    fn begin() -> Self {
        Self {
            time: Duration::ZERO,
            stretch: Stretch::begin(),
            added_kib: None,
        }
    }

    /// Runs and times a measured part of the step.
    async fn add(
        &mut self,
        clock: &dyn Clock,
        piece: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let start = clock.monotonic();
        piece.await?;
        self.time += clock.monotonic() - start;
        Ok(())
    }

    fn end(mut self) -> Self {
        self.added_kib = self.stretch.and_then(Stretch::added_kib);
        self
    }
}

struct Timer<'a> {
    clock: &'a dyn Clock,
    events: u64,
}

impl Timer<'_> {
    async fn time(&self, step: impl Future<Output = Result<()>>) -> Result<Took> {
        let mut took = Took::begin();
        took.add(self.clock, step).await?;
        Ok(took.end())
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

async fn ingest(log: &Log, timer: &Timer<'_>) -> Result<Took> {
    let (events, mut took, mut n) = (timer.events, Took::begin(), 0);
    while n < events {
        let end = events.min(n + BATCH);
        let records = (n..end).map(|n| record(n, events)).collect::<Result<_>>()?;
        let bring = async {
            let told = log.ingest(records).await;
            let problem = told.problems().next().map(|(_, error)| error.clone());
            problem.map_or(Ok(()), Err)
        };
        took.add(timer.clock, bring).await?;
        n = end;
    }
    Ok(took.end())
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

/// Fails unless exactly the wanted events were processed.
fn expect(found: u64, wanted: u64) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::corrupt("events of the log are missing")
        .fact("wanted", wanted)
        .fact("found", found))
}

/// A record in the bare engine: its buffer key, and a value of the same size as ours that begins
/// with the key of its event and the key of its index entry.
fn entry_of(item: &Item) -> Option<(Vec<u8>, Vec<u8>)> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let time = item.get("event_time_stamp").and_then(Value::as_u64)?;
    let slot = Time::from_ms(time - time % 1_000).ok()?.to_string();
    let event = format!("{slot}{}", text("event_id")?);
    let entry = format!("{slot}{}{event}", Time::from_ms(time).ok()?);
    let stored = stored_bytes(item);
    let mut value = Vec::with_capacity(stored.len());
    for key in [event, entry] {
        value.push(u8::try_from(key.len()).ok()?);
        value.extend_from_slice(key.as_bytes());
    }
    value.extend(stored.iter().skip(value.len()));
    Some((text("partition_key")?.as_bytes().to_vec(), value))
}

/// The two keys at the start of a value.
fn keys_of(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = value.split_first()?;
    let (event, rest) = rest.split_at_checked(usize::from(*len))?;
    let (len, rest) = rest.split_first()?;
    Some((event, rest.get(..usize::from(*len))?))
}

/// The bare engine, with a keyspace for each table and the index.
#[derive(Clone)]
struct Bare {
    db: Database,
    buffer: Keyspace,
    events: Keyspace,
    by_time: Keyspace,
}

impl Bare {
    fn open(path: &Path) -> Result<Self> {
        let open = || {
            let db = Database::builder(path).open()?;
            let keyspace = |name: &str| db.keyspace(name, KeyspaceCreateOptions::default);
            let (buffer, events) = (keyspace("buffer")?, keyspace("events")?);
            let by_time = keyspace("by-time")?;
            fjall::Result::Ok(Self {
                db,
                buffer,
                events,
                by_time,
            })
        };
        open().map_err(broken)
    }

    /// Inserts the records of the log's buffer.
    async fn insert(&self, log: &Log, items: &Arc<dyn Items>, timer: &Timer<'_>) -> Result<Took> {
        let mut took = Took::begin();
        let scan = Scan::whole().limit(BATCH as u32);
        let mut pages = scan_pages(items.clone(), log.tables().buffer.clone(), scan);
        while let Some(page) = pages.try_next().await? {
            let entries: Vec<_> = page.items.iter().filter_map(entry_of).collect();
            let bare = self.clone();
            let insert = off_thread(move || {
                let mut batch = bare.db.batch().durability(Some(PersistMode::SyncData));
                for (key, value) in entries {
                    batch.insert(&bare.buffer, key, value);
                }
                batch.commit()
            });
            took.add(timer.clock, insert).await?;
        }
        Ok(took.end())
    }

    /// Moves every value to the key of its event.
    async fn move_all(&self) -> Result<()> {
        let bare = self.clone();
        off_thread(move || {
            let mut entries = bare.buffer.iter();
            loop {
                let mut batch = bare.db.batch().durability(Some(PersistMode::SyncData));
                let mut removal = bare.db.batch().durability(Some(PersistMode::SyncData));
                for entry in entries.by_ref().take(BATCH as usize) {
                    let (key, value) = entry.into_inner()?;
                    removal.remove(&bare.buffer, key);
                    if let Some((event, entry)) = keys_of(&value) {
                        batch.insert(&bare.by_time, entry, event);
                        batch.insert(&bare.events, event, value.clone());
                    }
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

    /// Gets every event, in the order of the index.
    async fn scan(&self, wanted: u64) -> Result<()> {
        let bare = self.clone();
        let scan = move || {
            let mut count = 0;
            for entry in bare.by_time.iter() {
                let event = bare.events.get(entry.value()?)?;
                count += u64::from(event.is_some());
            }
            Ok(count)
        };
        expect(off_thread(scan).await?, wanted)
    }
}
