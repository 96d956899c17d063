//! Writes memtables to files and merges files, each on its own thread.
//!
//! Guarantees: neither thread holds up inserting, unless too many memtables wait. Only changes that
//! are on stable storage in the log reach the index's files.
//!
//! The tree numbers its versions, and shows a read the newest version below the read's own number. A
//! version must therefore get a number above every read that may need what it dropped, and below
//! every read that must see it. Its files hold only published changes, all below `end`, the number
//! after them. A number in the step before `end` is right: reads at `end` or later need nothing that
//! was dropped, and earlier reads use earlier versions.
//!
//! Which reads need what was dropped? The tree drops a value that is older than the oldest read in
//! flight if a newer one of its key is written with it, even if the newer one is after that read
//! (lsm-tree 3.1, `CompactionStream::next` compares only the older one). So `end` has to be after all
//! memtables that a flush takes, also those that are sealed while it begins: sealing raises the number
//! before the memtable can be taken.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, SeqNo};

use super::{Index, STEP, number};
use crate::embedded::errors;
use crate::embedded::log::{Checkpoint, Position};
use crate::{Error, Result};

/// Bytes of a file of the tree after everything was merged.
const TABLE_BYTES: u64 = 64 * 1024 * 1024;
/// How long to wait before a failed flush is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The threads. Dropped, it waits for what they are doing.
#[derive(Debug)]
pub(in super::super) struct Upkeep {
    sealed: Option<Sender<Checkpoint>>,
    threads: Vec<JoinHandle<()>>,
    progress: Arc<Progress>,
}

/// How the flushing thread gets on.
#[derive(Debug, Default)]
struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Up to where the index's files hold the log, until somebody has asked.
    applied: Option<Checkpoint>,
    /// Why the last flush failed.
    failed: Option<Error>,
    is_closing: bool,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upkeep {
    pub(in super::super) fn start(index: &Arc<Index>) -> Result<Self> {
        let progress = Arc::new(Progress::default());
        let (sealed, to_flush) = channel();
        let (flushed, to_compact) = channel();
        let flushing = {
            let (index, progress) = (index.clone(), progress.clone());
            crate::embedded::spawn_background("annals-flush", move || {
                flush_all(&index, &progress, &to_flush, &flushed)
            })?
        };
        let compacting = {
            let (index, progress) = (index.clone(), progress.clone());
            crate::embedded::spawn_background("annals-compact", move || {
                compact_all(&index, &progress, &to_compact)
            })?
        };
        Ok(Self {
            sealed: Some(sealed),
            threads: vec![flushing, compacting],
            progress,
        })
    }

    /// A memtable was sealed that holds the log up to this place.
    pub(in super::super) fn sealed(&self, place: Checkpoint) {
        if let Some(sealed) = &self.sealed {
            // The thread ends only after this sender.
            let _ = sealed.send(place);
        }
    }

    /// Up to where the index's files hold the log, if that has changed.
    pub(in super::super) fn applied(&self) -> Option<Checkpoint> {
        self.progress.state().applied.take()
    }

    /// Waits until the index can take more changes.
    ///
    /// # Errors
    /// Why memtables cannot be written, if they cannot.
    pub(in super::super) fn wait_for_room(&self, index: &Index) -> Result<()> {
        self.wait_while(|| index.is_behind())
    }

    /// Waits until every sealed memtable is written.
    ///
    /// # Errors
    /// Why they cannot be written, if they cannot.
    pub(in super::super) fn wait_until_flushed(&self, index: &Index) -> Result<()> {
        self.wait_while(|| index.has_sealed())
    }

    fn wait_while(&self, is_waiting: impl Fn() -> bool) -> Result<()> {
        let mut state = self.progress.state();
        while is_waiting() {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            let waited = self.progress.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.sealed = None;
        self.progress.state().is_closing = true;
        self.progress.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there is a bug of the engine. The log has everything.
            let _ = thread.join();
        }
    }
}

