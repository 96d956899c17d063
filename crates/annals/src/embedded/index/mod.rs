//! The index: what the log says, sorted by key. An LSM tree without a journal of its own.
//!
//! Guarantees: a read sees a consistent point in time, and nothing that is not on stable storage in the
//! log. The index can be removed at any time; it is made again from the log.
//!
//! Relies on one thread that inserts, and on [`Index::publish`] being called after the log's sync.
//!
//! The tree orders versions of a key by number. We number a change by its position in the log times
//! [`STEP`]; the numbers between are for the tree's own versions (`upkeep.rs`).
//!
//! ```text
//! key: 0 "applied"             the place in the log up to which the tree's files hold everything
//!      1 table's name          the record of a table (`catalog.rs`)
//!      2 table's number, key   an item
//!      3 table's number, index, entry's key   an index entry: the key of its item
//!      4 position          where a restored store left its original (`forks.rs`)
//! ```

mod applied;
pub(super) mod check;
pub(super) mod integrity;
mod snapshots;
mod upkeep;

use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lsm_tree::compaction::Factory;
use lsm_tree::{
    AbstractTree, AnyTree, Cache, Config, Guard, IterGuardImpl, SeqNo, SequenceNumberCounter, Slice,
};

pub(super) use self::applied::Applied;
use self::snapshots::{Snapshots, Taken};
pub(super) use self::upkeep::Upkeep;
use super::errors;
use super::log::{Place, Position};
use crate::{Error, Result};

/// The first byte of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Applied = 0,
    Table = 1,
    Item = 2,
    Entry = 3,
    Fork = 4,
}

/// Numbers of the tree for each position of the log.
const STEP: u64 = 256;
/// Sorts and buffers recent changes. Smaller: more files and more compaction. Larger: more memory, and
/// more to read from the log when the store is opened.
const MEMTABLE_BYTES: u64 = 32 * 1024 * 1024;
/// A smaller memtable is not written when the store is closed; its changes are read from the log.
const FLUSH_AT_CLOSE_BYTES: u64 = 4 * 1024 * 1024;
/// Memtables that wait to be written before inserting has to wait.
const SEALED_MAX: usize = 4;

pub(super) struct Index {
    tree: AnyTree,
    /// The log's mark.
    mark: u64,
    /// Numbers of the tree's own versions.
    versions: SequenceNumberCounter,
    /// The position after the last that reads see.
    visible: AtomicU64,
    snapshots: Snapshots,
    erasure: Arc<Erasure>,
}

/// Stops an erasing merge of the tree.
#[derive(Debug, Default)]
pub(super) struct Erasure {
    is_running: AtomicBool,
    is_stopped: AtomicBool,
}

impl Erasure {
    /// Ends a merge that is running, soon, and every later one.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Whether a merge that begins now can be stopped.
    pub(super) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// A point in time.
pub(super) struct Snapshot {
    tree: AnyTree,
    taken: Taken,
}

/// The values of a range of keys. Its snapshot must be kept as long.
pub(super) struct Values(Box<dyn DoubleEndedIterator<Item = IterGuardImpl> + Send>);

/// The value of a key, and the position of the change that put it.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) position: Position,
    pub(super) value: Slice,
}

fn number(position: Position) -> SeqNo {
    position.0.saturating_mul(STEP)
}

impl Index {
    /// Opens the tree, or creates it, for a log with this mark.
    pub(super) fn open(
        folder: &Path,
        mark: u64,
        cache_bytes: u64,
        filter: impl FnOnce(Arc<Erasure>) -> Arc<dyn Factory>,
    ) -> Result<Self> {
        integrity::check(folder)?;
        let versions = SequenceNumberCounter::default();
        let config = Config::new(folder, versions.clone(), SequenceNumberCounter::default());
        let cache = Arc::new(Cache::with_capacity_bytes(cache_bytes));
        let erasure = Arc::new(Erasure::default());
        let config = config.with_compaction_filter_factory(Some(filter(erasure.clone())));
        let tree = config.use_cache(cache).open();
        Ok(Self {
            tree: tree.map_err(|error| errors::on_open(error, folder))?,
            mark,
            versions,
            visible: AtomicU64::new(0),
            snapshots: Snapshots::default(),
            erasure,
        })
    }

