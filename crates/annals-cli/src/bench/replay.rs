//! The replay of a long journal on the embedded store, compared with a scan of the same bytes in
//! the bare engine.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use futures::{StreamExt, TryStreamExt};

use super::engine_call::{broken, off_thread};
use super::journal::EVENT_BYTES;
use super::memory::{Stretch, peak_kib};
use super::{Payload, race};
use annals::embedded::{Embedded, stored_bytes};
use annals::items::{
    BatchError, Billing, Changes, Condition, Cost, Got, Item, Items, Key, Page, Query, Scan,
    TableName, TableSpec, Write, WriteError, scan_pages,
};
use annals::journal::{Append, Expected, Journal, Window};
use annals::layout::{AnnalsLayout, Layout};
use annals::settings::EmbeddedSettings;
use annals::store::Store;
use annals::{Clock, Codec, Error, NewEvent, PersistenceId, Result};

/// Events per append of the long journal.
const EVENTS_AN_APPEND: u64 = 10;
/// Items per batch while the journal is filled.
const ITEMS_A_BATCH: usize = 1_000;
const MIB: u64 = 1024 * 1024;

/// How much is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayPlan {
    /// The number of events in the journal, ten per append.
    pub(crate) events: u64,
    /// The number of replays and of scans.
    pub(crate) laps: usize,
}

impl Default for ReplayPlan {
    fn default() -> Self {
        Self {
            events: 1_000_000,
            laps: 5,
        }
    }
}

/// The result: events per second, and the ratio of replay to scan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplayRow {
    /// The number of replayed events of 200 B.
    pub(crate) events: u64,
    /// The number of items in their table, and of values in the bare engine.
    pub(crate) items: u64,
    /// The size of these items in the engine; the values of the bare engine are the same.
    pub(crate) bytes: u64,
    /// Events per second of a replay.
    pub(crate) replay: f64,
    /// Events per second whose items a scan of the bare engine returns, as bytes.
    pub(crate) scan: f64,
    /// Ratio of replay to scan: the median of the laps. The rates are from that lap.
    pub(crate) replay_to_scan: f64,
    /// The peak memory of the process before and after the replays, in MiB, if known.
    pub(crate) peak_mib: Option<(u64, u64)>,
    /// The highest peak memory of a replay above its start, including the engine's cache, in MiB;
    /// `None` if the system does not report the peak or cannot reset it.
    pub(crate) peak_mib_added: Option<u64>,
}

/// Fills a journal and a bare engine in `folder`, and reads both alternately.
pub(super) async fn measure(
    folder: &Path,
    plan: ReplayPlan,
    clock: &dyn Clock,
) -> Result<ReplayRow> {
    let settings = AnnalsLayout::default();
    let table = settings.tables()?.journal;
    let items: Arc<dyn Items> =
        Arc::new(Embedded::open(&folder.join("ours"), &Default::default())?);
    items.create_table(&table, Default::default()).await?;
    let id: PersistenceId = "Account|1".parse()?;
    fill(&items, &table, &id, plan.events).await?;
    let cache_bytes = EmbeddedSettings::default().cache_mib.saturating_mul(MIB);
    let bare = Bare::copied(&folder.join("bare"), &items, &table, cache_bytes).await?;
    let journal = open(items, &settings).await?;
    let before = peak_kib();
    let mut memory = Memory::default();
    let mut laps = Vec::with_capacity(plan.laps);
    let rate =
        |since: std::time::Duration| plan.events as f64 / (clock.monotonic() - since).as_secs_f64();
    for _ in 0..plan.laps {
        let start = clock.monotonic();
        bare.scan().await?;
        let scan = rate(start);
        let stretch = Stretch::begin();
        let start = clock.monotonic();
        replay(&journal, &id, plan.events).await?;
        laps.push(vec![rate(start), scan]);
        memory.note(stretch);
    }
    let lap = race::median_lap(laps, 0, 1);
    Ok(ReplayRow {
        events: plan.events,
        items: bare.values,
        bytes: bare.bytes,
        replay: race::rate(&lap, 0),
        scan: race::rate(&lap, 1),
        replay_to_scan: race::ratio(&lap, 0, 1),
        // Includes the peak before it was reset.
        peak_mib: before.map(|before| (before / 1024, memory.peak_kib.max(before) / 1024)),
        peak_mib_added: memory.added_kib.map(|kib| kib.div_ceil(1024)),
    })
}

/// The memory of the replays.
#[derive(Default)]
struct Memory {
    peak_kib: u64,
    added_kib: Option<u64>,
}

impl Memory {
    fn note(&mut self, stretch: Option<Stretch>) {
        self.peak_kib = self.peak_kib.max(peak_kib().unwrap_or(0));
        self.added_kib = self.added_kib.max(stretch.and_then(Stretch::added_kib));
    }
}

