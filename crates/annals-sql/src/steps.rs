//! The deliveries of a batch as calls of a view; and where appends begin in a batch.

use std::panic::AssertUnwindSafe;

use annals::feed::Position;
use annals::projection::{Delivered, Delivery, Fed, ShareContext};
use annals::{Error, PersistenceId, SequenceNumber};
use futures::FutureExt;

use crate::{Connection, SqlView};

/// A call of a view.
pub(crate) enum Step<'a, E> {
    Events(Vec<Fed<E>>),
    Deleted(&'a PersistenceId, SequenceNumber),
    Purged(&'a PersistenceId),
    Missing(&'a PersistenceId, SequenceNumber),
}

/// The calls of a batch, each with the index of its first delivery, and the first delivery that cannot be
/// read.
pub(crate) struct Steps<'a, E> {
    pub(crate) calls: Vec<(usize, Step<'a, E>)>,
    pub(crate) unreadable: Option<(usize, Error)>,
}

impl<'a, E: annals::entity::EntityEvent> Steps<'a, E> {
    /// Reads deliveries. Events that follow each other come in one call; or each delivery in its own.
    pub(crate) fn read(share: &ShareContext, batch: &'a [Delivery], one_by_one: bool) -> Self {
        let mut calls: Vec<(usize, Step<'a, E>)> = Vec::new();
        for (index, delivery) in batch.iter().enumerate() {
            let id = &delivery.id;
            let step = match &delivery.what {
                Delivered::Deleted(to) => Step::Deleted(id, *to),
                Delivered::Purged => Step::Purged(id),
                Delivered::Missing(number) => Step::Missing(id, *number),
                Delivered::Event(event) => match share.read::<E>(event) {
                    Ok(events) => Step::Events(events),
                    Err(error) => {
                        let unreadable = Some((index, error));
                        return Self { calls, unreadable };
                    }
                },
                other => {
                    let error = Error::invalid(
                        "this version cannot handle what happened; update annals-sql",
                    );
                    let unreadable = Some((index, error.fact("what", format!("{other:?}"))));
                    return Self { calls, unreadable };
                }
            };
            match (step, calls.last_mut()) {
                (Step::Events(events), Some((_, Step::Events(all)))) if !one_by_one => {
                    all.extend(events);
                }
                (step, _) => calls.push((index, step)),
            }
        }
        Self {
            calls,
            unreadable: None,
        }
    }
}

impl<E> Step<'_, E> {
    /// Calls the view. A panic becomes an error.
    pub(crate) async fn call<V: SqlView<Event = E>>(
        &self,
        view: &V,
        tx: &mut Connection<V>,
    ) -> crate::Result {
        let call = match self {
            // Adapters may leave nothing.
            Self::Events(events) if events.is_empty() => return Ok(()),
            Self::Events(events) => view.apply_all(events, tx),
            Self::Deleted(id, to) => view.deleted(id, *to, tx),
            Self::Purged(id) => view.purged(id, tx),
            Self::Missing(id, number) => view.missing(id, *number, tx),
        };
        let outcome = AssertUnwindSafe(call).catch_unwind().await;
        outcome.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let error = Error::invalid("the code of the view panicked");
            Err(error.fact("panic", text.unwrap_or_default()).into())
        })
    }
}

/// The place of the append that a delivery is from, in its lane.
fn place(delivery: &Delivery) -> u64 {
    match delivery.at.number {
        0 => delivery.at.place,
        // Within the append at the next place.
        _ => delivery.at.place + 1,
    }
}

/// The index of the first delivery of the same append.
pub(crate) fn start_of_append(batch: &[Delivery], index: usize) -> usize {
    let Some(delivery) = batch.get(index) else {
        return batch.len();
    };
    let same = |one: &&Delivery| (one.lane, place(one)) == (delivery.lane, place(delivery));
    index - batch.iter().take(index).rev().take_while(same).count()
}

/// The index after the last delivery of the append at an index.
pub(crate) fn end_of_append(batch: &[Delivery], index: usize) -> usize {
    let is_next = |end: &usize| start_of_append(batch, *end) > index;
    (index + 1..batch.len())
        .find(is_next)
        .unwrap_or(batch.len())
}

/// Whether all deliveries come after a position.
pub(crate) fn is_after(at: &Position, batch: &[Delivery]) -> bool {
    let mut all = batch.iter();
    all.all(|delivery| delivery.at > at.lane(delivery.lane.0))
}

/// The position after deliveries.
pub(crate) fn position_after(from: &Position, batch: &[Delivery]) -> Position {
    batch.iter().fold(from.clone(), |at, delivery| {
        let lane = delivery.lane.0;
        let after = delivery.at.max(at.lane(lane));
        at.with_lane(lane, after)
    })
}

/// The later one of two positions of the same feed, lane by lane.
pub(crate) fn later(one: &Position, other: &Position) -> Position {
    let lanes = other.lanes().iter().zip(0..);
    lanes.fold(one.clone(), |at, (lane_at, lane)| {
        let after = at.lane(lane).max(*lane_at);
        at.with_lane(lane, after)
    })
}
