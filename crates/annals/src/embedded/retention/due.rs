//! When to erase.
//!
//! | What | When |
//! | --- | --- |
//! | a pass, after deletions | a minute after the last one, or an hour after the first, or ten thousand |
//! | a pass, after overwriting | when the overwritten values are a quarter of the log |
//! | a new segment before its time | at most once an hour |
//! | merging the files of the index | after a pass, and on average at most 1 MiB a second |

use std::time::Duration;

/// Without another deletion.
const QUIET: Duration = Duration::from_secs(60);
/// Since the first deletion, and between segments that are sealed early.
const HOUR: Duration = Duration::from_secs(60 * 60);
const DELETIONS_MAX: u64 = 10_000;
/// After an error.
const RETRY: Duration = Duration::from_secs(600);
/// Bytes of the index that may be merged in a second, on average.
const INDEX_BYTES: u64 = 1024 * 1024;

/// What is known when the thread looks for work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Situation {
    pub(super) now: Duration,
    /// Whether something was superseded since the last pass.
    pub(super) is_pending: bool,
    pub(super) deletions: u64,
    /// Bytes that were superseded.
    pub(super) bytes: u64,
    /// Bytes of the log's files.
    pub(super) log_bytes: u64,
    pub(super) index_bytes: u64,
    pub(super) is_index_pending: bool,
}

/// What happened before.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// When deletions were first seen, and when and how many last.
    first: Option<Duration>,
    last: Option<(Duration, u64)>,
    sealed: Option<Duration>,
    /// Whether the open segment holds what the last pass should have erased.
    is_blocked: bool,
    merged: Option<Duration>,
    failed: Option<Duration>,
}

impl Due {
    /// Whether to make a pass.
    pub(super) fn pass(&mut self, it: &Situation) -> bool {
        let is_blocked = self.is_blocked && !self.may_seal(it.now);
        if !it.is_pending || is_blocked || self.has_just_failed(it.now) {
            return false;
        }
        if it.bytes > it.log_bytes / 4 && it.bytes > 0 {
            return true;
        }
        if it.deletions == 0 {
            (self.first, self.last) = (None, None);
            return false;
        }
        let first = *self.first.get_or_insert(it.now);
        let last = match self.last {
            Some((at, count)) if count == it.deletions => at,
            _ => it.now,
        };
        self.last = Some((last, it.deletions));
        it.deletions >= DELETIONS_MAX
            || it.now.saturating_sub(last) >= QUIET
            || it.now.saturating_sub(first) >= HOUR
    }

    /// Whether to merge the files of the index.
    pub(super) fn index(&self, it: &Situation) -> bool {
        let pause = Duration::from_secs(it.index_bytes / INDEX_BYTES);
        let merged = self.merged.unwrap_or_default();
        it.is_index_pending
            && !self.has_just_failed(it.now)
            && it.now.saturating_sub(merged) >= pause
    }

    /// Whether the open segment may be sealed early.
    pub(super) fn may_seal(&self, now: Duration) -> bool {
        self.sealed
            .is_none_or(|sealed| now.saturating_sub(sealed) >= HOUR)
    }

    pub(super) fn passed(&mut self, now: Duration, (has_sealed, is_blocked): (bool, bool)) {
        (self.first, self.last, self.failed) = (None, None, None);
        self.is_blocked = is_blocked;
        if has_sealed {
            self.sealed = Some(now);
        }
    }

    pub(super) fn merged(&mut self, now: Duration) {
        self.merged = Some(now);
    }

    pub(super) fn failed(&mut self, now: Duration) {
        self.failed = Some(now);
    }

    /// Whether too little time has passed since an error.
    pub(super) fn has_just_failed(&self, now: Duration) -> bool {
        self.failed
            .is_some_and(|failed| now.saturating_sub(failed) < RETRY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * 1024 * 1024;

    fn at(seconds: u64, deletions: u64) -> Situation {
        Situation {
            now: Duration::from_secs(seconds),
            is_pending: true,
            deletions,
            bytes: deletions,
            log_bytes: GIB,
            index_bytes: GIB,
            is_index_pending: true,
        }
    }

    #[test]
    fn a_pass_is_due_a_minute_after_the_last_deletion() {
        let mut due = Due::default();
        assert!(!due.pass(&at(0, 1)));
        assert!(!due.pass(&at(50, 2)), "another deletion");
        assert!(!due.pass(&at(109, 2)));
        assert!(due.pass(&at(110, 2)));
        due.passed(Duration::from_secs(110), (false, false));
        assert!(!due.pass(&at(200, 1)), "the minute begins again");
    }

    #[test]
    fn constant_deletions_delay_a_pass_for_an_hour_at_most() {
        let mut due = Due::default();
        for minute in 0..60 {
            assert!(!due.pass(&at(60 * minute, minute + 1)), "{minute}");
        }
        assert!(due.pass(&at(3600, 61)));
        assert!(Due::default().pass(&at(0, DELETIONS_MAX)));
    }

    #[test]
    fn overwriting_needs_a_share_of_the_log() {
        let mut due = Due::default();
        let overwritten = |bytes| Situation {
            bytes,
            ..at(1_000_000, 0)
        };
        assert!(!due.pass(&overwritten(GIB / 4)));
        assert!(due.pass(&overwritten(GIB / 4 + 1)));
        let nothing = Situation {
            is_pending: false,
            ..overwritten(GIB)
        };
        assert!(!due.pass(&nothing));
    }

    #[test]
    fn an_error_and_recent_work_delay_the_next() {
        let mut due = Due::default();
        let seconds = Duration::from_secs;
        assert!(due.may_seal(seconds(0)));
        due.passed(seconds(10), (true, false));
        assert!(!due.may_seal(seconds(3609)) && due.may_seal(seconds(3610)));
        due.passed(seconds(20), (false, true));
        assert!(
            !due.pass(&at(3609, DELETIONS_MAX)),
            "the open segment waits"
        );
        assert!(due.pass(&at(3610, DELETIONS_MAX)));
        due.passed(seconds(20), (false, false));
        assert!(!due.index(&at(1023, 1)) && due.index(&at(1024, 1)));
        due.merged(seconds(1024));
        assert!(!due.index(&at(2047, 1)) && due.index(&at(2048, 1)));
        due.failed(seconds(5000));
        assert!(!due.pass(&at(5599, DELETIONS_MAX)) && !due.index(&at(5599, 1)));
        assert!(due.pass(&at(5600, DELETIONS_MAX)) && due.index(&at(5600, 1)));
    }
}
