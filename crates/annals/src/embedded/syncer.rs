//! The syncer: writes groups to the log and answers their callers, on a thread of its own. The decider
//! writes a group itself if it has only one caller, who would otherwise wait for another thread to wake.
//!
//! Guarantees: a change is on stable storage before it is acknowledged and before anybody can read it.
//! If a write or a sync fails, nothing is acknowledged any more until the store is opened again.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::errors;
use super::group::{Group, OpenGroup};
use super::index::{Index, Upkeep};
use super::log::{LogEnd, Seal, Writer};
use super::retention::Superseding;
use crate::{Error, Result};

/// How many changes were decided, in how many groups.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) changes: AtomicU64,
    pub(super) groups: AtomicU64,
}

/// Writes groups that were taken from the open group.
pub(super) struct Syncer {
    pub(super) log: Writer,
    /// The end of the log, for those who follow it.
    pub(super) end: watch::Sender<LogEnd>,
    pub(super) open: Arc<OpenGroup>,
    pub(super) index: Arc<Index>,
    pub(super) upkeep: Arc<Upkeep>,
    pub(super) tally: Arc<Tally>,
    pub(super) superseding: Arc<Superseding>,
}

/// The syncer, which whoever has taken a group uses: its thread, or the decider.
#[derive(Clone)]
pub(super) struct Shared {
    open: Arc<OpenGroup>,
    /// `None` when the log is closed. Locked only by the one who has taken a group.
    syncer: Arc<Mutex<Option<Syncer>>>,
}

impl Shared {
    pub(super) fn new(syncer: Syncer) -> Self {
        Self {
            open: syncer.open.clone(),
            syncer: Arc::new(Mutex::new(Some(syncer))),
        }
    }

    /// Runs until the open group is closed.
    pub(super) fn run(&self) {
        while let Some(group) = self.open.take() {
            self.commit(group);
        }
        let syncer = self.lock().take();
        if self.open.failed().is_none()
            && let Some(syncer) = syncer
            && let Err(cause) = syncer.finish()
        {
            tracing::warn!(error = %cause, "cannot note that the store was closed");
        }
    }

    /// Writes the open group on this thread, unless one is being written.
    pub(super) fn commit_now(&self) {
        if let Some(group) = self.open.take_now() {
            self.commit(group);
        }
    }

    fn commit(&self, group: Group) {
        let unfinished = Unfinished(&self.open);
        let outcome = match &mut *self.lock() {
            Some(syncer) => syncer.commit(group).map(|()| syncer.log.end()),
            None => Err(errors::after_failure()),
        };
        std::mem::forget(unfinished);
        match outcome {
            Ok(end) => self.open.written(end),
            Err(error) => self.open.fail(error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Syncer>> {
        self.syncer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A group that is being written. Dropped by a panic: nobody may wait forever.
struct Unfinished<'a>(&'a OpenGroup);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.fail(errors::after_failure());
    }
}

impl Syncer {
    /// Writes a group, then answers its callers; returns why the log takes no more, if so.
    fn commit(&mut self, mut group: Group) -> Result<()> {
        if let Some(place) = self.upkeep.applied() {
            self.log.applied(place);
        }
        if self.superseding.wants_seal() {
            match self.log.seal() {
                Ok(Seal::Sealed) => self.superseding.sealed(Ok(())),
                Ok(Seal::Preparing) => {}
                // Appends go on in the segment that is open.
                Ok(Seal::Failed(cause)) => {
                    self.superseding.sealed(Err(errors::on_seal(cause)));
                }
                Err(cause) => {
                    let error = errors::on_commit(&cause).because(cause);
                    answer_all(group, Err(&error));
                    return Err(errors::after_failure());
                }
            }
        }
        if !group.frame.is_empty() {
            if let Err(cause) = self.log.append(&mut group.frame) {
                let error = errors::on_commit(&cause).because(cause);
                answer_all(group, Err(&error));
                return Err(errors::after_failure());
            }
            self.index.publish(group.frame.end());
            self.end.send_replace(self.log.log_end());
        }
        self.tally.groups.fetch_add(1, Ordering::Relaxed);
        answer_all(group, Ok(()));
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        let mut log = self.log;
        if let Some(place) = self.upkeep.applied() {
            log.applied(place);
        }
        let end = log.end();
        log.close()?;
        self.superseding.closed(end);
        Ok(())
    }
}

fn answer_all(group: Group, outcome: Result<(), &Error>) {
    for answer in group.answers {
        answer(outcome.map_err(Error::clone));
    }
}
