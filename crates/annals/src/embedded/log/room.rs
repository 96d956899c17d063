//! Room for frames: what is left of the open segment, and the prepared segment that follows it.
//!
//! Guarantees: what was promised can be written. It fits into the open segment or into the prepared
//! one, which is zeros on the disk. So a full disk is noticed before a change is decided, nothing of it
//! is written, and the log takes changes again as soon as there is space. A preparation that failed
//! leaves no file.
//!
//! A preparation leaves the disk's reserve alone. If less would remain, the segment is shorter, or there
//! is none. Only what must not be refused, such as a deletion, uses the reserve, with the shortest
//! segment that is long enough.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::disk::{self, DiskFile};
use super::segment;
use crate::embedded::yield_to_others;

/// The prepared segment: zeros.
pub(super) const NEXT: &str = "next";

/// Bytes of zeros that are written and synced at once: a frame's sync waits for them.
const STEP_BYTES: u64 = 2 * 1024 * 1024;
/// Between two steps, as long as nobody waits for the segment.
const PAUSE: Duration = Duration::from_millis(4);

/// Bytes that a segment has for frames.
fn room_in(length: u64) -> u64 {
    length.saturating_sub(segment::HEADER as u64)
}

/// A file of zeros that becomes a segment.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) file: DiskFile,
    pub(super) length: u64,
}

impl Prepared {
    /// Creates the file `next`. Written blocks sync faster than reserved ones: a sync need not write the
    /// file's metadata.
    ///
    /// Written in steps, each of them synced; `pause` is called between two.
    pub(super) fn create(folder: &Path, length: u64, pause: impl Fn()) -> io::Result<Self> {
        let path = folder.join(NEXT);
        let create = || -> io::Result<Self> {
            let file = DiskFile::create(&path)?;
            let mut at = 0;
            while at < length {
                let to = length.min(at + STEP_BYTES);
                file.write_zeros(at, to)?;
                file.sync()?;
                at = to;
                pause();
            }
            Ok(Self { file, length })
        };
        // Part of it would take the space that the disk lacks.
        create().inspect_err(|_| drop(fs::remove_file(&path)))
    }
}

/// A segment to prepare.
#[derive(Clone, Copy, Debug)]
struct Wish {
    /// Its length if there is enough space.
    length: u64,
    /// Bytes of frames that it must have room for.
    room: u64,
    keeps_reserve: bool,
}

/// The segment after the open one.
#[derive(Debug)]
enum Next {
    None,
    /// A thread prepares it.
    Preparing,
    Ready(Prepared),
    /// The log's writer is making it the open segment.
    Taken,
    /// It could not be prepared ahead.
    Failed(io::Error),
}

/// What [`Room::take_early`] found.
#[derive(Debug)]
pub(super) enum Early {
    Taken(Prepared),
    /// It is being prepared.
    Preparing,
    Failed(io::Error),
}

#[derive(Debug)]
struct State {
    /// The offset at which the open segment is free.
    used: u64,
    /// Bytes that the open segment has left.
    left: u64,
    /// Bytes of frames that are to be written.
    promised: u64,
    next: Next,
    /// Whether somebody waits for the segment that is being prepared.
    is_awaited: bool,
}

impl State {
    fn has_room(&self, bytes: u64) -> bool {
        let next = match &self.next {
            Next::Ready(next) => room_in(next.length),
            _ => 0,
        };
        bytes <= self.left.max(next)
    }
}

