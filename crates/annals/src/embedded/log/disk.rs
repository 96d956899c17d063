//! Everything that changes a file of the log. Tests record it, to build what a loss of power leaves, and
//! fill the disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file of the log, open for reading and writing.
#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
    path: PathBuf,
}

impl DiskFile {
    /// Creates an empty file, or empties it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.open(path)?;
        record(path, || Op::Create(path.to_owned()));
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Fills a buffer.
    pub(super) fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(test)]
        faults::check(&self.path, offset)?;
        record(&self.path, || {
            Op::Write(self.path.clone(), offset, bytes.to_vec())
        });
        self.file.write_all_at(bytes, offset)
    }

    /// Writes zeros from one offset to another.
    pub(super) fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        const ZEROS: &[u8] = &[0; 256 * 1024];
        let mut at = from;
        while at < to {
            let len = (to - at).min(ZEROS.len() as u64) as usize;
            self.write_at(ZEROS.get(..len).unwrap_or(ZEROS), at)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Makes the bytes durable, and the length.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        record(&self.path, || Op::Sync(self.path.clone()));
        Ok(())
    }

    /// Gives the file another name in its folder, durably.
    pub(super) fn rename(&mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)?;
        record(to, || Op::Rename(self.path.clone(), to.to_owned()));
        self.path = to.to_owned();
        sync_folder_of(to)
    }
}

/// Makes the names in the folder of a file durable.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    record(path, || Op::SyncFolder);
    Ok(())
}

/// Bytes that the disk of a folder has free.
pub(in super::super) fn free_bytes(folder: &Path) -> io::Result<u64> {
    #[cfg(test)]
    if let Some(free) = faults::free_bytes(folder) {
        return Ok(free);
    }
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// A change of the log's folder.
#[cfg_attr(not(test), allow(dead_code))]
#[derive(Clone, Debug)]
pub(super) enum Op {
    Create(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    SyncFolder,
}

#[cfg(not(test))]
fn record(_: &Path, _: impl FnOnce() -> Op) {}

#[cfg(test)]
fn record(path: &Path, op: impl FnOnce() -> Op) {
    recording::record(path, op);
}

/// Records the changes of chosen folders.
#[cfg(test)]
pub(super) mod recording {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    static FOLDERS: Mutex<Vec<(PathBuf, Vec<Op>)>> = Mutex::new(Vec::new());

    /// Begins to record a folder.
    pub(in super::super) fn begin(folder: &Path) {
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        folders.push((folder.to_owned(), Vec::new()));
    }

    /// How much was recorded so far.
    pub(in super::super) fn len(folder: &Path) -> usize {
        let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let found = folders.iter().find(|(recorded, _)| recorded == folder);
        found.map_or(0, |(_, ops)| ops.len())
    }

    /// Ends the recording of a folder; returns what happened.
    pub(in super::super) fn end(folder: &Path) -> Vec<Op> {
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let at = folders.iter().position(|(recorded, _)| recorded == folder);
        at.map(|at| folders.swap_remove(at).1).unwrap_or_default()
    }

    pub(super) fn record(path: &Path, op: impl FnOnce() -> Op) {
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let found = folders
            .iter_mut()
            .find(|(folder, _)| path.starts_with(folder));
        if let Some((_, ops)) = found {
            ops.push(op());
        }
    }
}

/// Disks that are full, as far as the files of chosen folders are concerned.
#[cfg(test)]
pub(in super::super) mod faults {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// What a disk allows.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super::super) struct Limits {
        /// What it says it has free; `None`: what the real one says.
        pub(in super::super::super) free_bytes: Option<u64>,
        /// The offset from which a new segment cannot be written.
        pub(in super::super::super) next_to: Option<u64>,
    }

    static FOLDERS: Mutex<Vec<(PathBuf, Limits)>> = Mutex::new(Vec::new());

    fn of(path: &Path) -> Option<Limits> {
        let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let found = folders.iter().find(|(folder, _)| path.starts_with(folder));
        found.map(|(_, limits)| *limits)
    }

    /// Sets the limits of everything in a folder, or removes them.
    pub(in super::super::super) fn set(folder: &Path, limits: Option<Limits>) {
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|(limited, _)| limited != folder);
        folders.extend(limits.map(|limits| (folder.to_owned(), limits)));
    }

    pub(super) fn free_bytes(path: &Path) -> Option<u64> {
        of(path)?.free_bytes
    }

    pub(super) fn check(path: &Path, offset: u64) -> io::Result<()> {
        let to = of(path).and_then(|limits| limits.next_to);
        match to.is_some_and(|to| path.ends_with("next") && offset >= to) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}
