//! Retention: compresses sealed segments of the log, and erases what was deleted or overwritten.
//!
//! One thread, with a bounded share of processor and disk: it pauses after every block. It never holds
//! up closing the store for longer than a block takes.
//!
//! Guarantees: what was deleted is erased from the log and from the files of the index some time after
//! ([`due`]), also after a crash: nothing but a completed pass makes it forget. Positions stay.
//!
//! Segments are compressed as soon as they are sealed, whether or not the index has applied them: a
//! compressed segment reads like the one before.

mod due;
mod pass;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use self::due::{Due, Situation};
use self::pass::{Done, Pass};
use super::catalog::Catalog;
use super::decider::Job;
use super::group::OpenGroup;
use super::index::{Erasure, Index, Upkeep};
use super::log::{self, Erase, Note, Place, Position, Rewritten};
use super::{beside, private_folder};
use crate::{Clock, Error, ErrorKind, Result, SystemClock};

/// How often the thread looks for work.
const TICK: Duration = Duration::from_secs(5);
/// After each block, so that the thread takes a small part of a core and of the disk.
const PAUSE: Duration = Duration::from_millis(20);

/// What the threads of the store tell this one.
#[derive(Debug)]
pub(super) struct Superseding {
    /// The last position that superseded something.
    last: AtomicU64,
    deletions: AtomicU64,
    bytes: AtomicU64,
    /// The syncer is to begin a new segment.
    seal: AtomicBool,
    /// Why it could not, when it was asked last.
    unsealed: Mutex<Option<Error>>,
    /// Where the log ended when it was closed.
    closed: Mutex<Option<Place>>,
}

impl Superseding {
    /// What is left to erase: up to this position, at least so many deletions.
    fn new(last: u64, deletions: u64) -> Self {
        Self {
            last: AtomicU64::new(last),
            deletions: AtomicU64::new(deletions),
            bytes: AtomicU64::new(0),
            seal: AtomicBool::new(false),
            unsealed: Mutex::new(None),
            closed: Mutex::new(None),
        }
    }

    /// A change at a position replaced or deleted a value. Called before it is durable.
    pub(super) fn add(&self, position: Position, old_len: usize, new_len: usize) {
        self.bytes.fetch_add(old_len as u64, Ordering::Relaxed);
        // A layout may delete by putting a tombstone. That of a small event is little smaller.
        if new_len < old_len {
            self.deletions.fetch_add(1, Ordering::Relaxed);
        }
        self.last.store(position.0, Ordering::Release);
    }

    /// The log was closed, and ends here.
    pub(super) fn closed(&self, end: Place) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    /// Whether the syncer should begin a new segment.
    pub(super) fn wants_seal(&self) -> bool {
        self.seal.load(Ordering::Acquire)
    }

    /// The syncer has begun it, or could not.
    pub(super) fn sealed(&self, outcome: Result<()>) {
        *self.unsealed() = outcome.err();
        self.seal.store(false, Ordering::Release);
    }

    fn unsealed(&self) -> MutexGuard<'_, Option<Error>> {
        self.unsealed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread. Dropped, it stops after the current block.
#[derive(Debug)]
pub(super) struct Retention {
    folder: PathBuf,
    superseding: Arc<Superseding>,
    shared: Arc<Shared>,
    erasure: Arc<Erasure>,
    upkeep: Arc<Upkeep>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread shares with the store.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    is_closing: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<oneshot::Sender<Result<()>>>,
    /// What the thread has reached when it ends.
    note: Option<Note>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Waits for a time, or until the store is closed; returns whether it is still open.
    fn pause(&self, time: Duration) -> bool {
        let state = self.state();
        let waited = self
            .changed
            .wait_timeout_while(state, time, |_| !self.is_closing());
        drop(waited);
        !self.is_closing()
    }

    /// Waits for requests, for a time at most.
    fn wait(&self, time: Duration) -> Vec<oneshot::Sender<Result<()>>> {
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, time, |state| {
            !self.is_closing() && state.requests.is_empty()
        });
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::take(&mut state.requests)
    }
}