/// Shared by those who decide changes and by the log's writer.
#[derive(Debug)]
pub(in super::super) struct Room {
    folder: PathBuf,
    reserve_bytes: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

impl Room {
    /// The room in a segment of a length, used up to an offset.
    pub(super) fn new(folder: &Path, length: u64, used: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            reserve_bytes: AtomicU64::new(0),
            state: Mutex::new(State {
                used,
                left: length.saturating_sub(used),
                promised: 0,
                next: Next::None,
                is_awaited: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Leaves so many bytes of the disk free.
    pub(super) fn keep_free(&self, bytes: u64) {
        self.reserve_bytes.store(bytes, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change of the next segment.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if !state.is_awaited {
            state.is_awaited = true;
            // A preparation that pauses goes on.
            self.changed.notify_all();
        }
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Promises that so many bytes of a frame can be written. Prepares a segment if they need one.
    ///
    /// # Errors
    /// Why there is no room. Nothing was promised.
    pub(in super::super) fn promise(&self, bytes: u64, keeps_reserve: bool) -> io::Result<()> {
        let mut state = self.lock();
        loop {
            let promised = state.promised.saturating_add(bytes);
            if state.has_room(promised) {
                state.promised = promised;
                return Ok(());
            }
            state = self.prepare_now(state, promised, keeps_reserve)?;
        }
    }

    /// A frame for which so many bytes were promised is written: the open segment is used up to here.
    pub(super) fn wrote(&self, offset: u64, promised: u64) {
        let mut state = self.lock();
        state.promised = state.promised.saturating_sub(promised);
        state.left = state.left.saturating_sub(offset.saturating_sub(state.used));
        state.used = offset;
    }

    /// Takes the prepared segment for a frame of so many bytes; prepares it if it is missing or too
    /// short. Call [`Self::begun`] or [`Self::put_back`] then.
    pub(super) fn take(&self, bytes: u64) -> io::Result<Prepared> {
        let mut state = self.lock();
        loop {
            let is_ready =
                matches!(&state.next, Next::Ready(next) if bytes <= room_in(next.length));
            if is_ready && let Some(next) = state.take() {
                return Ok(next);
            }
            state = self.prepare_now(state, bytes, false)?;
        }
    }

    /// Takes the prepared segment before the open one is full, if it has room for everything promised.
    /// Otherwise begins to prepare one.
    pub(super) fn take_early(self: &Arc<Self>) -> Early {
        let mut state = self.lock();
        let promised = state.promised;
        match &state.next {
            Next::Ready(next) if promised <= room_in(next.length) => {
                // A promise that is made meanwhile must hold in either segment.
                state.left = state.left.min(room_in(next.length));
                match state.take() {
                    Some(next) => Early::Taken(next),
                    None => Early::Preparing,
                }
            }
            Next::Preparing | Next::Taken => Early::Preparing,
            Next::Failed(_) => match std::mem::replace(&mut state.next, Next::None) {
                Next::Failed(cause) => Early::Failed(cause),
                _ => Early::Preparing,
            },
            Next::Ready(_) | Next::None => {
                let wish = Wish {
                    length: segment::length_after(state.used),
                    room: promised,
                    keeps_reserve: false,
                };
                self.prepare_ahead_as(state, wish);
                Early::Preparing
            }
        }
    }

    /// The segment that was taken is the open one.
    pub(super) fn begun(&self, length: u64) {
        let mut state = self.lock();
        state.used = segment::HEADER as u64;
        state.left = room_in(length);
        state.next = Next::None;
        self.changed.notify_all();
    }

    /// The segment that was taken could not be used: the open one stays, with so many bytes left.
    pub(super) fn put_back(&self, left: u64) {
        let _ = fs::remove_file(self.folder.join(NEXT));
        let mut state = self.lock();
        state.left = left;
        state.next = Next::None;
        self.changed.notify_all();
    }

    /// Prepares the next segment on another thread, unless that was tried. If it fails, it is tried
    /// again when the segment is needed.
    pub(super) fn prepare_ahead(self: &Arc<Self>, length: u64) {
        let state = self.lock();
        if matches!(state.next, Next::None) {
            let wish = Wish {
                length,
                room: 0,
                keeps_reserve: true,
            };
            self.prepare_ahead_as(state, wish);
        }
    }

    fn prepare_ahead_as(self: &Arc<Self>, mut state: MutexGuard<'_, State>, wish: Wish) {
        (state.next, state.is_awaited) = (Next::Preparing, false);
        drop(state);
        let room = self.clone();
        let thread = std::thread::Builder::new().name("annals-prepare".to_owned());
        let started = thread.spawn(move || {
            yield_to_others();
            room.end_ahead(room.prepare(wish));
        });
        if let Err(cause) = started {
            self.end_ahead(Err(cause));
        }
    }

    fn end_ahead(&self, prepared: io::Result<Prepared>) {
        let mut state = self.lock();
        state.next = match prepared {
            Ok(prepared) => Next::Ready(prepared),
            Err(cause) => {
                tracing::warn!(error = %cause, "cannot prepare a segment of the log, which is tried again when it is needed");
                Next::Failed(cause)
            }
        };
        state.is_awaited = false;
        self.changed.notify_all();
    }

    /// Prepares the next segment on this thread, or waits for the one who does.
    fn prepare_now<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        room: u64,
        keeps_reserve: bool,
    ) -> io::Result<MutexGuard<'a, State>> {
        if matches!(state.next, Next::Preparing | Next::Taken) {
            return Ok(self.wait(state));
        }
        state.next = Next::Preparing;
        state.is_awaited = true;
        let wish = Wish {
            length: segment::length_after(state.used),
            room,
            keeps_reserve,
        };
        drop(state);
        let prepared = self.prepare(wish);
        let mut state = self.lock();
        let (next, outcome) = match prepared {
            Ok(prepared) => (Next::Ready(prepared), Ok(())),
            Err(cause) => (Next::None, Err(cause)),
        };
        (state.next, state.is_awaited) = (next, false);
        self.changed.notify_all();
        outcome.map(|()| state)
    }

    fn prepare(&self, wish: Wish) -> io::Result<Prepared> {
        let free = disk::free_bytes(&self.folder)?;
        let spare = free.saturating_sub(self.reserve_bytes.load(Ordering::Relaxed));
        let length = length(wish, spare).ok_or(io::ErrorKind::StorageFull)?;
        Prepared::create(&self.folder, length, || self.pause())
    }

    /// Lets the frames of others be synced, unless they wait for the segment.
    fn pause(&self) {
        let state = self.lock();
        let waited = self
            .changed
            .wait_timeout_while(state, PAUSE, |state| !state.is_awaited);
        drop(waited);
    }

    /// Removes what is prepared.
    pub(super) fn clear(&self) {
        let mut state = self.lock();
        while matches!(state.next, Next::Preparing) {
            state = self.wait(state);
        }
        if let Next::Ready(_) = std::mem::replace(&mut state.next, Next::None) {
            let _ = fs::remove_file(self.folder.join(NEXT));
        }
    }
}

impl State {
    fn take(&mut self) -> Option<Prepared> {
        match std::mem::replace(&mut self.next, Next::Taken) {
            Next::Ready(next) => Some(next),
            other => {
                self.next = other;
                None
            }
        }
    }
}

/// The length of a segment on a disk with so much space above the reserve; `None` if there is too
/// little.
fn length(wish: Wish, spare: u64) -> Option<u64> {
    let least = wish.room.saturating_add(segment::HEADER as u64);
    let least = least.max(segment::FIRST_LENGTH);
    // What is written to the log is also written to the index.
    let half = (spare / 2).checked_ilog2().map_or(0, |bits| 1 << bits);
    let length = wish.length.min(half).max(least);
    match length <= spare {
        true => Some(length),
        false if wish.keeps_reserve => None,
        false => Some(least),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn a_segment_is_as_long_as_the_free_space_allows() {
        let of = |length, room, keeps_reserve, spare| {
            let wish = Wish {
                length,
                room,
                keeps_reserve,
            };
            super::length(wish, spare)
        };
        assert_eq!(of(64 * MIB, 0, true, 1000 * MIB), Some(64 * MIB));
        assert_eq!(of(64 * MIB, 0, true, 100 * MIB), Some(32 * MIB));
        assert_eq!(of(64 * MIB, 0, true, MIB), Some(MIB));
        assert_eq!(of(64 * MIB, 0, true, MIB - 1), None);
        assert_eq!(of(64 * MIB, 0, false, 0), Some(MIB));
        let large = 70 * MIB;
        assert_eq!(of(64 * MIB, large, true, large + 64), Some(large + 64));
        assert_eq!(of(64 * MIB, large, true, large), None);
        assert_eq!(of(64 * MIB, large, false, 0), Some(large + 64));
    }
}
