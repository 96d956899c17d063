//! Retries of appends that have a token but no expectation.
//!
//! While this journal is open, an append whose outcome is unknown is never stored twice under its
//! token. The journal keeps the sequence number after which each such append was tried. When there
//! are too many, it keeps only the lowest number of a group of ids. A retry reads the signatures of
//! its id from there on, and gets a conflict if tokens in that range were deleted.
//! This is enough: all sequence numbers up to the last are used, so an earlier attempt that is not
//! found there can only be stored at the number where the retry goes, and one of the two fails.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{AppendError, Appended, Conflict, Expected, Journal, Stamped};
use crate::{PersistenceId, SequenceNumber, Token};

/// The number of attempts while other writers are faster.
const TRIES_MAX: usize = 32;
/// The number of pending appends in a generation; there are two generations.
const KEPT: usize = 50_000;
/// The number of slots for the ids of older pending appends.
const SLOTS: usize = 4_096;

type Entries = HashMap<(PersistenceId, Token), u64>;

/// Appends whose outcome is unknown, and the sequence number after which each was last tried.
#[derive(Debug)]
pub(super) struct PendingAppends {
    state: Mutex<State>,
    hasher: RandomState,
    kept: usize,
}

/// Two generations of entries, and a summary of older ones.
#[derive(Debug, Default)]
struct State {
    young: Entries,
    old: Entries,
    /// The lowest number of the dropped entries, by slot of the id.
    dropped: Vec<Option<u64>>,
}

impl Default for PendingAppends {
    fn default() -> Self {
        Self::keeping(KEPT)
    }
}

impl PendingAppends {
    fn keeping(kept: usize) -> Self {
        Self {
            state: Mutex::default(),
            hasher: RandomState::new(),
            kept,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, id: &PersistenceId) -> usize {
        let hash = self.hasher.hash_one(id);
        usize::try_from(hash % SLOTS as u64).unwrap_or_default()
    }

    /// The number after which the append may be stored; `None` if it was not tried before.
    fn tried_after(&self, id: &PersistenceId, token: Token) -> Option<u64> {
        let (state, key) = (self.lock(), (id.clone(), token));
        let entry = state.young.get(&key).or_else(|| state.old.get(&key));
        let dropped = || state.dropped.get(self.slot(id)).copied().flatten();
        entry.copied().or_else(dropped)
    }

    fn begin(&self, id: &PersistenceId, token: Token, after: u64) {
        let mut state = self.lock();
        state.young.insert((id.clone(), token), after);
        if state.young.len() < self.kept {
            return;
        }
        let young = std::mem::take(&mut state.young);
        let old = std::mem::replace(&mut state.old, young);
        state.dropped.resize(SLOTS, None);
        for ((id, _), after) in old {
            if let Some(lowest) = state.dropped.get_mut(self.slot(&id)) {
                *lowest = Some(lowest.map_or(after, |lowest| lowest.min(after)));
            }
        }
    }

    fn end(&self, id: &PersistenceId, token: Token) {
        let (mut state, key) = (self.lock(), (id.clone(), token));
        state.young.remove(&key);
        state.old.remove(&key);
    }
}

/// The first of `numbers` sequence numbers that end with `last`.
pub(super) fn back(last: SequenceNumber, numbers: u64) -> SequenceNumber {
    let first = last.get().saturating_sub(numbers - 1);
    SequenceNumber::new(first).unwrap_or(SequenceNumber::FIRST)
}

impl Journal {
    /// Appends after the last event, with a token that may have been tried before.
    pub(super) async fn append_repeatable(
        &self,
        id: &PersistenceId,
        stamped: Stamped,
    ) -> Result<Appended, AppendError> {
        let token = stamped.token;
        let mut tried = self.pending.tried_after(id, token);
        for _ in 0..TRIES_MAX {
            let after = self.after_for(id, tried, &stamped).await?;
            self.pending.begin(id, token, after);
            let expected = SequenceNumber::new(after).map_or(Expected::Empty, Expected::Last);
            match self.append_stamped(id, expected, stamped.clone()).await {
                Ok(appended) => {
                    self.pending.end(id, token);
                    return Ok(appended);
                }
                // Another append is stored there. This one may be among those after it.
                Err(AppendError::Conflict(_)) => tried = Some(after),
                Err(error) => return Err(error),
            }
        }
        self.pending.end(id, token);
        Err(conflict(id))
    }

    /// The number to append after: the one before the same append if it is stored already, or else
    /// the last.
    async fn after_for(
        &self,
        id: &PersistenceId,
        tried: Option<u64>,
        stamped: &Stamped,
    ) -> Result<u64, AppendError> {
        let highest = self.highest(id).await?;
        let (Some(last), Some(tried)) = (highest, tried) else {
            return Ok(highest.map_or(0, SequenceNumber::get));
        };
        let Some(first) = SequenceNumber::new(tried.saturating_add(1)) else {
            return Ok(last.get());
        };
        let signatures = self.signatures(id, first..=last).await?;
        let stored = signatures.iter().find(|it| it.token == Some(stamped.token));
        if let Some(stored) = stored {
            let events = stamped.append.events.len() as u64;
            return Ok(stored.last.get().saturating_sub(events));
        }
        match signatures.iter().any(|it| it.token.is_none()) {
            true => Err(conflict(id)),
            false => Ok(last.get()),
        }
    }
}

fn conflict(id: &PersistenceId) -> AppendError {
    AppendError::Conflict(Box::new(Conflict {
        id: id.clone(),
        expected: Expected::Any,
        found: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> PersistenceId {
        format!("Cart|{n}").parse().unwrap()
    }

    fn token(n: u64) -> Token {
        Token::from_bytes(n.to_be_bytes())
    }

    #[test]
    fn a_pending_append_is_never_forgotten() {
        let pending = PendingAppends::keeping(10);
        for n in 0..1_000 {
            pending.begin(&id(n), token(n), n);
        }
        let state = pending.lock();
        assert!(state.young.len() + state.old.len() <= 20);
        drop(state);
        for n in 0..1_000 {
            let after = pending.tried_after(&id(n), token(n));
            assert!(after.is_some_and(|after| after <= n), "{n}: {after:?}");
        }
    }

    #[test]
    fn an_append_that_ended_is_not_pending() {
        let pending = PendingAppends::keeping(10);
        for n in 0..1_000 {
            pending.begin(&id(n), token(n), n);
            pending.end(&id(n), token(n));
        }
        assert!(pending.tried_after(&id(1), token(1)).is_none());
        assert!(pending.lock().dropped.is_empty());
    }
}
