//! The group commit: one thread that decides, writes, syncs once and answers everybody.
//!
//! Promises: a change is on stable storage before it is answered, and before anybody can read
//! it; changes take effect in one order; a condition sees everything ordered before it, the
//! changes of its own group included.
//! Never: answers a change whose group failed with anything but that failure.
//!
//! ```text
//!  put, delete, write ─► queue ─► decide (conditions, index entries) ─► commit ─► answers
//!                                  a group: all that waits, up to a limit  one sync
//! ```
//!
//! The seam for a commit log in front of the engine is [`commit`]: what it makes durable is one
//! last word for each key, and nothing after it looks at the engine.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fjall::{Database, OwnedWriteBatch, PersistMode, Slice};
use tokio::sync::{mpsc, oneshot};

use super::catalog::{Catalog, Table};
use super::folder::Folder;
use super::{codec, fault, order};
use crate::items::{Condition, Cost, Item, TableName, TableSpec, WriteError, missing_table};
use crate::{Error, Result};

/// The most changes in one group; what waits beyond it goes into the next.
pub(super) const GROUP_MAX: usize = 1024;
/// A group that has so many bytes takes no more: what a group writes is checked against the room
/// on the disk before, so it must not be much.
pub(super) const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How many changes may wait before callers wait with theirs.
pub(super) const QUEUE_MAX: usize = 1024;

/// One item to be replaced. Encoded by the caller, so that the committer has little to do.
pub(super) struct Change {
    pub(super) key: Slice,
    pub(super) new: Option<NewItem>,
}

impl Change {
    /// What it adds to a group.
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.new.as_ref().map_or(0, |new| new.bytes.len())
    }
}

pub(super) struct NewItem {
    pub(super) bytes: Slice,
    pub(super) size: usize,
    /// Where its entries stand in each index of the table.
    pub(super) places: Vec<Option<Slice>>,
    /// What it costs where there is no other before it.
    pub(super) cost: Cost,
}

/// Where the entries of an item stand in each index of its table.
pub(super) fn places(table: &Table, key: &Slice, item: &Item) -> Result<Vec<Option<Slice>>> {
    let indexes = table.spec.indexes().iter().zip(0..);
    let places = indexes.map(|(index, number)| {
        let place = index.key.key_of(item)?;
        let prefix = order::entries_prefix(table.number, number);
        Ok(place.map(|place| {
            let entry = order::entry_bytes(&place, key);
            order::prefixed(prefix, &entry).into()
        }))
    });
    places.collect()
}

pub(super) type Answer<T, E = Error> = oneshot::Sender<Result<T, E>>;

pub(super) enum Job {
    One(Arc<Table>, Change, Condition, Answer<Cost, WriteError>),
    Many(Arc<Table>, Vec<Change>, Answer<Cost>),
    Create(TableSpec, Answer<()>),
    Drop(TableName, Answer<bool>),
}

/// How many changes were answered, in how many groups: what group commit saves.
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
    pub(super) folder: Arc<Folder>,
    pub(super) reserve_bytes: u64,
    pub(super) tally: Arc<Tally>,
}

