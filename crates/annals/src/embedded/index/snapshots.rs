//! The points in time that reads are using: the tree keeps what they need.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_tree::SeqNo;

/// How many reads use each point in time.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshots(Arc<Mutex<BTreeMap<SeqNo, usize>>>);

/// A point in time that is used until this is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    snapshots: Snapshots,
    number: SeqNo,
}

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SeqNo, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the point in time `now`, which is read under the lock: otherwise [`Self::oldest`] could
    /// pass it before it is counted.
    pub(super) fn take(&self, now: impl FnOnce() -> SeqNo) -> Taken {
        let mut counts = self.lock();
        let number = now();
        *counts.entry(number).or_default() += 1;
        Taken {
            snapshots: self.clone(),
            number,
        }
    }

    /// The oldest point in time in use, or `now`.
    pub(super) fn oldest(&self, now: impl FnOnce() -> SeqNo) -> SeqNo {
        let counts = self.lock();
        let oldest = counts.keys().next().copied();
        oldest.unwrap_or_else(now)
    }
}

impl Taken {
    pub(super) fn number(&self) -> SeqNo {
        self.number
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut counts = self.snapshots.lock();
        if let Some(count) = counts.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_one_in_use() {
        let snapshots = Snapshots::default();
        assert_eq!(snapshots.oldest(|| 9), 9);
        let five = snapshots.take(|| 5);
        let again = snapshots.take(|| 5);
        let seven = snapshots.take(|| 7);
        assert_eq!(snapshots.oldest(|| 9), 5);
        drop(five);
        assert_eq!(snapshots.oldest(|| 9), 5);
        drop(again);
        assert_eq!((snapshots.oldest(|| 9), seven.number()), (7, 7));
        drop(seven);
        assert_eq!(snapshots.oldest(|| 9), 9);
    }
}
