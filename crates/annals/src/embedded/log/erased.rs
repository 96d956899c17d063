//! The file `erased`: up to where superseded values are gone.
//!
//! ```text
//!  0  checksum    u64   of the rest
//!  8  mark        u64   the store's
//! 16  from        a place: everything that changes before it superseded is erased from the log;
//!                 segment, offset, position, checksum of the frame before, u64 each
//! 48  superseded  u64   the last position that superseded something and was read by a pass
//! 56  index       u64   everything that changes before this position superseded is gone from the
//!                       files of the index
//! ```
//! Numbers are little-endian. The file is replaced with a rename.
//!
//! Conservative: `from` is raised after the erasure is durable. Without the file, or with a damaged one,
//! the log is read from its beginning.

use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::disk::DiskFile;
use super::frame::Fields;
use super::{Place, Position, Recovered, files};
use crate::Result;

const NAME: &str = "erased";
const NEW: &str = "erased.new";

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Note {
    mark: u64,
    pub(in super::super) from: Place,
    pub(in super::super) superseded: Position,
    pub(in super::super) index: Position,
}

impl Note {
    /// Reads the file of a log that was recovered.
    pub(in super::super) fn open(folder: &Path, log: &Recovered) -> Self {
        let found = std::fs::read(folder.join(NAME)).ok();
        let found = found.and_then(|bytes| Self::decode(&bytes));
        let fits = |note: &Self| {
            let start = log.starts.iter().find(|it| it.segment == note.from.segment);
            note.mark == log.mark
                && note.from.position <= log.end.position
                && start.is_some_and(|start| start.position <= note.from.position)
        };
        found.filter(fits).unwrap_or_else(|| Self {
            mark: log.mark,
            from: log.first(),
            superseded: Position(0),
            index: Position(0),
        })
    }

    /// Replaces the file, durably.
    pub(in super::super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(NEW);
        let write = || -> io::Result<()> {
            let mut file = DiskFile::create(&path)?;
            file.write_at(&self.encode(), 0)?;
            file.sync()?;
            file.rename(&folder.join(NAME))
        };
        write().map_err(files::failed("note what is erased", &path))
    }

    fn encode(&self) -> Vec<u8> {
        let at = self.from;
        let numbers = [
            self.mark,
            at.segment,
            at.offset,
            at.position.0,
            at.previous,
            self.superseded.0,
            self.index.0,
        ];
        let rest: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut bytes = xxh3_64(&rest).to_le_bytes().to_vec();
        bytes.extend(rest);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (checksum, rest) = bytes.split_first_chunk()?;
        if xxh3_64(rest) != u64::from_le_bytes(*checksum) {
            return None;
        }
        let mut fields = Fields(rest);
        let mut next = || fields.u64();
        Some(Self {
            mark: next()?,
            from: Place {
                segment: next()?,
                offset: next()?,
                position: Position(next()?),
                previous: next()?,
            },
            superseded: Position(next()?),
            index: Position(next()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::log::{create, recover};

    #[test]
    fn a_damaged_or_foreign_note_means_from_the_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let log = &folder.path().join("log");
        create(log, 77).unwrap();
        let recovered = recover(log).unwrap();
        let mut note = Note::open(log, &recovered);
        assert_eq!(note.from, recovered.first());
        note.index = Position(1);
        note.write(log).unwrap();
        assert_eq!(Note::open(log, &recovered), note);
        let whole = std::fs::read(log.join(NAME)).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(log.join(NAME), bytes).unwrap();
            assert_eq!(Note::open(log, &recovered).index, Position(0), "byte {at}");
        }
        note.mark = 78;
        note.write(log).unwrap();
        assert_eq!(Note::open(log, &recovered).index, Position(0));
    }
}
