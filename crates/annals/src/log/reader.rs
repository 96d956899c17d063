//! One slot, read in order: by time, then by id, over all the parts it is spread over.
//!
//! Promises: holds a page of each part and the events of one millisecond, no more. Every page is
//! read. An event that stands under two numbers of parts, because the setting changed while a sweep
//! died, is given once.
//! Trusts: the index by time for the order of times, not for the order of ties.

use std::collections::VecDeque;
use std::pin::Pin;

use futures::future::try_join_all;
use futures::stream::{Stream, TryStreamExt};

use super::index::Indexed;
use super::{Log, LogEvent, Slot, Span, Time, tables};
use crate::items::{KeyPart, Page, Query, SortRange, query_pages};
use crate::{Error, Result};

/// One part of a slot.
struct Part {
    pages: Pin<Box<dyn Stream<Item = Result<Page>> + Send>>,
    slot: Slot,
    end: Time,
    ahead: VecDeque<LogEvent>,
    link: Option<Slot>,
}

impl Part {
    /// Reads pages until an event is ahead, or all are read.
    async fn fill(&mut self) -> Result<()> {
        while self.ahead.is_empty() {
            let Some(page) = self.pages.try_next().await? else {
                return Ok(());
            };
            for item in page.items {
                let link = tables::next_slot_of(&item);
                let event = tables::log_event_of(self.slot, item)?;
                if event.time < self.slot.start() || event.time >= self.end {
                    return Err(Error::corrupt(format!(
                        "an event stands in a slot that its time is not in; set time-unit-ms as the table was written. event id=`{}`, time=`{}`, slot=`{}`",
                        event.event_id, event.time, self.slot
                    )));
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

    /// Takes every event of a time that is the next one.
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

/// A slot being read.
pub(super) struct SlotReader {
    parts: Vec<Part>,
    /// Events of one time, the first one last.
    ties: Vec<LogEvent>,
}

impl SlotReader {
    /// The next event.
    pub(super) async fn next(&mut self) -> Result<Option<LogEvent>> {
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

    /// The nearest slot that the events read so far say is the next.
    pub(super) fn link(&self) -> Option<Slot> {
        self.parts
            .iter()
            .fold(None, |link, part| earlier(link, part.link))
    }
}

/// Which times of a slot are in the span.
fn range(slot: Slot, end: Time, span: Span) -> SortRange {
    let text = |time: Time| KeyPart::from(time.to_string());
    match (span.start() > slot.start(), span.end() < end) {
        (false, false) => SortRange::All,
        (true, false) => SortRange::AtLeast(text(span.start())),
        (false, true) => SortRange::Below(text(span.end())),
        (true, true) => SortRange::Between(text(span.start()), text(span.last())),
    }
}

impl Log {
    /// Opens a slot for what of it lies in the span: a request for each of its parts.
    pub(super) async fn open_slot(&self, indexed: Indexed, span: Span) -> Result<SlotReader> {
        let slot = indexed.slot;
        self.check_slot(slot)?;
        let end = slot.end(self.unit);
        let range = range(slot, end, span);
        let partitions = indexed
            .parts
            .iter()
            .flat_map(|parts| tables::partitions(slot, *parts));
        let opening = partitions.map(|partition| async {
            let query = Query::of(partition)
                .on(tables::BY_TIME)
                .within(range.clone());
            let (items, table) = (self.items.clone(), self.tables.event.clone());
            let mut part = Part {
                pages: Box::pin(query_pages(items, table, query)),
                slot,
                end,
                ahead: VecDeque::new(),
                link: None,
            };
            part.fill().await?;
            Ok::<_, Error>(part)
        });
        Ok(SlotReader {
            parts: try_join_all(opening).await?,
            ties: Vec::new(),
        })
    }
}
