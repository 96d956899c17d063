//! Reading files, and errors that name them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Error;
use crate::embedded::errors;

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

/// Reads a file through a buffer, as most reads are adjacent.
pub(super) struct Window {
    file: File,
    /// The file's length.
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Bytes that one read takes from the file.
    pub(super) const READ: usize = 1024 * 1024;

    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self {
            file,
            len,
            start: 0,
            bytes: Vec::new(),
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of the file, or fewer if it ends before.
    pub(super) fn get(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        let available = self.len.saturating_sub(offset).min(len as u64) as usize;
        let end = offset + available as u64;
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            let wanted = (self.len.saturating_sub(offset)).min(len.max(Self::READ) as u64);
            self.bytes.resize(wanted as usize, 0);
            self.start = offset;
            let read = self.file.read_exact_at(&mut self.bytes, offset);
            read.inspect_err(|_| self.bytes.clear())?;
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.get(from..from + available).unwrap_or_default())
    }
}
