//! The decider: a thread that evaluates conditions and gives every change its position.
//!
//! Guarantees: changes take effect in one order; a condition sees every earlier change, also those
//! that are not on stable storage yet. What it decides is answered after those.
//!
//! ```text
//!  put, delete, write ─► queue ─► decider ─► open group ─► syncer ─► log, then answers
//!                                    └─► index (not visible before the syncer publishes it)
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lsm_tree::Slice;
use tokio::sync::{mpsc, oneshot};

use super::catalog::{Catalog, Decided, Table};
use super::codec;
use super::group::OpenGroup;
use super::index::{Index, Upkeep};
use super::log::Position;
use super::space::Space;
use super::syncer::Tally;
use crate::items::check::missing_table;
use crate::items::{Condition, Cost, Item, TableName, TableSpec, WriteError};
use crate::{Error, Result};

/// Queued changes before callers have to wait.
pub(super) const QUEUE_MAX: usize = 1024;

/// One item to put or delete, encoded by the caller to relieve the decider.
pub(super) struct Change {
    pub(super) key: Slice,
    pub(super) new: Option<NewItem>,
}

impl Change {
    /// Its share of a group's size.
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.new.as_ref().map_or(0, |new| new.bytes.len())
    }
}

pub(super) struct NewItem {
    pub(super) bytes: Slice,
    pub(super) size: usize,
    /// The key of its entry in each index of the table.
    pub(super) entry_keys: Vec<Option<Slice>>,
    /// The cost of the put if there is no existing item.
    pub(super) cost: Cost,
}

/// The key of an item's entry in each index of its table.
pub(super) fn entry_keys(table: &Table, key: &Slice, item: &Item) -> Result<Vec<Option<Slice>>> {
    let indexes = table.spec.indexes().iter().zip(0..);
    let keys = indexes.map(|(index, number)| {
        let entry = index.key.key_of(item)?;
        let prefix = codec::entries_prefix(table.number, number);
        Ok(entry.map(|entry| {
            let entry = codec::entry_bytes(&entry, key);
            codec::prefixed(prefix, &entry).into()
        }))
    });
    keys.collect()
}

pub(super) type Answer<T, E = Error> = oneshot::Sender<Result<T, E>>;

pub(super) enum Job {
    One(Arc<Table>, Change, Condition, Answer<Cost, WriteError>),
    Many(Arc<Table>, Vec<Change>, Answer<Cost>),
    Create(TableSpec, Answer<()>),
    Drop(TableName, Answer<bool>),
    Flush(Answer<()>),
}

pub(super) struct Decider {
    pub(super) index: Arc<Index>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) tables: Decided,
    pub(super) open: Arc<OpenGroup>,
    pub(super) upkeep: Arc<Upkeep>,
    pub(super) space: Space,
    pub(super) tally: Arc<Tally>,
    /// The position of the next change.
    pub(super) next: Position,
    /// The changes of the current job.
    pub(super) changes: Vec<(Slice, Option<Slice>)>,
}

