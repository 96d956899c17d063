//! What this process knows of a store, by key, in bounded memory.
//!
//! Guarantees: the last `REMEMBERED` entries are kept, and at most twice as many. A cache: a missing
//! entry is read from the store again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many entries are remembered; twice as many at the most, in two generations.
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
}

/// Entries by key.
///
/// ```
/// use annals::layout::support::Known;
///
/// let known = Known::default();
/// known.update("Cart|42", |_| 7);
/// assert_eq!(known.get(&"Cart|42"), Some(7));
/// ```
#[derive(Debug)]
pub struct Known<K, V>(Mutex<Generations<K, V>>);

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Generations {
            young: HashMap::new(),
            old: HashMap::new(),
        }))
    }
}

impl<K: Eq + Hash, V: Copy> Known<K, V> {
    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a key.
    pub fn get(&self, key: &K) -> Option<V> {
        self.lock().get(key)
    }

    /// Remembers what `learn` makes of what was known.
    pub fn update(&self, key: K, learn: impl FnOnce(Option<V>) -> V) {
        let mut known = self.lock();
        let value = learn(known.get(&key));
        known.insert(key, value);
    }

    /// Removes the entry of a key.
    pub fn forget(&self, key: &K) {
        let mut known = self.lock();
        known.young.remove(key);
        known.old.remove(key);
    }
}
