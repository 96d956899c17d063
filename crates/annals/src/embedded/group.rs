//! The group that is open: changes that will share a frame of the log and a sync.
//!
//! The decider adds to it while the syncer writes the group before. The syncer takes it as soon as it
//! is free, so a group is as large as the disk is slow.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use lsm_tree::Slice;

use super::log::{Frame, Place, Position};
use crate::{Error, Result};

/// Maximum answers in one group.
const GROUP_MAX: usize = 4096;
/// A group of this size takes no more changes.
pub(super) const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Tells a caller the outcome of its change: an error if the change is not durable.
pub(super) type Answer = Box<dyn FnOnce(Result<()>) + Send>;

/// A change that was decided.
pub(super) struct DecidedChange {
    pub(super) key: Slice,
    /// `None`: deleted.
    pub(super) value: Option<Slice>,
    /// The change whose value this one replaces or deletes.
    pub(super) supersedes: Option<Position>,
}

/// Changes that become durable together, and the callers that wait for them.
pub(super) struct Group {
    pub(super) frame: Frame,
    pub(super) answers: Vec<Answer>,
}

/// The open group, shared by the decider and the syncer.
pub(super) struct OpenGroup {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    frame: Frame,
    answers: Vec<Answer>,
    /// The end of the log while the syncer is idle.
    idle_at: Option<Place>,
    is_closed: bool,
    failed: Option<Error>,
}

impl OpenGroup {
    pub(super) fn at(next: Position) -> Self {
        Self {
            state: Mutex::new(State {
                frame: Frame::at(next),
                answers: Vec::new(),
                idle_at: None,
                is_closed: false,
                failed: None,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds changes and the answer to them. Waits while the group is full.
    pub(super) fn add(&self, changes: &[DecidedChange], answer: Answer) {
        let mut state = self.lock();
        while state.frame.len() >= GROUP_BYTES_MAX || state.answers.len() >= GROUP_MAX {
            state = self.wait(state);
        }
        for change in changes {
            let value = change.value.as_deref();
            state.frame.push(&change.key, value, change.supersedes);
        }
        let was_empty = state.answers.is_empty();
        state.answers.push(answer);
        drop(state);
        if was_empty {
            self.changed.notify_all();
        }
    }

    /// Why the log takes no more changes, if it does not.
    pub(super) fn failed(&self) -> Option<Error> {
        self.lock().failed.clone()
    }

    /// Waits until everything added so far is on stable storage; returns the end of the log.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) fn wait_idle(&self) -> Result<Place> {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if let Some(place) = state.idle_at
                && state.answers.is_empty()
            {
                return Ok(place);
            }
            state = self.wait(state);
        }
    }

    /// Takes no more changes.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits for a group; `None` when closed. The log ends at `end`.
    pub(super) fn take(&self, end: Place) -> Option<Group> {
        let mut state = self.lock();
        if state.answers.is_empty() {
            state.idle_at = Some(end);
            self.changed.notify_all();
        }
        while state.answers.is_empty() {
            if state.is_closed {
                return None;
            }
            state = self.wait(state);
        }
        state.idle_at = None;
        let next = Frame::at(state.frame.end());
        let group = Group {
            frame: std::mem::replace(&mut state.frame, next),
            answers: std::mem::take(&mut state.answers),
        };
        drop(state);
        self.changed.notify_all();
        Some(group)
    }

    /// The log takes no more changes.
    pub(super) fn fail(&self, error: Error) {
        self.lock().failed = Some(error);
        self.changed.notify_all();
    }
}
