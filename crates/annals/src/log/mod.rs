//! The time-ordered log: every event of every source, by time, for ever.
//!
//! ```text
//! ingest ─► buffer ─► sweep ─► event table (slots) ─► playback, follow
//!           unsorted           time order
//! ```
//!
//! Records land in the buffer under keys that spread. A sweep moves them into the event table,
//! whose partitions are slots of time. Playback reads a span of time in order. The tables are those
//! of a public proof of concept, *the original* from here on: either side reads what the other wrote.
//!
//! Promises: a record that was acknowledged is played back once, in the order of time and then of
//! id, whatever was repeated, ran twice at once or died in between. A follower never passes the
//! horizon, and what is stored behind it is told as late (`horizon.rs`).
//! Of two sources with one id in one slot the second is told and kept aside, whole (`claims.rs`).
//! Trusts: that a record of one source which comes again says the same. Where two that differ are
//! brought at the very same time one may replace the other in the buffer unseen, because batches have
//! no conditions. [`Log::ingest_one`] has one.
//! Never: holds a slot or a span in memory.

mod aside;
mod batch;
mod checkpoint;
mod claims;
mod data;
mod follow;
mod horizon;
mod index;
mod ingest;
mod link;
mod pace;
mod page;
mod playback;
mod position;
mod pump;
mod reader;
mod record;
mod slot;
mod stats;
mod sweep;
mod tables;
mod time;
mod written;

pub use aside::{Aside, AsideStream};
pub use checkpoint::Checkpoints;
pub use data::{Data, RecordPayload};
pub use ingest::{IngestReport, Ingested};
pub use link::LinkReport;
pub use pace::Speed;
pub use playback::{LogStream, Playback};
pub use pump::{JournalPump, PumpReport};
pub use record::{EventId, LogEvent, Place, Record};
pub use slot::{Slot, TimeUnit};
pub use stats::LogStats;
pub use sweep::SweepReport;
pub use tables::LogTables;
pub use time::{Span, Time};
pub use written::hints;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::items::{Items, TableSpec};
use crate::settings::LogSettings;
use crate::store::Store;
use crate::{Clock, Error, Result};

/// The most partitions a slot may be spread over.
const PARTS_MAX: u32 = 100;

/// Events by time. Cheap to clone.
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
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Log {
    items: Arc<dyn Items>,
    clock: Arc<dyn Clock>,
    tables: LogTables,
    settings: Arc<LogSettings>,
    unit: TimeUnit,
    /// Whether the index was seen to be complete, which it then stays.
    is_indexed: Arc<AtomicBool>,
    /// Whether some slots were seen to have the length that the settings say.
    is_sampled: Arc<AtomicBool>,
}

impl Log {
    /// The log in tables that are there.
    ///
    /// # Errors
    /// `Invalid` where a table is missing, a setting cannot be, or slots have another length in
    /// this table.
    pub async fn open(store: impl Into<Store>, settings: &LogSettings) -> Result<Self> {
        let log = Self::of(&store.into(), settings)?;
        log.written().await?;
        Ok(log)
    }

    /// The log; tables that are missing are made.
    ///
    /// # Errors
    /// As [`open`](Self::open), and as the store fails.
    pub async fn create(store: impl Into<Store>, settings: &LogSettings) -> Result<Self> {
        let log = Self::of(&store.into(), settings)?;
        log.make(&log.tables.buffer).await?;
        if log.make(&log.tables.event).await? {
            // Nothing is in a table that we have just made, so nothing is missing in its index.
            log.mark_indexed().await?;
        }
        log.written().await?;
        Ok(log)
    }

    fn of(store: &Store, settings: &LogSettings) -> Result<Self> {
        check_settings(settings)?;
        Ok(Self {
            tables: LogTables::of(settings)?,
            unit: TimeUnit::from_ms(settings.time_unit_ms)?,
            settings: Arc::new(settings.clone()),
            is_indexed: Arc::default(),
            is_sampled: Arc::default(),
            items: store.items().clone(),
            clock: store.clock().clone(),
        })
    }

    /// Makes a table that is missing; answers whether it was.
    async fn make(&self, table: &TableSpec) -> Result<bool> {
        if self.items.describe_table(table.name()).await?.is_some() {
            return Ok(false);
        }
        self.items.create_table(table, Default::default()).await?;
        Ok(true)
    }

    /// The tables.
    pub fn tables(&self) -> &LogTables {
        &self.tables
    }

    /// How long slots are.
    pub fn time_unit(&self) -> TimeUnit {
        self.unit
    }

    /// The time it is by this log's clock.
    pub fn now(&self) -> Time {
        Time::of_clock(self.clock.now_ms())
    }
}

fn check_settings(settings: &LogSettings) -> Result<()> {
    let parts = settings.slot_parts;
    if !(1..=PARTS_MAX).contains(&parts) {
        return Err(Error::invalid(format!(
            "slot-parts is 1 to {PARTS_MAX}. slot-parts=`{parts}`"
        )));
    }
    if parts > 1 && settings.original_writes {
        return Err(Error::invalid(
            "slots are not spread while the original writes to the table; set slot-parts to 1, or original-writes to false",
        ));
    }
    let counts = [
        ("sweep-segments", u64::from(settings.sweep_segments)),
        ("concurrency", settings.concurrency as u64),
        ("playback-ahead", settings.playback_ahead as u64),
    ];
    match counts
        .iter()
        .find(|(_, count)| !(1..=1_000).contains(count))
    {
        None => Ok(()),
        Some((name, count)) => Err(Error::invalid(format!(
            "{name} is 1 to 1000. {name}=`{count}`"
        ))),
    }
}
