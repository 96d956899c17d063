//! Reads in flight, which closing a store waits for.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The reads in flight, also those without a caller.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    finished: Condvar,
}

#[derive(Debug, Default)]
struct State {
    count: usize,
    /// Waking nobody takes a system call, too, so it is done only if somebody waits.
    has_waiter: bool,
}

/// A read in flight until this is dropped.
pub(super) struct InFlight(Reads);

impl Reads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self) -> InFlight {
        self.state().count += 1;
        InFlight(self.clone())
    }

    /// Waits until none is in flight.
    pub(super) fn wait(&self) {
        let mut state = self.state();
        state.has_waiter = true;
        while state.count > 0 {
            let waited = self.0.finished.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.count -= 1;
        if state.has_waiter {
            self.0.0.finished.notify_all();
        }
    }
}
