//! Finds the end of the log. Reads only.
//!
//! Guarantees: every frame after the checkpoint that was synced is there, or the error is `Corrupt`
//! and names the file and the offset (why: `log/mod.rs`). The time this takes does not depend on how
//! much is before the checkpoint.

use std::fs::File;
use std::io;
use std::path::Path;

use super::compressed::AnyHeader;
use super::files;
use super::reached::{self, Note};
use super::reader::{Frames, Next, SegmentReader, Tail};
use super::{Checkpoint, LogEnd, Place, Position, segment, segments};
use crate::embedded::index::Applied;
use crate::{Error, Result};

/// A log that was checked.
#[derive(Debug)]
pub(in super::super) struct Recovered {
    pub(super) mark: u64,
    /// Where the next frame goes.
    pub(in super::super) end: Place,
    /// When the last frame was written; 0 if that was not read.
    pub(super) time_ms: u64,
    /// The first place of each segment.
    pub(super) starts: Vec<Place>,
    /// Up to where the last frame was torn; 0 if it was not.
    pub(super) torn_to: u64,
    /// What `reached` says; `None` without it.
    pub(super) note: Option<Note>,
}

impl Recovered {
    /// Where the log ends.
    pub(in super::super) fn log_end(&self) -> LogEnd {
        LogEnd {
            place: self.end,
            time_ms: self.time_ms,
        }
    }

    /// Where the index says it has applied the log.
    pub(in super::super) fn checkpoint(&self) -> Checkpoint {
        self.note.map_or(self.first(), |note| note.applied)
    }

    /// Syncs the end of the log if it is after what is known to be on stable storage: its owner may not
    /// have synced the last frame yet.
    pub(in super::super) fn sync_end(&self, folder: &Path) -> io::Result<()> {
        let is_synced = |note: Note| note.reached.position >= self.end.position;
        if self.note.is_some_and(is_synced) {
            return Ok(());
        }
        // Segments before it were synced when it was begun; its name may not be.
        File::open(folder.join(segment::name(self.end.segment)))?.sync_data()?;
        File::open(folder)?.sync_all()
    }

    /// Whether a value that is current at the end may have been erased from the log since it was
    /// recovered: the owner went on.
    pub(in super::super) fn has_lost_values(&self, folder: &Path) -> Result<bool> {
        let headers = segments::headers(folder)?;
        let erased = headers.iter().filter_map(AnyHeader::erased).max();
        Ok(erased.is_some_and(|erased| erased >= self.end.position))
    }

    /// Whether an index that holds a log up to a place was made from this one. One that goes beyond the
    /// end of this log may have been.
    ///
    /// # Errors
    /// `Corrupt` if the log is damaged before that place.
    pub(in super::super) fn has_made(&self, folder: &Path, applied: Applied) -> Result<bool> {
        let Some(chain) = applied.chain else {
            return Ok(true);
        };
        if chain.mark != self.mark {
            return Ok(false);
        }
        if applied.position > self.end.position {
            return Ok(true);
        }
        let from = self.before(applied.position);
        let mut frames = Frames::open(folder, from, applied.position)?;
        while frames.next()?.is_some() {}
        let place = frames.place();
        Ok((place.position, place.previous) == (applied.position, chain.previous))
    }

    /// Where the log begins.
    pub(in super::super) fn first(&self) -> Place {
        self.starts.first().copied().unwrap_or(self.end)
    }

    /// A place at or before a position.
    pub(in super::super) fn before(&self, position: Position) -> Place {
        let checkpoint = self.checkpoint();
        let starts = self.starts.iter().copied().chain([checkpoint]);
        let before = starts.filter(|place| place.position <= position);
        let nearest = before.max_by_key(|place| (place.position, place.segment, place.offset));
        nearest.unwrap_or(checkpoint)
    }
}

/// Checks the log from its checkpoint to its end. Nobody else may be writing.
pub(in super::super) fn recover(folder: &Path) -> Result<Recovered> {
    let (mut recovered, mut reader) = read(folder)?;
    let tail = recovered.tail(&mut reader)?;
    if tail.frame_at.is_some() {
        return Err(recovered.damage(&reader));
    }
    recovered.torn_to = tail.used_to;
    Ok(recovered)
}

