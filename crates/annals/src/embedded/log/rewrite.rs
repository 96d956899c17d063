//! Rewrites a sealed segment: compresses it, and erases changes that were superseded.
//!
//! ```text
//! log/rewrite                the new file: written, synced, read back and compared
//! log/0000000000000003.log   replaced by it with one rename
//! ```
//!
//! Guarantees: a crash leaves the old file or the new one, complete. A damaged segment is never
//! rewritten: damage stays visible. A change is erased only if the one that superseded it has the same
//! key. Relies on nobody else rewriting segments.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::compressed::{self, AnyHeader, BLOCK};
use super::disk::DiskFile;
use super::reader::{Next, SegmentReader};
use super::{Link, Place, Position, files, frame, segment};
use crate::Result;
use crate::embedded::codec::is_item;

/// The new file, until it is complete.
const NEW: &str = "rewrite";

/// A change whose value was replaced or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Superseded {
    pub(in super::super) position: Position,
    /// The change that superseded it.
    pub(in super::super) by: Position,
    /// The hash of that change's key.
    pub(in super::super) key: u64,
}

/// The hash of a key in [`Superseded`].
pub(in super::super) fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The changes of dropped tables.
pub(in super::super) struct Dropped<'a> {
    pub(in super::super) is_dropped: &'a dyn Fn(&[u8]) -> bool,
    /// The position at which the last of them was dropped, or a later one.
    pub(in super::super) by: Position,
}

/// What to erase.
#[derive(Default)]
pub(in super::super) struct Erase<'a> {
    /// In the order of positions.
    pub(in super::super) superseded: &'a [Superseded],
    pub(in super::super) dropped: Option<Dropped<'a>>,
}

impl Erase<'_> {
    /// Whether this change is one of a dropped table.
    fn is_dropped(&self, position: Position, key: &[u8]) -> bool {
        let dropped = self.dropped.as_ref();
        dropped.is_some_and(|it| position < it.by && (it.is_dropped)(key))
    }

    /// The change that superseded this one, if it is to be erased.
    fn find(&self, position: Position, key: &[u8]) -> Option<Superseded> {
        let all = self.superseded;
        let at = all.partition_point(|it| it.position < position);
        let found = all.get(at).filter(|it| it.position == position).copied();
        let dropped = self.dropped.as_ref();
        let dropped = dropped.filter(|_| self.is_dropped(position, key));
        found.or_else(|| {
            dropped.map(|dropped| Superseded {
                position,
                by: dropped.by,
                key: key_hash(key),
            })
        })
    }

    /// Whether changes of these positions may have to be erased.
    fn has_any(&self, from: Position, to: Position) -> bool {
        let first = self.superseded.partition_point(|it| it.position < from);
        let in_frame = self
            .superseded
            .get(first)
            .is_some_and(|it| it.position < to);
        in_frame || self.dropped.is_some()
    }
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Rewritten {
    /// It was compressed, and so many changes were erased.
    Done { erased: u64, bytes: u64 },
    /// It was compressed before, and there was nothing to erase.
    Unchanged,
    /// `step` returned false.
    Stopped,
}

/// Removes what an interrupted rewrite left.
pub(in super::super) fn clean(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(NEW)) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}

