//! The syncer: a thread that writes groups to the log and answers their callers.
//!
//! Guarantees: a change is on stable storage before it is acknowledged and before anybody can read it.
//! If a write or a sync fails, nothing is acknowledged any more until the store is opened again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::errors;
use super::group::{Group, OpenGroup};
use super::index::{Index, Upkeep};
use super::log::Writer;
use super::retention::Superseding;
use crate::{Error, Result};

/// How many changes were decided, in how many groups.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) changes: AtomicU64,
    pub(super) groups: AtomicU64,
}

pub(super) struct Syncer {
    pub(super) log: Writer,
    pub(super) open: Arc<OpenGroup>,
    pub(super) index: Arc<Index>,
    pub(super) upkeep: Arc<Upkeep>,
    pub(super) tally: Arc<Tally>,
    pub(super) superseding: Arc<Superseding>,
}

impl Syncer {
    /// Runs until the open group is closed.
    pub(super) fn run(mut self) {
        let mut failed = None;
        while let Some(group) = self.open.take(self.log.end()) {
            let outcome = match &failed {
                None => self.commit(group),
                Some(error) => answer_all(group, Err(error)),
            };
            if let Err(error) = outcome {
                self.open.fail(error.clone());
                failed = Some(error);
            }
        }
        if failed.is_none()
            && let Err(cause) = self.finish()
        {
            tracing::warn!(error = %cause, "cannot note that the store was closed");
        }
    }

    /// Writes a group, then answers its callers; returns why the log takes no more, if so.
    fn commit(&mut self, mut group: Group) -> Result<()> {
        if let Some(place) = self.upkeep.applied() {
            self.log.applied(place);
        }
        let sealed = match self.superseding.takes_seal() {
            true => self.log.seal(),
            false => Ok(()),
        };
        if let Err(cause) = sealed {
            let error = errors::on_commit(&cause).because(cause);
            let _ = answer_all(group, Err(&error));
            return Err(errors::after_failure());
        }
        if !group.frame.is_empty() {
            if let Err(cause) = self.log.append(&mut group.frame) {
                let error = errors::on_commit(&cause).because(cause);
                let _ = answer_all(group, Err(&error));
                return Err(errors::after_failure());
            }
            self.index.publish(group.frame.end());
        }
        self.tally.groups.fetch_add(1, Ordering::Relaxed);
        answer_all(group, Ok(()))
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

fn answer_all(group: Group, outcome: Result<(), &Error>) -> Result<()> {
    for answer in group.answers {
        answer(outcome.map_err(Error::clone));
    }
    Ok(())
}
