//! An entity's place in memory: what waits for it, and its state while nobody works on it.
//!
//! Promises: at most one task works on an entity, and only while something waits for it; an idle
//! entity is its state and little more. What is taken in is worked off or handed back, never
//! forgotten.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::hosting::Hosting;
use super::job::Job;
use crate::PersistenceId;

/// Room for so many waiting jobs is kept while nothing waits.
const WAITING_KEPT: usize = 4;

/// An entity's state; none where it is to be loaded.
pub(super) type State<H> = Option<Box<<H as Hosting>::Live>>;

/// An entity's place in memory.
pub(super) struct Slot<H: Hosting> {
    pub(super) id: PersistenceId,
    /// When it was last used, in milliseconds of the clock that never goes back.
    used_ms: AtomicU64,
    inner: Mutex<Inner<H>>,
}

struct Inner<H: Hosting> {
    waiting: VecDeque<Box<dyn Job<H>>>,
    phase: Phase<H>,
}

enum Phase<H: Hosting> {
    /// Nobody works on it.
    Idle(State<H>),
    /// A task has the state.
    Busy,
    /// It has left: whoever still knows this slot looks for the next one.
    Gone,
}

/// What became of a job.
pub(super) enum Taken<H: Hosting> {
    /// It waits, and somebody works on it.
    Waits,
    /// It waits, and whoever put it there is to start a task with this state.
    Start(State<H>),
    /// As many wait as may.
    Full,
    /// The entity has left.
    Gone(Box<dyn Job<H>>),
}

impl<H: Hosting> Slot<H> {
    pub(super) fn new(id: PersistenceId) -> Self {
        Self {
            id,
            used_ms: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                waiting: VecDeque::new(),
                phase: Phase::Idle(None),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<H>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn used(&self, now: Duration) {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.used_ms.store(now, Ordering::Relaxed);
    }

    pub(super) fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }

    /// Takes a job in, if fewer than so many wait.
    pub(super) fn take_in(&self, job: Box<dyn Job<H>>, most: usize) -> Taken<H> {
        let mut inner = self.lock();
        match &inner.phase {
            Phase::Gone => return Taken::Gone(job),
            Phase::Busy | Phase::Idle(_) if inner.waiting.len() >= most => return Taken::Full,
            Phase::Busy | Phase::Idle(_) => {}
        }
        inner.waiting.push_back(job);
        match std::mem::replace(&mut inner.phase, Phase::Busy) {
            Phase::Idle(live) => Taken::Start(live),
            Phase::Busy | Phase::Gone => Taken::Waits,
        }
    }

    /// The next job for the task that works on it, with the state; idle from now on where there is
    /// none.
    pub(super) fn next(&self, live: State<H>) -> Option<(Box<dyn Job<H>>, State<H>)> {
        let mut inner = self.lock();
        if matches!(inner.phase, Phase::Gone) {
            return None;
        }
        match inner.waiting.pop_front() {
            Some(job) => Some((job, live)),
            None => {
                inner.phase = Phase::Idle(live);
                inner.waiting.shrink_to(WAITING_KEPT);
                None
            }
        }
    }

    /// What waits; nothing does any more.
    pub(super) fn waiting(&self) -> VecDeque<Box<dyn Job<H>>> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// Marks it as gone, if nothing waits and nobody, or the task that asks, works on it. To be
    /// called with the directory's lock, which then forgets it.
    pub(super) fn leave(&self, is_own_task: bool) -> bool {
        let mut inner = self.lock();
        let may = match inner.phase {
            Phase::Idle(_) => true,
            Phase::Busy => is_own_task,
            Phase::Gone => false,
        };
        if !may || !inner.waiting.is_empty() {
            return false;
        }
        let left = std::mem::replace(&mut inner.phase, Phase::Gone);
        drop(inner);
        // Outside the lock: it is the application's, and may do anything.
        drop(left);
        true
    }

    /// Marks it as gone whatever waits; answers that.
    pub(super) fn give_up(&self) -> VecDeque<Box<dyn Job<H>>> {
        let mut inner = self.lock();
        inner.phase = Phase::Gone;
        std::mem::take(&mut inner.waiting)
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.lock().phase, Phase::Idle(_))
    }
}
