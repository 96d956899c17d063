//! How a projection runs: leases, batches, retries, and what happens to events that cannot be handled.

use std::time::Duration;

use crate::items::PageBudget;

/// What happens when an event cannot be handled: it does not decode, the code panics, or a handler
/// keeps failing.
///
/// ```
/// use annals::projection::{OnPoison, RunSettings};
///
/// let settings = RunSettings::default().on_poison(OnPoison::DeadLetter);
/// # let _ = settings;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnPoison {
    /// Its share stops and tries again from time to time. Nothing after it is handled.
    #[default]
    Stop,
    /// It becomes a dead letter, and so do later events of the same id, until they are retried or
    /// discarded. Other ids go on.
    DeadLetter,
}

/// How a projection runs.
///
/// See [`OnPoison`] for an example.
#[derive(Clone, Debug)]
#[must_use]
pub struct RunSettings {
    pub(super) lease: Duration,
    pub(super) budget: PageBudget,
    pub(super) attempts: u32,
    pub(super) on_poison: OnPoison,
    pub(super) keep_retired: Duration,
    pub(super) switches: bool,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            budget: PageBudget::default(),
            attempts: 3,
            on_poison: OnPoison::Stop,
            keep_retired: Duration::from_secs(600),
            switches: false,
        }
    }
}

impl RunSettings {
    /// How long a share waits for an owner that no longer answers; 10 s by default. Shorter: failover is
    /// faster, and shares are saved more often while idle.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_millis(20));
        self
    }

    /// How much of the feed is read at once: at least one change.
    pub fn budget(mut self, budget: PageBudget) -> Self {
        self.budget = PageBudget {
            changes: budget.changes.max(1),
            ..budget
        };
        self
    }

    /// How often an event is tried before it counts as one that cannot be handled; 3 by default.
    /// Errors of kind `Unavailable` do not count.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// What happens to an event that cannot be handled.
    pub fn on_poison(mut self, on_poison: OnPoison) -> Self {
        self.on_poison = on_poison;
        self
    }

    /// How long the rows of a retired build are kept; 10 minutes by default.
    pub fn keep_retired(mut self, keep: Duration) -> Self {
        self.keep_retired = keep;
        self
    }

    /// Make a new build live as soon as it is less than a second late. By default
    /// [`Projections::switch`](super::Projections::switch) does.
    pub fn switch_when_caught_up(mut self) -> Self {
        self.switches = true;
        self
    }

    /// How often an idle share is saved, and runners look for work.
    pub(super) fn tick(&self) -> Duration {
        self.lease / 4
    }
}

/// The delay before the nth attempt, of those that follow the first.
pub(super) fn backoff(attempt: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(50);
    const MOST: Duration = Duration::from_secs(30);
    FIRST.saturating_mul(1 << attempt.min(16)).min(MOST)
}
