//! Reading files, and errors that name them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::compressed::Blocks;
use crate::embedded::errors;
use crate::{Error, Result};

/// An error of the file system.
pub(super) fn failed<'a>(what: &'a str, path: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |cause| errors::on_folder(cause, what, path.display())
}

/// The bytes are not what was written.
pub(super) fn damaged(what: &str, path: &Path) -> Error {
    let message =
        format!("{what}; keep a copy of the folder and restore a backup. nothing was changed");
    Error::corrupt(message).fact("file", path.display())
}

/// Bytes of a file, or fewer if it ends before.
pub(super) fn read_up_to(file: &File, len: usize, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads a segment through a buffer, as most reads are adjacent. Offsets are those of the segment as it
/// was written, also if it is compressed now.
pub(super) struct Window {
    source: Source,
    /// The offset after the last byte.
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

/// Where the bytes are.
pub(super) enum Source {
    Raw(File),
    Compressed(Blocks),
}

impl Window {
    /// Bytes that one read takes from the file.
    pub(super) const READ: usize = 1024 * 1024;

    pub(super) fn new(source: Source, len: u64) -> Self {
        Self {
            source,
            len,
            start: 0,
            bytes: Vec::new(),
        }
    }

    /// Reads nothing from this offset on.
    pub(super) fn limit(&mut self, offset: u64) {
        self.len = self.len.min(offset);
    }

    pub(super) fn is_compressed(&self) -> bool {
        matches!(self.source, Source::Compressed(_))
    }

    /// Bytes of the segment, or fewer if it ends before.
    pub(super) fn get(&mut self, offset: u64, len: usize, path: &Path) -> Result<&[u8]> {
        let available = self.len.saturating_sub(offset).min(len as u64) as usize;
        if available == 0 {
            // Nothing is read at the end: a compressed segment has no block there.
            return Ok(&[]);
        }
        let end = offset + available as u64;
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            let filled = self.fill(offset, end, path);
            filled.inspect_err(|_| self.bytes.clear())?;
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.get(from..from + available).unwrap_or_default())
    }

    fn fill(&mut self, offset: u64, end: u64, path: &Path) -> Result<()> {
        match &mut self.source {
            Source::Raw(file) => {
                let wanted = (end - offset).max(Self::READ as u64);
                let wanted = wanted.min(self.len.saturating_sub(offset));
                self.bytes.resize(wanted as usize, 0);
                self.start = offset;
                let read = file.read_exact_at(&mut self.bytes, offset);
                read.map_err(failed("read the log", path))
            }
            Source::Compressed(blocks) => {
                let kept_to = self.start + self.bytes.len() as u64;
                if offset >= self.start && offset < kept_to {
                    self.bytes.drain(..(offset - self.start) as usize);
                    self.start = offset;
                } else {
                    self.bytes.clear();
                    self.start = blocks.start_of(offset, path)?;
                }
                while self.start + (self.bytes.len() as u64) < end {
                    let at = self.start + self.bytes.len() as u64;
                    blocks.append(at, &mut self.bytes, path)?;
                }
                Ok(())
            }
        }
    }
}
