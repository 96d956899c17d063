//! The last event: proves before an append that the expected event is last, where this process
//! does not know it from its own writes and reads, or was wrong about it.
//!
//! Guarantees: an append is refused only where it can never land any more. One that has landed, its
//! response lost, is recognised, also where it was deleted since, as long as the format remembers
//! it. A batch of ours that was interrupted is resumed in its place; another writer's is waited
//! for, and then given up.

use std::time::Duration;

use super::format::RowAppend;
use super::row::{Head, Row};
use annals::journal::{Appended, Stamped};
use annals::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How often and how long another writer's batch is waited for before it is given up.
const WAITS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// How often is looked at all: batches of others that grow, die and are closed.
const ROUNDS_MAX: usize = 64;

/// An append, and the event it goes after; 0: none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) id: &'a PersistenceId,
    pub(crate) last: u64,
    pub(crate) stamped: &'a Stamped,
}

/// What comes after the expected event.
#[derive(Debug)]
pub(crate) enum After {
    Nothing(Head),
    /// A batch without its last member; one of its members, and the head once it is given up.
    Open(Box<Row>, Head),
    /// A batch whose last number is taken, and whose rows may not all be closed; one of them.
    Dead(Box<Row>),
    /// The append itself: it ends with this number, and was stored at this time.
    Landed {
        end: u64,
        time_ms: u64,
        high: u64,
    },
    /// Other events, as far as they can be read; or the expected event was never there.
    Taken(Vec<Event>),
    /// Events that were deleted, and nobody knows any more which append they came with.
    Forgotten,
}

/// Where an append may be put.
pub(super) enum LastEvent {
    At(Head),
    /// It has landed before.
    Landed(Appended),
    Taken(Vec<Event>),
    Forgotten,
}

/// Finds out whether the expected event is last, and where its successor goes.
pub(super) async fn prove<F: RowAppend>(format: &F, wanted: &Wanted<'_>) -> Result<LastEvent> {
    let Wanted { id, last, stamped } = *wanted;
    let (mut waits, mut seen) = (0, None);
    for _ in 0..ROUNDS_MAX {
        let (open, head) = match format.after(wanted).await? {
            After::Nothing(head) => return Ok(LastEvent::At(head)),
            After::Taken(events) => return Ok(LastEvent::Taken(events)),
            After::Forgotten => return Ok(LastEvent::Forgotten),
            After::Landed { end, time_ms, high } => {
                let head = format.acknowledge(id, Head::after(end, high)).await?;
                format.base().learn(id, head);
                return landed(wanted, end, time_ms);
            }
            After::Dead(row) => {
                format.close(id, &row).await?;
                continue;
            }
            After::Open(row, head) => (row, head),
        };
        if open.begin() > last && format.token(&open)? == Some(stamped.token) {
            // Nobody took its last number, so it can become whole yet, by us or by another process
            // with the same append. It must not be put anywhere else, nor be called refused.
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

/// An append that landed before, its response lost.
fn landed(wanted: &Wanted<'_>, end: u64, time_ms: u64) -> Result<LastEvent> {
    let count = wanted.stamped.append.events.len() as u64;
    let first = (end + 1).checked_sub(count).and_then(SequenceNumber::new);
    let (first, last) = first.zip(SequenceNumber::new(end)).ok_or_else(|| {
        let id = wanted.id;
        Error::corrupt(format!(
            "an append begins before sequence number 1. id=`{id}`, last=`{end}`"
        ))
    })?;
    Ok(LastEvent::Landed(Appended::new(first, last, time_ms)))
}