impl Decider {
    /// Runs until the queue is closed.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut queued = Vec::with_capacity(QUEUE_MAX);
        while jobs.blocking_recv_many(&mut queued, QUEUE_MAX) > 0 {
            for job in queued.drain(..) {
                let ready = self.open.failed().map_or_else(|| self.make_room(), Err);
                match ready {
                    Ok(()) => self.take(job),
                    Err(error) => refuse(job, error),
                }
            }
        }
        if self.index.is_worth_flushing() {
            // Otherwise the next open reads the changes from the log.
            let _ = self.seal();
        }
        self.open.close();
    }

    fn take(&mut self, job: Job) {
        if matches!(job, Job::One(..) | Job::Many(..)) {
            self.tally.changes.fetch_add(1, Ordering::Relaxed);
        }
        match job {
            Job::One(table, change, condition, answer) => {
                let outcome = self.decide(&table, change, &condition);
                self.add(answer, outcome);
            }
            Job::Many(table, changes, answer) => {
                let outcome = self.decide_all(&table, changes);
                self.add(answer, outcome);
            }
            Job::Create(spec, answer) => {
                let created = self.create(spec);
                let (catalog, table) = (self.catalog.clone(), created.as_ref().ok().cloned());
                let publish = move || {
                    if let Some(table) = table {
                        catalog.publish(table);
                    }
                };
                self.add_and(answer, created.map(drop), publish);
            }
            Job::Drop(name, answer) => {
                let dropped = self.drop_table(&name);
                let (catalog, is_dropped) = (self.catalog.clone(), dropped);
                let publish = move || {
                    if is_dropped {
                        catalog.forget(&name);
                    }
                };
                self.add_and(answer, Ok(dropped), publish);
            }
            Job::Flush(answer) => {
                let flushed = self
                    .seal()
                    .and_then(|()| self.upkeep.wait_until_flushed(&self.index));
                let _ = answer.send(flushed);
            }
        }
    }

    /// Hands the changes of a job to the syncer, with what to answer when they are durable.
    fn add<T, E>(&mut self, answer: Answer<T, E>, outcome: Result<T, E>)
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.add_and(answer, outcome, || ());
    }

    /// The same, with something to do before the answer.
    fn add_and<T, E>(
        &mut self,
        answer: Answer<T, E>,
        outcome: Result<T, E>,
        publish: impl FnOnce() + Send + 'static,
    ) where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let answer = move |durable: Result<()>| {
            let outcome = match durable {
                Ok(()) => {
                    publish();
                    outcome
                }
                Err(error) => Err(error.into()),
            };
            // The caller may no longer wait.
            let _ = answer.send(outcome);
        };
        for (key, value) in &self.changes {
            self.index.insert(self.next, key.clone(), value.clone());
            self.next = self.next.plus(1);
        }
        self.open.add(&self.changes, Box::new(answer));
        self.changes.clear();
    }

    /// Seals the index's memtable if it is full. Waits first if too many are not written yet.
    fn make_room(&self) -> Result<()> {
        if !self.index.is_full() {
            return Ok(());
        }
        self.upkeep.wait_for_room(&self.index)?;
        self.seal()
    }

    /// Seals the index's memtable. Everything in it is durable first.
    fn seal(&self) -> Result<()> {
        let place = self.open.wait_idle()?;
        self.index.seal(place.position);
        self.upkeep.sealed(place);
        Ok(())
    }

    fn create(&mut self, spec: TableSpec) -> Result<Arc<Table>> {
        self.space.take(0)?;
        let (table, records) = self.tables.create(spec)?;
        self.changes.extend(records);
        Ok(table)
    }

    fn drop_table(&mut self, name: &TableName) -> bool {
        let Some(record) = self.tables.remove(name) else {
            return false;
        };
        self.changes.push((record, None));
        true
    }

    fn decide(
        &mut self,
        table: &Table,
        change: Change,
        condition: &Condition,
    ) -> Result<Cost, WriteError> {
        if !self.tables.has(table) {
            return Err(missing_table(table.spec.name()).into());
        }
        let existing = self.index.latest(&change.key)?;
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => existing.is_none(),
            Condition::Equals(..) => {
                let item = existing.as_deref().map(codec::decode_item).transpose()?;
                condition.holds(item.as_ref())
            }
        };
        if !holds {
            return Err(refusal(&change, existing)?);
        }
        let cost = self.apply(table, change, existing)?;
        Ok(cost.in_requests(1))
    }

    fn decide_all(&mut self, table: &Table, changes: Vec<Change>) -> Result<Cost> {
        if !self.tables.has(table) {
            return Err(missing_table(table.spec.name()));
        }
        let requests = Cost::write_requests(changes.len());
        let mut cost = Cost::ZERO;
        // The values of keys that were changed before in this batch.
        let mut changed: HashMap<Slice, Option<Slice>> = HashMap::new();
        for change in changes {
            let existing = match changed.get(&change.key) {
                Some(value) => value.clone(),
                None => self.index.latest(&change.key)?,
            };
            let new = change.new.as_ref().map(|new| new.bytes.clone());
            changed.insert(change.key.clone(), new);
            cost += self.apply(table, change, existing)?;
        }
        Ok(cost.in_requests(requests))
    }

    /// Adds the change and its index entries to the current job.
    fn apply(&mut self, table: &Table, change: Change, old: Option<Slice>) -> Result<Cost> {
        let bytes = change.bytes();
        let Change { key, new } = change;
        // Deletes free space and are never refused.
        if new.is_some() {
            self.space.take(bytes)?;
        }
        let has_indexes = !table.spec.indexes().is_empty();
        let decoded = old
            .as_deref()
            .filter(|_| has_indexes)
            .map(codec::decode_item);
        let decoded = decoded.transpose()?;
        let cost = match (&decoded, &old, &new) {
            (_, None, Some(new)) => new.cost,
            (Some(old), _, new) => {
                let new = new.as_ref().map(|new| codec::decode_item(&new.bytes));
                Cost::of_write(&table.spec, Some(old), new.transpose()?.as_ref())
            }
            (None, old, new) => {
                let old_size = old.as_deref().map(codec::stored_size).transpose()?;
                Cost::of_sizes(old_size, new.as_ref().map(|new| new.size))
            }
        };
        let (stored, added) = new.map(|new| (new.bytes, new.entry_keys)).unzip();
        let removed = decoded.map(|old| entry_keys(table, &key, &old));
        let removed = removed.transpose()?.unwrap_or_default();
        self.move_entries(&key, &removed, &added.unwrap_or_default());
        self.changes.push((key, stored));
        Ok(cost)
    }

    /// Removes the index entries of the old item and adds those of the new one; entries of the same
    /// key in an index are left alone.
    fn move_entries(&mut self, key: &Slice, old: &[Option<Slice>], new: &[Option<Slice>]) {
        for n in 0..old.len().max(new.len()) {
            let (removed, added) = (old.get(n), new.get(n));
            if removed == added {
                continue;
            }
            if let Some(removed) = removed.cloned().flatten() {
                self.changes.push((removed, None));
            }
            if let Some(added) = added.cloned().flatten() {
                self.changes.push((added, Some(key.clone())));
            }
        }
    }
}

/// Answers a job that cannot be decided.
fn refuse(job: Job, error: Error) {
    match job {
        Job::One(_, _, _, answer) => drop(answer.send(Err(error.into()))),
        Job::Many(_, _, answer) => drop(answer.send(Err(error))),
        Job::Create(_, answer) => drop(answer.send(Err(error))),
        Job::Drop(_, answer) => drop(answer.send(Err(error))),
        Job::Flush(answer) => drop(answer.send(Err(error))),
    }
}

fn refusal(change: &Change, existing: Option<Slice>) -> Result<WriteError> {
    let item = existing.as_deref().map(codec::decode_item).transpose()?;
    let old_size = existing.as_deref().map(codec::stored_size).transpose()?;
    let sizes = Cost::of_sizes(old_size, change.new.as_ref().map(|new| new.size));
    Ok(WriteError::Refused {
        existing: item.map(Box::new),
        cost: sizes.in_requests(1),
    })
}
