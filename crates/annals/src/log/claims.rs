//! Claims: what a sweep is about to store, so that no sweep stores over what another has stored.
//!
//! A batch has no conditions. Two records that differ and belong under one key of the event table,
//! of two sources for one, must therefore never both be put. Pages of one sweep hold their keys in
//! memory: a page that meets a key which another holds comes back to that record later ([`Holding`]).
//! Between sweeps a page claims in the store, in one item, what it will put.
//!
//! Promises: of two sweeps that would store different events under one key at most one does; the other
//! leaves its record to the next sweep, which finds the event stored.
//! Trusts: that the clocks of sweepers are less than five minutes apart, and that a put which is sent
//! within five minutes of its claim lands within five more, or never. A claim that is older than ten
//! minutes belongs to a sweep that has died, and is removed.
//!
//! Why. A page writes its claim, then reads the claims of others, then looks what is stored, then
//! puts, and removes its claim only when every put was acknowledged. Let *A* and *B* have different
//! records for one key, and let *B*'s claim be acknowledged after *A*'s. *B* then reads the claims.
//!
//! - *A*'s claim is there: *B* does not put.
//! - It is gone: *A*'s put, if it made one, was acknowledged before *B* looks. *B* finds the event
//!   and sets its record aside.
//!
//! A put whose answer was lost may land later: its claim stays. Who has the same record goes on
//! beside a claim, since storing the same twice does no harm; so what a dead sweep had claimed is
//! moved by the next one at once, and only a record that differs waits, until the event is stored.
//! Where both read the other's claim neither puts, and the next sweep decides.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::TryStreamExt;
use tokio::sync::Notify;

use super::sweep::Pass;
use super::tables::{self, Mark, MarkKey};
use super::{Log, Time};
use crate::Result;
use crate::items::{Condition, Key, Query, Write, WriteError, query_all};

/// The most records of one claim: some 160 KB.
pub(super) const CLAIMED_MAX: usize = 10_000;
/// Older claims belong to sweeps that have died.
const CLAIM_MS_MAX: u64 = 10 * 60 * 1_000;
/// Nothing is put under an older claim.
const PUT_MS_MAX: u64 = CLAIM_MS_MAX / 2;

/// The keys that the pages of one sweep hold.
#[derive(Debug, Default)]
pub(super) struct Holding {
    keys: Mutex<HashSet<MarkKey>>,
    /// Told whenever a page lets keys go.
    pub(super) released: Notify,
}

/// What a page holds; let go when it is dropped, however the page ended.
#[derive(Debug)]
pub(super) struct Held<'a> {
    holding: &'a Holding,
    keys: HashSet<MarkKey>,
}

impl Holding {
    fn keys(&self) -> MutexGuard<'_, HashSet<MarkKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the keys of as many records as nobody else holds and a claim may have. Answers those,
    /// and the others.
    pub(super) fn hold<T>(
        &self,
        records: Vec<T>,
        key_of: impl Fn(&T) -> MarkKey,
    ) -> (Held<'_>, Vec<T>, Vec<T>) {
        let mut held = Held {
            holding: self,
            keys: HashSet::new(),
        };
        let (mut mine, mut later) = (Vec::with_capacity(records.len()), Vec::new());
        let mut all = self.keys();
        for record in records {
            let key = key_of(&record);
            let is_free = || held.keys.len() < CLAIMED_MAX && !all.contains(&key);
            match held.keys.contains(&key) || is_free() {
                true => {
                    all.insert(key);
                    held.keys.insert(key);
                    mine.push(record);
                }
                false => later.push(record),
            }
        }
        drop(all);
        (held, mine, later)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Who held nothing has nothing to tell, and must not wake itself.
        if self.keys.is_empty() {
            return;
        }
        let mut all = self.holding.keys();
        self.keys.iter().for_each(|key| {
            all.remove(key);
        });
        drop(all);
        self.holding.released.notify_waiters();
    }
}

