//! The store's folder: its lock and its format.
//!
//! Guarantees: one process at a time. A folder that is not ours, or that a newer version wrote, is
//! left alone. A creation that a crash interrupted is started over; nothing else is ever removed.
//!
//! ```text
//! LOCK        locked while the store is open; holds the process id, and nothing once it is closed
//! FORMAT.new  written first: a store is being created, nothing was acknowledged
//! FORMAT      FORMAT.new, renamed when the store is complete
//! log/        the commit log
//! index/      made from the log
//! readers/    what processes that read beside the owner use (`beside.rs`)
//! engine/     instead of both in format 1, with the file REACHED (`convert.rs`)
//! format-1/   both, after a conversion that left something out
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::errors;
use crate::{Error, Result};

/// The format this code writes, and the newest it reads.
const FORMAT: u32 = 2;
const FORMAT_NAME: &str = "annals embedded format";
const FORMAT_FILE: &str = "FORMAT";
const DRAFT_FILE: &str = "FORMAT.new";
/// What a store consists of, in any format.
const PARTS: [&str; 7] = [
    "log",
    "index",
    "engine",
    "converting",
    "REACHED",
    "REACHED.new",
    READERS,
];
const READERS: &str = "readers";
/// What a conversion keeps of format 1. Never removed.
pub(super) const KEPT: &str = "format-1";
/// The problem with format 1 for those who do not write.
const FORMAT_ONE: &str = "the store has format 1 and cannot be read before it is converted; `annals tables create` converts it, as does everything else that opens it for writing";
/// In the root of an ext file system from the start: a check of the disk puts there what it finds.
const LOST_AND_FOUND: &str = "lost+found";

/// A folder that only this process has open.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    format: Format,
    lock: Lock,
}

/// The files that this process has locked: device and inode. The process id in the file would not do, as
/// containers may share a folder and have the same ids.
static LOCKED: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

fn locked() -> MutexGuard<'static, Vec<(u64, u64)>> {
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The lock of a folder. Unlocked when dropped, or by the system when the process ends.
#[derive(Debug)]
struct Lock {
    file: File,
    identity: (u64, u64),
    /// Whether the file has the id of this process.
    is_noted: bool,
}

impl Drop for Lock {
    /// Closing is not enough: a child process that another thread is just starting has the file open
    /// too, until it calls exec.
    fn drop(&mut self) {
        if self.is_noted {
            // Or another process could later have this id, and be taken for the owner.
            let _ = self.file.set_len(0);
        }
        let mut locked = locked();
        let found = locked.iter().position(|it| *it == self.identity);
        found.map(|at| locked.swap_remove(at));
        let _ = self.file.unlock();
    }
}

/// What is in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Nothing yet: a store is being created.
    New,
    /// The format before the log.
    One,
    Current,
}

