//! What this process knows to be last: numbers it has written or read itself.
//!
//! Promises: a number in here ends a commit that is in the journal, so a successor may be put
//! without looking first. Being out of date is harmless: the put is refused.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{PersistenceId, SequenceNumber};

/// How many ids are remembered; twice as many at the most, in two generations.
const REMEMBERED: usize = 50_000;

#[derive(Debug, Default)]
pub(super) struct Heads(Mutex<Generations>);

/// Ids used since the last turn, and those of the turn before. Cheaper than exact recency, and
/// forgets nothing that was used within the last `REMEMBERED` ids.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<PersistenceId, SequenceNumber>,
    old: HashMap<PersistenceId, SequenceNumber>,
}

impl Heads {
    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, id: &PersistenceId) -> Option<SequenceNumber> {
        let generations = self.generations();
        let found = generations
            .young
            .get(id)
            .or_else(|| generations.old.get(id));
        found.copied()
    }

    /// Remembers that a commit ends here. The highest is kept.
    pub(super) fn learn(&self, id: &PersistenceId, last: SequenceNumber) {
        let known = self.get(id);
        let mut generations = self.generations();
        let last = known.map_or(last, |known| known.max(last));
        generations.young.insert(id.clone(), last);
        if generations.young.len() >= REMEMBERED {
            generations.old = std::mem::take(&mut generations.young);
        }
    }
}
