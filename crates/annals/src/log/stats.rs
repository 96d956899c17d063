//! What a log holds and how far it has come, for an operator.

use std::collections::BTreeSet;

use futures::TryStreamExt;

use super::{Log, Slot, Time, TimeUnit, tables};
use crate::Result;
use crate::items::{Query, Scan, query_pages, scan_pages};

/// What a log holds and how far it has come.
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
/// assert_eq!((stats.buffered, stats.slots), (0, None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStats {
    /// Records that wait in the buffer.
    pub buffered: u64,
    /// The oldest of them, of those that parse.
    pub oldest_buffered: Option<Time>,
    /// Records that were set aside.
    pub set_aside: u64,
    /// The time before which nothing more arrives.
    pub horizon: Option<Time>,
    /// How many days have slots, by the index.
    pub days: u64,
    /// The first slot of the index, and the last.
    pub slots: Option<(Slot, Slot)>,
    /// Whether a slot that is not in the index is known to be empty.
    pub is_indexed: bool,
    /// How long slots are.
    pub time_unit: TimeUnit,
    /// Over how many parts slots are or were spread.
    pub slot_parts: BTreeSet<u32>,
}

impl Log {
    /// What it holds. Reads the whole buffer, and of the event table what we keep for ourselves.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn stats(&self) -> Result<LogStats> {
        let written = self.written().await?;
        let (mut buffered, mut oldest_buffered) = (0, None::<Time>);
        let mut pages = scan_pages(
            self.items.clone(),
            self.tables.buffer.clone(),
            Scan::whole(),
        );
        while let Some(page) = pages.try_next().await? {
            buffered += page.items.len() as u64;
            let records = page
                .items
                .iter()
                .filter_map(|item| tables::buffered_of(item).ok());
            let oldest = records.map(|record| record.time).min();
            oldest_buffered = match (oldest, oldest_buffered) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        let first = self.slot_at(Query::of(tables::days())).await?;
        let last = self.slot_at(Query::of(tables::days()).descending()).await?;
        Ok(LogStats {
            buffered,
            oldest_buffered,
            set_aside: self.count(tables::aside()).await?,
            horizon: self.horizon().await?,
            days: self.count(tables::days()).await?,
            slots: first.zip(last),
            is_indexed: written.is_indexed,
            time_unit: self.unit,
            slot_parts: written.all_parts(),
        })
    }

    /// How many items one of our partitions has.
    async fn count(&self, partition: &str) -> Result<u64> {
        let query = Query::of(partition);
        let pages = query_pages(self.items.clone(), self.tables.event.clone(), query);
        let count =
            |count, page: crate::items::Page| async move { Ok(count + page.items.len() as u64) };
        pages.try_fold(0, count).await
    }

    /// The first slot of the first day that a query of days finds, by the same direction.
    async fn slot_at(&self, days: Query) -> Result<Option<Slot>> {
        let direction = days.direction;
        let page = self.items.query(&self.tables.event, days.limit(1)).await?;
        let Some(day) = page.items.first() else {
            return Ok(None);
        };
        let mut slots = Query::of(tables::slots(tables::day_of(day)?)).limit(1);
        slots.direction = direction;
        let page = self.items.query(&self.tables.event, slots).await?;
        let slot = page.items.first().map(tables::slot_of).transpose()?;
        Ok(slot.map(|(slot, _)| slot))
    }
}