fn flush_all(
    index: &Index,
    progress: &Progress,
    sealed: &Receiver<Checkpoint>,
    flushed: &Sender<()>,
) {
    while let Ok(mut place) = sealed.recv() {
        // One flush writes all that wait.
        while let Ok(newer) = sealed.try_recv() {
            place = newer;
        }
        while let Err(error) = index.flush() {
            tracing::error!(%error, "the index cannot be written, and is tried again; the log has everything");
            let mut state = progress.state();
            state.failed = Some(error);
            progress.changed.notify_all();
            let waiting = progress
                .changed
                .wait_timeout_while(state, RETRY, |it| !it.is_closing);
            if waiting.unwrap_or_else(PoisonError::into_inner).0.is_closing {
                return;
            }
        }
        let mut state = progress.state();
        (state.applied, state.failed) = (Some(place), None);
        progress.changed.notify_all();
        drop(state);
        // Without the other thread, files are not merged; they are all there.
        let _ = flushed.send(());
    }
}

/// Merges files after each flush until nothing is left to merge, or the store is closed.
fn compact_all(index: &Index, progress: &Progress, flushed: &Receiver<()>) {
    while flushed.recv().is_ok() {
        while !progress.state().is_closing {
            match index.compact() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::error!(%error, "files of the index cannot be merged, which is tried again later; the log has everything");
                    break;
                }
            }
        }
    }
}

/// A number above that of the version that merging has made.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Merged(SeqNo);

impl Index {
    /// Writes the sealed memtables to files. Sealing them has raised the version's number.
    fn flush(&self) -> Result<()> {
        let lock = self.tree.get_flush_lock();
        let oldest = self.snapshots.oldest(|| self.end());
        let flushed = self.tree.flush(&lock, oldest);
        flushed.map(drop).map_err(errors::on_upkeep)
    }

    /// Merges some files; returns whether there was something to merge.
    fn compact(&self) -> Result<bool> {
        let end = self.end();
        self.raise_version(end);
        // Each merge takes a number of the step. Half of them are left for flushes.
        if self.versions.get() + STEP / 2 >= end {
            return Ok(false);
        }
        let before = self.tree.current_version().id();
        let oldest = self.snapshots.oldest(|| self.end());
        let compacted = self.tree.compact(Arc::new(Leveled::default()), oldest);
        compacted.map_err(errors::on_upkeep)?;
        Ok(self.tree.current_version().id() != before)
    }

    /// Merges all files into new ones that hold nothing that was superseded before `end`. The memtables
    /// of that time are written. Returns what [`Self::remove_before`] needs to remove the old files;
    /// `None` if merging has to wait: for a read that uses an older point in time, or because it was
    /// stopped.
    pub(in super::super) fn merge_all(&self, end: Position) -> Result<Option<Merged>> {
        let now = self.end();
        let oldest = self.snapshots.oldest(|| self.end());
        if oldest < number(end) {
            return Ok(None);
        }
        if self.tree.table_count() == 0 {
            return Ok(Some(Merged(self.versions.get())));
        }
        self.raise_version(now);
        if self.versions.get() + STEP / 2 >= now || self.erasure.is_stopped() {
            return Ok(None);
        }
        self.erasure.is_running.store(true, Ordering::Release);
        let merged = self.tree.major_compact(TABLE_BYTES, oldest);
        self.erasure.is_running.store(false, Ordering::Release);
        match merged {
            Err(_) if self.erasure.is_stopped() => return Ok(None),
            merged => merged.map_err(errors::on_upkeep)?,
        }
        Ok(Some(Merged(self.versions.get())))
    }

    /// Removes the files of before a merge. Returns false if a read still uses them.
    pub(in super::super) fn remove_before(&self, Merged(merged): Merged) -> Result<bool> {
        let oldest = self.snapshots.oldest(|| self.end());
        // Files are removed with the last version that has them.
        let folder = &self.tree.tree_config().path;
        let mut versions = self.tree.get_version_history_lock();
        versions
            .maintenance(folder, oldest)
            .map_err(errors::on_upkeep)?;
        // The merged version has a number below `merged`: then reads use it or a later one.
        Ok(oldest >= merged || versions.free_list_len() == 0)
    }

