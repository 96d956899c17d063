//! The index of slots: which days have slots, and which slots of a day have events.
//!
//! Promises: an entry is acknowledged before the first event of its slot is stored, so every slot
//! that has events is in the index; a slot in the index may be empty, which does no harm. A day
//! without events costs nothing.
//! Trusts: the mark that says the index is complete (`written.rs`). A table that the original wrote
//! has none until `link` has read it.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::slot::Day;
use super::{Log, Slot, Span, tables};
use crate::items::{Item, KeyPart, Query, SortRange, Write, query_all};
use crate::{Error, Result};

/// A slot, and the numbers of parts that it is spread over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Indexed {
    pub(super) slot: Slot,
    pub(super) parts: BTreeSet<u32>,
}

/// The entries that a pass has written, so that each is written once.
#[derive(Debug, Default)]
pub(super) struct Entered {
    slots: BTreeSet<(Slot, u32)>,
    days: BTreeSet<Day>,
}

/// More than these are not remembered; writing an entry twice only costs.
const ENTERED_MAX: usize = 100_000;

impl Entered {
    fn missing(&self, wanted: &BTreeSet<(Slot, u32)>) -> BTreeSet<(Slot, u32)> {
        wanted.difference(&self.slots).copied().collect()
    }

    fn add(&mut self, slots: BTreeSet<(Slot, u32)>) {
        if self.slots.len() > ENTERED_MAX {
            self.slots.clear();
        }
        self.days.extend(slots.iter().map(|(slot, _)| slot.day()));
        self.slots.extend(slots);
    }
}

fn between(low: impl Into<KeyPart>, high: impl Into<KeyPart>) -> SortRange {
    SortRange::Between(low.into(), high.into())
}

impl Log {
    /// Enters slots into the index, each with its number of parts. Two passes at once write the
    /// same.
    pub(super) async fn enter(
        &self,
        entered: &tokio::sync::Mutex<Entered>,
        wanted: BTreeSet<(Slot, u32)>,
    ) -> Result<()> {
        let mut entered = entered.lock().await;
        let missing = entered.missing(&wanted);
        let days: BTreeSet<Day> = missing.iter().map(|(slot, _)| slot.day()).collect();
        let days = days
            .difference(&entered.days)
            .map(|day| tables::day_item(*day));
        let slots = missing
            .iter()
            .map(|(slot, parts)| tables::slot_item(*slot, *parts));
        let writes = days.chain(slots).map(Write::Put).collect();
        let ended = self.write_all(&self.tables.event, writes).await;
        match ended.failure {
            Some(error) => Err(error),
            None => {
                entered.add(missing);
                Ok(())
            }
        }
    }

    fn own_items(
        &self,
        partition: String,
        range: SortRange,
    ) -> impl stream::Stream<Item = Result<Item>> + Send + Unpin + use<> {
        let query = Query::of(partition).within(range);
        query_all(self.items.clone(), self.tables.event.clone(), query)
    }

    /// The slots of a span that are in the index, in order, as they are read.
    pub(super) fn indexed(
        &self,
        span: Span,
    ) -> impl stream::Stream<Item = Result<Indexed>> + Send + use<> {
        let (first, last) = (
            Slot::of(span.start(), self.unit),
            Slot::of(span.last(), self.unit),
        );
        let range = between(first.day().to_string(), last.day().to_string());
        let days = self.own_items(tables::days().to_owned(), range);
        let log = self.clone();
        let entries = days
            .and_then(|item| async move { tables::day_of(&item) })
            .map_ok(move |day| {
                let range = between(first.to_string(), tables::behind_slot(last));
                log.own_items(tables::slots(day), range)
            })
            .try_flatten();
        grouped(entries)
    }
}

/// Entries of one slot, one behind the other, become one.
fn grouped(
    entries: impl stream::Stream<Item = Result<Item>> + Send,
) -> impl stream::Stream<Item = Result<Indexed>> + Send {
    let entries = Box::pin(entries);
    stream::try_unfold(
        (entries, None::<Indexed>),
        |(mut entries, mut open)| async move {
            loop {
                let Some(item) = entries.next().await.transpose()? else {
                    return Ok::<_, Error>(open.map(|last| (last, (entries, None))));
                };
                let (slot, parts) = tables::slot_of(&item)?;
                match &mut open {
                    Some(indexed) if indexed.slot == slot => {
                        indexed.parts.insert(parts);
                    }
                    _ => {
                        let parts = BTreeSet::from([parts]);
                        let done = open.replace(Indexed { slot, parts });
                        if let Some(done) = done {
                            return Ok(Some((done, (entries, open))));
                        }
                    }
                }
            }
        },
    )
}
