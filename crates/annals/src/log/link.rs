//! Link: brings the index up to date with a table that the original wrote, and writes the original's
//! own links.
//!
//! Promises: after it the index is complete, as long as nobody but us stores events. Each first item
//! of a slot says in `next_slot` which slot with events comes next, as the original's link step has
//! it. Safe to repeat and to die anywhere.
//! Never: removes anything, or changes anything of an event but `next_slot`.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::index::Entered;
use super::tables::{self, Place};
use super::{Log, Slot, Span};
use crate::items::{Condition, Item, Query, Scan, Segment, WriteError, scan_pages};
use crate::{Error, Result};

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
    /// Items that were read for the index; none where it was complete.
    pub read: u64,
    /// Items in partitions that are no slots, which playback does not read.
    pub unknown: u64,
    /// Slots that have events, within the span.
    pub slots: u64,
    /// Links that were written; the others were right already.
    pub linked: u64,
}

impl Log {
    /// Makes the index complete where it is not, which reads the whole table, and writes the links
    /// of the span's slots, which asks each of them.
    ///
    /// # Errors
    /// As the store fails. Repeating it is safe.
    pub async fn link(&self, span: Span) -> Result<LinkReport> {
        let mut report = LinkReport::default();
        if !self.trusts_index().await? {
            self.write_as_set().await?;
            self.reindex(&mut report).await?;
        }
        if !span.is_empty() {
            self.link_slots(span, &mut report).await?;
        }
        Ok(report)
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
                read += 1;
                match tables::place_of(item) {
                    Place::Whole(slot) => {
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
