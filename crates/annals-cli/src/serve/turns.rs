//! Turns: appends that expect nothing go one behind the other where they are to the same id.
//!
//! Two such appends at once want the same number, and one of them would have to try again, for
//! another request. In turn, each is put once, and nobody is overtaken for ever. It is no lock that
//! anything relies on: other servers do not know of it, and the journal decides.

use std::hash::{BuildHasher, RandomState};

use annals::PersistenceId;
use tokio::sync::{Mutex, MutexGuard};

/// How many ids can have turns of their own; some share theirs by chance.
const PLACES: usize = 4_096;

/// Whose turn it is.
pub(super) struct Turns {
    places: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            places: (0..PLACES).map(|_| Mutex::new(())).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Waits for its turn, which lasts as long as what is returned.
    pub(super) async fn take(&self, id: &PersistenceId) -> Option<MutexGuard<'_, ()>> {
        let hash = self.hasher.hash_one(id);
        let place = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        match self.places.get(place) {
            Some(turn) => Some(turn.lock().await),
            None => None,
        }
    }
}
