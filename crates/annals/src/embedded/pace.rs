//! Where a read runs: on the thread of its caller, or on one that may wait for the disk.
//!
//! Waking another thread and waiting for it takes longer than a read of a few events from memory. But a
//! caller's thread runs other tasks, too, so it must not wait for a disk. Whether a read will is not
//! known before, so the ones before it decide: if one has taken long, the next ones run elsewhere, and
//! more of them each time, until one is quick again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::{Clock, SystemClock};

/// A read that took longer has waited for something.
const LONG: Duration = Duration::from_micros(500);
/// Reads that run elsewhere after one took long.
const ELSEWHERE: u32 = 16;
/// After many took long.
const ELSEWHERE_MAX: u32 = 1024;

/// How quick the last reads were.
#[derive(Debug, Default)]
pub(super) struct Pace {
    clock: SystemClock,
    /// Reads that have yet to run elsewhere.
    left: AtomicU32,
    /// How many do so when the next one takes long; 0: as few as possible.
    next: AtomicU32,
}

impl Pace {
    /// Runs a short read, unless it may take long; `None` if it has to run elsewhere.
    pub(super) fn run<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        if !self.is_quick() {
            return None;
        }
        let began = self.clock.monotonic();
        let outcome = read();
        self.learn(self.clock.monotonic().saturating_sub(began));
        Some(outcome)
    }

    /// Whether the next read runs here.
    fn is_quick(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        left.is_err()
    }

    fn learn(&self, took: Duration) {
        if took <= LONG {
            self.next.store(0, Ordering::Relaxed);
            return;
        }
        let now = self.next.load(Ordering::Relaxed).max(ELSEWHERE);
        self.left.store(now, Ordering::Relaxed);
        self.next
            .store((2 * now).min(ELSEWHERE_MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MORE: Duration = LONG.saturating_mul(2);

    /// How many reads run elsewhere before the next one that does not.
    fn elsewhere(pace: &Pace) -> usize {
        std::iter::from_fn(|| (!pace.is_quick()).then_some(())).count()
    }

    #[test]
    fn reads_run_elsewhere_after_one_that_took_long_and_more_after_each() {
        let pace = Pace::default();
        assert_eq!(elsewhere(&pace), 0);
        let counts = [16, 32, 64, 128, 256, 512, 1024, 1024];
        for count in counts {
            pace.learn(MORE);
            assert_eq!(elsewhere(&pace), count);
        }
        pace.learn(LONG);
        assert_eq!(elsewhere(&pace), 0);
        pace.learn(MORE);
        assert_eq!(elsewhere(&pace), 16);
    }

    #[test]
    fn a_quick_read_runs_here() {
        let pace = Pace::default();
        assert_eq!(pace.run(|| 7), Some(7));
        pace.learn(MORE);
        assert_eq!(pace.run(|| 7), None);
    }
}
