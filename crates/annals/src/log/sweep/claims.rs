//! Claims: the events that a sweep is about to store, so that no sweep overwrites another's event.
//!
//! A batch has no conditions. Two different records with the same key in the event table, from two
//! sources for example, must therefore never both be put. Pages of one sweep lock their keys in
//! memory: a page that needs a locked key returns to that record later ([`KeyLocks`]). Between sweeps
//! a page stores a claim, one item with the events that it will put.
//!
//! Guarantees: of two sweeps that would store different events under one key at most one does; the
//! other leaves its record to the next sweep, which finds the event stored.
//! Relies on: the clocks of sweepers being less than five minutes apart, and a put that is sent
//! within five minutes of its claim landing within five more, or never. A claim older than ten
//! minutes belongs to a dead sweep, and is deleted.
//!
//! Why. A page writes its claim, then reads the claims of others, then reads what is stored, then
//! puts, and deletes its claim only when every put was acknowledged. Let *A* and *B* have different
//! records for one key, and let *B*'s claim be acknowledged after *A*'s. *B* then reads the claims.
//!
//! - *A*'s claim is there: *B* does not put.
//! - It is gone: *A*'s put, if there was one, was acknowledged before *B* reads what is stored. *B*
//!   finds the event, and its record becomes a dead letter.
//!
//! A put with a lost response may land later, so its claim stays. A sweep with the same record
//! ignores the claim, since storing the same event twice does no harm. So the next sweep stores at
//! once what a dead sweep had claimed, and only a different record waits, until the event is stored.
//! If both read the other's claim, neither puts, and the next sweep decides.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::TryStreamExt;
use tokio::sync::Notify;

use super::super::Time;
use super::super::shared::{ATTEMPTS_MAX, Put, Shared, keeps_changing};
use super::super::tables::{self, Fingerprint, KeyHash};
use crate::Result;
use crate::items::{Condition, Item, Key, Query, Write};

/// The most events of one claim: about 160 KB.
const CLAIMED_MAX: usize = 10_000;
/// Older claims belong to dead sweeps.
const CLAIM_MS_MAX: u64 = 10 * 60 * 1_000;
/// Nothing is put under an older claim.
const PUT_MS_MAX: u64 = CLAIM_MS_MAX / 2;

/// The keys that the pages of one sweep have locked.
#[derive(Debug, Default)]
pub(super) struct KeyLocks {
    keys: Mutex<HashSet<KeyHash>>,
    /// Notified when a page releases keys.
    pub(super) released: Notify,
}

/// The keys that one page has locked, released on drop.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    locks: &'a KeyLocks,
    keys: HashSet<KeyHash>,
}

impl KeyLocks {
    fn keys(&self) -> MutexGuard<'_, HashSet<KeyHash>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the keys of the records that no other page has locked, at most as many as a claim has.
    /// Returns the locked records and the others.
    pub(super) fn lock<T>(
        &self,
        records: Vec<T>,
        key_of: impl Fn(&T) -> KeyHash,
    ) -> (Locked<'_>, Vec<T>, Vec<T>) {
        let mut locked = Locked {
            locks: self,
            keys: HashSet::new(),
        };
        let mut all = self.keys();
        let (mine, later) = records.into_iter().partition(|record| {
            let key = key_of(record);
            let is_free = locked.keys.len() < CLAIMED_MAX && !all.contains(&key);
            if is_free {
                all.insert(key);
                locked.keys.insert(key);
            }
            is_free || locked.keys.contains(&key)
        });
        drop(all);
        (locked, mine, later)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // A page without locks has nothing to announce, and must not wake itself.
        if self.keys.is_empty() {
            return;
        }
        let mut all = self.locks.keys();
        for key in &self.keys {
            all.remove(key);
        }
        drop(all);
        self.locks.released.notify_waiters();
    }
}

/// A stored claim, and what it found.
#[derive(Debug)]
pub(super) struct Claim {
    key: Key,
    since: Time,
    /// The keys under which other sweeps may be storing different events.
    pub(super) contested: HashSet<KeyHash>,
    /// The claims of dead sweeps.
    dead: Vec<Key>,
}

