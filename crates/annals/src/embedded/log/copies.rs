//! What backups need of a log: its segments, how one is checked on its own, and a log made of copies.
//!
//! Guarantees: a segment passes the check only if every frame from its first to its last is as it was
//! written. Two segments with the same first and last link of the chain of checksums hold the same
//! changes, and so do all segments before them.

use std::path::{Path, PathBuf};

use super::compressed::AnyHeader;
use super::disk::DiskFile;
use super::reached::{self, Note, Reached};
use super::reader::{Next, SegmentReader};
use super::{Change, Place, Position, Recovered, files, rewrite, segment};
use crate::Result;

/// A place in the chain of frames, in whatever file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Link {
    /// The position of the next change.
    pub(in super::super) position: Position,
    /// The checksum of the frame before.
    pub(in super::super) previous: u64,
}

impl From<Place> for Link {
    fn from(place: Place) -> Self {
        Self {
            position: place.position,
            previous: place.previous,
        }
    }
}

/// A segment of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Segment {
    pub(in super::super) number: u64,
    pub(in super::super) path: PathBuf,
    pub(in super::super) start: Link,
    pub(in super::super) end: Link,
    /// Bytes up to the end of the log, if it ends here.
    pub(in super::super) ends_at: Option<u64>,
}

/// A frame that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct CheckedFrame {
    pub(in super::super) after: Link,
    pub(in super::super) time_ms: u64,
}

impl Recovered {
    /// The store's mark.
    pub(in super::super) fn mark(&self) -> u64 {
        self.mark
    }

    /// The segments, up to the end.
    pub(in super::super) fn segments(&self, folder: &Path) -> Vec<Segment> {
        let starts = self
            .starts
            .iter()
            .filter(|it| it.segment <= self.end.segment);
        let segments = starts.map(|start| {
            let next = self
                .starts
                .iter()
                .find(|it| it.segment == start.segment + 1);
            let is_last = start.segment == self.end.segment;
            let end = next.filter(|_| !is_last).unwrap_or(&self.end);
            Segment {
                number: start.segment,
                path: folder.join(segment::name(start.segment)),
                start: (*start).into(),
                end: (*end).into(),
                ends_at: is_last.then_some(self.end.offset),
            }
        });
        segments.collect()
    }
}

/// Reads every frame of a segment or of a copy, and calls `each` with it and its changes, also erased
/// ones; returns its first and last link.
pub(in super::super) fn check_copy(
    path: &Path,
    number: u64,
    mut each: impl FnMut(CheckedFrame, &[Change<'_>]) -> Result<()>,
) -> Result<(Link, Link)> {
    let mut reader = SegmentReader::open_copy(path, number)?;
    let start = reader.header().start();
    let mut place = start;
    while let Next::Frame(header) = reader.next(place)? {
        let after = header.after(place);
        let frame = CheckedFrame {
            after: after.into(),
            time_ms: header.time_ms,
        };
        each(frame, &reader.changes(place, &header)?)?;
        place = after;
    }
    if let AnyHeader::Compressed(header) = reader.header()
        && header.end_place() != place
    {
        return Err(files::damaged("a compressed segment ends too early", path));
    }
    Ok((start.into(), place.into()))
}

/// Calls `each` with every change of a segment or of a copy, also with erased ones.
pub(in super::super) fn each_change(
    path: &Path,
    number: u64,
    mut each: impl FnMut(&Change<'_>),
) -> Result<()> {
    let mut reader = SegmentReader::open_copy(path, number)?;
    let mut place = reader.header().start();
    while let Next::Frame(header) = reader.next(place)? {
        reader.changes(place, &header)?.iter().for_each(&mut each);
        place = header.after(place);
    }
    Ok(())
}

/// The mark of the store that a segment belongs to.
pub(in super::super) fn mark_of(path: &Path, number: u64) -> Result<u64> {
    Ok(SegmentReader::open_copy(path, number)?.header().mark())
}

/// The highest position that superseded a value which is erased from a segment; `None` if none is.
pub(in super::super) fn erased_in(path: &Path, number: u64) -> Result<Option<Position>> {
    Ok(SegmentReader::open_copy(path, number)?.header().erased())
}

/// The name of a segment's file in a log.
pub(in super::super) fn segment_name(number: u64) -> String {
    segment::name(number)
}

/// The segment in which a log of copies ends.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct LastSegment<'a> {
    /// A copy of it, or a longer one.
    pub(in super::super) from: &'a Path,
    pub(in super::super) number: u64,
    pub(in super::super) end: Link,
    /// What is erased from it was superseded at this position at the latest.
    pub(in super::super) erased_by: Position,
}

/// Writes the last segment of a log: the frames of another segment up to a link, then zeros. If values are
/// erased from it, it stays compressed, and an empty one follows. Returns what [`finish_copy`] needs.
///
/// # Errors
/// `Corrupt` if no frame ends there.
pub(in super::super) fn write_last(last: &LastSegment<'_>, log: &Path) -> Result<LogEnd> {
    let mut reader = SegmentReader::open_copy(last.from, last.number)?;
    let header = reader.header().to_raw();
    let is_empty = Link::from(header.start()) == last.end;
    if reader.header().erased().is_some() && !is_empty {
        let source = (last.from, last.number);
        let end = rewrite::copy_to(log, source, (last.end, last.erased_by))?;
        return write_empty(log, header.mark, end);
    }
    let to = log.join(segment::name(last.number));
    let failed = files::failed("write the log", &to);
    let file = DiskFile::create(&to).map_err(&failed)?;
    file.write_at(&header.encode(), 0).map_err(&failed)?;
    let mut place = header.start();
    while Link::from(place) != last.end {
        let Next::Frame(frame) = reader.next(place)? else {
            return Err(files::damaged("a segment ends too early", last.from));
        };
        let bytes = reader.bytes(place.offset, frame.frame_len())?;
        file.write_at(bytes, place.offset).map_err(&failed)?;
        place = frame.after(place);
    }
    file.write_zeros(place.offset, header.length)
        .map_err(&failed)?;
    file.sync().map_err(&failed)?;
    Ok(LogEnd {
        mark: header.mark,
        place,
    })
}

/// Writes a segment without frames after a place.
fn write_empty(log: &Path, mark: u64, end: Place) -> Result<LogEnd> {
    let header = segment::Header {
        mark,
        number: end.segment + 1,
        first: end.position,
        previous: end.previous,
        length: segment::FIRST_LENGTH,
    };
    let to = log.join(segment::name(header.number));
    let write = || {
        let file = DiskFile::create(&to)?;
        file.write_at(&header.encode(), 0)?;
        file.write_zeros(segment::HEADER as u64, header.length)?;
        file.sync()
    };
    write().map_err(files::failed("write the log", &to))?;
    Ok(LogEnd {
        mark,
        place: header.start(),
    })
}

/// Where a log of copies ends.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct LogEnd {
    mark: u64,
    place: Place,
}

/// Makes copied segments a log: from now on a lost end is noticed.
pub(in super::super) fn finish_copy(log: &Path, end: LogEnd) -> Result<()> {
    let start = SegmentReader::open(log, 0)?.header().start();
    let note = Note {
        mark: end.mark,
        count: 0,
        reached: end.place,
        applied: start,
        is_closed: false,
    };
    let created = Reached::create(&log.join(reached::NAME), note);
    created
        .map(drop)
        .map_err(files::failed("write the log", log))
}