/// What the thread needs of the store.
pub(super) struct Parts {
    pub(super) folder: PathBuf,
    /// Where processes that read beside this one keep links to files of the index.
    pub(super) readers: PathBuf,
    pub(super) index: Arc<Index>,
    pub(super) upkeep: Arc<Upkeep>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) open: Arc<OpenGroup>,
    pub(super) jobs: mpsc::WeakSender<Job>,
}

/// What is known before the store takes changes.
pub(super) struct Start {
    note: Note,
    pub(super) superseding: Arc<Superseding>,
}

impl Start {
    /// Reads what an earlier process left to do.
    pub(super) fn read(folder: &std::path::Path, recovered: &log::Recovered) -> Self {
        let note = Note::open(folder, recovered);
        let is_known = note.from.position == recovered.end.position;
        // What an earlier process left is found by reading the log. Until then it counts as a deletion.
        let (last, deletions) = match is_known {
            true => (0, 0),
            false => (recovered.end.position.0.saturating_sub(1), 1),
        };
        let superseding = Superseding::new(last, deletions);
        Self {
            note,
            superseding: Arc::new(superseding),
        }
    }
}

impl Retention {
    pub(super) fn start(start: Start, parts: Parts) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let folder = parts.folder.clone();
        let superseding = start.superseding;
        let (erasure, upkeep) = (parts.index.erasure(), parts.upkeep.clone());
        if let Err(cause) = log::clean(&folder) {
            tracing::warn!(error = %cause, "cannot remove what an interrupted rewrite left");
        }
        let mut worker = Worker {
            shared: shared.clone(),
            superseding: superseding.clone(),
            parts,
            note: start.note,
            compressed_to: 0,
            clock: SystemClock::new(),
            due: Due::default(),
            advanced: Position::FIRST,
        };
        let thread = super::spawn_background("annals-retain", move || worker.run())?;
        Ok(Self {
            folder,
            superseding,
            shared,
            erasure,
            upkeep,
            thread: Some(thread),
        })
    }

    /// Asks for a pass now; the answer comes when everything that was superseded is gone.
    pub(super) fn request(&self) -> oneshot::Receiver<Result<()>> {
        let (answer, outcome) = oneshot::channel();
        self.shared.state().requests.push(answer);
        self.shared.changed.notify_all();
        outcome
    }

    /// The threads of the index.
    pub(super) fn upkeep(&self) -> Arc<Upkeep> {
        self.upkeep.clone()
    }

    /// Ends the thread. Call it while the other threads run.
    pub(super) fn stop(&mut self) {
        {
            let _state = self.shared.state();
            self.shared.is_closing.store(true, Ordering::Release);
        }
        self.shared.changed.notify_all();
        self.erasure.stop();
        if let Some(thread) = self.thread.take() {
            // If it panicked, the next process repeats its work.
            let _ = thread.join();
        }
    }

    /// Notes, if nothing is left to erase, that the next process need not read the log again. Call it
    /// when the log is closed.
    pub(super) fn close(&self) {
        let closed = &self.superseding.closed;
        let end = *closed.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(mut note), Some(end)) = (self.shared.state().note.take(), end) else {
            return;
        };
        let is_pending = self.superseding.last.load(Ordering::Acquire) >= note.from.position.0;
        if is_pending || note.from == end {
            return;
        }
        note.from = end;
        if let Err(error) = note.write(&self.folder) {
            tracing::warn!(%error, "the next process will read the log again for deletions");
        }
    }
}

impl Drop for Retention {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread's state.
struct Worker {
    shared: Arc<Shared>,
    superseding: Arc<Superseding>,
    parts: Parts,
    note: Note,
    /// Segments before this one are compressed.
    compressed_to: u64,
    clock: SystemClock,
    due: Due,
    /// The end of the log when the note was last raised without a pass.
    advanced: Position,
}

impl Worker {
    fn run(&mut self) {
        while !self.shared.is_closing() {
            let requests = self.shared.wait(TICK);
            if self.shared.is_closing() {
                break;
            }
            let outcome = self.work(!requests.is_empty());
            if let Err(error) = &outcome {
                tracing::error!(%error, "the log cannot be compressed or erased, which is tried again later");
                self.due.failed(self.clock.monotonic());
            }
            for request in requests {
                // The caller may no longer wait.
                let _ = request.send(outcome.clone());
            }
        }
        self.shared.state().note = Some(self.note);
    }

