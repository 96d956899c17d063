//! Reads frames in order, and checks each.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::compressed::{self, AnyHeader, Blocks};
use super::files::{self, Source, Window};
use super::frame::{self, Change};
use super::segment::{self, Unusable};
use super::{Place, Position};
use crate::Result;

/// The frames of one segment.
pub(super) struct SegmentReader {
    path: PathBuf,
    window: Window,
    header: AnyHeader,
}

/// What follows a place.
pub(super) enum Next {
    Frame(frame::Header),
    /// No valid frame that continues the log.
    End,
}

impl SegmentReader {
    /// Opens a segment of a log and checks its header.
    pub(super) fn open(folder: &Path, number: u64) -> Result<Self> {
        Self::open_file(&folder.join(segment::name(number)), number)
    }

    /// Opens the file of a segment, which is as long as its header says.
    pub(super) fn open_file(path: &Path, number: u64) -> Result<Self> {
        let (reader, len) = Self::open_any(path, number)?;
        match reader.header.file_len() == len {
            true => Ok(reader),
            false => Err(files::damaged("a segment has another length", path)),
        }
    }

    /// Opens a copy of a segment, which may lack the zeros at its end, and checks its header.
    pub(super) fn open_copy(path: &Path, number: u64) -> Result<Self> {
        let (reader, len) = Self::open_any(path, number)?;
        match reader.header {
            AnyHeader::Compressed(header) if header.length != len => {
                Err(files::damaged("a segment has another length", path))
            }
            _ => Ok(reader),
        }
    }

    /// Opens the file of a segment and checks its header; returns the length of the file, too.
    fn open_any(path: &Path, number: u64) -> Result<(Self, u64)> {
        let file = File::open(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => files::damaged("a segment of the log is missing", path),
            _ => files::failed("open the log", path)(cause),
        })?;
        let failed = files::failed("read the log", path);
        let len = file.metadata().map_err(&failed)?.len();
        let bytes = files::read_up_to(&file, compressed::HEADER, 0).map_err(&failed)?;
        let header = match AnyHeader::decode(&bytes) {
            Ok(header) => header,
            Err(Unusable::Damaged) => {
                return Err(files::damaged("the header of a segment is damaged", path));
            }
            Err(Unusable::Newer(version)) => {
                return Err(crate::Error::invalid(
                    "the log was written by a newer version; update annals",
                )
                .fact("version", version)
                .fact("file", path.display()));
            }
        };
        if header.number() != number {
            return Err(files::damaged("a segment has the name of another", path));
        }
        let (source, readable) = match header {
            AnyHeader::Raw(header) => (Source::Raw(file), header.length.min(len)),
            AnyHeader::Compressed(header) => {
                (Source::Compressed(Blocks::new(file, header)), header.end)
            }
        };
        let reader = Self {
            path: path.to_owned(),
            window: Window::new(source, readable),
            header,
        };
        Ok((reader, len))
    }

    pub(super) fn header(&self) -> &AnyHeader {
        &self.header
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the segment, or fewer if it ends before.
    pub(super) fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        self.window.get(offset, len, &self.path)
    }

    /// The frame at a place, if it is valid and continues the log.
    pub(super) fn next(&mut self, place: Place) -> Result<Next> {
        let found = self.frame_at(place.offset)?;
        Ok(match found {
            Some(header)
                if header.first == place.position
                    && header.previous == place.previous
                    && header.count > 0 =>
            {
                Next::Frame(header)
            }
            _ => Next::End,
        })
    }

    /// The valid frame at an offset.
    fn frame_at(&mut self, offset: u64) -> Result<Option<frame::Header>> {
        let mark = self.header.mark();
        let len = self.header.len();
        let Some(header) = frame::Header::parse(self.bytes(offset, frame::HEADER)?, mark) else {
            return Ok(None);
        };
        // A damaged length may be huge.
        if offset.saturating_add(header.frame_len() as u64) > len {
            return Ok(None);
        }
        let is_compressed = self.window.is_compressed();
        let bytes = self.bytes(offset, header.frame_len())?;
        // The block's checksum has been checked.
        let is_valid =
            header.check(bytes, mark) || (is_compressed && frame::has_erased(&header, bytes));
        Ok(is_valid.then_some(header))
    }

    pub(super) fn changes(
        &mut self,
        place: Place,
        header: &frame::Header,
    ) -> Result<Vec<Change<'_>>> {
        let path = self.path.clone();
        let bytes = self.bytes(place.offset, header.frame_len())?;
        frame::changes(header, bytes).ok_or_else(|| {
            files::damaged("a frame of the log does not parse", &path).fact("offset", place.offset)
        })
    }

    /// Searches what follows a place for a frame of this log, and for the last byte that is not zero.
    pub(super) fn search_after(&mut self, place: Place) -> Result<Tail> {
        let mut tail = Tail::default();
        let mut at = place.offset;
        while at < self.header.len() {
            let mark = self.header.mark().to_le_bytes();
            let bytes = self.bytes(at, Window::READ)?;
            let len = bytes.len() as u64;
            if len == 0 {
                break;
            }
            if let Some(used) = used(bytes) {
                tail.used_to = at + used as u64;
            }
            // A frame's second field is the mark.
            let candidates: Vec<u64> = bytes
                .chunks_exact(frame::ALIGN)
                .zip(0u64..)
                .filter(|(word, _)| **word == mark)
                .map(|(_, n)| at + n * frame::ALIGN as u64 - frame::ALIGN as u64)
                .collect();
            for offset in candidates {
                if offset >= place.offset
                    && let Some(frame) = self.frame_at(offset)?
                    && frame.first >= place.position
                {
                    tail.frame_at = Some(offset);
                    return Ok(tail);
                }
            }
            at += len;
        }
        Ok(tail)
    }
}

