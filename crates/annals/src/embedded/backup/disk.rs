//! Everything that a backup changes on disk, step by step, so that tests can end it at each.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::super::folder::sync_folder;

/// Bytes copied at once.
const CHUNK: usize = 1024 * 1024;

/// Calls `step` after every change.
pub(super) struct Disk<'a> {
    pub(super) step: &'a dyn Fn(),
}

impl Disk<'_> {
    /// Copies the beginning of a file, durably; returns the number of bytes and their checksum.
    pub(super) fn copy(&self, from: &Path, to: &Path, limit: u64) -> io::Result<(u64, u128)> {
        let mut target = File::create(to)?;
        (self.step)();
        let read = read(from, limit, |bytes| {
            target.write_all(bytes)?;
            (self.step)();
            Ok(())
        })?;
        target.sync_all()?;
        Ok(read)
    }

    /// Writes a file, durably except for its name.
    pub(super) fn write(&self, to: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(to)?;
        (self.step)();
        file.write_all(bytes)?;
        (self.step)();
        file.sync_all()
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        (self.step)();
        Ok(())
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)?;
        (self.step)();
        Ok(())
    }

    pub(super) fn sync_folder(&self, path: &Path) -> io::Result<()> {
        sync_folder(path)?;
        (self.step)();
        Ok(())
    }
}

/// Reads the beginning of a file; returns the number of bytes and their checksum.
pub(super) fn read(
    path: &Path,
    limit: u64,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(u64, u128)> {
    let mut source = File::open(path)?.take(limit);
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    loop {
        let len = source.read(&mut buffer)?;
        let bytes = buffer.get(..len).unwrap_or_default();
        if bytes.is_empty() {
            return Ok((total, hash.digest128()));
        }
        hash.update(bytes);
        each(bytes)?;
        total += len as u64;
    }
}
