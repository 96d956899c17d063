//! Appends frames: one write and one sync each.
//!
//! Guarantees: when [`Writer::append`] returns, the frame is on stable storage. After an error nothing
//! more may be appended: what reached the disk is unknown until the store is opened again. A frame for
//! which there is [`Room`] does not fail because the disk is full.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{self, DiskFile};
use super::frame::{self, Frame};
use super::reached::{self, Note, Reached};
use super::room::{Early, Prepared, Room};
use super::{Checkpoint, LogEnd, Place, Position, Recovered, files, segment};
use crate::{Clock, Result, SystemClock};

/// Bytes that are read and written at once when the end of a log is written again.
const REWRITE_BLOCK: u64 = 1024 * 1024;

/// Creates an empty log, durably except for the folder's own name.
pub(in super::super) fn create(folder: &Path, mark: u64) -> Result<()> {
    let create = || -> io::Result<()> {
        fs::create_dir(folder)?;
        let Prepared { mut file, .. } = Prepared::create(folder, segment::FIRST_LENGTH, || ())?;
        let header = segment::Header {
            mark,
            number: 0,
            first: Position::FIRST,
            previous: mark,
            length: segment::FIRST_LENGTH,
        };
        write_header(&file, header)?;
        file.rename(&folder.join(segment::name(header.number)))?;
        let start = header.start();
        let note = Note {
            mark,
            count: 0,
            reached: start,
            applied: start,
            is_closed: false,
        };
        Reached::create(&folder.join(reached::NAME), note).map(drop)
    };
    create().map_err(files::failed("create the log", folder))
}

/// Makes a prepared file a segment, except for its name.
fn write_header(file: &DiskFile, header: segment::Header) -> io::Result<()> {
    file.write_at(&header.encode(), 0)?;
    file.sync()
}

/// Writes what may not be on stable storage again: the open segment after what `reached` names.
fn rewrite(file: &DiskFile, log: &Recovered) -> io::Result<()> {
    let reached = log.note.map(|note| note.reached);
    let reached = reached.filter(|place| place.segment == log.end.segment);
    let mut offset = reached.map_or(0, |place| place.offset);
    let mut block = vec![0; REWRITE_BLOCK.min(log.end.offset.saturating_sub(offset)) as usize];
    while offset < log.end.offset {
        let len = (log.end.offset - offset).min(REWRITE_BLOCK) as usize;
        block.truncate(len);
        file.read_at(&mut block, offset)?;
        file.write_at(&block, offset)?;
        offset += len as u64;
    }
    Ok(())
}

/// The end of the log.
#[derive(Debug)]
pub(in super::super) struct Writer {
    folder: PathBuf,
    mark: u64,
    file: DiskFile,
    length: u64,
    end: Place,
    /// When the last frame was written.
    time_ms: u64,
    reached: Reached,
    clock: SystemClock,
    room: Arc<Room>,
}

/// What became of an attempt to seal the open segment.
#[derive(Debug)]
pub(in super::super) enum Seal {
    Sealed,
    /// The next segment is being prepared: nobody waits for that.
    Preparing,
    /// The open segment stays.
    Failed(io::Error),
}

impl Writer {
    /// Opens the end of a log that was recovered, and removes a torn frame.
    pub(in super::super) fn open(folder: &Path, log: &Recovered) -> Result<Self> {
        let open = || -> io::Result<Self> {
            let file = DiskFile::open(&folder.join(segment::name(log.end.segment)))?;
            if log.torn_to > log.end.offset {
                file.write_zeros(log.end.offset, log.torn_to)?;
            }
            // A frame that was written but not synced is kept, and so is the name of a segment that was
            // just begun: sync both before they are relied on. After a failed sync, the system may
            // take pages for written that are only in memory, so they are written again.
            rewrite(&file, log)?;
            file.sync()?;
            let path = folder.join(reached::NAME);
            disk::sync_folder_of(&path)?;
            let reached = match log.note {
                Some(note) => {
                    let mut reached = Reached::open(&path, note)?;
                    // After a loss of power it may be older than the log. That nothing follows the end
                    // is over, also if the first frame is lost with the power.
                    if note.is_closed || note.reached.position != log.end.position {
                        reached.reach(log.end)?;
                        reached.sync()?;
                    }
                    reached
                }
                None => Reached::create(
                    &path,
                    Note {
                        mark: log.mark,
                        count: 0,
                        reached: log.end,
                        applied: log.checkpoint(),
                        is_closed: false,
                    },
                )?,
            };
            let length = file.len()?;
            Ok(Self {
                folder: folder.to_owned(),
                mark: log.mark,
                file,
                length,
                end: log.end,
                time_ms: log.time_ms,
                reached,
                clock: SystemClock::new(),
                room: Arc::new(Room::new(folder, length, log.end.offset)),
            })
        };
        open().map_err(files::failed("open the log", folder))
    }

