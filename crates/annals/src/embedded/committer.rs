//! Group commit: one thread that evaluates conditions, writes, syncs once and answers all callers.
//!
//! Guarantees: a change is on stable storage before it is acknowledged and before anybody can read
//! it. Changes take effect in one order; a condition sees every earlier change, also those of its own
//! group. If a group fails, every change of it fails.
//!
//! ```text
//!  put, delete, write ─► queue ─► decide (conditions, index entries) ─► commit ─► answers
//!                                  a group: all queued jobs, up to a limit  one sync
//! ```
//!
//! A commit log in front of the engine would replace [`commit`]: it gets one final value per key, and
//! nothing after it reads the engine.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fjall::{Database, OwnedWriteBatch, PersistMode, Slice};
use tokio::sync::{mpsc, oneshot};

use super::catalog::{Catalog, Table};
use super::{codec, errors};
use crate::items::check::missing_table;
use crate::items::{Condition, Cost, Item, TableName, TableSpec, WriteError};
use crate::{Error, Result};

/// Maximum changes in one group.
pub(super) const GROUP_MAX: usize = 1024;
/// A group of this size takes no more changes: free disk space is checked before a group is written,
/// so a group must be small.
pub(super) const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Queued changes before callers have to wait.
pub(super) const QUEUE_MAX: usize = 1024;

/// One item to put or delete, encoded by the caller to relieve the committer.
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
}

/// How many changes were answered, in how many groups.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) changes: AtomicU64,
    pub(super) groups: AtomicU64,
}

impl Tally {
    pub(super) fn has_written(&self) -> bool {
        self.groups.load(Ordering::Relaxed) > 0
    }
}

pub(super) struct Committer {
    pub(super) db: Database,
    pub(super) catalog: Arc<Catalog>,
    /// For its free space.
    pub(super) folder: PathBuf,
    pub(super) reserve_bytes: u64,
    pub(super) tally: Arc<Tally>,
}

impl Committer {
    /// Runs until the queue is closed.
    pub(super) fn run(self, mut jobs: mpsc::Receiver<Job>) {
        let mut queued = Vec::with_capacity(GROUP_MAX);
        while jobs.blocking_recv_many(&mut queued, GROUP_MAX) > 0 {
            let mut group = Group::new(&self);
            for job in queued.drain(..) {
                if group.bytes >= GROUP_BYTES_MAX {
                    group = group.and_next();
                }
                match job {
                    Job::One(table, change, condition, answer) => {
                        let outcome = group.decide(&table, change, &condition);
                        group.answers.push(Pending::One(answer, outcome));
                    }
                    Job::Many(table, changes, answer) => {
                        let outcome = group.decide_all(&table, changes);
                        group.answers.push(Pending::Many(answer, outcome));
                    }
                    Job::Create(spec, answer) => {
                        group = group.and_next();
                        answer_to(answer, self.create(spec));
                    }
                    Job::Drop(name, answer) => {
                        group = group.and_next();
                        answer_to(answer, self.catalog.drop_table(&name));
                    }
                }
            }
            group.finish();
        }
    }

    fn create(&self, spec: TableSpec) -> Result<()> {
        self.has_space(self.free_bytes()?, 0)?;
        self.catalog.create(spec)
    }

    /// Free bytes on the disk.
    fn free_bytes(&self) -> Result<u64> {
        let path = &self.folder;
        let stat = rustix::fs::statvfs(path).map_err(|cause| {
            errors::on_folder(
                cause.into(),
                "read the free space of the disk",
                path.display(),
            )
        })?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn has_space(&self, free_bytes: u64, wanted: usize) -> Result<()> {
        if free_bytes < self.reserve_bytes.saturating_add(wanted as u64) {
            return Err(errors::disk_full(&self.folder.display()));
        }
        Ok(())
    }
}

/// Ignores callers that no longer wait.
fn answer_to<T, E>(answer: Answer<T, E>, outcome: Result<T, E>) {
    let _ = answer.send(outcome);
}

enum Pending {
    One(Answer<Cost, WriteError>, Result<Cost, WriteError>),
    Many(Answer<Cost>, Result<Cost>),
}

/// A key of the engine, in one of its keyspaces.
type EngineKey = (Tree, Slice);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Tree {
    Items,
    Entries,
}

/// Changes that become durable together.
struct Group<'a> {
    committer: &'a Committer,
    /// The final value of each key, which later conditions of the group see. Collected before the
    /// engine's batch is made, as the engine does not define the order of a batch within one key.
    writes: HashMap<EngineKey, Option<Slice>>,
    answers: Vec<Pending>,
    /// The size of the group so far.
    bytes: usize,
    /// The free disk space, read once by the first put.
    free_bytes: Option<Result<u64>>,
}

