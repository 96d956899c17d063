//! An event-sourced entity in memory: its state, its position in the journal, and the ids of its
//! recent commands.
//!
//! A command id is stored with its events as their causation id, so it is as durable as they are and
//! snapshots need not carry it.
//!
//! Guarantees: a command is recognised while its last event is within the remembered number of
//! events. A command that wrote no events is not remembered; it changed nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::backend::{CommandIds, Completed};
use super::effect::AfterCommand;
use super::{AskError, Effect, Entity};
use crate::journal::Appended;
use crate::snapshot::{Snapshot, SnapshotPosition};
use crate::{Event, PersistenceId};

/// A state, and how much of the journal it includes.
#[derive(Debug)]
pub(crate) struct Loaded<E> {
    pub(super) id: PersistenceId,
    pub(super) state: E,
    /// The sequence number of the last applied event; 0: none.
    pub(super) last: u64,
    /// Where a snapshot of this state belongs.
    pub(super) snapshot_place: Option<SnapshotPosition>,
    pub(super) events_since_snapshot: u64,
    pub(super) bytes_since_snapshot: u64,
    /// An effect asked for a snapshot.
    pub(super) wants_snapshot: bool,
    pub(super) recent: RecentCommands,
    /// There may be events that were not applied.
    pub(super) is_stale: bool,
    /// An event may be half applied: recover before the next use.
    pub(super) is_poisoned: bool,
    /// Unknown events were skipped. A snapshot would hide them from releases that know them.
    pub(super) has_skipped: bool,
}

/// The reply to `ask_once`. See [`Executor`](super::Executor) for an example with an entity.
///
/// ```
/// use annals::entity::Once;
///
/// assert_eq!(Once::Done("seat 7").done(), Some("seat 7"));
/// assert_eq!(Once::<&str>::Already(12).done(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once<R> {
    /// The command was handled now.
    Done(R),
    /// The command was handled before; its first event has this sequence number.
    Already(u64),
}

impl<R> Once<R> {
    /// The reply, if the command was handled now.
    pub fn done(self) -> Option<R> {
        match self {
            Self::Done(reply) => Some(reply),
            Self::Already(_) => None,
        }
    }

    /// The reply to a command without an id, which is never recognised.
    pub(super) fn reply<E>(self) -> Result<R, AskError<E>> {
        self.done().ok_or(AskError::Conflict)
    }
}

impl<E: Entity> Loaded<E> {
    /// An entity without events.
    pub(super) fn new(id: PersistenceId) -> Self {
        Self {
            id,
            state: E::default(),
            last: 0,
            snapshot_place: None,
            events_since_snapshot: 0,
            bytes_since_snapshot: 0,
            wants_snapshot: false,
            recent: RecentCommands::default(),
            is_stale: false,
            is_poisoned: false,
            has_skipped: false,
        }
    }

    pub(super) fn from_snapshot(id: PersistenceId, state: E, snapshot: &Snapshot) -> Self {
        Self {
            state,
            last: snapshot.sequence_number.get(),
            snapshot_place: Some(SnapshotPosition {
                number: snapshot.sequence_number,
                anchor: snapshot.anchor,
            }),
            ..Self::new(id)
        }
    }

    /// Advance past an event that was replayed and applied.
    pub(super) fn replayed(&mut self, event: &Event, remembered: u64) {
        self.recent.replayed(event, remembered);
        self.last = event.sequence_number.get();
        self.snapshot_place = Some(SnapshotPosition::from(event.sequence_number));
        self.events_since_snapshot += 1;
        self.bytes_since_snapshot += event.data.payload.len() as u64;
    }

    /// Advance past events that were appended and applied; `bytes` is the size of their payloads.
    pub(super) fn appended(&mut self, appended: Appended, bytes: u64) {
        self.last = appended.last.get();
        self.snapshot_place = Some(SnapshotPosition::from(appended));
        self.events_since_snapshot += appended.last.get() - appended.first.get() + 1;
        self.bytes_since_snapshot += bytes;
    }

    /// The result of a command that was handled before.
    pub(super) fn find_completed<R>(&self, ids: &CommandIds) -> Option<Completed<R>> {
        let first = self.recent.first_event(ids.command.as_deref()?)?;
        Some(Completed {
            reply: Once::Already(first),
            after: AfterCommand::Stay,
        })
    }

    /// Run the callbacks of an effect and compute its reply.
    pub(super) fn complete<R>(&mut self, effect: Effect<E, R>) -> Completed<R> {
        self.wants_snapshot |= effect.saves_snapshot;
        effect.completion.run(&self.state)
    }
}

/// Recent commands by id, with the sequence numbers of the first and last event of each.
#[derive(Debug, Default)]
pub(super) struct RecentCommands {
    by_id: HashMap<Arc<str>, (u64, u64)>,
    /// Ordered by last event. A command whose last event moved on has several entries.
    order: VecDeque<(u64, Arc<str>)>,
}

impl RecentCommands {
    /// The sequence number of a command's first event, or of the first that is remembered.
    fn first_event(&self, id: &str) -> Option<u64> {
        self.by_id.get(id).map(|(first, _)| *first)
    }

    /// Record events of a command.
    pub(super) fn insert(&mut self, id: &Arc<str>, first: u64, last: u64) {
        match self.by_id.get_mut(id) {
            Some(known) if known.1 + 1 == first => known.1 = last,
            // An older command with the same id.
            Some(_) => return,
            None => {
                self.by_id.insert(id.clone(), (first, last));
            }
        }
        self.order.push_back((last, id.clone()));
    }

    pub(super) fn replayed(&mut self, event: &Event, remembered: u64) {
        let number = event.sequence_number.get();
        if remembered > 0
            && let Some(id) = &event.causation
        {
            self.insert(id, number, number);
        }
        self.forget(number, remembered);
    }

    /// Forget commands that are not among the `remembered` events up to `last`.
    pub(super) fn forget(&mut self, last: u64, remembered: u64) {
        while let Some((number, _)) = self.order.front()
            && number + remembered <= last
        {
            if let Some((number, id)) = self.order.pop_front()
                && self.by_id.get(&id).is_some_and(|known| known.1 == number)
            {
                self.by_id.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_recognised_while_its_last_event_is_remembered() {
        let mut recent = RecentCommands::default();
        recent.insert(&"a".into(), 1, 5);
        recent.forget(5, 3);
        let first = recent.first_event("a");
        assert_eq!(first, Some(1), "it has more events than are remembered");
        recent.insert(&"b".into(), 6, 6);
        recent.forget(7, 3);
        let firsts = |recent: &RecentCommands| (recent.first_event("a"), recent.first_event("b"));
        assert_eq!(firsts(&recent), (Some(1), Some(6)));
        recent.forget(8, 3);
        assert_eq!(firsts(&recent), (None, Some(6)));
    }

    #[test]
    fn events_replayed_one_by_one_belong_to_one_command() {
        let mut recent = RecentCommands::default();
        for number in 1..=5 {
            recent.insert(&"a".into(), number, number);
            recent.forget(number, 3);
        }
        assert_eq!(recent.first_event("a"), Some(1));
        recent.forget(7, 3);
        assert_eq!(recent.first_event("a"), Some(1));
        recent.forget(8, 3);
        assert_eq!(recent.first_event("a"), None);
        assert!(recent.order.is_empty(), "no entry is left over");
    }
}