    /// Leaves so many bytes of the disk free when a segment is prepared.
    pub(in super::super) fn keep_free(&self, bytes: u64) {
        self.room.keep_free(bytes);
    }

    /// Whom to ask before a change is decided.
    pub(in super::super) fn room(&self) -> Arc<Room> {
        self.room.clone()
    }

    /// Where the next frame goes, and when the last one was written.
    pub(in super::super) fn log_end(&self) -> LogEnd {
        LogEnd {
            place: self.end,
            time_ms: self.time_ms,
        }
    }

    /// Where the next frame goes.
    pub(in super::super) fn end(&self) -> Place {
        self.end
    }

    /// Appends a frame; returns when it is on stable storage.
    pub(in super::super) fn append(&mut self, frame: &mut Frame) -> io::Result<()> {
        let now_ms = self.clock.now_ms();
        self.append_at(frame, now_ms)
    }

    /// The same, at this time.
    pub(in super::super) fn append_at(&mut self, frame: &mut Frame, now_ms: u64) -> io::Result<()> {
        let needed = (frame::HEADER + frame.len()).next_multiple_of(frame::ALIGN) as u64;
        if self.end.offset + needed > self.length {
            self.begin_segment(needed)?;
        }
        let (bytes, checksum) = frame.seal(self.mark, self.end.previous, now_ms);
        self.file.write_at(bytes, self.end.offset)?;
        let written = bytes.len() as u64;
        self.file.sync()?;
        self.end.offset += written;
        self.end.position = frame.end();
        self.end.previous = checksum;
        self.time_ms = now_ms;
        self.room.wrote(self.end.offset, frame.promised());
        self.reached.reach(self.end)?;
        if self.end.offset > self.length / 2 {
            self.room.prepare_ahead(segment::length_after(self.length));
        }
        Ok(())
    }

    /// Whether the open segment has no frame.
    fn is_empty(&self) -> bool {
        self.end.offset <= segment::HEADER as u64
    }

    /// Begins the next segment, for a frame of so many bytes.
    fn begin_segment(&mut self, needed: u64) -> io::Result<()> {
        let prepared = self.room.take(needed)?;
        let header = self.write_header(&prepared)?;
        self.enter(prepared, header)
    }

    /// Writes the header of the segment after the open one. If the open one has no frame, the new one is
    /// to replace it, with one rename: sealed segments are never empty.
    ///
    /// # Errors
    /// The open segment stays.
    fn write_header(&self, prepared: &Prepared) -> io::Result<segment::Header> {
        let header = segment::Header {
            mark: self.mark,
            number: self.end.segment + u64::from(!self.is_empty()),
            first: self.end.position,
            previous: self.end.previous,
            length: prepared.length,
        };
        let written = write_header(&prepared.file, header);
        written.inspect_err(|_| self.room.put_back(self.length - self.end.offset))?;
        Ok(header)
    }

    /// Makes a file with a header the open segment. After an error, either may be it.
    fn enter(&mut self, prepared: Prepared, header: segment::Header) -> io::Result<()> {
        let Prepared { mut file, length } = prepared;
        let renamed = file.rename(&self.folder.join(segment::name(header.number)));
        self.room.begun(length);
        renamed?;
        (self.file, self.length, self.end) = (file, length, header.start());
        Ok(())
    }

    /// Begins a new segment, if this one has a frame: the last segment is never rewritten.
    ///
    /// # Errors
    /// Nothing more may be appended.
    pub(in super::super) fn seal(&mut self) -> io::Result<Seal> {
        if self.is_empty() {
            return Ok(Seal::Sealed);
        }
        let prepared = match self.room.take_early() {
            Early::Taken(prepared) => prepared,
            Early::Preparing => return Ok(Seal::Preparing),
            Early::Failed(cause) => return Ok(Seal::Failed(cause)),
        };
        match self.write_header(&prepared) {
            Ok(header) => self.enter(prepared, header).map(|()| Seal::Sealed),
            Err(cause) => Ok(Seal::Failed(cause)),
        }
    }

    /// Notes how far the index has applied the log.
    pub(in super::super) fn applied(&mut self, place: Checkpoint) {
        self.reached.applied(place);
    }

    /// Notes durably that nothing follows.
    pub(in super::super) fn close(mut self) -> io::Result<()> {
        self.room.clear();
        self.reached.close()
    }
}

/// Seals the open segment, as the syncer does with some group.
#[cfg(test)]
pub(super) fn seal(writer: &mut Writer) {
    while !matches!(writer.seal().unwrap(), Seal::Sealed) {
        std::thread::yield_now();
    }
}

impl Drop for Writer {
    /// Also after an error: whoever opens the log next prepares a segment of the same name.
    fn drop(&mut self) {
        self.room.clear();
    }
}
