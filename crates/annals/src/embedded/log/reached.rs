//! The file `reached`: how far the log is on stable storage, and how far the index has applied it.
//!
//! ```text
//!   0  slot     512  slot       written in turn; the one with the higher count is the newer
//!
//! slot:  0  checksum   u64   of the rest of the slot
//!        8  mark       u64   the store's
//!       16  count      u64   notes written so far
//!       24  reached    the place after the last synced frame: segment, offset, position, checksum of
//!                      the frame before, u64 each
//!       56  applied    the place up to which the index holds everything on its own
//!       88  closed     u64   1: the store was closed after this, else 0
//! ```
//! Numbers are little-endian. A slot is written without a sync, and after the sync of the frame that it
//! names. If a loss of power tears a slot, the other one is intact.

use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::disk::{self, DiskFile};
use super::frame::Fields;
use super::{Place, Position, files};
use crate::Result;

/// The file's name in the log's folder.
pub(in super::super) const NAME: &str = "reached";
const SLOT: usize = 96;
const SECOND: u64 = 512;
const LENGTH: u64 = 1024;

/// Where reading the log begins after a restart.
pub(in super::super) type Checkpoint = Place;

/// What one slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) mark: u64,
    pub(super) count: u64,
    pub(super) reached: Place,
    pub(super) applied: Checkpoint,
    pub(super) is_closed: bool,
}

impl Note {
    fn encode(&self) -> [u8; SLOT] {
        let place = |at: Place| [at.segment, at.offset, at.position.0, at.previous];
        let numbers = [self.mark, self.count].into_iter();
        let numbers = numbers
            .chain(place(self.reached))
            .chain(place(self.applied))
            .chain([u64::from(self.is_closed)]);
        let mut bytes = [0; SLOT];
        let fields = numbers.flat_map(u64::to_le_bytes);
        for (byte, field) in bytes.iter_mut().skip(8).zip(fields) {
            *byte = field;
        }
        let checksum = xxh3_64(bytes.get(8..).unwrap_or_default());
        for (byte, sum) in bytes.iter_mut().zip(checksum.to_le_bytes()) {
            *byte = sum;
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (checksum, rest) = bytes.get(..SLOT)?.split_first_chunk()?;
        if xxh3_64(rest) != u64::from_le_bytes(*checksum) {
            return None;
        }
        let mut fields = Fields(rest);
        let mut next = || fields.u64();
        let (mark, count) = (next()?, next()?);
        let mut place = || {
            Some(Place {
                segment: next()?,
                offset: next()?,
                position: Position(next()?),
                previous: next()?,
            })
        };
        Some(Self {
            mark,
            count,
            reached: place()?,
            applied: place()?,
            is_closed: fields.u64()? == 1,
        })
    }
}

/// Reads the newer note; `None` without the file.
///
/// # Errors
/// `Corrupt` if neither slot is intact.
pub(super) fn read(path: &Path) -> Result<Option<Note>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(files::failed("open the store", path)(cause)),
    };
    let second = bytes.get(SECOND as usize..).unwrap_or_default();
    let notes = [&bytes[..], second].into_iter().filter_map(Note::decode);
    let newest = notes.max_by_key(|note| note.count);
    newest.map(Some).ok_or_else(|| {
        crate::Error::corrupt(
            "the file `reached` is damaged, so lost events at the end of the log would not be noticed; verify what the store holds, then remove the file to continue",
        )
        .fact("file", path.display())
    })
}

/// The file, open for writing.
#[derive(Debug)]
pub(super) struct Reached {
    file: DiskFile,
    note: Note,
}

impl Reached {
    /// Creates the file, durably, or replaces it.
    pub(super) fn create(path: &Path, note: Note) -> io::Result<Self> {
        let file = DiskFile::create(path)?;
        file.write_zeros(0, LENGTH)?;
        let mut created = Self { file, note };
        created.write()?;
        created.write()?;
        created.file.sync()?;
        disk::sync_folder_of(path)?;
        Ok(created)
    }

    pub(super) fn open(path: &Path, note: Note) -> io::Result<Self> {
        let file = DiskFile::open(path)?;
        Ok(Self { file, note })
    }

    /// Notes that the log is on stable storage up to here.
    pub(super) fn reach(&mut self, place: Place) -> io::Result<()> {
        self.note.reached = place;
        self.note.is_closed = false;
        self.write()
    }

    /// Notes how far the index has applied the log; written with the next note.
    pub(super) fn applied(&mut self, place: Checkpoint) {
        self.note.applied = place;
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Notes durably that the store is closed.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.note.is_closed = true;
        self.write()?;
        self.file.sync()
    }

    fn write(&mut self) -> io::Result<()> {
        self.note.count += 1;
        let offset = match self.note.count % 2 {
            0 => 0,
            _ => SECOND,
        };
        self.file.write_at(&self.note.encode(), offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn place(position: u64) -> Place {
        Place {
            segment: 3,
            offset: position * 10,
            position: Position(position),
            previous: position + 1,
        }
    }

    fn note(position: u64) -> Note {
        Note {
            mark: 5,
            count: 0,
            reached: place(position),
            applied: place(1),
            is_closed: false,
        }
    }

    #[test]
    fn the_newer_note_counts_and_a_torn_one_leaves_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        assert_eq!(read(&path).unwrap(), None);
        let mut reached = Reached::create(&path, note(1)).unwrap();
        for position in 2..6 {
            reached.reach(place(position)).unwrap();
        }
        assert_eq!(read(&path).unwrap().unwrap().reached, place(5));
        let whole = std::fs::read(&path).unwrap();
        for torn in 0..SLOT {
            // The count is even after six notes: the newer slot is the first.
            let mut bytes = whole.clone();
            bytes[torn] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read(&path).unwrap().unwrap().reached, place(4));
        }
        std::fs::write(&path, vec![0; whole.len()]).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn closing_is_noted_until_the_next_frame() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let mut reached = Reached::create(&path, note(1)).unwrap();
        reached.applied(place(2));
        reached.close().unwrap();
        let closed = read(&path).unwrap().unwrap();
        assert!(closed.is_closed);
        assert_eq!(closed.applied, place(2));
        let mut reached = Reached::open(&path, closed).unwrap();
        reached.reach(place(3)).unwrap();
        assert!(!read(&path).unwrap().unwrap().is_closed);
    }
}
