//! The time-ordered log: the events of every source, by time.
//!
//! ```text
//! records ─► Ingest ─► buffer ─► Sweep ─► slots ─► Player ─► events
//!                      unsorted    │      by time    │
//!                                  └──► Index ◄──────┘
//!                        which slots have events; the horizon
//! ```
//!
//! | stage | in | out |
//! | --- | --- | --- |
//! | `Ingest` | records | an [`Ingested`] per record |
//! | `Sweep` | pages of the buffer | events in slots, dead letters, a [`SweepReport`] |
//! | `Index` | slots that get events; a reached horizon | the slots of a span; the published horizon |
//! | `Player` | a [`Playback`] | a [`LogStream`] of events |
//!
//! Ingest stores records in the buffer under keys that spread. A sweep moves them into the event
//! table, whose partitions are slots of time. Playback reads a span of time in order. The tables are
//! those of a public proof of concept, *the original* in this module: each program reads what the
//! other wrote.
//!
//! Guarantees: an acknowledged record is played back once, in the order of time and then of id,
//! whatever was retried, ran concurrently or died. A follower never passes the horizon, and an event
//! that is stored with a time before the horizon is reported as late (`index/horizon.rs`). If two
//! sources use one id in one slot for different events, the second record becomes a dead letter
//! (`sweep/claims.rs`). No slot and no span is held in memory.
//! Relies on: a source sending the same content when it retries a record. If two different records
//! with one source and id are ingested at the same moment, one may replace the other in the buffer,
//! because batches have no conditions. [`Log::ingest_one`] has one.

mod checkpoints;
mod data;
mod index;
mod ingest;
mod playback;
mod pump;
mod record;
mod shared;
mod slot;
mod stats;
mod sweep;
mod tables;
mod time;

pub use checkpoints::Checkpoints;
pub use data::{Data, RecordPayload};
pub use index::link::LinkReport;
pub use index::metadata::hints;
pub use ingest::{IngestReport, Ingested};
pub use playback::{LogStream, Playback, Speed};
pub use pump::{JournalPump, PumpReport};
pub use record::{DeadLetter, EventId, LogEvent, LogPosition, Record};
pub use slot::Slot;
pub use stats::LogStats;
pub use sweep::SweepReport;
pub use tables::LogTables;
pub use time::{Span, Time};

use std::sync::Arc;

use futures::TryStreamExt;

use self::index::{Index, horizon, link};
use self::ingest::Ingest;
use self::playback::Player;
use self::shared::Shared;
use self::sweep::Sweep;
use crate::items::{Query, TableSpec};
use crate::settings::LogSettings;
use crate::store::Store;
use crate::{ErrorKind, Result, ResultStream};

/// The time-ordered log. Cheap to clone.
///
/// ```
/// use annals::log::{Log, LogEvent, Record, Span};
/// use annals::memory::Memory;
/// use annals::settings::LogSettings;
/// use annals::store::Store;
/// use futures::TryStreamExt;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let store = Store::new(Memory::new());
/// let log = Log::create(&store, &LogSettings::default()).await?;
///
/// let time = "2018-03-16T19:56:03.217Z".parse()?;
/// let record = Record::json("web", "clap-1".parse()?, time, &json!({"clap": 1}));
/// let report = log.ingest(vec![record]).await;
/// assert_eq!(report.stored(), 1);
///
/// let report = log.sweep().await;
/// assert_eq!(report.moved, 1);
///
/// let span = Span::new("2018-03-16T19:00:00Z".parse()?, "2018-03-16T20:00:00Z".parse()?)?;
/// let events: Vec<LogEvent> = log.playback(span).try_collect().await?;
/// assert_eq!(events[0].event_id.as_str(), "clap-1");
/// assert_eq!(events[0].slot.to_string(), "2018-03-16T19:56:03.000Z");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Log {
    shared: Arc<Shared>,
    ingest: Ingest,
    sweep: Sweep,
    index: Index,
    player: Player,
}

impl Log {
    /// Opens the log in existing tables.
    ///
    /// # Errors
    /// `Invalid` if a table is missing, a setting is out of range, or slots have another length in
    /// this table.
    pub async fn open(store: impl Into<Store>, settings: &LogSettings) -> Result<Self> {
        Self::new(Shared::new(&store.into(), settings)?)
            .checked()
            .await
    }

    /// Opens the log, and creates the tables that are missing.
    ///
    /// # Errors
    /// As [`open`](Self::open), and as the store fails.
    pub async fn create(store: impl Into<Store>, settings: &LogSettings) -> Result<Self> {
        let log = Self::new(Shared::new(&store.into(), settings)?);
        log.create_table(&log.shared.tables.buffer).await?;
        if log.create_table(&log.shared.tables.event).await? {
            // Nothing is missing in the index of a new table.
            log.index.mark_complete().await?;
        }
        log.checked().await
    }

    /// Wires the stages.
    fn new(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let index = Index::new(shared.clone());
        Self {
            ingest: Ingest {
                shared: shared.clone(),
            },
            sweep: Sweep {
                shared: shared.clone(),
                index: index.clone(),
            },
            player: Player {
                shared: shared.clone(),
                index: index.clone(),
            },
            index,
            shared,
        }
    }

    /// Checks the table metadata against the settings.
    async fn checked(self) -> Result<Self> {
        self.index.metadata().await?;
        Ok(self)
    }

    /// Creates a table if it is missing. Returns whether it was.
    async fn create_table(&self, table: &TableSpec) -> Result<bool> {
        let store = &self.shared.store;
        if store.describe_table(table.name()).await?.is_some() {
            return Ok(false);
        }
        match store.create_table(table, Default::default()).await {
            // Another process created it first.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            created => created.map(|()| true),
        }
    }

