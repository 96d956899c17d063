//! One slot, read in order: by time, then by id, over all parts that it is spread over.
//!
//! Guarantees: memory is bounded by a page of each part and the events of one millisecond. Every page
//! is read. An event that is stored under two numbers of parts, because the setting changed while a
//! sweep died, is returned once.
//! Relies on: the time index for the order of times, not for the order of ties.

use std::collections::VecDeque;

use futures::future::try_join_all;
use futures::stream::TryStreamExt;

use super::super::index::IndexedSlot;
use super::super::shared::Shared;
use super::super::{LogEvent, Slot, Span, Time, tables};
use super::Read;
use crate::items::{KeyPart, PageStream, Query, SortRange};
use crate::{Error, Result};

/// One part of a slot.
struct Part {
    pages: PageStream,
    slot: Slot,
    end: Time,
    ahead: VecDeque<LogEvent>,
    link: Option<Slot>,
}

impl Part {
    /// Reads pages until an event is ahead, or to the end.
    async fn fill(&mut self) -> Result<()> {
        while self.ahead.is_empty() {
            let Some(page) = self.pages.try_next().await? else {
                return Ok(());
            };
            for item in page.items {
                let link = tables::next_slot_of(&item);
                let event = tables::log_event_of(self.slot, item)?;
                if event.time < self.slot.start() || event.time >= self.end {
                    return Err(Error::corrupt(
                        "the time of an event is outside its slot; set time-unit-ms to the length that the table was written with",
                    )
                    .fact("event id", event.event_id)
                    .fact("time", event.time)
                    .fact("slot", self.slot));
                }
                self.link = earlier(self.link, link);
                self.ahead.push_back(event);
            }
        }
        Ok(())
    }

    fn next_time(&self) -> Option<Time> {
        self.ahead.front().map(|event| event.time)
    }

    /// Takes the next events if they have this time.
    async fn take_all(&mut self, time: Time, into: &mut Vec<LogEvent>) -> Result<()> {
        while self.next_time() == Some(time) {
            into.extend(self.ahead.pop_front());
            self.fill().await?;
        }
        Ok(())
    }
}

fn earlier(a: Option<Slot>, b: Option<Slot>) -> Option<Slot> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// An open slot.
pub(super) struct SlotReader {
    parts: Vec<Part>,
    /// Events of one millisecond, in reverse.
    ties: Vec<LogEvent>,
}

impl SlotReader {
    /// Opens the events of a slot that are in the span, with a request per part.
    pub(super) async fn open(shared: &Shared, indexed: IndexedSlot, span: Span) -> Result<Self> {
        let (slot, format) = (indexed.slot, &shared.format);
        format.check(slot)?;
        let end = slot.end(format.unit);
        let range = range(slot, end, span);
        let partitions = indexed
            .parts
            .iter()
            .flat_map(|parts| tables::slot_partitions(slot, *parts));
        let opening = partitions.map(|partition| async {
            let query = Query::of(partition)
                .on(tables::BY_TIME)
                .within(range.clone());
            let mut part = Part {
                pages: shared.store.query_pages(&shared.tables.event, query),
                slot,
                end,
                ahead: VecDeque::new(),
                link: None,
            };
            part.fill().await?;
            Ok::<_, Error>(part)
        });
        Ok(Self {
            parts: try_join_all(opening).await?,
            ties: Vec::new(),
        })
    }

    /// The nearest slot that the events read so far link to.
    pub(super) fn link(&self) -> Option<Slot> {
        self.parts
            .iter()
            .fold(None, |link, part| earlier(link, part.link))
    }
}

impl Read for SlotReader {
    async fn next(&mut self) -> Result<Option<LogEvent>> {
        if let Some(event) = self.ties.pop() {
            return Ok(Some(event));
        }
        let Some(time) = self.parts.iter().filter_map(Part::next_time).min() else {
            return Ok(None);
        };
        for part in &mut self.parts {
            part.take_all(time, &mut self.ties).await?;
        }
        if self.ties.len() > 1 {
            self.ties.sort_by(|a, b| b.event_id.cmp(&a.event_id));
            let same = |a: &mut LogEvent, b: &mut LogEvent| {
                a.event_id == b.event_id && a.payload.is_same(&b.payload)
            };
            self.ties.dedup_by(same);
        }
        Ok(self.ties.pop())
    }
}

/// The times of a slot that are in the span.
fn range(slot: Slot, end: Time, span: Span) -> SortRange {
    let text = |time: Time| KeyPart::from(time.to_string());
    match (span.start() > slot.start(), span.end() < end) {
        (false, false) => SortRange::All,
        (true, false) => SortRange::AtLeast(text(span.start())),
        (false, true) => SortRange::Below(text(span.end())),
        (true, true) => SortRange::Between(text(span.start()), text(span.last())),
    }
}
