//! What this process knows to be last: numbers it has written or read itself.
//!
//! Promises: a number in here ends a commit that is in the journal, so a successor may be put
//! without looking first. Being out of date is harmless: the put is refused.
//! Trusts: whoever teaches it to have seen such a commit. Commits never leave the journal.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{PersistenceId, SequenceNumber, Token};

/// How many ids are remembered; twice as many at the most, in two generations.
const REMEMBERED: usize = 50_000;

/// Entries made since the last turn, and those of the turn before. Cheaper than exact recency, and
/// forgets none of the last `REMEMBERED` entries.
#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash, V: Copy> Generations<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        self.young.get(key).or_else(|| self.old.get(key)).copied()
    }

    fn insert(&mut self, key: K, value: V) {
        self.young.insert(key, value);
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
    }

    fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(super) struct Heads(Mutex<Generations<PersistenceId, SequenceNumber>>);

impl Heads {
    pub(super) fn get(&self, id: &PersistenceId) -> Option<SequenceNumber> {
        lock(&self.0).get(id)
    }

    /// Remembers that a commit ends here. The highest is kept.
    pub(super) fn learn(&self, id: &PersistenceId, last: SequenceNumber) {
        let mut heads = lock(&self.0);
        let last = heads.get(id).map_or(last, |known| known.max(last));
        heads.insert(id.clone(), last);
    }
}

/// Behind which number an append that may go anywhere was tried last. While nobody knows whether
/// it landed there, it must not be tried elsewhere.
#[derive(Debug, Default)]
pub(super) struct Tries(Mutex<Generations<Token, Option<SequenceNumber>>>);

impl Tries {
    pub(super) fn get(&self, token: Token) -> Option<Option<SequenceNumber>> {
        lock(&self.0).get(&token)
    }

    pub(super) fn begin(&self, token: Token, behind: Option<SequenceNumber>) {
        lock(&self.0).insert(token, behind);
    }

    pub(super) fn end(&self, token: Token) {
        lock(&self.0).remove(&token);
    }
}