async fn open(items: Arc<dyn Items>, layout: &dyn Layout) -> Result<Journal> {
    // Nothing here depends on the time of an event.
    let clock = Arc::new(annals::ManualClock::at_ms(1_700_000_000_000));
    layout.journal(&Store::from(items).with_clock(clock)).await
}

async fn replay(journal: &Journal, id: &PersistenceId, events: u64) -> Result<()> {
    let mut replayed = journal.replay(id, Window::ALL);
    let mut count = 0;
    while let Some(event) = replayed.next().await {
        event?;
        count += 1;
    }
    expect("events of the journal", count, events)
}

/// Fails unless exactly the wanted amount was read.
fn expect(what: &str, found: u64, wanted: u64) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::corrupt(format!("{what} are missing"))
        .fact("wanted", wanted)
        .fact("found", found))
}

/// Appends the events, without waiting for a sync each time.
async fn fill(
    items: &Arc<dyn Items>,
    table: &TableSpec,
    id: &PersistenceId,
    events: u64,
) -> Result<()> {
    let gathering = Arc::new(Gathering {
        inner: items.clone(),
        gathered: Mutex::default(),
    });
    let journal = open(gathering.clone(), &AnnalsLayout::default()).await?;
    let payload = Payload::new(1, EVENT_BYTES);
    let event = |n| NewEvent::new(Codec::Bytes, payload.of(n)).manifest("Deposited");
    let (mut expected, mut n) = (Expected::Empty, 0);
    while n < events {
        let end = events.min(n + EVENTS_AN_APPEND);
        let append = Append::of((n..end).map(event).collect::<Vec<_>>());
        expected = Expected::Last(journal.append(id, expected, append).await?.last);
        n = end;
    }
    let left = gathering.take();
    items.write(table, left).await?;
    Ok(())
}

/// A store that collects puts into batches, for a single writer that reads nothing.
#[derive(Debug)]
struct Gathering {
    inner: Arc<dyn Items>,
    gathered: Mutex<Vec<Write>>,
}

impl Gathering {
    fn take(&self) -> Vec<Write> {
        std::mem::take(&mut self.gathered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an item; returns the batch when it is full.
    fn gather(&self, item: Item) -> Vec<Write> {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.push(Write::Put(item));
        match gathered.len() {
            ITEMS_A_BATCH => std::mem::take(&mut gathered),
            _ => Vec::new(),
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Items for Gathering {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        self.inner.get(table, keys).await
    }

    async fn put(&self, table: &TableSpec, item: Item, _: Condition) -> Result<Cost, WriteError> {
        let enough = self.gather(item);
        let written = self.inner.write(table, enough).await;
        written.map_err(|error| WriteError::Failed(error.into()))
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.inner.delete(table, key, condition).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        self.inner.write(table, writes).await
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        self.inner.query(table, query).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        self.inner.scan(table, scan).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        self.inner.create_table(spec, billing).await
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        self.inner.describe_table(name).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        self.inner.drop_table(name).await
    }

    fn changes(&self) -> Option<&dyn Changes> {
        self.inner.changes()
    }
}

/// The bare engine, with the same values as a table.
struct Bare {
    /// Keeps the database open.
    db: Database,
    keyspace: Keyspace,
    values: u64,
    bytes: u64,
}

impl Bare {
    async fn copied(
        path: &Path,
        items: &Arc<dyn Items>,
        table: &TableSpec,
        cache_bytes: u64,
    ) -> Result<Self> {
        let db = Database::builder(path).cache_size(cache_bytes).open();
        let db = db.map_err(broken)?;
        let keyspace = db.keyspace("items", KeyspaceCreateOptions::default);
        let mut bare = Self {
            db,
            keyspace: keyspace.map_err(broken)?,
            values: 0,
            bytes: 0,
        };
        let table = Arc::new(table.clone());
        let mut pages = scan_pages(items.clone(), table, Scan::whole());
        while let Some(page) = pages.try_next().await? {
            bare.insert(page.items).await?;
        }
        let db = bare.db.clone();
        off_thread(move || db.persist(PersistMode::SyncAll)).await?;
        Ok(bare)
    }

    async fn insert(&mut self, items: Vec<Item>) -> Result<()> {
        let values: Vec<_> = items.iter().map(stored_bytes).collect();
        let first = self.values;
        self.values += values.len() as u64;
        self.bytes += values.iter().map(|value| value.len() as u64).sum::<u64>();
        let keyspace = self.keyspace.clone();
        let insert = move || {
            let numbered = (first..).zip(values);
            numbered
                .into_iter()
                .try_for_each(|(n, value)| keyspace.insert(n.to_be_bytes(), value))
        };
        off_thread(insert).await
    }

    async fn scan(&self) -> Result<()> {
        let keyspace = self.keyspace.clone();
        let scan = move || {
            let mut bytes = 0;
            for entry in keyspace.iter() {
                bytes += entry.value()?.len() as u64;
            }
            Ok(bytes)
        };
        expect("bytes of the engine", off_thread(scan).await?, self.bytes)
    }
}
