//! Which segments there are.

use std::fs;
use std::io;
use std::path::Path;

use super::compressed::AnyHeader;
use super::reader::SegmentReader;
use super::{Place, files, segment};
use crate::Result;

/// The numbers of the segments, in order. None is missing.
pub(super) fn numbers(folder: &Path) -> Result<Vec<u64>> {
    let failed = files::failed("open the log", folder);
    let mut numbers = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            return Err(files::damaged("the log is missing", folder));
        }
        entries => entries.map_err(&failed)?,
    };
    for entry in entries {
        let name = entry.map_err(&failed)?.file_name();
        numbers.extend(name.to_str().and_then(segment::number));
    }
    numbers.sort_unstable();
    let missing = (0..).zip(&numbers).find(|(wanted, found)| wanted != *found);
    if let Some((missing, _)) = missing {
        let path = folder.join(segment::name(missing));
        return Err(files::damaged("a segment of the log is missing", &path));
    }
    Ok(numbers)
}

/// The headers of all segments, in order.
pub(super) fn headers(folder: &Path) -> Result<Vec<AnyHeader>> {
    let open = |number| Ok(*SegmentReader::open(folder, number)?.header());
    numbers(folder)?.into_iter().map(open).collect()
}

/// The mark and first place of every segment; they are numbered without gaps.
pub(super) fn marked_starts(folder: &Path) -> Result<Vec<(u64, Place)>> {
    let mut starts: Vec<(u64, Place)> = Vec::new();
    for header in headers(folder)? {
        let start = header.start();
        if let Some((mark, before)) = starts.last()
            && (*mark != header.mark() || before.position > start.position)
        {
            let path = folder.join(segment::name(start.segment));
            return Err(files::damaged("a segment belongs to another store", &path));
        }
        starts.push((header.mark(), start));
    }
    Ok(starts)
}

/// The first place of every segment. The last segment is open.
pub(in super::super) fn starts(folder: &Path) -> Result<Vec<Place>> {
    let starts = marked_starts(folder)?;
    Ok(starts.into_iter().map(|(_, start)| start).collect())
}

/// The first place of a segment.
pub(in super::super) fn start(folder: &Path, number: u64) -> Result<Place> {
    Ok(SegmentReader::open(folder, number)?.header().start())
}

/// The first place of the open segment.
pub(in super::super) fn last_start(folder: &Path) -> Result<Place> {
    let last = numbers(folder)?.pop().unwrap_or_default();
    start(folder, last)
}

/// Whether there is a segment of this number.
pub(in super::super) fn has_segment(folder: &Path, number: u64) -> bool {
    folder.join(segment::name(number)).exists()
}

/// Whether a segment is compressed.
pub(in super::super) fn is_compressed(folder: &Path, number: u64) -> Result<bool> {
    let reader = SegmentReader::open(folder, number)?;
    Ok(matches!(reader.header(), AnyHeader::Compressed(_)))
}

/// Bytes of all segments' files.
pub(in super::super) fn disk_bytes(folder: &Path) -> Result<u64> {
    let lengths = headers(folder)?;
    Ok(lengths.iter().map(AnyHeader::file_len).sum())
}