impl<'a> Group<'a> {
    fn new(committer: &'a Committer) -> Self {
        Self {
            committer,
            writes: HashMap::new(),
            answers: Vec::new(),
            bytes: 0,
            free_bytes: None,
        }
    }

    /// Commits this group and begins another.
    fn and_next(self) -> Self {
        let next = Self::new(self.committer);
        self.finish();
        next
    }

    /// Checks the space for a put. Deletes free space and are never refused.
    fn has_space(&mut self, bytes: usize) -> Result<()> {
        let committer = self.committer;
        let free = self
            .free_bytes
            .get_or_insert_with(|| committer.free_bytes());
        committer.has_space(free.clone()?, self.bytes + bytes)
    }

    fn existing(&self, key: &Slice) -> Result<Option<Slice>> {
        // The group of a single writer is empty; skip the lookup, which clones the key.
        if !self.writes.is_empty()
            && let Some(written) = self.writes.get(&(Tree::Items, key.clone()))
        {
            return Ok(written.clone());
        }
        let items = &self.committer.catalog.trees.items;
        items.get(key).map_err(errors::on_read)
    }

    fn decide(
        &mut self,
        table: &Table,
        change: Change,
        condition: &Condition,
    ) -> Result<Cost, WriteError> {
        if !self.committer.catalog.has(table) {
            return Err(missing_table(table.spec.name()).into());
        }
        let existing = self.existing(&change.key)?;
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => existing.is_none(),
            Condition::Equals(..) => {
                let item = existing.as_deref().map(codec::decode_item).transpose()?;
                condition.holds(item.as_ref())
            }
        };
        let cost = if holds {
            self.apply(table, change, existing)?
        } else {
            return Err(refusal(&change, existing)?);
        };
        Ok(cost.in_requests(1))
    }

    fn decide_all(&mut self, table: &Table, changes: Vec<Change>) -> Result<Cost> {
        if !self.committer.catalog.has(table) {
            return Err(missing_table(table.spec.name()));
        }
        let requests = Cost::write_requests(changes.len());
        let mut cost = Cost::ZERO;
        for change in changes {
            let existing = self.existing(&change.key)?;
            cost += self.apply(table, change, existing)?;
        }
        Ok(cost.in_requests(requests))
    }

    /// Adds the change and its index entries to the group.
    fn apply(&mut self, table: &Table, change: Change, old: Option<Slice>) -> Result<Cost> {
        let bytes = change.bytes();
        let Change { key, new } = change;
        if new.is_some() {
            self.has_space(bytes)?;
        }
        self.bytes += bytes;
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
        self.writes.insert((Tree::Items, key), stored);
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
                self.writes.insert((Tree::Entries, removed), None);
            }
            if let Some(added) = added.cloned().flatten() {
                let entry = Some(key.clone());
                self.writes.insert((Tree::Entries, added), entry);
            }
        }
    }

    /// Commits the group, then answers all callers.
    fn finish(self) {
        if self.answers.is_empty() {
            return;
        }
        let tally = &self.committer.tally;
        tally
            .changes
            .fetch_add(self.answers.len() as u64, Ordering::Relaxed);
        tally.groups.fetch_add(1, Ordering::Relaxed);
        let done = commit(self.committer, self.writes);
        for pending in self.answers {
            match (pending, &done) {
                (Pending::One(answer, outcome), Ok(())) => answer_to(answer, outcome),
                (Pending::Many(answer, outcome), Ok(())) => answer_to(answer, outcome),
                (Pending::One(answer, _), Err(e)) => answer_to(answer, Err(e.clone().into())),
                (Pending::Many(answer, _), Err(e)) => answer_to(answer, Err(e.clone())),
            }
        }
    }
}

/// Returns when all writes are on stable storage.
fn commit(committer: &Committer, writes: HashMap<EngineKey, Option<Slice>>) -> Result<()> {
    if writes.is_empty() {
        return Ok(());
    }
    let batch = OwnedWriteBatch::with_capacity(committer.db.clone(), writes.len());
    let mut batch = batch.durability(Some(PersistMode::SyncData));
    let trees = &committer.catalog.trees;
    for ((tree, key), value) in writes {
        let keyspace = match tree {
            Tree::Items => &trees.items,
            Tree::Entries => &trees.entries,
        };
        match value {
            Some(value) => batch.insert(keyspace, key, value),
            None => batch.remove(keyspace, key),
        }
    }
    batch.commit().map_err(errors::on_commit)
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
