//! Folders that one process uses while it lives, such as a reader's copy of the index.
//!
//! Guarantees: a folder is removed when it is dropped; if its process was killed, by the next
//! [`remove_dead`]. One in use is never removed: a file in it is locked, and the system unlocks it when
//! the process ends.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::Random;

const LOCK: &str = "LOCK";
/// Names of which another process may just be removing the folder, before it is an error.
const TRIES_MAX: usize = 16;

/// A folder that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    path: PathBuf,
    lock: File,
}

impl PrivateFolder {
    /// Creates a folder whose name begins with `prefix`, only for this user.
    pub(super) fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        let random = Random::from_machine();
        for _ in 0..TRIES_MAX {
            let name = format!("{prefix}{}-{:016x}", std::process::id(), random.bits());
            let path = parent.join(name);
            DirBuilder::new().mode(0o700).create(&path)?;
            match lock(&path, File::options().create_new(true)) {
                Ok(Some(lock)) => return Ok(Self { path, lock }),
                // Another process took it for dead before it was locked.
                Ok(None) => {}
                Err(cause) => {
                    let _ = fs::remove_dir_all(&path);
                    return Err(cause);
                }
            }
        }
        Err(io::Error::other(
            "other processes remove the folder of this one",
        ))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // If it stays, the next process removes it.
        let _ = fs::remove_dir_all(&self.path);
        // A child process that another thread is just starting has the file open, too.
        let _ = self.lock.unlock();
    }
}

/// Locks a folder; `None` if another process has it or removed it.
fn lock(path: &Path, options: &mut fs::OpenOptions) -> io::Result<Option<File>> {
    let name = path.join(LOCK);
    let file = match options.read(true).write(true).open(&name) {
        Ok(file) => file,
        Err(cause)
            if [io::ErrorKind::NotFound, io::ErrorKind::AlreadyExists].contains(&cause.kind()) =>
        {
            return Ok(None);
        }
        Err(cause) => return Err(cause),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(cause)) => return Err(cause),
    }
    // Locked after another process has removed it, it protects nothing.
    let is_there = match fs::metadata(&name) {
        Ok(found) => found.ino() == file.metadata()?.ino(),
        Err(_) => false,
    };
    Ok(is_there.then_some(file))
}

/// Removes the folders of processes that are gone, as far as that is allowed.
pub(super) fn remove_dead(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(prefix));
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_ours || !is_folder {
            continue;
        }
        // Its process may have been killed before it created the file.
        if let Ok(Some(lock)) = lock(&entry.path(), File::options().create(true)) {
            let _ = fs::remove_dir_all(entry.path());
            let _ = lock.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let living = PrivateFolder::create(parent.path(), "reader-").unwrap();
        let left = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        // Killed before it had a lock, and after.
        let early = left("reader-1-a");
        let late = left("reader-1-b");
        fs::write(late.join(LOCK), "").unwrap();
        fs::write(late.join("table"), "x").unwrap();
        let other = left("else");
        remove_dead(parent.path(), "reader-");
        assert!(!early.exists() && !late.exists());
        assert!(living.path().exists() && other.exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