/// How many bytes there are up to the last that is not zero. By blocks, as most are zero.
fn used(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 4096;
    let is_used = |block: &[u8]| block.iter().fold(0, |all, byte| all | byte) != 0;
    let last = bytes.chunks(BLOCK).rposition(is_used)?;
    let mut block = bytes.get(last * BLOCK..)?.iter().take(BLOCK);
    let in_block = block.rposition(|byte| *byte != 0)?;
    Some(last * BLOCK + in_block + 1)
}

/// What follows the last valid frame of the log.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// A valid frame that does not continue the log: the frames before it are damaged.
    pub(super) frame_at: Option<u64>,
    /// The offset after the last byte that is not zero; 0 if there is none.
    pub(super) used_to: u64,
}

/// The frames of a log from a place to a position.
pub(in super::super) struct Frames {
    folder: PathBuf,
    place: Place,
    to: Position,
    /// Where the log ends, if its owner may be writing there.
    end: Option<Place>,
    reader: SegmentReader,
}

/// A frame that was read.
pub(in super::super) struct ReadFrame<'a> {
    path: &'a Path,
    offset: u64,
    bytes: &'a [u8],
    header: frame::Header,
    /// The place after it.
    pub(in super::super) after: Place,
    /// When it was written.
    pub(in super::super) time_ms: u64,
}

impl<'a> ReadFrame<'a> {
    /// Its changes, also erased ones.
    pub(in super::super) fn changes(&self) -> Result<Vec<Change<'a>>> {
        frame::changes(&self.header, self.bytes).ok_or_else(|| {
            let error = files::damaged("a frame of the log does not parse", self.path);
            error.fact("offset", self.offset)
        })
    }
}

impl Frames {
    /// Opens a log at a place.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged there.
    pub(in super::super) fn open(folder: &Path, from: Place, to: Position) -> Result<Self> {
        Ok(Self {
            folder: folder.to_owned(),
            reader: SegmentReader::open(folder, from.segment)?,
            place: from,
            to,
            end: None,
        })
    }

    /// Opens a log to whose end its owner may be writing: reads nothing after the end.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(in super::super) fn open_live(folder: &Path, from: Place, end: Place) -> Result<Self> {
        let mut frames = Self::open(folder, from, end.position)?;
        frames.end = Some(end);
        frames.limit();
        Ok(frames)
    }

    fn limit(&mut self) {
        let end = self.end.filter(|end| end.segment == self.place.segment);
        if let Some(end) = end {
            self.reader.window.limit(end.offset);
        }
    }

    /// The place after the frames that were read.
    pub(in super::super) fn place(&self) -> Place {
        self.place
    }

    /// The next frame; `None` at the position.
    ///
    /// # Errors
    /// `Corrupt` if the log does not reach it.
    pub(in super::super) fn next(&mut self) -> Result<Option<ReadFrame<'_>>> {
        while self.place.position < self.to {
            match self.reader.next(self.place)? {
                Next::Frame(header) => return self.read(header).map(Some),
                Next::End => self.next_segment()?,
            }
        }
        Ok(None)
    }

    fn next_segment(&mut self) -> Result<()> {
        let next = SegmentReader::open(&self.folder, self.place.segment + 1)?;
        let start = next.header().start();
        if (start.position, start.previous) != (self.place.position, self.place.previous) {
            let error = files::damaged("the log is damaged", self.reader.path());
            return Err(error.fact("offset", self.place.offset));
        }
        (self.reader, self.place) = (next, start);
        self.limit();
        Ok(())
    }

    fn read(&mut self, header: frame::Header) -> Result<ReadFrame<'_>> {
        let offset = self.place.offset;
        self.place = header.after(self.place);
        let SegmentReader { path, window, .. } = &mut self.reader;
        let bytes = window.get(offset, header.frame_len(), path)?;
        Ok(ReadFrame {
            path,
            offset,
            bytes,
            header,
            after: self.place,
            time_ms: header.time_ms,
        })
    }
}

/// Reads the changes between a place and a position; calls `apply` with each frame's, and the place
/// after the frame. Erased changes are left out.
///
/// # Errors
/// `Corrupt` if the log does not reach the position.
pub(in super::super) fn frames_from(
    folder: &Path,
    from: Place,
    to: Position,
    mut apply: impl FnMut(&[Change<'_>], Place) -> Result<()>,
) -> Result<()> {
    let mut frames = Frames::open(folder, from, to)?;
    while let Some(frame) = frames.next()? {
        let mut changes = frame.changes()?;
        changes.retain(|change| !change.is_erased());
        apply(&changes, frame.after)?;
    }
    Ok(())
}