/// The claims of one sweep.
#[derive(Debug)]
pub(super) struct Claims {
    shared: Arc<Shared>,
    /// The next number to name a claim with.
    next: AtomicU64,
}

impl Claims {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            next: AtomicU64::new(0),
        }
    }

    /// Claims the events of a page. Of events with one key it claims the first, which is stored.
    ///
    /// # Errors
    /// As the store fails, and `Unavailable` if every name that was tried is taken.
    pub(super) async fn claim(&self, events: impl Iterator<Item = Fingerprint>) -> Result<Claim> {
        let mut firsts: HashMap<KeyHash, Fingerprint> = HashMap::new();
        for event in events {
            firsts.entry(event.key).or_insert(event);
        }
        let since = self.shared.now();
        let mut claim = Claim {
            key: self.store(since, &firsts).await?,
            since,
            contested: HashSet::new(),
            dead: Vec::new(),
        };
        let mut claims = self.shared.query(Query::of(tables::CLAIMS));
        while let Some(item) = claims.try_next().await? {
            let (time, events) = tables::claim_of(&item);
            if time.ms().abs_diff(since.ms()) > CLAIM_MS_MAX {
                claim.dead.push(self.shared.tables.event.key_of(&item)?);
                continue;
            }
            let differs = |event: &Fingerprint| {
                let first = firsts.get(&event.key);
                first.is_some_and(|first| first != event)
            };
            let contested = events.filter(differs).map(|event| event.key);
            claim.contested.extend(contested);
        }
        Ok(claim)
    }

    /// Stores a claim under a free name. Another sweep in the same millisecond may have taken a name;
    /// the steps double, so that ten attempts pass a thousand claims.
    async fn store(&self, since: Time, events: &HashMap<KeyHash, Fingerprint>) -> Result<Key> {
        let mut taken: Option<Item> = None;
        for attempt in 0..ATTEMPTS_MAX {
            let n = self.next.fetch_add(1 << attempt, Ordering::Relaxed);
            let key = tables::claim_key(since, n);
            let item = tables::claim_item(&key, since, events.values());
            let table = &self.shared.tables.event;
            match self.shared.put(table, item, Condition::Absent).await? {
                Put::Stored => return Ok(key),
                Put::Refused(existing) => taken = existing,
            }
        }
        Err(keeps_changing(taken.as_ref()))
    }

    /// Whether a put under this claim lands before others consider the claim dead.
    pub(super) fn is_alive(&self, claim: &Claim) -> bool {
        self.shared.now().ms().abs_diff(claim.since.ms()) <= PUT_MS_MAX
    }

    /// Deletes a claim whose puts were all acknowledged, and the claims of dead sweeps.
    pub(super) async fn release(&self, claim: Claim) -> Result<()> {
        let deletes = claim.dead.into_iter().chain([claim.key]).map(Write::Delete);
        let table = &self.shared.tables.event;
        let batch = self.shared.write(table, deletes.collect()).await;
        batch.failure.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_locked_by_one_page_until_it_is_dropped() {
        let locks = KeyLocks::default();
        let key = |n: &u8| [*n; 6];
        let (first, mine, later) = locks.lock(vec![1, 2, 1], key);
        assert_eq!((mine, later), (vec![1, 2, 1], vec![]));
        let (second, mine, later) = locks.lock(vec![2, 3], key);
        assert_eq!((mine, later), (vec![3], vec![2]));
        drop(first);
        let (_third, mine, later) = locks.lock(vec![2, 3], key);
        assert_eq!((mine, later), (vec![2], vec![3]));
        drop(second);
    }

    #[test]
    fn a_page_locks_no_more_keys_than_a_claim_has() {
        let locks = KeyLocks::default();
        let key = |n: &usize| {
            let [a, b, c, d, ..] = n.to_le_bytes();
            [a, b, c, d, 0, 0]
        };
        let (_locked, mine, later) = locks.lock((0..CLAIMED_MAX + 5).collect(), key);
        assert_eq!((mine.len(), later.len()), (CLAIMED_MAX, 5));
    }
}