    fn situation(&self) -> Situation {
        let superseding = &self.superseding;
        Situation {
            now: self.clock.monotonic(),
            is_pending: superseding.last.load(Ordering::Acquire) >= self.note.from.position.0,
            deletions: superseding.deletions.load(Ordering::Relaxed),
            bytes: superseding.bytes.load(Ordering::Relaxed),
            log_bytes: 0,
            index_bytes: self.parts.index.disk_bytes(),
            is_index_pending: self.is_index_pending(),
        }
    }

    /// Whether files of the index may hold something superseded that is gone from the log.
    fn is_index_pending(&self) -> bool {
        self.note.superseded >= self.note.index && self.note.superseded.0 > 0
    }

    /// Does what is due, or everything. An error in one part, such as a damaged segment, must not keep
    /// deleted values in the others: the first error is returned when all were tried.
    fn work(&mut self, everything: bool) -> Result<()> {
        // A reader that was killed would keep what is erased here.
        private_folder::remove_dead(&self.parts.readers, beside::PREFIX);
        let situation = self.situation();
        let passed = self.pass_if_due(situation, everything);
        let compressed = match everything || !self.due.has_just_failed(situation.now) {
            true => self.compress(everything),
            false => Ok(()),
        };
        let is_due = everything || self.due.index(&self.situation());
        let erased = match is_due && self.is_index_pending() {
            true => self.erase_index(everything),
            false => Ok(()),
        };
        let advanced = self.advance();
        passed.and(compressed).and(erased).and(advanced)
    }

    fn pass_if_due(&mut self, mut situation: Situation, everything: bool) -> Result<()> {
        if situation.is_pending {
            situation.log_bytes = log::disk_bytes(&self.parts.folder)?;
        }
        match everything || self.due.pass(&situation) {
            true => self.pass(&situation, everything),
            false => Ok(()),
        }
    }

    fn pass(&mut self, situation: &Situation, everything: bool) -> Result<()> {
        let (shared, superseding) = (self.shared.clone(), self.superseding.clone());
        let barrier = |seal| self.barrier(seal);
        let (tables, index) = (self.parts.catalog.clone(), self.parts.index.clone());
        let mut note = self.note;
        let pass = Pass {
            folder: &self.parts.folder,
            step: &mut || step(&shared, everything),
            barrier: &barrier,
            tables: &tables,
            visible: &|| index.end_position(),
            may_seal: everything || self.due.may_seal(situation.now),
        };
        let done = pass.run(&mut note, self.parts.index.end_position());
        // Also what an error ended has raised the note.
        self.note = note;
        let done = done?;
        if done.stopped {
            return Ok(());
        }
        if !done.blocked {
            subtract(&superseding.deletions, situation.deletions);
            subtract(&superseding.bytes, situation.bytes);
        }
        self.due.passed(situation.now, (done.sealed, done.blocked));
        report(done);
        Ok(())
    }

    /// Waits until the answers to everything decided so far were given, and, if `seal`, until a new
    /// segment is begun.
    fn barrier(&self, seal: bool) -> Result<()> {
        *self.superseding.unsealed() = None;
        self.superseding.seal.store(seal, Ordering::Release);
        loop {
            self.answered()?;
            if !self.superseding.wants_seal() {
                return self.superseding.unsealed().take().map_or(Ok(()), Err);
            }
            // The syncer prepares the segment.
            self.shared.pause(PAUSE);
        }
    }

    /// Waits until the answers to everything decided so far were given.
    fn answered(&self) -> Result<()> {
        let (send, receive) = channel();
        let answer = Box::new(move |outcome| drop(send.send(outcome)));
        self.parts.open.add(&[], answer, true);
        loop {
            match receive.recv_timeout(TICK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) if !self.shared.is_closing() => {}
                Err(_) => return Err(Error::unavailable("the store is closing; open it again")),
            }
        }
    }