/// Rewrites a sealed segment. Calls `step` for every block of work; it returns whether to go on.
///
/// # Errors
/// `Corrupt` if the segment is damaged; `Unavailable` if the disk is full. The segment is as it was.
pub(in super::super) fn rewrite(
    folder: &Path,
    number: u64,
    erase: &Erase<'_>,
    step: &mut dyn FnMut() -> bool,
) -> Result<Rewritten> {
    let mut source = SegmentReader::open(folder, number)?;
    let Some(plan) = Plan::make(&mut source, erase, step)? else {
        return Ok(Rewritten::Stopped);
    };
    let next = SegmentReader::open(folder, number.saturating_add(1))?;
    let next = next.header().start();
    let is_cut = match source.header() {
        AnyHeader::Compressed(header) => header.end_place() != plan.end,
        AnyHeader::Raw(_) => false,
    };
    if is_cut || (next.position, next.previous) != (plan.end.position, plan.end.previous) {
        return Err(files::damaged("the log is damaged", source.path())
            .fact("offset", plan.end.offset)
            .fact("position", plan.end.position));
    }
    if plan.ranges.is_empty() && matches!(source.header(), AnyHeader::Compressed(_)) {
        return Ok(Rewritten::Unchanged);
    }
    let path = folder.join(NEW);
    let done = plan.write(&path, &mut source, step).and_then(|written| {
        let Some(file) = written else {
            return Ok(None);
        };
        let is_right = plan.verify(&path, &mut source, step)?;
        Ok(is_right.then_some(file))
    });
    let rewritten = match done {
        Ok(Some((mut file, bytes))) => {
            let renamed = file.rename(&folder.join(segment::name(number)));
            renamed.map_err(files::failed("compress the log", folder))?;
            return Ok(Rewritten::Done {
                erased: plan.erased,
                bytes,
            });
        }
        Ok(None) => Ok(Rewritten::Stopped),
        Err(error) => Err(error),
    };
    // Otherwise it is removed when the store is opened.
    let _ = clean(folder);
    rewritten
}

/// Copies a segment up to the end of a frame, compressed, into the folder of another log. Whatever is erased
/// from it was superseded at `by` at the latest.
///
/// # Errors
/// `Corrupt` if no frame ends there.
pub(in super::super) fn copy_to(
    folder: &Path,
    (from, number): (&Path, u64),
    (end, by): (Link, Position),
) -> Result<Place> {
    let mut source = SegmentReader::open_copy(from, number)?;
    let mut plan = Plan {
        end: source.header().start(),
        ranges: Vec::new(),
        erased: 0,
        by,
    };
    while Link::from(plan.end) != end {
        let Next::Frame(header) = source.next(plan.end)? else {
            return Err(files::damaged("a segment ends too early", from));
        };
        plan.end = header.after(plan.end);
    }
    let path = folder.join(segment::name(number));
    plan.write(&path, &mut source, &mut || true)?;
    plan.verify(&path, &mut source, &mut || true)?;
    Ok(plan.end)
}

/// What the new file will hold.
struct Plan {
    /// The place after the last frame.
    end: Place,
    /// Bytes of the segment that become zeros, in order.
    ranges: Vec<Range<u64>>,
    /// How many changes these are.
    erased: u64,
    /// The highest position that superseded one of them, or one that was erased before.
    by: Position,
}

