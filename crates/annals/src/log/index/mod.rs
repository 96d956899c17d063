//! Index: which slots have events, whether that list is complete, and how far it is safe to read
//! (`horizon`). Sweeps write it, playback reads it, `link` repairs it.
//!
//! Guarantees: the entry of a slot is acknowledged before its first event is stored, so every slot
//! with events is in the index. A slot in the index may be empty, which is harmless. A day without
//! events costs nothing.
//! Relies on: the item that says the index is complete (`metadata`). A table that the original wrote
//! lacks it until `link` has read the table.

pub(crate) mod horizon;
pub(crate) mod link;
pub(crate) mod metadata;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{self, Stream, StreamExt, TryStreamExt};

use self::metadata::Metadata;
use super::shared::{Change, Shared};
use super::slot::Day;
use super::tables::{self, EventPartition};
use super::{Slot, Span};
use crate::Result;
use crate::items::{Condition, Item, KeyPart, Query, Scan, SortRange, Write};

/// How many items of a table are sampled for the length of its slots.
const SAMPLE: u32 = 50;

/// The index stage. Clones share what they have learned about the table.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    shared: Arc<Shared>,
    seen: Arc<Seen>,
}

/// What was seen once and stays true.
#[derive(Debug, Default)]
struct Seen {
    is_complete: AtomicBool,
    /// Whether some slots have the length in the settings.
    has_sample: AtomicBool,
}

/// Which slots a playback has to read.
#[derive(Debug)]
pub(crate) enum Coverage {
    /// Those in the index.
    Complete,
    /// Every slot, spread over any of these numbers of parts.
    Unknown(BTreeSet<u32>),
}

/// A slot and the numbers of parts that it is spread over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexedSlot {
    pub(crate) slot: Slot,
    pub(crate) parts: BTreeSet<u32>,
}

