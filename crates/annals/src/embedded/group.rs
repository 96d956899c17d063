//! The group that is open: changes that will share a frame of the log and a sync.
//!
//! The decider adds to it while the group before is written. It is taken as soon as that is done, so a
//! group is as large as the disk is slow. Who has taken a group is the only one who writes to the log.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use lsm_tree::Slice;

use super::log::{CHANGE_ROOM, FRAME_ROOM, Frame, Place, Position};
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

/// Bytes of the log's room that the changes of a job need, at most.
pub(super) fn room_of(changes: &[DecidedChange]) -> u64 {
    let bytes = |change: &DecidedChange| {
        let value = change.value.as_ref().map_or(0, |value| value.len());
        CHANGE_ROOM + change.key.len() as u64 + value as u64
    };
    match changes {
        [] => 0,
        changes => FRAME_ROOM + changes.iter().map(bytes).sum::<u64>(),
    }
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
    /// The end of the log after the last group that was written.
    end: Place,
    /// A group was taken and is being written.
    is_writing: bool,
    is_closed: bool,
    failed: Option<Error>,
    /// Threads that wait for a change of this.
    waiting: usize,
}

impl State {
    fn is_full(&self) -> bool {
        self.frame.len() >= GROUP_BYTES_MAX || self.answers.len() >= GROUP_MAX
    }

    fn take(&mut self) -> Group {
        self.is_writing = true;
        let next = Frame::at(self.frame.end());
        Group {
            frame: std::mem::replace(&mut self.frame, next),
            answers: std::mem::take(&mut self.answers),
        }
    }
}

impl OpenGroup {
    /// The group after the end of the log.
    pub(super) fn at(end: Place) -> Self {
        Self {
            state: Mutex::new(State {
                frame: Frame::at(end.position),
                answers: Vec::new(),
                end,
                is_writing: false,
                is_closed: false,
                failed: None,
                waiting: 0,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        let waited = self.changed.wait(state);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    /// Releases the state and wakes those who wait for a change. Without one, that is no system call.
    fn release(&self, state: MutexGuard<'_, State>) {
        let has_waiting = state.waiting > 0;
        drop(state);
        if has_waiting {
            self.changed.notify_all();
        }
    }

    /// Adds changes, for which the log has promised [`room_of`] them, and the answer to them. Waits while
    /// the group is full. Whoever does not wake the syncer calls [`Self::take_now`] afterwards.
    pub(super) fn add(&self, changes: &[DecidedChange], answer: Answer, wakes: bool) {
        let mut state = self.lock();
        while state.is_full() && state.failed.is_none() {
            state = self.wait(state);
        }
        if let Some(error) = state.failed.clone() {
            drop(state);
            return answer(Err(error));
        }
        state.frame.promise(room_of(changes));
        for change in changes {
            let value = change.value.as_deref();
            state.frame.push(&change.key, value, change.supersedes);
        }
        let was_empty = state.answers.is_empty();
        state.answers.push(answer);
        if was_empty && wakes {
            self.release(state);
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
            if !state.is_writing && state.answers.is_empty() {
                return Ok(state.end);
            }
            state = self.wait(state);
        }
    }

    /// Takes no more changes.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        self.release(state);
    }

    /// Waits for a group, which the caller writes; `None` when closed or failed.
    pub(super) fn take(&self) -> Option<Group> {
        let mut state = self.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if !state.is_writing {
                if !state.answers.is_empty() {
                    break;
                }
                if state.is_closed {
                    return None;
                }
            }
            state = self.wait(state);
        }
        let group = state.take();
        // There is room again.
        self.release(state);
        Some(group)
    }

    /// Takes the group if nobody is writing. Otherwise the one who writes takes it next.
    pub(super) fn take_now(&self) -> Option<Group> {
        let mut state = self.lock();
        let can_take = !state.is_writing && !state.answers.is_empty() && state.failed.is_none();
        can_take.then(|| state.take())
    }

    /// The group that was taken is written and answered; the log ends here.
    pub(super) fn written(&self, end: Place) {
        let mut state = self.lock();
        state.end = end;
        state.is_writing = false;
        self.release(state);
    }

    /// The log takes no more changes. Answers those that wait.
    pub(super) fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.is_writing = false;
        state.failed = Some(error.clone());
        let answers = std::mem::take(&mut state.answers);
        self.release(state);
        for answer in answers {
            answer(Err(error.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const START: Place = Place {
        segment: 0,
        offset: 64,
        position: Position::FIRST,
        previous: 7,
    };

    fn add(open: &OpenGroup) -> Receiver<Result<()>> {
        let (send, receive) = channel();
        let answer = Box::new(move |outcome| send.send(outcome).unwrap());
        let change = DecidedChange {
            key: b"key".into(),
            value: None,
            supersedes: None,
        };
        open.add(&[change], answer, true);
        receive
    }

    #[test]
    fn only_one_group_is_written_at_a_time() {
        let open = OpenGroup::at(START);
        assert!(open.take_now().is_none(), "nothing was added");
        let _first = add(&open);
        let group = open.take_now().unwrap();
        assert_eq!((group.frame.end(), group.answers.len()), (Position(2), 1));
        let _second = add(&open);
        assert!(open.take_now().is_none());
        let end = Place {
            position: Position(2),
            ..START
        };
        open.written(end);
        assert_eq!(open.take().unwrap().frame.end(), Position(3));
        open.written(end);
        assert_eq!(open.wait_idle().unwrap(), end);
        open.close();
        assert!(open.take().is_none());
    }

    #[test]
    fn nobody_waits_after_a_failure() {
        let open = OpenGroup::at(START);
        let _taken = (add(&open), open.take_now());
        let waiting = add(&open);
        open.fail(Error::unavailable("broken"));
        assert!(waiting.recv().unwrap().is_err());
        assert!(add(&open).recv().unwrap().is_err());
        assert!(open.take().is_none() && open.take_now().is_none());
        assert!(open.wait_idle().is_err());
    }
}