    /// Raises the number of the tree's next version to the step before `end`.
    pub(super) fn raise_version(&self, end: SeqNo) {
        self.versions.fetch_max(end.saturating_sub(STEP - 1));
    }
}

#[cfg(test)]
mod tests {
    use lsm_tree::Slice;
    use lsm_tree::compaction::filter::Context;
    use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};

    use super::*;
    use crate::embedded::Embedded;
    use crate::embedded::log::Place;
    use crate::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec};

    struct KeepAll;

    impl Factory for KeepAll {
        fn name(&self) -> &str {
            "keep-all"
        }

        fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
            Box::new(Self)
        }
    }

    impl CompactionFilter for KeepAll {
        fn filter_item(&mut self, _: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
            Ok(Verdict::Keep)
        }
    }

    fn put(index: &Index, position: u64, value: &str) {
        let value = Slice::from(value.as_bytes());
        index.insert(Position(position), Slice::from(b"\x02key"), Some(value));
        index.publish(Position(position + 1));
    }

    fn seal(index: &Index, end: u64) {
        index.seal(Place {
            segment: 0,
            offset: 64,
            position: Position(end),
            previous: 0,
        });
    }

    #[test]
    fn a_read_keeps_its_values_if_a_memtable_is_sealed_while_a_flush_begins() {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::open(folder.path(), 0, 0, |_| Arc::new(KeepAll)).unwrap();
        put(&index, 1, "first");
        let read = index.snapshot();
        seal(&index, 2);
        // The flush for it begins only after the next memtable is sealed, and takes both.
        put(&index, 2, "second");
        seal(&index, 3);
        index.flush().unwrap();
        assert!(!index.has_sealed());
        let found = read.get(b"\x02key").unwrap();
        assert_eq!(found.as_deref(), Some(&b"first"[..]));
        let found = index.snapshot().get(b"\x02key").unwrap();
        assert_eq!(found.as_deref(), Some(&b"second"[..]));
    }

    #[tokio::test]
    async fn an_index_of_an_earlier_version_which_names_only_its_position_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let notes = TableSpec::new(
            "notes".parse().unwrap(),
            KeySchema::new(KeyAttribute::text("id")),
        );
        let notes = notes.unwrap();
        let item = Item::new().with("id", "a");
        let items = Embedded::open(folder.path(), &Default::default()).unwrap();
        let created = items.create_table(&notes, Default::default()).await;
        created.unwrap();
        let put = items.put(&notes, item.clone(), Condition::Absent).await;
        put.unwrap();
        items.flush_index().await.unwrap();
        drop(items);
        let tree = folder.path().join("index");
        let index = Index::open(&tree, 0, 0, |_| Arc::new(KeepAll)).unwrap();
        let applied = index.applied().unwrap();
        assert!(applied.chain.is_some());
        let end = applied.position.plus(1);
        let value = Slice::from(applied.position.0.to_be_bytes());
        index.insert(applied.position, Slice::from([0]), Some(value));
        index.publish(end);
        index.raise_version(number(end));
        index.tree.rotate_memtable();
        index.flush().unwrap();
        assert_eq!(index.applied().unwrap().chain, None);
        drop(index);
        // Made again, it would have lost this.
        let kept = tree.join("kept");
        std::fs::write(&kept, "").unwrap();
        let checked = Embedded::check_files(folder.path(), &mut |_| ()).unwrap();
        assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        let items = Embedded::open(folder.path(), &Default::default()).unwrap();
        let got = items.get(&notes, vec![Key::new("a")]).await.unwrap();
        assert_eq!(got.items, [Some(item)]);
        assert!(kept.exists());
    }
}