    /// Up to where the tree's files hold a log.
    pub(super) fn applied(&self) -> Result<Applied> {
        let found = self.latest(&[Kind::Applied as u8])?;
        let Some(found) = found else {
            return Ok(Applied::NOTHING);
        };
        let applied = Applied::decode(&found.value);
        applied.ok_or_else(|| Error::corrupt("the index does not know its position"))
    }

    /// Inserts a change; `None` removes the key. Reads see it when it is published.
    pub(super) fn insert(&self, position: Position, key: Slice, value: Option<Slice>) {
        let number = number(position);
        match value {
            Some(value) => self.tree.insert(key, value, number),
            None => self.tree.remove(key, number),
        };
    }

    /// Shows everything before a position to reads.
    pub(super) fn publish(&self, end: Position) {
        self.visible.store(end.0, Ordering::Release);
    }

    /// The newest value of a key, published or not. Only for the thread that inserts.
    pub(super) fn latest(&self, key: &[u8]) -> Result<Option<Version>> {
        let found = self.tree.get_internal_entry(key, SeqNo::MAX);
        let found = found.map_err(errors::on_read)?;
        // Merging keeps the numbers of versions.
        Ok(found.map(|found| Version {
            position: Position(found.key.seqno / STEP),
            value: found.value,
        }))
    }

    /// What is published now.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            tree: self.tree.clone(),
            taken: self.snapshots.take(|| self.end()),
        }
    }

    /// The position after everything that is published.
    pub(super) fn end_position(&self) -> Position {
        Position(self.visible.load(Ordering::Acquire))
    }

    /// Bytes of the tree's files.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.tree.disk_space()
    }

    /// Compares the tree's files with their checksums. Calls `found` with each error.
    pub(super) fn check_files(
        &self,
        step: &mut dyn FnMut(u64) -> bool,
        found: &mut dyn FnMut(Error),
    ) {
        // It keeps its files.
        let version = self.tree.current_version();
        for table in version.iter_tables() {
            let checked = check::check_file(&table.path, table.checksum().into_u128(), step);
            if let Err(error) = checked {
                found(error);
            }
            if !step(0) {
                return;
            }
        }
    }

    /// What stops [`Self::merge_all`].
    pub(super) fn erasure(&self) -> Arc<Erasure> {
        self.erasure.clone()
    }

    /// The tree's number after everything that is published.
    fn end(&self) -> SeqNo {
        number(self.end_position())
    }

    /// Whether the memtable should be sealed.
    pub(super) fn is_full(&self) -> bool {
        self.tree.active_memtable().size() >= MEMTABLE_BYTES
    }

    /// Whether closing should write the memtable to files.
    pub(super) fn is_worth_flushing(&self) -> bool {
        self.tree.active_memtable().size() >= FLUSH_AT_CLOSE_BYTES
    }

    /// Seals the memtable, which holds everything before a place, all of it published.
    pub(super) fn seal(&self, place: Place) {
        let end = place.position;
        let value = Slice::from(Applied::at(place, self.mark).encode());
        let last = Position(end.0.saturating_sub(1));
        self.insert(last, Slice::from([Kind::Applied as u8]), Some(value));
        // Before a flush can take the memtable: the version that it makes must be after `last`.
        self.raise_version(number(end));
        self.tree.rotate_memtable();
    }

    /// Whether a sealed memtable is not written yet.
    fn has_sealed(&self) -> bool {
        self.tree.sealed_memtable_count() > 0
    }

    /// Whether so many memtables wait that inserting should too.
    fn is_behind(&self) -> bool {
        self.tree.sealed_memtable_count() >= SEALED_MAX
    }
}

impl Snapshot {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        let found = self.tree.get(key, self.taken.number());
        found.map_err(errors::on_read)
    }

    /// The values of a range of keys.
    pub(super) fn values<R: RangeBounds<Vec<u8>>>(&self, range: R) -> Values {
        Values(self.tree.range(range, self.taken.number(), None))
    }

    /// The keys and values of a range of keys.
    pub(super) fn entries<R: RangeBounds<Vec<u8>>>(
        &self,
        range: R,
    ) -> impl DoubleEndedIterator<Item = Result<(Slice, Slice)>> {
        let entries = self.tree.range(range, self.taken.number(), None);
        entries.map(|entry| entry.into_inner().map_err(errors::on_read))
    }
}

fn value_of(entry: IterGuardImpl) -> Result<Slice> {
    entry.value().map_err(errors::on_read)
}

impl Iterator for Values {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(value_of)
    }
}

impl DoubleEndedIterator for Values {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(value_of)
    }
}
