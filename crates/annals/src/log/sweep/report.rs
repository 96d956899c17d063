//! The report of a sweep.

use super::super::{EventId, Time};
use crate::Error;

/// The most ids and problems that a report lists; it counts all.
const LISTED_MAX: usize = 1_000;

/// What a sweep did. Everything it counts has happened, even if the sweep failed.
///
/// See [`Log`](crate::log::Log) for an example.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "it may hold an error"]
pub struct SweepReport {
    /// Records that were stored in their slot.
    pub moved: u64,
    /// Records whose event was in its slot already, with the same content.
    pub repeated: u64,
    /// Of the moved ones, how many have a time before the horizon: a follower may have missed them.
    /// The first thousand ids are in [`late_events`](Self::late_events).
    pub late: u64,
    /// Of the repeated ones, how many have a time before the horizon: retries, and records that a
    /// sweep stored late before it died.
    pub repeated_late: u64,
    /// Records that cannot become events and were stored as
    /// [dead letters](crate::log::Log::dead_letters).
    pub dead_letters: u64,
    /// Records that cannot become events and stay in the buffer, too large even for a dead letter.
    pub stuck: u64,
    /// Records that stay in the buffer for the next sweep, because the store failed or because another
    /// sweep was storing a different event under their key.
    pub left: u64,
    /// The time of the oldest of those.
    pub oldest_left: Option<Time>,
    /// The ids of late events, both moved and repeated.
    pub late_events: Vec<EventId>,
    /// Why records cannot become events.
    pub problems: Vec<Error>,
    /// The horizon after this sweep; `None` if it published none.
    pub horizon: Option<Time>,
    /// How far that horizon is ahead of this machine's clock. If it is, the clock of some sweeper is
    /// or was wrong, and every event is late until then. See
    /// [`Log::set_back_horizon`](crate::log::Log::set_back_horizon).
    pub horizon_ahead_ms: u64,
    /// Why the sweep did not complete. Sweeping again is safe.
    pub failure: Option<Error>,
}

impl SweepReport {
    pub(super) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Counts a record that stays in the buffer.
    pub(super) fn leave(&mut self, time: Time) {
        self.left += 1;
        let oldest = self.oldest_left.map_or(time, |oldest| oldest.min(time));
        self.oldest_left = Some(oldest);
    }

    pub(super) fn list_late(&mut self, id: EventId) {
        if self.late_events.len() < LISTED_MAX {
            self.late_events.push(id);
        }
    }

    pub(super) fn list_problem(&mut self, problem: Error) {
        if self.problems.len() < LISTED_MAX {
            self.problems.push(problem);
        }
    }

    /// Adds the report of a page or a segment.
    pub(super) fn add(&mut self, other: Self) {
        self.moved += other.moved;
        self.repeated += other.repeated;
        self.late += other.late;
        self.repeated_late += other.repeated_late;
        self.dead_letters += other.dead_letters;
        self.stuck += other.stuck;
        self.left += other.left;
        self.oldest_left = match (self.oldest_left, other.oldest_left) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let late_events = other.late_events.into_iter();
        late_events.for_each(|id| self.list_late(id));
        let problems = other.problems.into_iter();
        problems.for_each(|problem| self.list_problem(problem));
        self.failure = self.failure.take().or(other.failure);
    }
}