impl Folder {
    /// Opens the folder, creating it if it is missing.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |cause| errors::on_folder(cause, "open the store", path.display());
        refuse_foreign_files(path)?;
        create(path).map_err(failed)?;
        let lock = lock(path)?;
        let format = match fs::read_to_string(path.join(FORMAT_FILE)) {
            Ok(text) => check_format(&text, path)?,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Format::New,
            // Not UTF-8.
            Err(cause) if cause.kind() == io::ErrorKind::InvalidData => check_format("", path)?,
            Err(cause) => return Err(failed(cause)),
        };
        let folder = Self {
            path: path.to_owned(),
            format,
            lock,
        };
        if format == Format::New {
            folder.begin()?;
        }
        Ok(folder)
    }

    /// Locks a store that is only read; it is unlocked when the lock is dropped. Changes nothing.
    ///
    /// # Errors
    /// `Unavailable` if another process has it open; `Invalid` if there is none of today's format.
    pub(super) fn lock_to_read(path: &Path) -> Result<impl Sized + use<>> {
        let failed = |cause| errors::on_folder(cause, "open the store", path.display());
        let text = match fs::read_to_string(path.join(FORMAT_FILE)) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                return Err(Error::invalid("there is no store in this folder")
                    .fact("folder", path.display()));
            }
            Err(cause) if cause.kind() == io::ErrorKind::InvalidData => String::new(),
            text => text.map_err(failed)?,
        };
        if check_format(&text, path)? != Format::Current {
            return Err(Error::invalid(FORMAT_ONE).fact("folder", path.display()));
        }
        match File::open(path.join("LOCK")) {
            Ok(file) => lock_file(file, path).map(Some),
            // A copy may lack it.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(failed(cause)),
        }
    }

    /// Records durably that a store is being created, and removes an earlier attempt.
    fn begin(&self) -> Result<()> {
        let draft = self.path.join(DRAFT_FILE);
        let begin = || -> io::Result<bool> {
            let is_draft = draft.try_exists()?;
            if self.path.join(KEPT).try_exists()? {
                return Ok(false);
            }
            for part in PARTS {
                let part = self.path.join(part);
                if !part.try_exists()? {
                    continue;
                }
                if !is_draft {
                    return Ok(false);
                }
                remove(&part)?;
            }
            self.write_draft()?;
            Ok(true)
        };
        match begin() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::corrupt(
                "the file FORMAT of the store is missing; restore it from a backup",
            )
            .fact("folder", self.path.display())),
            Err(cause) => Err(errors::on_folder(
                cause,
                "create the store",
                self.path.display(),
            )),
        }
    }

    fn write_draft(&self) -> io::Result<()> {
        write_format_line(&self.path, DRAFT_FILE)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(super) fn index(&self) -> PathBuf {
        index(&self.path)
    }

    /// The folders of processes that read beside the owner.
    pub(super) fn readers(&self) -> PathBuf {
        readers(&self.path)
    }

    /// The engine of format 1.
    pub(super) fn engine(&self) -> PathBuf {
        self.path.join("engine")
    }

    /// Marks a new or converted store as complete, durably.
    pub(super) fn finish(&self) -> Result<()> {
        let finish = || -> io::Result<()> {
            if self.format == Format::One {
                self.write_draft()?;
            }
            sync_folder(&self.path)?;
            fs::rename(self.path.join(DRAFT_FILE), self.path.join(FORMAT_FILE))?;
            sync_folder(&self.path)
        };
        finish().map_err(|cause| errors::on_folder(cause, "create the store", self.path.display()))
    }

    /// Writes the process id into the lock, now that the store is open.
    pub(super) fn note_owner(&mut self) {
        self.lock.is_noted = true;
        let file = &mut self.lock.file;
        let noted = file.rewind().and_then(|()| file.set_len(0));
        // A courtesy to those who find it locked.
        let _ = noted.and_then(|()| writeln!(file, "{}", std::process::id()));
    }
}

/// Marks a folder as a complete store, durably.
pub(super) fn write_format(path: &Path) -> io::Result<()> {
    write_format_line(path, FORMAT_FILE)
}

fn write_format_line(path: &Path, name: &str) -> io::Result<()> {
    let mut file = File::create(path.join(name))?;
    writeln!(file, "{FORMAT_NAME} {FORMAT}")?;
    file.sync_all()?;
    sync_folder(path)
}

/// Removes a part of a store that is no longer needed.
pub(super) fn remove_part(part: &Path) -> Result<()> {
    let removed = remove(part);
    removed.map_err(|cause| errors::on_folder(cause, "open the store", part.display()))
}

/// The folder of the index, in a store and in a copy of it.
pub(super) fn index(path: &Path) -> PathBuf {
    path.join("index")
}

pub(super) fn readers(path: &Path) -> PathBuf {
    path.join(READERS)
}

/// The log of a store that another process may have open.
///
/// # Errors
/// `Invalid` if there is no store, or not one of this format.
pub(super) fn log_beside(path: &Path) -> Result<PathBuf> {
    let format = match fs::read(path.join(FORMAT_FILE)) {
        Ok(text) => check_format(&String::from_utf8_lossy(&text), path)?,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Format::New,
        Err(cause) => return Err(errors::on_folder(cause, "open the store", path.display())),
    };
    let problem = match format {
        Format::Current => return Ok(path.join("log")),
        Format::New => "there is no store in this folder",
        Format::One => FORMAT_ONE,
    };
    Err(Error::invalid(problem).fact("folder", path.display()))
}

