//! A state in memory, and what is known of its place in the journal.

use super::ending::Next;
use super::once::Recent;
use super::{AskError, Effect, Entity};
use crate::snapshot::{Place, Snapshot};
use crate::{Event, PersistenceId, SequenceNumber};

/// A state, and up to where it knows the journal.
#[derive(Debug)]
pub(crate) struct Live<E> {
    pub(super) id: PersistenceId,
    pub(super) state: E,
    /// The number of the last event it knows; 0: none.
    pub(super) last: u64,
    /// Where a snapshot of it would stand.
    pub(super) place: Option<Place>,
    /// Events and bytes since the last snapshot.
    pub(super) since: u64,
    pub(super) bytes: u64,
    /// Whether an effect asks for a snapshot.
    pub(super) saves: bool,
    pub(super) recent: Recent,
    /// Whether events may have come that it does not know of.
    pub(super) is_doubtful: bool,
    /// Whether half of an event may have been taken in.
    pub(super) is_spoiled: bool,
    /// Whether events were passed over. A snapshot of it would hide them from those who know them.
    pub(super) has_skipped: bool,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Asked<R> {
    pub(super) reply: Once<R>,
    pub(super) next: Next,
}

/// The answer to a command that is to be handled once. See [`Executor`](super::Executor) for an
/// example.
///
/// ```
/// use annals::entity::Once;
///
/// assert_eq!(Once::Done("seat 7").done(), Some("seat 7"));
/// assert_eq!(Once::<&str>::Already(12).done(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once<R> {
    /// It was handled now.
    Done(R),
    /// It had been handled before: its events begin with this number.
    Already(u64),
}

impl<R> Once<R> {
    /// The reply, where it was handled now.
    pub fn done(self) -> Option<R> {
        match self {
            Self::Done(reply) => Some(reply),
            Self::Already(_) => None,
        }
    }

    /// The reply to a command without an id, which is never known again.
    pub(super) fn reply<E>(self) -> Result<R, AskError<E>> {
        self.done().ok_or(AskError::Conflict)
    }
}

impl<R> Asked<R> {
    pub(super) fn already(number: u64) -> Self {
        Self {
            reply: Once::Already(number),
            next: Next::Stay,
        }
    }
}

impl<E: Entity> Live<E> {
    /// One that nothing has happened to.
    pub(super) fn new(id: PersistenceId) -> Self {
        Self {
            id,
            state: E::default(),
            last: 0,
            place: None,
            since: 0,
            bytes: 0,
            saves: false,
            recent: Recent::default(),
            is_doubtful: false,
            is_spoiled: false,
            has_skipped: false,
        }
    }

    /// One as a snapshot has it.
    pub(super) fn at(id: PersistenceId, state: E, snapshot: &Snapshot) -> Self {
        Self {
            state,
            last: snapshot.sequence_number.get(),
            place: Some(Place {
                number: snapshot.sequence_number,
                anchor: snapshot.anchor,
            }),
            ..Self::new(id)
        }
    }

    /// An event was taken in.
    pub(super) fn passed(&mut self, event: &Event, remembered: u64) {
        self.recent.passed(event, remembered);
        self.last = event.sequence_number.get();
        self.place = Some(Place::from(event.sequence_number));
        self.since += 1;
        self.bytes += event.data.payload.len() as u64;
    }

    /// Events of its own were appended and taken in.
    pub(super) fn appended(
        &mut self,
        place: Place,
        bytes: u64,
        (first, last): (SequenceNumber, SequenceNumber),
    ) {
        self.last = last.get();
        self.place = Some(place);
        self.since += last.get() - first.get() + 1;
        self.bytes += bytes;
    }

    /// Replies, and does what follows.
    pub(super) fn finish<R>(&mut self, effect: Effect<E, R>) -> Asked<R> {
        self.saves |= effect.saves;
        effect.ending.finish(&self.state)
    }
}
