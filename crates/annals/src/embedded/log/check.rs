//! Checks every byte of the log. Reads only.

use std::path::Path;

use super::compressed::AnyHeader;
use super::reader::{Next, SegmentReader};
use super::recovery::{self, Recovered};
use super::{Position, files, segments};
use crate::Result;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Read {
    pub(in super::super) frames: u64,
    pub(in super::super) changes: u64,
}

/// Reads every frame of a segment, and what follows the last. Calls `step` with the bytes of each
/// frame; it returns whether to go on.
///
/// # Errors
/// `Corrupt` if a frame is damaged or missing, or if the next segment does not continue this one.
pub(in super::super) fn check_segment(
    folder: &Path,
    number: u64,
    step: &mut dyn FnMut(u64) -> bool,
) -> Result<Read> {
    let mut reader = SegmentReader::open(folder, number)?;
    let mut place = reader.header().start();
    let mut read = Read::default();
    while let Next::Frame(header) = reader.next(place)? {
        for change in reader.changes(place, &header)? {
            let is_known = change.supersedes.is_none_or(|it| it >= Position::FIRST);
            if !is_known {
                return Err(damaged(&reader, place));
            }
            read.changes += 1;
        }
        read.frames += 1;
        place = header.after(place);
        if !step(header.frame_len() as u64) {
            return Ok(read);
        }
    }
    let is_whole = match reader.header() {
        AnyHeader::Compressed(header) => header.end_place() == place,
        // A frame that was torn was replaced by zeros.
        AnyHeader::Raw(_) => reader.search_after(place)?.used_to == 0,
    };
    let next = number.saturating_add(1);
    let continues = match segments::has_segment(folder, next) {
        true => {
            let start = *SegmentReader::open(folder, next)?.header();
            let start = start.start();
            (start.position, start.previous) == (place.position, place.previous)
        }
        false => true,
    };
    match is_whole && continues {
        true => Ok(read),
        false => Err(damaged(&reader, place)),
    }
}

fn damaged(reader: &SegmentReader, place: super::Place) -> crate::Error {
    files::damaged("the log is damaged", reader.path())
        .fact("offset", place.offset)
        .fact("position", place.position)
}

/// What is wrong with a log that nobody has open, and its end if that was found. Every frame of every segment is
/// read.
pub(in super::super) fn check(
    folder: &Path,
    step: &mut dyn FnMut(u64) -> bool,
) -> (Vec<crate::Error>, Option<Recovered>, Read) {
    let mut found = Vec::new();
    let mut read = Read::default();
    let recovered = match recovery::recover(folder) {
        Ok(recovered) => Some(recovered),
        Err(error) => {
            found.push(error);
            None
        }
    };
    let torn = recovered.as_ref().map_or(0, |log| log.torn_to);
    let numbers = match segments::numbers(folder) {
        Ok(numbers) => numbers,
        Err(_) => return (found, recovered, read),
    };
    let last = numbers.last().copied();
    for number in numbers {
        match check_segment(folder, number, step) {
            Ok(more) => {
                read.frames += more.frames;
                read.changes += more.changes;
            }
            // An unfinished frame that the next start removes.
            Err(_) if torn > 0 && Some(number) == last => {}
            Err(error) => {
                let is_new = |known: &crate::Error| known.to_string() != error.to_string();
                if found.iter().all(is_new) {
                    found.push(error);
                }
            }
        }
    }
    (found, recovered, read)
}
