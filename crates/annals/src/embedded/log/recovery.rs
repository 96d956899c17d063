//! Finds the end of the log. Reads only.
//!
//! Guarantees: every frame after the checkpoint that was synced is there, or the error is `Corrupt`
//! and names the file and the offset (why: `log/mod.rs`). The time this takes does not depend on how
//! much is before the checkpoint.

use std::path::Path;

use super::files;
use super::reached::{self, Note};
use super::reader::{Next, SegmentReader};
use super::{Checkpoint, Place, segment};
use crate::{Error, Result};

/// A log that was checked.
#[derive(Debug)]
pub(in super::super) struct Recovered {
    pub(super) mark: u64,
    /// Where the next frame goes.
    pub(in super::super) end: Place,
    /// The first place of each segment.
    pub(super) starts: Vec<Place>,
    /// Up to where the last frame was torn; 0 if it was not.
    pub(super) torn_to: u64,
    /// What `reached` says; `None` without it.
    pub(super) note: Option<Note>,
}

impl Recovered {
    /// Where the index says it has applied the log.
    pub(in super::super) fn checkpoint(&self) -> Checkpoint {
        self.note.map_or(self.first(), |note| note.applied)
    }

    /// Where the log begins.
    pub(in super::super) fn first(&self) -> Place {
        self.starts.first().copied().unwrap_or(self.end)
    }

    /// A place at or before a position.
    pub(in super::super) fn before(&self, position: super::Position) -> Place {
        let checkpoint = self.checkpoint();
        let starts = self.starts.iter().copied().chain([checkpoint]);
        let before = starts.filter(|place| place.position <= position);
        let nearest = before.max_by_key(|place| (place.position, place.segment, place.offset));
        nearest.unwrap_or(checkpoint)
    }
}

/// Checks the log from its checkpoint to its end.
pub(in super::super) fn recover(folder: &Path) -> Result<Recovered> {
    let reached = &folder.join(reached::NAME);
    let note = reached::read(reached)?;
    let starts = starts(folder)?;
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
        starts,
        torn_to: 0,
        note,
    };
    recovered.end = recovered.checkpoint();
    recovered.walk(folder)?;
    Ok(recovered)
}

/// The mark and first place of every segment; they are numbered without gaps.
fn starts(folder: &Path) -> Result<Vec<(u64, Place)>> {
    let failed = files::failed("open the log", folder);
    let mut numbers = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            return Err(files::damaged("the log is missing", folder));
        }
        entries => entries.map_err(&failed)?,
    };
    for entry in entries {
        let name = entry.map_err(&failed)?.file_name();
        numbers.extend(name.to_str().and_then(segment::number));
    }
    let count = numbers.iter().max().map_or(0, |last| last + 1);
    // A missing segment is found when it is opened; a huge number would only come from another hand.
    let missing = (0..count).find(|number| !numbers.contains(number));
    if let Some(missing) = missing {
        let path = folder.join(segment::name(missing));
        return Err(files::damaged("a segment of the log is missing", &path));
    }
    numbers.sort_unstable();
    let mut starts: Vec<(u64, Place)> = Vec::with_capacity(numbers.len());
    for number in numbers {
        let reader = SegmentReader::open(folder, number)?;
        let header = reader.header();
        let start = header.start();
        if let Some((mark, before)) = starts.last()
            && (*mark != header.mark || before.position > start.position)
        {
            let path = reader.path();
            return Err(files::damaged("a segment belongs to another store", path));
        }
        starts.push((header.mark, start));
    }
    Ok(starts)
}

impl Recovered {
    /// Walks from the checkpoint to the last valid frame, then looks at what follows it.
    fn walk(&mut self, folder: &Path) -> Result<()> {
        let mut has_reached = self.note.is_none_or(|note| self.is_at(&note));
        let mut reader = SegmentReader::open(folder, self.end.segment)?;
        loop {
            match reader.next(self.end)? {
                Next::Frame(header) => self.end = header.after(self.end),
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
        if !has_reached {
            return Err(self.damage(&reader));
        }
        if self
            .note
            .is_some_and(|note| note.is_closed && note.reached.position == self.end.position)
        {
            return Ok(());
        }
        let tail = reader.search_after(self.end)?;
        if tail.frame_at.is_some() {
            return Err(self.damage(&reader));
        }
        self.torn_to = tail.used_to;
        Ok(())
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
