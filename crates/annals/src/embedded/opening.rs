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
    /// Opens the index and applies the end of the log. If the index is damaged, makes it again, and
    /// returns what was wrong, too.
    ///
    /// # Errors
    /// `Corrupt` if the log is damaged, or has lost its end: then the index is the only copy of that.
    pub(super) fn index(&self) -> Result<(Arc<Index>, Upkeep, Option<Error>)> {
        let mut damage = None;
        let files = match self.files() {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                damage = Some(self.damaged_index(&error));
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
        let (index, upkeep) = self.apply_log(files?)?;
        Ok((index, upkeep, damage))
    }

    /// The error about the store's index. The one that was opened may be a copy.
    fn damaged_index(&self, cause: &Error) -> Error {
        let error = Error::corrupt(
            "the index is damaged; the log has everything, and the index is made again from it when the store is opened for writing",
        );
        let error = error.fact("folder", folder::index(self.folder).display());
        error.because(cause.message().to_owned())
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
        let changes = end.0.saturating_sub(from.position.0);
        let mut progress = Progress::new("applying the log to the index", changes);
        log::frames_from(self.log_folder, from, end, |changes, after| {
            progress.at(after.position.0.saturating_sub(from.position.0));
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

/// Where progress is reported, at the level `INFO`: the command line shows it.
pub(super) const PROGRESS: &str = "annals::progress";

/// Reports how far something has come, if there is much of it.
pub(super) struct Progress {
    what: &'static str,
    changes: u64,
    next: u64,
}

impl Progress {
    /// Changes between two reports: some seconds.
    const STEP: u64 = 500_000;

    /// There are about this many `changes`.
    pub(super) fn new(what: &'static str, changes: u64) -> Self {
        Self {
            what,
            changes,
            next: Self::STEP,
        }
    }

    /// So many changes are done.
    pub(super) fn at(&mut self, done: u64) {
        if let Some(percent) = self.due(done) {
            tracing::info!(target: PROGRESS, changes = done, percent, "{}", self.what);
        }
    }

    /// The share that is done, if it is time for a report.
    fn due(&mut self, done: u64) -> Option<u64> {
        if done < self.next {
            return None;
        }
        self.next = done.saturating_add(Self::STEP);
        let percent = u128::from(done) * 100 / u128::from(self.changes.max(1));
        // The number of changes may be an estimate.
        Some(percent.min(100) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_reported_once_in_500_000_changes() {
        let mut progress = Progress::new("testing", 2_000_000);
        let reports: Vec<_> = (0..=2_500_000u64)
            .step_by(1000)
            .filter_map(|done| Some((done, progress.due(done)?)))
            .collect();
        assert_eq!(
            reports,
            [
                (500_000, 25),
                (1_000_000, 50),
                (1_500_000, 75),
                (2_000_000, 100),
                (2_500_000, 100)
            ]
        );
        assert_eq!(Progress::new("testing", 499_999).due(499_999), None);
    }
}
