//! The decider: a thread that evaluates conditions and gives every change its position.
//!
//! Guarantees: changes take effect in one order; a condition sees every earlier change, also those
//! that are not on stable storage yet. What it decides is answered after those. Before a change is in
//! the index, the log has room for it: it cannot be taken back when the disk is full.
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
use super::errors;
use super::group::{DecidedChange, OpenGroup, room_of};
use super::index::{Index, Upkeep, Version};
use super::log::{Position, Room};
use super::retention::Superseding;
use super::space::Space;
use super::syncer::{self, Tally};
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
    pub(super) syncer: syncer::Shared,
    /// Whether jobs come one at a time, so that nothing is gained by another thread.
    pub(super) has_lone_caller: bool,
    pub(super) upkeep: Arc<Upkeep>,
    pub(super) space: Space,
    /// The room that the log has for changes.
    pub(super) room: Arc<Room>,
    pub(super) tally: Arc<Tally>,
    pub(super) superseding: Arc<Superseding>,
    /// The position of the next change.
    pub(super) next: Position,
    /// The changes of the current job.
    pub(super) changes: Vec<DecidedChange>,
}

impl Decider {
    /// Runs until the queue is closed.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut queued = Vec::with_capacity(QUEUE_MAX);
        let mut before = 0;
        while jobs.blocking_recv_many(&mut queued, QUEUE_MAX) > 0 {
            self.has_lone_caller = (before, queued.len()) == (1, 1);
            before = queued.len();
            for job in queued.drain(..) {
                let ready = self.open.failed().map_or_else(|| self.make_room(), Err);
                match ready {
                    Ok(()) => self.take(job),
                    Err(error) => refuse(job, error),
                }
            }
            if self.has_lone_caller {
                self.syncer.commit_now();
            }
        }
        if self.index.is_worth_flushing() {
            // Otherwise the next open reads the changes from the log.
            let _ = self.seal();
        }
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
                let before = self.tables.clone();
                let created = self.create(spec);
                let (catalog, table) = (self.catalog.clone(), created.as_ref().ok().cloned());
                let publish = move || {
                    if let Some(table) = table {
                        catalog.publish(table);
                    }
                };
                if !self.add_and(answer, created.map(drop), publish) {
                    self.tables = before;
                }
            }
            Job::Drop(name, answer) => {
                let before = self.tables.clone();
                let dropped = self.drop_table(&name);
                let (catalog, is_dropped) = (self.catalog.clone(), dropped);
                let publish = move || {
                    if is_dropped {
                        catalog.forget(&name);
                    }
                };
                if !self.add_and(answer, Ok(dropped), publish) {
                    self.tables = before;
                }
            }
            Job::Flush(answer) => {
                // Whoever asked waits for the files: appends go on meanwhile.
                let _ = answer.send(self.seal());
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

    /// The same, with something to do before the answer. Returns false if the log has no room: the
    /// changes were refused.
    fn add_and<T, E>(
        &mut self,
        answer: Answer<T, E>,
        outcome: Result<T, E>,
        publish: impl FnOnce() + Send + 'static,
    ) -> bool
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        // Deletes free space: they may use the reserve.
        let keeps_reserve = self.changes.iter().any(|change| change.value.is_some());
        let promised = self.room.promise(room_of(&self.changes), keeps_reserve);
        if let Err(cause) = promised {
            self.changes.clear();
            // The caller may no longer wait.
            let _ = answer.send(Err(errors::no_room(cause, self.space.folder()).into()));
            return false;
        }
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
        for change in &self.changes {
            let (key, value) = (change.key.clone(), change.value.clone());
            self.index.insert(self.next, key, value);
            self.next = self.next.plus(1);
        }
        let wakes = !self.has_lone_caller;
        self.open.add(&self.changes, Box::new(answer), wakes);
        self.changes.clear();
        true
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
        self.index.seal(place);
        self.upkeep.sealed(place);
        Ok(())
    }

    fn create(&mut self, spec: TableSpec) -> Result<Arc<Table>> {
        self.space.take(0)?;
        let (table, records) = self.tables.create(spec)?;
        for (key, value) in records {
            self.push_record(key, value);
        }
        Ok(table)
    }

    fn drop_table(&mut self, name: &TableName) -> bool {
        let Some(record) = self.tables.remove(name) else {
            return false;
        };
        self.push_record(record, None);
        true
    }

    /// Adds a change of a table's record.
    fn push_record(&mut self, key: Slice, value: Option<Slice>) {
        // If the index does not read, the old record is not erased from the log. That is all.
        let latest = self.index.latest(&key).ok().flatten();
        if let Some(latest) = &latest {
            let (position, len) = (self.position_after_changes(), latest.value.len());
            let new_len = value.as_ref().map_or(0, |value| value.len());
            self.superseding.add(position, len, new_len);
        }
        self.push(key, value, latest.map(|latest| latest.position));
    }

    /// Adds a change of a key that this job has not changed.
    fn push_latest(&mut self, key: Slice, value: Option<Slice>) -> Result<()> {
        let latest = self.index.latest(&key)?;
        self.push(key, value, latest.map(|latest| latest.position));
        Ok(())
    }

    fn push(&mut self, key: Slice, value: Option<Slice>, supersedes: Option<Position>) {
        self.changes.push(DecidedChange {
            key,
            value,
            supersedes,
        });
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
                let item = existing.as_ref().map(|it| codec::decode_item(&it.value));
                let item = item.transpose()?;
                condition.holds(item.as_ref())
            }
        };
        if !holds {
            return Err(refusal(&change, existing.map(|it| it.value))?);
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
        let mut changed: HashMap<Slice, Option<Version>> = HashMap::new();
        for change in changes {
            let existing = match changed.get(&change.key) {
                Some(value) => value.clone(),
                None => self.index.latest(&change.key)?,
            };
            let key = change.key.clone();
            let new = change.new.as_ref().map(|new| new.bytes.clone());
            cost += self.apply(table, change, existing)?;
            // It was added last.
            let position = Position(self.position_after_changes().0 - 1);
            changed.insert(key, new.map(|value| Version { position, value }));
        }
        Ok(cost.in_requests(requests))
    }

    /// The position that the next change of the current job would have.
    fn position_after_changes(&self) -> Position {
        self.next.plus(self.changes.len() as u64)
    }

    /// Adds the index entries of the change to the current job, then the change.
    fn apply(&mut self, table: &Table, change: Change, old: Option<Version>) -> Result<Cost> {
        let bytes = change.bytes();
        let replaced = old.as_ref().map(|old| old.position);
        let old = old.map(|old| old.value);
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
        let added = added.unwrap_or_default();
        let start = self.changes.len();
        self.move_entries(&key, replaced, (&removed, &added))
            .inspect_err(|_| self.changes.truncate(start))?;
        if replaced.is_some() {
            let (old_len, new_len) = (old.as_ref().map(|it| it.len()), stored.as_ref());
            let new_len = new_len.map_or(0, |it| it.len());
            let position = self.position_after_changes();
            self.superseding
                .add(position, old_len.unwrap_or(0), new_len);
        }
        self.push(key, stored, replaced);
        Ok(cost)
    }

    /// Removes the index entries of the old item, which is at `replaced`, and adds those of the new
    /// one; entries of the same key in an index are left alone.
    fn move_entries(
        &mut self,
        key: &Slice,
        replaced: Option<Position>,
        (old, new): (&[Option<Slice>], &[Option<Slice>]),
    ) -> Result<()> {
        // An entry is as old as its item, or older.
        let is_in_job = replaced.is_some_and(|position| position >= self.next);
        for n in 0..old.len().max(new.len()) {
            let (removed, added) = (old.get(n), new.get(n));
            if removed == added {
                continue;
            }
            if let Some(removed) = removed.cloned().flatten() {
                let here = is_in_job.then(|| self.position_in_job(&removed)).flatten();
                match here {
                    Some(position) => self.push(removed, None, Some(position)),
                    None => self.push_latest(removed, None)?,
                }
            }
            if let Some(added) = added.cloned().flatten() {
                self.push(added, Some(key.clone()), None);
            }
        }
        Ok(())
    }

    /// The position of the last change of a key in the current job.
    fn position_in_job(&self, key: &Slice) -> Option<Position> {
        let found = self.changes.iter().rposition(|change| change.key == *key)?;
        Some(self.next.plus(found as u64))
    }
}

impl Drop for Decider {
    /// Also after a panic, or the syncer would wait forever.
    fn drop(&mut self) {
        self.open.close();
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