/// The process that has the store open, as far as that can be known without the lock: the one that
/// opened it last, if it runs. Trying the lock could refuse an owner that is just starting.
pub(super) fn owner(path: &Path) -> Option<u32> {
    let text = fs::read_to_string(path.join("LOCK")).ok()?;
    let process: u32 = text.trim().parse().ok()?;
    let pid = Pid::from_raw(i32::try_from(process).ok()?)?;
    match test_kill_process(pid) {
        // A process of another user.
        Ok(()) | Err(Errno::PERM) => Some(process),
        Err(_) => None,
    }
}

/// Removes a file or folder, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}

/// Creates the folder and its parents, durably.
pub(super) fn create(path: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(path)?;
    for folder in missing {
        let parent = folder
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        sync_folder(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Rejects a folder with other files that is not a store.
fn refuse_foreign_files(path: &Path) -> Result<()> {
    let failed = |cause| errors::on_folder(cause, "open the store", path.display());
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed(cause)),
    };
    let is_ours = |name: &std::ffi::OsStr| {
        let files = ["LOCK", FORMAT_FILE, DRAFT_FILE, KEPT];
        files.iter().chain(&PARTS).any(|ours| name == *ours)
    };
    let is_of_the_disk = |entry: &fs::DirEntry| {
        entry.file_name() == LOST_AND_FOUND && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let mut foreign = None;
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name == FORMAT_FILE {
            return Ok(());
        }
        if !is_ours(&name) && !is_of_the_disk(&entry) {
            foreign = Some(name);
        }
    }
    match foreign {
        None => Ok(()),
        Some(name) => Err(Error::invalid(
            "folder has other files and is not an annals store; check its name, or use an empty or new one",
        )
        .fact("folder", path.display())
        .fact("file", name.display())),
    }
}

fn lock(path: &Path) -> Result<Lock> {
    let failed = |cause| errors::on_folder(cause, "lock the store", path.display());
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    lock_file(options.open(path.join("LOCK")).map_err(failed)?, path)
}

fn lock_file(mut file: File, path: &Path) -> Result<Lock> {
    let failed = |cause| errors::on_folder(cause, "lock the store", path.display());
    let identity = identity(&file).map_err(failed)?;
    let mut locked = locked();
    match file.try_lock() {
        Ok(()) => locked.push(identity),
        Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        Err(TryLockError::WouldBlock) if locked.contains(&identity) => {
            return Err(errors::open_here().fact("folder", path.display()));
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The process id is a courtesy; failing to read it changes nothing.
            let _ = file.read_to_string(&mut holder);
            return Err(errors::already_open()
                .fact("process", holder.trim())
                .fact("folder", path.display()));
        }
    }
    Ok(Lock {
        file,
        identity,
        is_noted: false,
    })
}

fn check_format(text: &str, path: &Path) -> Result<Format> {
    let number = text.trim().strip_prefix(FORMAT_NAME);
    let number = number.and_then(|number| number.trim().parse::<u32>().ok());
    match number {
        Some(1) => Ok(Format::One),
        Some(FORMAT) => Ok(Format::Current),
        Some(newer @ 3..) => Err(Error::invalid(
            "the store was written by a newer version; update annals",
        )
        .fact("format", newer)
        .fact("newest known", FORMAT)
        .fact("folder", path.display())),
        Some(0) | None => Err(Error::corrupt(
            "the file FORMAT is damaged; restore it from a backup",
        )
        .fact("folder", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_may_be_the_root_of_a_disk() {
        let root = tempfile::tempdir().unwrap();
        let lost = root.path().join(LOST_AND_FOUND);
        fs::create_dir(&lost).unwrap();
        for format in [Format::New, Format::Current] {
            let folder = Folder::open(root.path()).unwrap();
            assert_eq!(folder.format(), format);
            if format == Format::New {
                folder.finish().unwrap();
            }
        }
        assert!(lost.is_dir());
    }

    #[test]
    fn a_folder_that_this_process_has_open_says_so_and_is_free_once_it_is_dropped() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let error = Folder::open(root.path()).unwrap_err();
        assert!(
            error
                .message()
                .starts_with("this process has the store open already; drop"),
            "{error}"
        );
        drop(folder);
        Folder::open(root.path()).unwrap();
    }

    #[test]
    fn other_files_are_foreign() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(LOST_AND_FOUND), "").unwrap();
        let error = Folder::open(root.path()).unwrap_err();
        assert_eq!(error.fact_value("file"), Some(LOST_AND_FOUND));
    }
}
