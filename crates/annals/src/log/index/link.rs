//! Link: completes the index of a table that the original wrote, and writes the original's links.
//!
//! Guarantees: after it the index is complete, as long as only this log stores events. The first item
//! of each slot has in `next_slot` the next slot with events, as the original's link step writes it.
//! It can be repeated, and can stop anywhere. It deletes nothing, and of an event it changes only
//! `next_slot`.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::super::shared::{Put, Shared};
use super::super::tables::{self, EventPartition};
use super::super::{Slot, Span};
use super::{EntryWriter, Index};
use crate::items::{Condition, Item, Query, Scan, Segment};
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
#[non_exhaustive]
pub struct LinkReport {
    /// Events that were read to complete the index.
    pub read: u64,
    /// Items in partitions that are not slots. Playback does not read them.
    pub unknown: u64,
    /// Slots of the span that have events.
    pub slots: u64,
    /// Links that were written; the others were right already.
    pub linked: u64,
}

/// Completes the index and links the slots of a span.
pub(crate) async fn run(index: &Index, span: Span) -> Result<LinkReport> {
    index.declare_parts().await?;
    let mut report = reindex(index).await?;
    if !span.is_empty() {
        link_slots(index, span, &mut report).await?;
    }
    Ok(report)
}

/// Completes the index if it is not marked as complete.
pub(crate) async fn complete(index: &Index) -> Result<()> {
    if !index.declare_parts().await?.is_indexed {
        reindex(index).await?;
    }
    Ok(())
}

/// Reads every item, writes the entry of its slot, and marks the index as complete.
async fn reindex(index: &Index) -> Result<LinkReport> {
    let shared = &index.shared;
    // Parts of a slot need no entries: whoever stores into parts writes the entry first.
    let entries = index.writer(1);
    let of = shared.settings.sweep_segments;
    let segments = (0..of).map(|index| reindex_segment(shared, &entries, Segment { index, of }));
    let segments = stream::iter(segments).buffer_unordered(of as usize);
    let report = segments.try_fold(LinkReport::default(), |mut report, segment| async move {
        report.read += segment.read;
        report.unknown += segment.unknown;
        Ok(report)
    });
    let report = report.await?;
    index.mark_complete().await?;
    Ok(report)
}

async fn reindex_segment(
    shared: &Shared,
    entries: &EntryWriter,
    segment: Segment,
) -> Result<LinkReport> {
    let mut report = LinkReport::default();
    let mut pages = shared.scan(&shared.tables.event, Scan::segment(segment));
    while let Some(page) = pages.try_next().await? {
        let mut slots = BTreeSet::new();
        for item in &page.items {
            let partition = tables::event_partition(item);
            report.read += u64::from(partition != EventPartition::System);
            match partition {
                EventPartition::Slot(slot) => {
                    shared.format.check(slot)?;
                    slots.insert(slot);
                }
                EventPartition::Unknown => report.unknown += 1,
                EventPartition::SlotPart | EventPartition::System => {}
            }
        }
        entries.write(slots).await?;
    }
    Ok(report)
}

/// Links each slot with events to the next one.
async fn link_slots(index: &Index, span: Span, report: &mut LinkReport) -> Result<()> {
    let shared = &index.shared;
    let firsts = index.slots(span).try_filter_map(|indexed| async move {
        // The original does not find events in spread slots.
        Ok(indexed.parts.contains(&1).then_some(indexed.slot))
    });
    let firsts = firsts.map(|slot| async move {
        let slot = slot?;
        Ok::<_, Error>((slot, first_of(shared, slot).await?))
    });
    let mut firsts = Box::pin(firsts.buffered(shared.settings.concurrency));
    let mut before: Option<Item> = None;
    while let Some((slot, first)) = firsts.try_next().await? {
        let Some(first) = first else { continue };
        report.slots += 1;
        if let Some(before) = before.replace(first) {
            report.linked += u64::from(link_to(shared, before, slot).await?);
        }
    }
    Ok(())
}

async fn first_of(shared: &Shared, slot: Slot) -> Result<Option<Item>> {
    let query = Query::of(tables::slot_partition(slot)).limit(1);
    let page = shared.store.query(&shared.tables.event, query).await?;
    Ok(page.items.into_iter().next())
}

/// Writes a link unless it is right already. Returns whether it was written.
async fn link_to(shared: &Shared, mut item: Item, next: Slot) -> Result<bool> {
    if tables::next_slot_of(&item) == Some(next) {
        return Ok(false);
    }
    let Some(time) = item.get(tables::EVENT_TIME_STAMP).cloned() else {
        return Ok(false);
    };
    item.insert(tables::NEXT_SLOT, next.to_string());
    let condition = Condition::Equals(tables::EVENT_TIME_STAMP.to_owned(), time);
    // If the item was replaced meanwhile, the next link writes it.
    let put = shared.put(&shared.tables.event, item, condition).await?;
    Ok(matches!(put, Put::Stored))
}