    /// Compresses segments that were sealed, also those after one that is damaged.
    fn compress(&mut self, everything: bool) -> Result<()> {
        let mut damaged = Ok(());
        let mut number = self.compressed_to;
        while log::has_segment(&self.parts.folder, number.saturating_add(1)) {
            match self.compress_segment(number, everything) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    damaged = damaged.and(Err(error))
                }
                // Such as a full disk: the others would fail, too.
                Err(error) => return damaged.and(Err(error)),
            }
            number = number.saturating_add(1);
            if damaged.is_ok() {
                self.compressed_to = number;
            }
        }
        damaged
    }

    /// Compresses a segment, unless it is compressed; returns false if stopped.
    fn compress_segment(&self, number: u64, everything: bool) -> Result<bool> {
        let folder = &self.parts.folder;
        if log::is_compressed(folder, number)? {
            return Ok(true);
        }
        let mut step = || step(&self.shared, everything);
        match log::rewrite(folder, number, &Erase::default(), &mut step)? {
            Rewritten::Done { bytes, .. } => {
                tracing::debug!(segment = number, bytes, "compressed a segment of the log");
                Ok(true)
            }
            Rewritten::Unchanged => Ok(true),
            Rewritten::Stopped => Ok(false),
        }
    }

    /// Merges the files of the index, so that they lose what was superseded.
    fn erase_index(&mut self, everything: bool) -> Result<()> {
        let end = self.parts.index.end_position();
        let Some(jobs) = self.parts.jobs.upgrade() else {
            return Ok(());
        };
        let (answer, flushed) = oneshot::channel();
        let sent = jobs.blocking_send(Job::Flush(answer));
        drop(jobs);
        if sent.is_err() {
            return Ok(());
        }
        match flushed.blocking_recv() {
            Ok(outcome) => outcome?,
            Err(_) => return Ok(()),
        }
        self.parts.upkeep.wait_until_flushed(&self.parts.index)?;
        let mut waited = Duration::ZERO;
        let mut merged = None;
        loop {
            if merged.is_none() {
                merged = self.parts.index.merge_all(end)?;
            }
            if let Some(merged) = merged
                && self.parts.index.remove_before(merged)?
            {
                break;
            }
            // A read uses an older point in time.
            let wait = Duration::from_millis(50);
            if !everything && waited > Duration::from_secs(2) || !self.shared.pause(wait) {
                return Ok(());
            }
            waited += wait;
        }
        self.note.index = end;
        self.note.write(&self.parts.folder)?;
        self.due.merged(self.clock.monotonic());
        Ok(())
    }

    /// Raises the note to the last segment if nothing before it is left to erase, so that a later
    /// process does not read that again.
    fn advance(&mut self) -> Result<()> {
        let end = self.parts.index.end_position();
        if self.advanced == end {
            return Ok(());
        }
        self.advanced = end;
        let open = log::last_start(&self.parts.folder)?;
        let is_pending = self.superseding.last.load(Ordering::Acquire) >= self.note.from.position.0;
        if is_pending || open.position <= self.note.from.position {
            return Ok(());
        }
        self.note.from = open;
        self.note.write(&self.parts.folder)
    }
}

/// Pauses, unless there is somebody who waits; returns whether to go on.
fn step(shared: &Shared, is_waited_for: bool) -> bool {
    match is_waited_for {
        true => !shared.is_closing(),
        false => shared.pause(PAUSE),
    }
}

fn subtract(from: &AtomicU64, number: u64) {
    let rest = |current: u64| Some(current.saturating_sub(number));
    let _ = from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
}

fn report(done: Done) {
    let Done {
        erased, segments, ..
    } = done;
    if erased > 0 {
        tracing::info!(
            erased,
            segments,
            "erased deleted and overwritten values from the log"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overwrite_by_a_smaller_value_counts_as_a_deletion() {
        let superseding = Superseding::new(0, 0);
        let deletions = || superseding.deletions.load(Ordering::Relaxed);
        // An event of one byte, and its tombstone.
        superseding.add(Position(7), 92, 55);
        assert_eq!(deletions(), 1);
        superseding.add(Position(8), 92, 91);
        superseding.add(Position(9), 92, 0);
        assert_eq!(deletions(), 3);
        superseding.add(Position(10), 92, 92);
        superseding.add(Position(11), 92, 93);
        assert_eq!(deletions(), 3, "these wait for a share of the log");
        assert_eq!(superseding.bytes.load(Ordering::Relaxed), 5 * 92);
        assert_eq!(superseding.last.load(Ordering::Relaxed), 11);
    }
}
