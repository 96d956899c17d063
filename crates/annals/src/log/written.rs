//! What the event table says of itself: how long its slots are, over how many parts they are
//! spread, and whether its index is complete.
//!
//! Promises: slots of two lengths never stand in one table, where the first sweep was ours. Every
//! number of parts that slots are spread over is written down before the first event is stored so.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use futures::TryStreamExt;

use super::{Log, LogTables, tables};
use crate::items::{
    Condition, Item, Items, Number, Scan, TableSpec, Value, WriteError, scan_pages,
};
use crate::layout::Hint;
use crate::settings::LogSettings;
use crate::{Error, Result};

/// What the table says.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// The numbers of parts that slots are spread over.
    pub(super) parts: BTreeSet<u32>,
    /// Whether every slot that has events is in the index.
    pub(super) is_indexed: bool,
    item: Option<Item>,
}

impl Written {
    /// The numbers of parts to look for: the original's too, whoever wrote first.
    pub(super) fn all_parts(&self) -> BTreeSet<u32> {
        self.parts.iter().copied().chain([1]).collect()
    }
}

fn numbers(parts: &BTreeSet<u32>) -> Value {
    Value::Ns(parts.iter().map(|n| Number::from(u64::from(*n))).collect())
}

impl Log {
    /// What the table says.
    ///
    /// # Errors
    /// `Invalid` where its slots have another length than the settings say.
    pub(super) async fn written(&self) -> Result<Written> {
        let keys = vec![tables::written_key(), tables::indexed_key()];
        let got = self.items.get(&self.tables.event, keys).await?;
        let mut items = got.items.into_iter();
        let item = items.next().flatten();
        let is_indexed = items.next().flatten().is_some();
        if is_indexed {
            self.is_indexed.store(true, Ordering::Relaxed);
        }
        let parts = item.as_ref().map(|item| self.parts_of(item)).transpose()?;
        Ok(Written {
            parts: parts.unwrap_or_default(),
            is_indexed,
            item,
        })
    }

    fn parts_of(&self, item: &Item) -> Result<BTreeSet<u32>> {
        let unit = item.get(tables::TIME_UNIT).and_then(Value::as_u64);
        let parts = match item.get(tables::PARTS) {
            Some(Value::Ns(parts)) => {
                let parts = parts
                    .iter()
                    .map(|n| n.to_u64().and_then(|n| u32::try_from(n).ok()));
                parts.collect::<Option<BTreeSet<u32>>>()
            }
            _ => None,
        };
        let (Some(unit), Some(parts)) = (unit, parts) else {
            return Err(Error::corrupt(format!(
                "what the log's table says of itself does not parse. table=`{}`",
                self.tables.event.name()
            )));
        };
        if unit != self.unit.ms() {
            return Err(Error::invalid(format!(
                "slots have another length in this table; set time-unit-ms to it, or take another table. table=`{}`, want=`{}`, found=`{unit}`",
                self.tables.event.name(),
                self.unit.ms()
            )));
        }
        Ok(parts)
    }

    /// Sees to it that the table says how we write, and answers what it says.
    pub(super) async fn write_as_set(&self) -> Result<Written> {
        loop {
            let mut written = self.written().await?;
            if !written.parts.insert(self.settings.slot_parts) {
                return Ok(written);
            }
            // Before the first item: of a table that somebody else has made, a template for one.
            if written.item.is_none() && !written.is_indexed && self.is_empty().await? {
                self.mark_indexed().await?;
                written.is_indexed = true;
            }
            let item = tables::own_item(&tables::written_key())
                .with(tables::TIME_UNIT, self.unit.ms())
                .with(tables::PARTS, numbers(&written.parts));
            let before = written
                .item
                .as_ref()
                .and_then(|item| item.get(tables::PARTS));
            let condition = before.map_or(Condition::Absent, |parts| {
                Condition::Equals(tables::PARTS.to_owned(), parts.clone())
            });
            match self.items.put(&self.tables.event, item, condition).await {
                Ok(_) => return Ok(written),
                // Somebody else wrote: what they say is looked at first.
                Err(WriteError::Refused { .. }) => {}
                Err(WriteError::Failed(error)) => return Err(error),
            }
        }
    }

    /// Whether the event table holds nothing at all, so that nothing is missing in its index.
    async fn is_empty(&self) -> Result<bool> {
        let mut pages = scan_pages(
            self.items.clone(),
            self.tables.event.clone(),
            Scan::whole().limit(1),
        );
        while let Some(page) = pages.try_next().await? {
            if !page.items.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes down that every slot which has events is in the index.
    pub(super) async fn mark_indexed(&self) -> Result<()> {
        let mark = tables::own_item(&tables::indexed_key());
        let put = self.items.put(&self.tables.event, mark, Condition::Always);
        put.await?;
        self.is_indexed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a slot that is not in the index is empty.
    pub(super) async fn trusts_index(&self) -> Result<bool> {
        if self.settings.original_writes {
            return Ok(false);
        }
        if self.is_indexed.load(Ordering::Relaxed) {
            return Ok(true);
        }
        Ok(self.written().await?.is_indexed)
    }
}

/// What the settings would get wrong with the log's tables, which were `found` so. Tables that are
/// missing have no hints.
///
/// ```
/// use annals::items::Items;
/// use annals::log::{LogTables, hints};
/// use annals::memory::Memory;
/// use annals::settings::LogSettings;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let (items, settings) = (Memory::new(), LogSettings::default());
/// let tables: Vec<_> = LogTables::of(&settings)?.all().cloned().collect();
/// for table in &tables {
///     items.create_table(table, Default::default()).await?;
/// }
/// assert_eq!(hints(&items, &settings, &tables).await?, []);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As the store fails.
pub async fn hints(
    items: &dyn Items,
    settings: &LogSettings,
    found: &[TableSpec],
) -> Result<Vec<Hint>> {
    let table = LogTables::of(settings)?.event;
    let is_same = |found: &TableSpec| found.name() == table.name() && found.key() == table.key();
    if !found.iter().any(is_same) {
        return Ok(Vec::new());
    }
    let got = items.get(&table, vec![tables::written_key()]).await?;
    let written = got.items.into_iter().flatten().next();
    let unit = written.and_then(|item| item.get(tables::TIME_UNIT)?.as_u64());
    Ok(match unit {
        Some(unit) if unit != settings.time_unit_ms => vec![Hint::wrong(
            &table,
            format!(
                "its slots have {unit} ms and the settings {} ms: events would not be found; set log.time-unit-ms to {unit}",
                settings.time_unit_ms
            ),
        )],
        _ => Vec::new(),
    })
}
