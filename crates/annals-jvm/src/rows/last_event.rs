//! Checks before an append that the expected event is last, if this process does not know it from
//! its own writes and reads, or was wrong about it.
//!
//! Guarantees: an append gets a conflict only if it can never succeed. An append that is stored, but
//! whose response was lost, is recognised, even if it was deleted since, as long as the format keeps
//! its token. An interrupted batch of ours is resumed; another writer's is awaited and then
//! abandoned.

use std::time::Duration;

use super::format::RowAppend;
use super::row::{Head, Row};
use annals::journal::{Appended, Stamped};
use annals::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How often and how long to wait for another writer's batch before it is abandoned.
const WAITS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// The number of attempts in total, while other writers' batches grow, fail and are closed.
const ROUNDS_MAX: usize = 64;

/// An append, and the event it goes after; 0: none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) id: &'a PersistenceId,
    pub(crate) last: u64,
    pub(crate) stamped: &'a Stamped,
}

/// What follows the expected event.
#[derive(Debug)]
pub(crate) enum After {
    Nothing(Head),
    /// A batch without its last member: one of its members, and the head after it is abandoned.
    Open(Box<Row>, Head),
    /// A batch whose last number is used, but whose rows may not all be closed; one of them.
    Dead(Box<Row>),
    /// The append itself: it ends with this number, and was stored at this time.
    Stored {
        end: u64,
        time_ms: u64,
        high: u64,
    },
    /// Other events, if they can be read; or the expected event never existed.
    Taken(Vec<Event>),
    /// Events that were deleted together with their tokens.
    Forgotten,
}

/// The outcome of the check.
pub(super) enum LastEvent {
    At(Head),
    /// The append is stored already.
    Stored(Appended),
    Taken(Vec<Event>),
    Forgotten,
}

/// Checks whether the expected event is last, and returns the number of its successor.
pub(super) async fn prove<F: RowAppend>(format: &F, wanted: &Wanted<'_>) -> Result<LastEvent> {
    let Wanted { id, last, stamped } = *wanted;
    let (mut waits, mut seen) = (0, None);
    for _ in 0..ROUNDS_MAX {
        let (open, head) = match format.after(wanted).await? {
            After::Nothing(head) => return Ok(LastEvent::At(head)),
            After::Taken(events) => return Ok(LastEvent::Taken(events)),
            After::Forgotten => return Ok(LastEvent::Forgotten),
            After::Stored { end, time_ms, high } => {
                let head = format.acknowledge(id, Head::after(end, high)).await?;
                format.base().learn(id, head);
                return stored(wanted, end, time_ms);
            }
            After::Dead(row) => {
                format.close(id, &row).await?;
                continue;
            }
            After::Open(row, head) => (row, head),
        };
        if open.begin() > last && format.token(&open)? == Some(stamped.token) {
            // Its last number is free, so we, or another process with the same append, can still
            // complete it. It must not be put elsewhere, nor reported as a conflict.
            let next = open.begin();
            return Ok(LastEvent::At(Head { next, ..head }));
        }
        let is_same = seen.replace(open.number) == Some(open.number);
        waits = if is_same { waits + 1 } else { 1 };
        if waits <= WAITS {
            format.base().store.clock().sleep(PAUSE * waits).await;
        } else if F::CLOSES_BATCHES {
            format.close(id, &open).await?;
            seen = None;
        } else {
            return Ok(LastEvent::At(head));
        }
    }
    Err(Error::unavailable(
        "other writers' appends stay in flight; try again",
    ))
}

/// An append that is stored already, its response lost.
fn stored(wanted: &Wanted<'_>, end: u64, time_ms: u64) -> Result<LastEvent> {
    let count = wanted.stamped.append.events.len() as u64;
    let first = (end + 1).checked_sub(count).and_then(SequenceNumber::new);
    let (first, last) = first.zip(SequenceNumber::new(end)).ok_or_else(|| {
        let id = wanted.id;
        Error::corrupt("an append begins before sequence number 1")
            .fact("id", id)
            .fact("last", end)
    })?;
    Ok(LastEvent::Stored(Appended::new(first, last, time_ms)))
}
