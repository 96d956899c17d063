//! Statistics of a log, for an operator.

use std::collections::BTreeSet;

use futures::TryStreamExt;

use super::index::{Index, horizon};
use super::shared::Shared;
use super::{Slot, Time, tables};
use crate::Result;
use crate::items::{Query, Scan};

/// Statistics of a log.
///
/// ```
/// use annals::Annals;
/// use annals::settings::LogSettings;
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// let annals = Annals::embedded(folder.path()).await?;
/// let log = annals.create_log(&LogSettings::default()).await?;
/// let stats = log.stats().await?;
/// assert_eq!((stats.buffered, stats.first_slot), (0, None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// Records in the buffer.
    pub buffered: u64,
    /// The time of the oldest of those that parse.
    pub oldest_buffered: Option<Time>,
    /// Dead letters.
    pub dead_letters: u64,
    /// The time before which no more events arrive, except late ones.
    pub horizon: Option<Time>,
    /// Days with slots in the index.
    pub days: u64,
    /// The first slot of the index.
    pub first_slot: Option<Slot>,
    /// The last slot of the index.
    pub last_slot: Option<Slot>,
    /// Whether every slot with events is in the index.
    pub is_indexed: bool,
    /// The length of a slot in milliseconds.
    pub time_unit_ms: u64,
    /// The numbers of parts that slots are or were spread over.
    pub slot_parts: BTreeSet<u32>,
}

/// Reads the statistics: the whole buffer, and the system items of the event table.
pub(super) async fn read(shared: &Shared, index: &Index) -> Result<LogStats> {
    let metadata = index.metadata().await?;
    let (mut buffered, mut oldest_buffered) = (0, None::<Time>);
    let mut pages = shared.scan(&shared.tables.buffer, Scan::whole());
    while let Some(page) = pages.try_next().await? {
        buffered += page.items.len() as u64;
        let records = page.items.iter().map(tables::buffered_of);
        let times = records.filter_map(|record| record.ok().map(|record| record.time));
        oldest_buffered = times.chain(oldest_buffered).min();
    }
    let days = || Query::of(tables::DAYS);
    Ok(LogStats {
        buffered,
        oldest_buffered,
        dead_letters: count(shared, tables::DEAD_LETTERS).await?,
        horizon: horizon::read(shared).await?,
        days: count(shared, tables::DAYS).await?,
        first_slot: first_slot(shared, days()).await?,
        last_slot: first_slot(shared, days().descending()).await?,
        is_indexed: metadata.is_indexed,
        time_unit_ms: shared.format.unit.ms(),
        slot_parts: metadata.all_parts(),
    })
}

/// The number of items in a partition.
async fn count(shared: &Shared, partition: &str) -> Result<u64> {
    let items = shared.query(Query::of(partition));
    items
        .try_fold(0, |count, _| async move { Ok(count + 1) })
        .await
}

/// The first slot of the first day, both in the direction of the query.
async fn first_slot(shared: &Shared, days: Query) -> Result<Option<Slot>> {
    let direction = days.direction;
    let table = &shared.tables.event;
    let page = shared.store.query(table, days.limit(1)).await?;
    let Some(day) = page.items.first() else {
        return Ok(None);
    };
    let mut slots = Query::of(tables::slots(tables::day_of(day)?)).limit(1);
    slots.direction = direction;
    let page = shared.store.query(table, slots).await?;
    let slot = page.items.first().map(tables::slot_of).transpose()?;
    Ok(slot.map(|(slot, _)| slot))
}