impl Plan {
    /// Checks all frames of the segment and finds what to erase; `None` if stopped.
    fn make(
        source: &mut SegmentReader,
        erase: &Erase<'_>,
        step: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Self>> {
        let start = source.header().start();
        let mut plan = Self {
            end: start,
            ranges: Vec::new(),
            erased: 0,
            by: source.header().erased().unwrap_or(Position(0)),
        };
        let mut stepped = start.offset;
        while let Next::Frame(header) = source.next(plan.end)? {
            if erase.has_any(header.first, header.end()) {
                plan.add_frame(source, &header, erase)?;
            }
            plan.end = header.after(plan.end);
            if plan.end.offset - stepped >= BLOCK as u64 {
                stepped = plan.end.offset;
                if !step() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(plan))
    }

    fn add_frame(
        &mut self,
        source: &mut SegmentReader,
        header: &frame::Header,
        erase: &Erase<'_>,
    ) -> Result<()> {
        let path = source.path().to_owned();
        let offset = self.end.offset;
        let bytes = source.bytes(offset, header.frame_len())?;
        let damaged = |what| files::damaged(what, &path).fact("offset", offset);
        let spans = frame::spans(header, bytes);
        let spans = spans.ok_or_else(|| damaged("a frame of the log does not parse"))?;
        for span in spans {
            let key = bytes.get(span.key.clone()).unwrap_or_default();
            let Some(found) = erase.find(span.position, key) else {
                continue;
            };
            if key.first() == Some(&0) {
                // Erased before.
                continue;
            }
            if found.key != key_hash(key) {
                return Err(damaged("a change supersedes one of another key")
                    .fact("position", found.by)
                    .fact("supersedes", found.position));
            }
            let start = match is_item(key) && !erase.is_dropped(span.position, key) {
                true => span.key.end,
                false => span.key.start,
            };
            let end = span.value.map_or(span.key.end, |value| value.end);
            let erased = bytes.get(start..end).unwrap_or_default();
            if erased.iter().all(|byte| *byte == 0) {
                // Erased before, or a deletion.
                continue;
            }
            self.ranges.push(offset + start as u64..offset + end as u64);
            self.erased += 1;
            self.by = self.by.max(found.by);
        }
        Ok(())
    }

    /// The bytes of a block of the new file, before they are compressed.
    fn block(&self, source: &mut SegmentReader, offset: u64) -> Result<Vec<u8>> {
        let len = self.end.offset.saturating_sub(offset).min(BLOCK as u64);
        let mut bytes = source.bytes(offset, len as usize)?.to_vec();
        let first = self.ranges.partition_point(|range| range.end <= offset);
        let ranges = self.ranges.iter().skip(first);
        for range in ranges.take_while(|range| range.start < offset + len) {
            let from = range.start.saturating_sub(offset) as usize;
            let to = (range.end - offset).min(len) as usize;
            bytes.get_mut(from..to).unwrap_or_default().fill(0);
        }
        Ok(bytes)
    }

    /// The offsets of the blocks in the segment.
    fn offsets(&self) -> impl Iterator<Item = u64> {
        (segment::HEADER as u64..self.end.offset).step_by(BLOCK)
    }

    /// Writes the new file; returns it and its length, or `None` if stopped.
    fn write(
        &self,
        path: &Path,
        source: &mut SegmentReader,
        step: &mut dyn FnMut() -> bool,
    ) -> Result<Option<(DiskFile, u64)>> {
        let failed = files::failed("compress the log", path);
        let (mark, number) = (source.header().mark(), source.header().number());
        let file = DiskFile::create(path).map_err(&failed)?;
        let mut at = compressed::HEADER as u64;
        let mut blocks = Vec::new();
        for offset in self.offsets() {
            if !step() {
                return Ok(None);
            }
            let raw = self.block(source, offset)?;
            let block = compressed::block(mark, number, offset, &raw).map_err(&failed)?;
            file.write_at(&block, at).map_err(&failed)?;
            blocks.push((at, offset));
            at += block.len() as u64;
        }
        let index = compressed::index(mark, number, &blocks);
        let length = at + index.len() as u64;
        let start = source.header().start();
        let header = compressed::Header {
            mark,
            number,
            first: start.position,
            previous: start.previous,
            end: self.end.offset,
            next: self.end.position,
            last: self.end.previous,
            erased: self.by,
            blocks: blocks.len() as u64,
            index: at,
            length,
        };
        file.write_at(&index, at).map_err(&failed)?;
        file.write_at(&header.encode(), 0).map_err(&failed)?;
        file.sync().map_err(&failed)?;
        Ok(Some((file, length)))
    }

    /// Reads the new file back: each block is what it should be, and the frames lead to the same end.
    /// Returns false if stopped.
    fn verify(
        &self,
        path: &Path,
        source: &mut SegmentReader,
        step: &mut dyn FnMut() -> bool,
    ) -> Result<bool> {
        let mut written = SegmentReader::open_file(path, source.header().number())?;
        let wrong = || {
            crate::Error::unavailable("the disk does not return what was written; check it")
                .fact("file", path.display())
        };
        for offset in self.offsets() {
            if !step() {
                return Ok(false);
            }
            let block = self.block(source, offset)?;
            if written.bytes(offset, block.len())? != block {
                return Err(wrong());
            }
        }
        let mut place = source.header().start();
        while let Next::Frame(header) = written.next(place)? {
            place = header.after(place);
        }
        match place == self.end {
            true => Ok(true),
            false => Err(wrong()),
        }
    }
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
