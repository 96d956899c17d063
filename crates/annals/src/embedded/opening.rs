//! Opens the index of a store: applies the end of the log, or makes the index again from all of it.
//!
//! Guarantees: the index holds everything up to the end of the log, and nothing else. One that is
//! damaged, or was made from another log, is made again, but only after the log was checked. Nothing else is changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::Slice;

use super::catalog::{Catalog, WithoutDropped};
use super::errors;
use super::folder;
use super::index::{Index, Upkeep};
use super::log::{self, Position, Recovered};
use crate::{Error, ErrorKind, Result};

/// A store that is being opened: its log was checked.
pub(super) struct Opening<'a> {
    /// The store.
    pub(super) folder: &'a Path,
    pub(super) log_folder: &'a Path,
    pub(super) index_folder: PathBuf,
    pub(super) log: &'a Recovered,
    pub(super) catalog: Arc<Catalog>,
    pub(super) cache_bytes: u64,
}

impl Opening<'_> {
    /// Opens the index and applies the end of the log. If the index is damaged, makes it again.
    ///
    /// # Errors
    /// `Corrupt` if the log is damaged, or has lost its end: then the index is the only copy of that.
    pub(super) fn index(&self) -> Result<(Arc<Index>, Upkeep)> {
        let files = match self.files() {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(%error, "the index is damaged, and is made again from the log");
                // Removed only if the log can replace it.
                log::frames_from(
                    self.log_folder,
                    self.log.first(),
                    self.log.end.position,
                    |_, _| Ok(()),
                )?;
                folder::remove_part(&self.index_folder)?;
                self.files()
            }
            files => files,
        };
        self.apply_log(files?)
    }

    /// The same, but a damaged index is an error.
    pub(super) fn intact_index(&self) -> Result<(Arc<Index>, Upkeep)> {
        self.apply_log(self.files()?)
    }

    /// Opens the files of the index; returns up to where they hold the log.
    ///
    /// # Errors
    /// `Corrupt` if they are damaged, or were not made from this log.
    fn files(&self) -> Result<(Arc<Index>, Position)> {
        let catalog = self.catalog.clone();
        let (mark, cache_bytes) = (self.log.mark(), self.cache_bytes);
        let index = Index::open(&self.index_folder, mark, cache_bytes, |erasure| {
            Arc::new(WithoutDropped { catalog, erasure })
        })?;
        let applied = index.applied()?;
        match self.log.has_made(self.log_folder, applied)? {
            true => Ok((Arc::new(index), applied.position)),
            false => Err(errors::foreign_index(&self.index_folder)),
        }
    }

    fn apply_log(&self, (index, applied): (Arc<Index>, Position)) -> Result<(Arc<Index>, Upkeep)> {
        let end = self.log.end.position;
        if applied > end {
            return Err(Error::corrupt(
                "the end of the log is lost; keep a copy of the folder and restore a backup",
            )
            .fact("log ends at", end)
            .fact("index ends at", applied)
            .fact("folder", self.folder.display()));
        }
        let upkeep = Upkeep::start(&index)?;
        index.publish(applied);
        let from = self.log.before(applied);
        let mut progress = Progress::new(from.position, end);
        log::frames_from(self.log_folder, from, end, |changes, after| {
            progress.at(after.position);
            for change in changes {
                if change.position >= applied {
                    let value = change.value.map(Slice::from);
                    index.insert(change.position, Slice::from(change.key), value);
                }
            }
            index.publish(after.position.max(applied));
            if index.is_full() {
                upkeep.wait_for_room(&index)?;
                index.seal(after);
                upkeep.sealed(after);
            }
            Ok(())
        })?;
        Ok((index, upkeep))
    }
}

/// Reports how far the log is applied, if there is much of it.
struct Progress {
    from: Position,
    end: Position,
    next: Position,
}

impl Progress {
    /// Positions between two reports: some seconds.
    const STEP: u64 = 500_000;

    fn new(from: Position, end: Position) -> Self {
        Self {
            from,
            end,
            next: from.plus(Self::STEP),
        }
    }

    fn at(&mut self, position: Position) {
        if position < self.next {
            return;
        }
        self.next = position.plus(Self::STEP);
        let done = position.0 - self.from.0;
        let percent = done * 100 / (self.end.0 - self.from.0).max(1);
        tracing::info!(changes = done, percent, "applying the log to the index");
    }
}