impl Index {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            seen: Arc::default(),
        }
    }

    /// Reads the table metadata.
    ///
    /// # Errors
    /// `Invalid` if the slots of the table have another length than in the settings.
    pub(crate) async fn metadata(&self) -> Result<Metadata> {
        let metadata = metadata::read(&self.shared).await?;
        if metadata.is_indexed {
            self.seen.is_complete.store(true, Ordering::Relaxed);
        }
        Ok(metadata)
    }

    /// Adds the number of parts in the settings to the table metadata, before the first event is
    /// stored that way.
    pub(crate) async fn declare_parts(&self) -> Result<Metadata> {
        let mut metadata = self.metadata().await?;
        if metadata.parts.contains(&self.shared.format.parts) {
            return Ok(metadata);
        }
        let is_new = metadata.item.is_none() && !metadata.is_indexed;
        // Nothing is missing in the index of an empty table, whoever created it.
        if is_new && self.is_table_empty().await? {
            self.mark_complete().await?;
            metadata.is_indexed = true;
        }
        let update = |current: Option<&Item>| {
            let parts = current.map(|item| metadata::parts_of(&self.shared, item));
            let mut parts = parts.transpose()?.unwrap_or_default();
            Ok(match parts.insert(self.shared.format.parts) {
                true => Change::Replace(metadata::item(&self.shared, &parts), parts),
                false => Change::Keep(parts),
            })
        };
        let current = metadata.item.take();
        metadata.parts = self.shared.update(current, tables::PARTS, update).await?;
        Ok(metadata)
    }

    async fn is_table_empty(&self) -> Result<bool> {
        let scan = Scan::whole().limit(1);
        let mut pages = self.shared.scan(&self.shared.tables.event, scan);
        while let Some(page) = pages.try_next().await? {
            if !page.items.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Records that every slot with events is in the index.
    pub(crate) async fn mark_complete(&self) -> Result<()> {
        let item = tables::system_item(&tables::indexed_key());
        let table = &self.shared.tables.event;
        self.shared.put(table, item, Condition::Always).await?;
        self.seen.is_complete.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Records that slots with events may be missing in the index.
    pub(crate) async fn mark_incomplete(&self) -> Result<()> {
        self.seen.is_complete.store(false, Ordering::Relaxed);
        self.shared.delete(tables::indexed_key()).await
    }

    /// Which slots a playback has to read.
    pub(crate) async fn coverage(&self) -> Result<Coverage> {
        let is_ours = !self.shared.settings.original_writes;
        if is_ours && self.seen.is_complete.load(Ordering::Relaxed) {
            return Ok(Coverage::Complete);
        }
        let metadata = self.metadata().await?;
        if is_ours && metadata.is_indexed {
            return Ok(Coverage::Complete);
        }
        self.check_sample().await?;
        Ok(Coverage::Unknown(metadata.all_parts()))
    }

    /// Checks the length of some slots, because a playback of every slot finds no slots of another
    /// length and would return nothing.
    async fn check_sample(&self) -> Result<()> {
        if self.seen.has_sample.load(Ordering::Relaxed) {
            return Ok(());
        }
        let scan = Scan::whole().limit(SAMPLE);
        let page = self.shared.store.scan(&self.shared.tables.event, scan);
        for item in &page.await?.items {
            if let EventPartition::Slot(slot) = tables::event_partition(item) {
                self.shared.format.check(slot)?;
                self.seen.has_sample.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The indexed slots of a span, in order, as they are read.
    pub(crate) fn slots(
        &self,
        span: Span,
    ) -> impl Stream<Item = Result<IndexedSlot>> + Send + use<> {
        let format = &self.shared.format;
        let (first, last) = (format.slot(span.start()), format.slot(span.last()));
        let days = between(first.day().to_string(), last.day().to_string());
        let days = self.shared.query(Query::of(tables::DAYS).within(days));
        let shared = self.shared.clone();
        let entries = days
            .and_then(|item| async move { tables::day_of(&item) })
            .map_ok(move |day| {
                let slots = between(first.to_string(), tables::after_slot(last));
                shared.query(Query::of(tables::slots(day)).within(slots))
            })
            .try_flatten();
        grouped(entries)
    }

    /// A writer of the entries of slots that are spread over `parts`, for one pass over a table.
    pub(crate) fn writer(&self, parts: u32) -> EntryWriter {
        EntryWriter {
            shared: self.shared.clone(),
            parts,
            written: tokio::sync::Mutex::default(),
        }
    }
}

fn between(low: impl Into<KeyPart>, high: impl Into<KeyPart>) -> SortRange {
    SortRange::Between(low.into(), high.into())
}

/// Merges consecutive entries of one slot.
fn grouped(
    entries: impl Stream<Item = Result<Item>> + Send,
) -> impl Stream<Item = Result<IndexedSlot>> + Send {
    let entries = Box::pin(entries);
    let start = (entries, None::<IndexedSlot>);
    stream::try_unfold(start, |(mut entries, mut open)| async move {
        while let Some(item) = entries.next().await.transpose()? {
            let (slot, parts) = tables::slot_of(&item)?;
            match &mut open {
                Some(indexed) if indexed.slot == slot => {
                    indexed.parts.insert(parts);
                }
                _ => {
                    let parts = BTreeSet::from([parts]);
                    if let Some(done) = open.replace(IndexedSlot { slot, parts }) {
                        return Ok(Some((done, (entries, open))));
                    }
                }
            }
        }
        Ok(open.map(|last| (last, (entries, None))))
    })
}

/// Writes index entries, each once per pass. Two passes at once write the same.
#[derive(Debug)]
pub(crate) struct EntryWriter {
    shared: Arc<Shared>,
    parts: u32,
    written: tokio::sync::Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    slots: BTreeSet<Slot>,
    days: BTreeSet<Day>,
}

/// More entries than this are not remembered. Writing an entry twice only costs.
const WRITTEN_MAX: usize = 100_000;

impl EntryWriter {
    /// Writes the entries of slots, and returns when they are stored.
    pub(crate) async fn write(&self, mut slots: BTreeSet<Slot>) -> Result<()> {
        let mut written = self.written.lock().await;
        slots.retain(|slot| !written.slots.contains(slot));
        let mut days: BTreeSet<Day> = slots.iter().map(|slot| slot.day()).collect();
        days.retain(|day| !written.days.contains(day));
        let slot_entry = |slot: &Slot| tables::slot_entry(*slot, self.parts);
        let entries = days.iter().map(|day| tables::day_entry(*day));
        let entries = entries.chain(slots.iter().map(slot_entry));
        let puts = entries.map(Write::Put).collect();
        let batch = self.shared.write(&self.shared.tables.event, puts).await;
        if let Some(error) = batch.failure {
            return Err(error);
        }
        if written.slots.len() > WRITTEN_MAX {
            written.slots.clear();
        }
        written.days.extend(days);
        written.slots.extend(slots);
        Ok(())
    }
}
