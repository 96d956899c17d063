//! Reads in flight, which closing a store waits for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The number of reads in flight, also those without a caller.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads(Arc<(Mutex<usize>, Condvar)>);

/// A read in flight until this is dropped.
pub(super) struct InFlight(Reads);

impl Reads {
    pub(super) fn begin(&self) -> InFlight {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        InFlight(self.clone())
    }

    /// Waits until none is in flight.
    pub(super) fn wait(&self) {
        let mut count = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = self.0.1.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let (count, finished) = &*self.0.0;
        *count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        finished.notify_all();
    }
}