/// A claim that is written down, and what it met.
#[derive(Debug)]
pub(super) struct Claim {
    key: Key,
    since: Time,
    /// What others are about to store something else under.
    contested: HashSet<MarkKey>,
    /// Claims of sweeps that have died.
    dead: Vec<Key>,
}

impl Claim {
    /// Whether another sweep may be storing something else under this key.
    pub(super) fn is_contested(&self, mark: Mark) -> bool {
        self.contested.contains(&mark.key)
    }
}

impl Log {
    /// Claims what a page is about to store; of records with one key the first, which is the one
    /// that is stored.
    pub(super) async fn claim(
        &self,
        pass: &Pass,
        marks: impl Iterator<Item = Mark>,
    ) -> Result<Claim> {
        let mut firsts: HashMap<MarkKey, Mark> = HashMap::new();
        for mark in marks {
            firsts.entry(mark.key).or_insert(mark);
        }
        let since = self.now();
        let key = loop {
            let n = pass.claims.fetch_add(1, Ordering::Relaxed);
            let key = tables::claim_key(since, n);
            let item = tables::claim_item(&key, since, firsts.values());
            match self
                .items
                .put(&self.tables.event, item, Condition::Absent)
                .await
            {
                Ok(_) => break key,
                // Another sweep of the same millisecond has this name.
                Err(WriteError::Refused { .. }) => {}
                Err(WriteError::Failed(error)) => return Err(error),
            }
        };
        let mut claim = Claim {
            key,
            since,
            contested: HashSet::new(),
            dead: Vec::new(),
        };
        let query = Query::of(tables::claims());
        let mut others = query_all(self.items.clone(), self.tables.event.clone(), query);
        while let Some(item) = others.try_next().await? {
            let other = self.tables.event.key_of(&item)?;
            let (time, marks) = tables::claim_of(&item);
            if time.ms().abs_diff(since.ms()) > CLAIM_MS_MAX {
                claim.dead.push(other);
                continue;
            }
            let differs = |mark: &Mark| {
                let first = firsts.get(&mark.key);
                first.is_some_and(|first| first != mark)
            };
            let differing = marks.filter(differs).map(|mark| mark.key);
            claim.contested.extend(differing);
        }
        Ok(claim)
    }

    /// Whether a put under this claim would still land before others take it for dead.
    pub(super) fn is_alive(&self, claim: &Claim) -> bool {
        self.now().ms().abs_diff(claim.since.ms()) <= PUT_MS_MAX
    }

    /// Removes a claim whose puts were all acknowledged, and those of sweeps that have died.
    pub(super) async fn release(&self, claim: Claim) -> Result<()> {
        let deletes = claim.dead.into_iter().chain([claim.key]).map(Write::Delete);
        let ended = self.write_all(&self.tables.event, deletes.collect()).await;
        ended.failure.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_held_by_one_page_until_it_lets_go() {
        let holding = Holding::default();
        let key = |n: &u8| [*n; 6];
        let (first, mine, later) = holding.hold(vec![1, 2, 1], key);
        assert_eq!((mine, later), (vec![1, 2, 1], vec![]));
        let (second, mine, later) = holding.hold(vec![2, 3], key);
        assert_eq!((mine, later), (vec![3], vec![2]));
        drop(first);
        let (_third, mine, later) = holding.hold(vec![2, 3], key);
        assert_eq!((mine, later), (vec![2], vec![3]));
        drop(second);
    }

    #[test]
    fn a_page_holds_no_more_than_a_claim_has() {
        let holding = Holding::default();
        let key = |n: &usize| {
            let [a, b, c, d, ..] = n.to_le_bytes();
            [a, b, c, d, 0, 0]
        };
        let (_held, mine, later) = holding.hold((0..CLAIMED_MAX + 5).collect(), key);
        assert_eq!((mine.len(), later.len()), (CLAIMED_MAX, 5));
    }
}