/// The same while the owner may be writing: the log as it is now, or a little later.
///
/// A valid frame after an invalid one is damage if the invalid one was read again after the valid one
/// was there: the owner writes a frame only after the one before it. Otherwise both are newer than the
/// walk.
pub(in super::super) fn recover_beside(folder: &Path) -> Result<Recovered> {
    /// An owner that is faster than this is followed no further.
    const WALKS_MAX: usize = 64;
    let (mut recovered, mut reader) = read(folder)?;
    for _ in 0..WALKS_MAX {
        if recovered.tail(&mut reader)?.frame_at.is_none() {
            break;
        }
        let before = recovered.end;
        // The place that `reached` names was passed.
        let note = recovered.note.take();
        let walked = recovered.walk(folder);
        recovered.note = note;
        reader = walked?;
        if recovered.end == before {
            return Err(recovered.damage(&reader));
        }
    }
    Ok(recovered)
}

/// Reads the log from its checkpoint to its last valid frame.
fn read(folder: &Path) -> Result<(Recovered, SegmentReader)> {
    let reached = &folder.join(reached::NAME);
    let note = reached::read(reached)?;
    let starts = segments::marked_starts(folder)?;
    let (mark, starts): (Vec<u64>, Vec<Place>) = starts.into_iter().unzip();
    let (Some(&mark), Some(&first)) = (mark.first(), starts.first()) else {
        return Err(files::damaged("the log has no segment", folder));
    };
    if note.is_some_and(|note| note.mark != mark) {
        return Err(files::damaged(
            "the file `reached` belongs to another store",
            reached,
        ));
    }
    let mut recovered = Recovered {
        mark,
        end: first,
        time_ms: 0,
        starts,
        torn_to: 0,
        note,
    };
    recovered.end = recovered.checkpoint();
    let reader = recovered.walk(folder)?;
    Ok((recovered, reader))
}

impl Recovered {
    /// Walks on to the last valid frame; the place that `reached` names must be on the way.
    fn walk(&mut self, folder: &Path) -> Result<SegmentReader> {
        let mut has_reached = self.note.is_none_or(|note| self.is_at(&note));
        let mut reader = SegmentReader::open(folder, self.end.segment)?;
        loop {
            match reader.next(self.end)? {
                Next::Frame(header) => {
                    self.end = header.after(self.end);
                    self.time_ms = header.time_ms;
                }
                Next::End => {
                    let next = self
                        .starts
                        .iter()
                        .find(|it| it.segment == self.end.segment + 1);
                    let Some(&next) = next else {
                        break;
                    };
                    if (next.position, next.previous) != (self.end.position, self.end.previous) {
                        return Err(self.damage(&reader));
                    }
                    self.end = next;
                    reader = SegmentReader::open(folder, next.segment)?;
                }
            }
            has_reached |= self.note.is_some_and(|note| self.is_at(&note));
        }
        // The segment that takes new frames is never compressed: it is missing.
        let is_compressed = matches!(reader.header(), AnyHeader::Compressed(_));
        match has_reached && !is_compressed {
            true => Ok(reader),
            false => Err(self.damage(&reader)),
        }
    }

    /// What follows the last valid frame.
    fn tail(&self, reader: &mut SegmentReader) -> Result<Tail> {
        let is_closed_here =
            |note: Note| note.is_closed && note.reached.position == self.end.position;
        match self.note.is_some_and(is_closed_here) {
            true => Ok(Tail::default()),
            false => reader.search_after(self.end),
        }
    }

    /// Whether the walk is at the place that `reached` names. A new segment may begin there.
    fn is_at(&self, note: &Note) -> bool {
        (note.reached.position, note.reached.previous) == (self.end.position, self.end.previous)
    }

    fn damage(&self, reader: &SegmentReader) -> Error {
        let error = files::damaged("the log is damaged", reader.path());
        let error = error.fact("offset", self.end.offset);
        error.fact("position", self.end.position)
    }
}
