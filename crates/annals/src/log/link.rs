//! Link: brings the index up to date with a table that the original wrote, and writes the original's
//! own links.
//!
//! Promises: after it the index is complete, as long as nobody but us stores events. Each first item
//! of a slot says in `next_slot` which slot with events comes next, as the original's link step has
//! it. Safe to repeat and to die anywhere.
//! Never: removes anything, or changes anything of an event but `next_slot`.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::index::Entered;
use super::tables::{self, Place};
use super::{Log, Slot, Span};
use crate::items::{Condition, Item, Query, Scan, Segment, WriteError, scan_pages};
use crate::{Error, Result};

/// How many items of a table are looked at for the length of its slots.
const SAMPLE: u32 = 50;

/// What a link did.
///
/// ```
/// use annals::Annals;
/// use annals::log::{LinkReport, Span};
/// use annals::settings::LogSettings;
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// let annals = Annals::embedded(folder.path()).await?;
/// let log = annals.create_log(&LogSettings::default()).await?;
/// assert_eq!(log.link(Span::ALL).await?, LinkReport::default());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Events that were read for the index.
    pub read: u64,
    /// Items in partitions that are no slots, which playback does not read.
    pub unknown: u64,
    /// Slots that have events, within the span.
    pub slots: u64,
    /// Links that were written; the others were right already.
    pub linked: u64,
}

impl Log {
    /// Makes the index complete, whatever it says of itself, which reads the whole table, and writes
    /// the links of the span's slots, which asks each of them. It is the repair of an index.
    ///
    /// # Errors
    /// As the store fails, and `Invalid` where slots have another length than the settings say.
    /// Repeating it is safe.
    pub async fn link(&self, span: Span) -> Result<LinkReport> {
        let mut report = LinkReport::default();
        self.write_as_set().await?;
        self.reindex(&mut report).await?;
        if !span.is_empty() {
            self.link_slots(span, &mut report).await?;
        }
        Ok(report)
    }

    /// Makes the index complete where it does not say that it is: nothing is read where it does, and
    /// little where the table is empty.
    ///
    /// # Errors
    /// As [`link`](Self::link).
    pub async fn complete_index(&self) -> Result<()> {
        if !self.write_as_set().await?.is_indexed {
            self.reindex(&mut LinkReport::default()).await?;
        }
        Ok(())
    }

    /// Takes back that the index is complete: for whoever puts events into the table past this log.
    /// Until it is complete again, a playback asks every slot of its span.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn doubt_index(&self) -> Result<()> {
        self.is_indexed.store(false, Ordering::Relaxed);
        let key = tables::indexed_key();
        let deleted = self
            .items
            .delete(&self.tables.event, key, Condition::Always);
        deleted.await?;
        Ok(())
    }

    /// Reads every item and enters its slot; then the index is complete.
    async fn reindex(&self, report: &mut LinkReport) -> Result<()> {
        let entered = tokio::sync::Mutex::new(Entered::default());
        let of = self.settings.sweep_segments;
        let segments = (0..of).map(|index| self.reindex_segment(&entered, Segment { index, of }));
        let segments = stream::iter(segments).buffer_unordered(of as usize);
        let counts: Vec<(u64, u64)> = segments.try_collect().await?;
        for (read, unknown) in counts {
            report.read += read;
            report.unknown += unknown;
        }
        self.mark_indexed().await
    }

    async fn reindex_segment(
        &self,
        entered: &tokio::sync::Mutex<Entered>,
        segment: Segment,
    ) -> Result<(u64, u64)> {
        let (mut read, mut unknown) = (0, 0);
        let scan = Scan::segment(segment);
        let mut pages = scan_pages(self.items.clone(), self.tables.event.clone(), scan);
        while let Some(page) = pages.try_next().await? {
            let mut slots = BTreeSet::new();
            for item in &page.items {
                let place = tables::place_of(item);
                read += u64::from(place != Place::Ours);
                match place {
                    Place::Whole(slot) => {
                        self.check_slot(slot)?;
                        slots.insert((slot, 1));
                    }
                    Place::Unknown => unknown += 1,
                    // Who stores into parts enters the slot first.
                    Place::Part | Place::Ours => {}
                }
            }
            self.enter(entered, slots).await?;
        }
        Ok((read, unknown))
    }

    /// Checks some slots of a table that nobody has looked through: those of another length would not
    /// be found, and nobody told.
    pub(super) async fn check_sample(&self) -> Result<()> {
        if self.is_sampled.load(Ordering::Relaxed) {
            return Ok(());
        }
        let scan = Scan::whole().limit(SAMPLE);
        let page = self.items.scan(&self.tables.event, scan).await?;
        for item in &page.items {
            if let Place::Whole(slot) = tables::place_of(item) {
                self.check_slot(slot)?;
                self.is_sampled.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Checks that a slot is one of those that the settings make.
    pub(super) fn check_slot(&self, slot: Slot) -> Result<()> {
        if Slot::of(slot.start(), self.unit) == slot {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a slot begins where none of this length does: its events would not be found; set time-unit-ms as the table was written. slot=`{slot}`, time-unit-ms=`{}`",
            self.unit.ms()
        )))
    }

    /// Links each slot that has events to the next one.
    async fn link_slots(&self, span: Span, report: &mut LinkReport) -> Result<()> {
        let log = self.clone();
        let slots = self.indexed(span).try_filter(|indexed| {
            // Where a slot is spread the original finds nothing.
            let is_whole = indexed.parts.contains(&1);
            async move { is_whole }
        });
        let firsts = slots.map(move |indexed| {
            let log = log.clone();
            async move {
                let slot = indexed?.slot;
                Ok::<_, Error>((slot, log.first_of(slot).await?))
            }
        });
        let mut firsts = Box::pin(firsts.buffered(self.settings.concurrency));
        let mut before: Option<Item> = None;
        while let Some((slot, first)) = firsts.try_next().await? {
            let Some(first) = first else { continue };
            report.slots += 1;
            if let Some(before) = before.replace(first) {
                report.linked += u64::from(self.link_to(before, slot).await?);
            }
        }
        Ok(())
    }

    async fn first_of(&self, slot: Slot) -> Result<Option<Item>> {
        let query = Query::of(tables::partition(slot, None)).limit(1);
        let page = self.items.query(&self.tables.event, query).await?;
        Ok(page.items.into_iter().next())
    }

    /// Writes a link, unless it is right already; answers whether it did.
    async fn link_to(&self, mut item: Item, next: Slot) -> Result<bool> {
        if tables::next_slot_of(&item) == Some(next) {
            return Ok(false);
        }
        let Some(time) = item.get(tables::EVENT_TIME_STAMP).cloned() else {
            return Ok(false);
        };
        item.insert(tables::NEXT_SLOT, next.to_string());
        let condition = Condition::Equals(tables::EVENT_TIME_STAMP.to_owned(), time);
        match self.items.put(&self.tables.event, item, condition).await {
            Ok(_) => Ok(true),
            // It was replaced meanwhile; the next link sees to it.
            Err(WriteError::Refused { .. }) => Ok(false),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }
}