    /// The tables of the log.
    pub fn tables(&self) -> &LogTables {
        &self.shared.tables
    }

    /// The length of a slot in milliseconds.
    pub fn time_unit_ms(&self) -> u64 {
        self.shared.format.unit.ms()
    }

    /// The slot that contains a time.
    pub fn slot(&self, time: Time) -> Slot {
        self.shared.format.slot(time)
    }

    /// The current time of this log's clock.
    pub fn now(&self) -> Time {
        self.shared.now()
    }

    /// Stores one record in the buffer with one conditional put.
    pub async fn ingest_one(&self, record: Record) -> Ingested {
        self.ingest.one(record).await
    }

    /// Stores records in the buffer: a read per hundred, then a write per twenty-five.
    ///
    /// If two writers ingest different records with one source and id at the same moment, the later
    /// one may replace the earlier one. [`ingest_one`](Self::ingest_one) prevents that.
    pub async fn ingest(&self, records: Vec<Record>) -> IngestReport {
        self.ingest.batch(records).await
    }

    /// Moves the buffer into slots, and publishes the horizon.
    ///
    /// Sweeps can be repeated, can run concurrently and can be dropped at any point. The report says
    /// what happened, even if the store failed.
    pub async fn sweep(&self) -> SweepReport {
        self.sweep.run().await
    }

    /// Lists the records that could not become events.
    pub fn dead_letters(&self) -> ResultStream<DeadLetter> {
        let items = self.shared.query(Query::of(tables::DEAD_LETTERS));
        ResultStream::new(items.map_ok(tables::dead_letter_of))
    }

    /// Deletes a dead letter; returns whether it existed. Repeatable.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn delete_dead_letter(&self, name: &str) -> Result<bool> {
        let key = tables::dead_letter_key(name);
        self.shared.delete_existing(key).await
    }

    /// The time before which no more events arrive, except those reported as late; `None` before the
    /// first sweep.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn horizon(&self) -> Result<Option<Time>> {
        horizon::read(&self.shared).await
    }

    /// Sets the horizon back to an earlier time, after the clock of a sweeper was far ahead and made
    /// every event late. Returns whether the horizon was later.
    ///
    /// Correct that clock first, or its next sweep moves the horizon ahead again. A follower that had
    /// passed this time waits until the horizon passes it too. Events that were stored meanwhile were
    /// reported as late; a playback from this time on returns them.
    ///
    /// # Errors
    /// As the store fails, and `Unavailable` if other processes keep changing the horizon.
    pub async fn set_back_horizon(&self, time: Time) -> Result<bool> {
        horizon::set_back(&self.shared, time).await
    }

    /// Completes the index, which reads the whole table, and writes the original's links of the span's
    /// slots, which reads each of them. This repairs an index.
    ///
    /// # Errors
    /// As the store fails, and `Invalid` if slots have another length than in the settings. It can be
    /// repeated.
    pub async fn link(&self, span: Span) -> Result<LinkReport> {
        link::run(&self.index, span).await
    }

    /// Completes the index if it is not marked as complete. Reads little if it is, or if the table is
    /// empty.
    ///
    /// # Errors
    /// As [`link`](Self::link).
    pub async fn complete_index(&self) -> Result<()> {
        link::complete(&self.index).await
    }

    /// Marks the index as incomplete, before events are put into the table without this log. Until it
    /// is completed again, a playback reads every slot of its span.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn mark_index_incomplete(&self) -> Result<()> {
        self.index.mark_incomplete().await
    }

    /// The events of a span, in order.
    ///
    /// Buffered records are not included. A span that ends after the [horizon](Self::horizon) may lack
    /// events that are still to be stored; [`follow`](Self::follow) waits for them.
    pub fn playback(&self, playback: impl Into<Playback>) -> LogStream {
        self.player.play(playback.into())
    }

    /// The events since a time, and then every later one as soon as no earlier one can arrive.
    ///
    /// Ends at the end of the playback, if it has one, and can be dropped at any point. After an error,
    /// resume with [`Playback::after`] and the [position](LogEvent::position) of the last event.
    ///
    /// ```
    /// use annals::log::{Log, Playback, Record};
    /// use annals::memory::Memory;
    /// use annals::settings::LogSettings;
    /// use annals::store::Store;
    /// use annals::{Clock, ManualClock};
    /// use futures::TryStreamExt;
    /// use serde_json::json;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// let clock = Arc::new(ManualClock::at_ms(1_521_230_163_217));
    /// let store = Store::new(Memory::new()).with_clock(clock.clone());
    /// let log = Log::create(&store, &LogSettings::default()).await?;
    /// let start = log.now();
    /// log.ingest_one(Record::json("web", "clap-1".parse()?, start, &json!(1))).await;
    /// clock.advance(Duration::from_secs(60));
    /// log.sweep().await;
    ///
    /// let mut events = log.follow(Playback::since(start));
    /// let first = events.try_next().await?;
    /// assert_eq!(first.map(|event| event.time), Some(start));
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(&self, playback: impl Into<Playback>) -> LogStream {
        self.player.follow(playback.into())
    }

    /// Reads statistics: the whole buffer, and the system items of the event table.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn stats(&self) -> Result<LogStats> {
        stats::read(&self.shared, &self.index).await
    }

    /// The checkpoints of a pump.
    pub fn checkpoints(&self, pump: impl Into<String>) -> Checkpoints {
        Checkpoints::new(self.shared.clone(), pump.into())
    }
}
