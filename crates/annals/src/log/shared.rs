//! What every stage of the log shares: the store, the tables and the settings, with the few ways in
//! which stages read and write.
//!
//! The store splits a batch into requests and bounds how many are in flight. One call for a whole
//! batch lets the embedded store make it durable with one sync.

use std::collections::HashSet;
use std::sync::Arc;

use super::slot::TimeUnit;
use super::tables::{self, SlotFormat};
use super::{LogTables, Time};
use crate::items::{
    Condition, Item, ItemStream, Key, PageStream, Query, Scan, TableSpec, Write, WriteError,
};
use crate::settings::LogSettings;
use crate::store::Store;
use crate::{Error, Result};

/// How often a conditional put is tried while other processes change the same item. Each attempt
/// starts from the item that refused the one before it.
pub(super) const ATTEMPTS_MAX: u32 = 10;
/// The most partitions that a slot is spread over.
const PARTS_MAX: u32 = 100;

/// What every stage of the log works on.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) tables: LogTables,
    pub(super) format: SlotFormat,
    pub(super) settings: LogSettings,
}

/// How a conditional put ended.
#[derive(Debug)]
pub(super) enum Put {
    Stored,
    /// The condition did not hold for this item.
    Refused(Option<Item>),
}

/// How a batch of writes ended.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The keys of the writes that were not confirmed.
    pub(super) unconfirmed: HashSet<Key>,
    /// Why, if there are any.
    pub(super) failure: Option<Error>,
}

/// What an update does with the current item.
#[derive(Debug)]
pub(super) enum Change<T> {
    /// Leave it, and return this.
    Keep(T),
    /// Replace it by this item, and return this.
    Replace(Item, T),
}

impl Shared {
    pub(super) fn new(store: &Store, settings: &LogSettings) -> Result<Self> {
        check(settings)?;
        let tables = LogTables::new(settings)?;
        let format = SlotFormat {
            table: tables.event.clone(),
            unit: TimeUnit::from_ms(settings.time_unit_ms)?,
            parts: settings.slot_parts,
            decodes: settings.decode_payload,
        };
        Ok(Self {
            store: store.clone(),
            tables,
            format,
            settings: settings.clone(),
        })
    }

    pub(super) fn now(&self) -> Time {
        Time::from_clock(self.store.clock().now_ms())
    }

    /// One item of the event table.
    pub(super) async fn get(&self, key: Key) -> Result<Option<Item>> {
        let got = self.store.get(&self.tables.event, vec![key]).await?;
        Ok(got.items.into_iter().next().flatten())
    }

    /// The items of a partition of the event table.
    pub(super) fn query(&self, query: Query) -> ItemStream {
        self.store.query_all(&self.tables.event, query)
    }

    /// The pages of a table.
    pub(super) fn scan(&self, table: &Arc<TableSpec>, scan: Scan) -> PageStream {
        self.store.scan_pages(table, scan)
    }

    /// Puts an item if the condition holds.
    pub(super) async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Put> {
        match self.store.put(table, item, condition).await {
            Ok(_) => Ok(Put::Stored),
            Err(WriteError::Refused { existing, .. }) => {
                Ok(Put::Refused(existing.map(|existing| *existing)))
            }
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// Deletes an item of the event table.
    pub(super) async fn delete(&self, key: Key) -> Result<()> {
        let deleted = self
            .store
            .delete(&self.tables.event, key, Condition::Always);
        deleted.await?;
        Ok(())
    }

    /// Deletes an item of the event table; returns whether there was one.
    pub(super) async fn delete_existing(&self, key: Key) -> Result<bool> {
        let table = &self.tables.event;
        let partition = (table.key().partition.name.clone(), key.partition.clone());
        let exists = Condition::Equals(partition.0, partition.1.into());
        match self.store.delete(table, key, exists).await {
            Ok(_) => Ok(true),
            // An earlier attempt may have deleted it, and only its response was lost.
            Err(WriteError::Refused { cost, .. }) => Ok(cost.requests > 1),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// Puts and deletes, unconditionally and not atomically.
    pub(super) async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Batch {
        if writes.is_empty() {
            return Batch::default();
        }
        let Err(error) = self.store.write(table, writes).await else {
            return Batch::default();
        };
        let key_of = |write: &Write| match write {
            Write::Put(item) => table.key_of(item).ok(),
            Write::Delete(key) => Some(key.clone()),
        };
        Batch {
            unconfirmed: error.remaining.iter().filter_map(key_of).collect(),
            failure: Some(error.into()),
        }
    }

    /// Changes one item of the event table if its `attribute` is unchanged since it was read.
    ///
    /// `current` is the item as the caller knows it. A refusal returns the item that is there, and
    /// `change` decides again.
    ///
    /// # Errors
    /// `Unavailable` if every one of [`ATTEMPTS_MAX`] attempts was refused.
    pub(super) async fn update<T>(
        &self,
        mut current: Option<Item>,
        attribute: &str,
        mut change: impl FnMut(Option<&Item>) -> Result<Change<T>>,
    ) -> Result<T> {
        for _ in 0..ATTEMPTS_MAX {
            let (item, result) = match change(current.as_ref())? {
                Change::Keep(result) => return Ok(result),
                Change::Replace(item, result) => (item, result),
            };
            let value = current.and_then(|mut current| current.remove(attribute));
            let condition = value.map_or(Condition::Absent, |value| {
                Condition::Equals(attribute.to_owned(), value)
            });
            match self.put(&self.tables.event, item, condition).await? {
                Put::Stored => return Ok(result),
                Put::Refused(existing) => current = existing,
            }
        }
        Err(keeps_changing(current.as_ref()))
    }
}

/// The error after [`ATTEMPTS_MAX`] refusals, the last of them by this item.
pub(super) fn keeps_changing(item: Option<&Item>) -> Error {
    let name = item.map(tables::name_of).unwrap_or_default();
    Error::unavailable("another process keeps changing an item of the log; retry later")
        .fact("item", name)
        .fact("attempts", ATTEMPTS_MAX)
}

fn check(settings: &LogSettings) -> Result<()> {
    let parts = settings.slot_parts;
    if !(1..=PARTS_MAX).contains(&parts) {
        return Err(Error::invalid(format!(
            "slot-parts is out of range; set it from 1 to {PARTS_MAX}"
        ))
        .fact("slot-parts", parts));
    }
    if parts > 1 && settings.original_writes {
        return Err(Error::invalid(
            "slots cannot be spread while the original writes to the table; set slot-parts to 1, or original-writes to false",
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
            "{name} is out of range; set it from 1 to 1000"
        ))
        .fact(*name, count)),
    }
}
