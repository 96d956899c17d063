//! The commit log: every change of the store, in order. It is the truth; the index is made from it.
//!
//! ```text
//! log/0000000000000000.log   header │ frame │ frame │ … │ zeros      a segment
//! log/0000000000000001.log   header │ frame │ zeros                  the last segment takes new frames
//! log/next                   zeros: the segment after it, prepared
//! log/reached                how far the log is on stable storage
//! log/rewrite                a segment that is being compressed or erased
//! log/erased                 up to where deleted and overwritten values are gone
//! ```
//!
//! A segment that no longer takes frames is compressed (`compressed.rs`) and keeps its name. What was
//! deleted or overwritten is erased from it later (`rewrite.rs`); all places and positions stay.
//!
//! A frame holds the changes of one group. It carries the position of its first change, a checksum of
//! all its bytes, and the checksum of the frame before it. It is written with one call and synced
//! before anybody is answered; the next frame is written after that. `reached` is written after the
//! sync, without a sync of its own.
//!
//! Guarantees: what was synced is read back, or the log is `Corrupt`. Opening changes nothing until
//! everything it needs is checked.
//!
//! Why a lost frame is noticed:
//! - A frame in the middle: the frames after it name its checksum.
//! - A segment: segments are numbered without gaps, and each names the last frame before it.
//! - The last frames: `reached` names the last synced frame. A process that is killed leaves `reached`
//!   complete, as the system keeps what was written. After a loss of power `reached` may be older than
//!   the log, never newer. The index is a second witness: it knows the last position it holds.
//!
//! Why an unfinished frame is not taken for damage: only one frame is written at a time, so at most
//! one is incomplete, and no frame follows it. `reached` does not name it. If an invalid frame is
//! followed by a valid one, or `reached` or the index is beyond it, it is damage.
//!
//! Payloads cannot imitate a frame: each begins with the store's mark, a random number.

mod check;
mod compressed;
mod copies;
mod disk;
mod erased;
mod files;
mod frame;
mod reached;
mod reader;
mod recovery;
mod rewrite;
mod room;
mod segment;
mod segments;
mod writer;

#[cfg(test)]
pub(super) use self::disk::faults;

#[cfg(test)]
mod beside_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod power_loss_tests;

pub(super) use self::check::{check, check_segment};
pub(super) use self::copies::{
    LastSegment, Link, LogEnd as CopyEnd, Segment, check_copy, each_change, erased_in, finish_copy,
    mark_of, segment_name, write_last,
};
pub(super) use self::disk::free_bytes;
pub(super) use self::erased::Note;
pub(super) use self::frame::{CHANGE_ROOM, Change, FRAME_ROOM, Frame};
pub(super) use self::reached::{Checkpoint, NAME as REACHED};
pub(super) use self::reader::{Frames, frames_from};
pub(super) use self::recovery::{Recovered, recover, recover_beside};
pub(super) use self::rewrite::{
    Dropped, Erase, Rewritten, Superseded, clean, copy_to, key_hash, rewrite,
};
pub(super) use self::room::Room;
pub(super) use self::segments::{
    disk_bytes, has_segment, is_compressed, last_start, start, starts,
};
pub(super) use self::writer::{Seal, Writer, create};

/// The number of a change in the log. The first is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Position(pub(super) u64);

impl Position {
    pub(super) const FIRST: Self = Self(1);

    pub(super) fn plus(self, changes: u64) -> Self {
        Self(self.0.saturating_add(changes))
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A place between two frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The segment's number.
    pub(super) segment: u64,
    /// The offset in the segment's file.
    pub(super) offset: u64,
    /// The position of the next change.
    pub(super) position: Position,
    /// The checksum of the frame before this place.
    pub(super) previous: u64,
}

/// Where a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogEnd {
    pub(super) place: Place,
    /// When the last frame was written: ms since the Unix epoch; 0 if that is not known.
    pub(super) time_ms: u64,
}