impl Committer {
    /// Works until nobody can send any more.
    pub(super) fn run(self, mut jobs: mpsc::Receiver<Job>) {
        let mut waiting = Vec::with_capacity(GROUP_MAX);
        while jobs.blocking_recv_many(&mut waiting, GROUP_MAX) > 0 {
            let mut group = Group::new(&self);
            for job in waiting.drain(..) {
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
        self.has_space(self.folder.free_bytes()?, 0)?;
        self.catalog.create(spec)
    }

    fn has_space(&self, free_bytes: u64, wanted: usize) -> Result<()> {
        if free_bytes < self.reserve_bytes.saturating_add(wanted as u64) {
            return Err(fault::disk_full(&self.folder.path().display()));
        }
        Ok(())
    }
}

/// A caller that went away has no use for its answer.
fn answer_to<T, E>(answer: Answer<T, E>, outcome: Result<T, E>) {
    let _ = answer.send(outcome);
}

enum Pending {
    One(Answer<Cost, WriteError>, Result<Cost, WriteError>),
    Many(Answer<Cost>, Result<Cost>),
}

/// A key within the engine, and which of its trees it is in.
type Place = (Tree, Slice);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Tree {
    Items,
    Entries,
}

/// Changes that become durable together.
struct Group<'a> {
    committer: &'a Committer,
    /// What the group writes: the last word on each key, which conditions later in the group see.
    /// Only then does it become a batch, for whose order within one key the engine gives no word.
    writes: HashMap<Place, Option<Slice>>,
    answers: Vec<Pending>,
    /// How much the group writes so far.
    bytes: usize,
    /// How much room the disk has; asked once, by the first put.
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

    /// Makes this group durable and begins another.
    fn and_next(self) -> Self {
        let next = Self::new(self.committer);
        self.finish();
        next
    }

    /// Puts need room; deletes make some, so they are never refused.
    fn has_space(&mut self, bytes: usize) -> Result<()> {
        let committer = self.committer;
        let free = self
            .free_bytes
            .get_or_insert_with(|| committer.folder.free_bytes());
        committer.has_space(free.clone()?, self.bytes + bytes)
    }

    fn existing(&self, key: &Slice) -> Result<Option<Slice>> {
        // A lone writer's group is empty, and the look-up would cost it an owned key.
        if !self.writes.is_empty()
            && let Some(written) = self.writes.get(&(Tree::Items, key.clone()))
        {
            return Ok(written.clone());
        }
        let items = &self.committer.catalog.trees.items;
        items.get(key).map_err(fault::on_read)
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
                let item = existing.as_deref().map(codec::decode).transpose()?;
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

    /// Adds the change, and what it does to the indexes, to the batch.
    fn apply(&mut self, table: &Table, change: Change, old: Option<Slice>) -> Result<Cost> {
        let bytes = change.bytes();
        let Change { key, new } = change;
        if new.is_some() {
            self.has_space(bytes)?;
        }
        self.bytes += bytes;
        let has_indexes = !table.spec.indexes().is_empty();
        let decoded = old.as_deref().filter(|_| has_indexes).map(codec::decode);
        let decoded = decoded.transpose()?;
        let cost = match (&decoded, &old, &new) {
            (_, None, Some(new)) => new.cost,
            (Some(old), _, new) => {
                let new = new.as_ref().map(|new| codec::decode(&new.bytes));
                Cost::of_write(&table.spec, Some(old), new.transpose()?.as_ref())
            }
            (None, old, new) => {
                let old_size = old.as_deref().map(codec::stored_size).transpose()?;
                Cost::of_sizes(old_size, new.as_ref().map(|new| new.size))
            }
        };
        let (stored, arrived) = new.map(|new| (new.bytes, new.places)).unzip();
        let left = decoded.map(|old| places(table, &key, &old)).transpose()?;
        self.move_entries(&key, left.unwrap_or_default(), arrived.unwrap_or_default());
        self.writes.insert((Tree::Items, key), stored);
        Ok(cost)
    }

    /// Takes the entries of an item out of the places that it leaves, and puts others where it has
    /// arrived; those that stay are not touched.
    fn move_entries(&mut self, key: &Slice, left: Vec<Option<Slice>>, arrived: Vec<Option<Slice>>) {
        let is_moved = |n: usize| left.get(n) != arrived.get(n);
        let moved = |places: &[Option<Slice>]| {
            let places = places.iter().enumerate().filter(|(n, _)| is_moved(*n));
            let places = places.filter_map(|(_, place)| place.clone());
            places.collect::<Vec<_>>()
        };
        for place in moved(&left) {
            self.writes.insert((Tree::Entries, place), None);
        }
        for place in moved(&arrived) {
            let entry = Some(key.clone());
            self.writes.insert((Tree::Entries, place), entry);
        }
    }

    /// Makes the group durable, then tells everybody.
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

/// Returns once all of it is on stable storage.
fn commit(committer: &Committer, writes: HashMap<Place, Option<Slice>>) -> Result<()> {
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
    batch.commit().map_err(fault::on_commit)
}

fn refusal(change: &Change, existing: Option<Slice>) -> Result<WriteError> {
    let item = existing.as_deref().map(codec::decode).transpose()?;
    let old_size = existing.as_deref().map(codec::stored_size).transpose()?;
    let sizes = Cost::of_sizes(old_size, change.new.as_ref().map(|new| new.size));
    Ok(WriteError::Refused {
        existing: item.map(Box::new),
        cost: sizes.in_requests(1),
    })
}
