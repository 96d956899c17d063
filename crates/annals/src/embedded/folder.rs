//! The store's folder: its lock and its format.
//!
//! Guarantees: one process at a time. A folder that is not ours, or that a newer version wrote, is
//! left alone. A creation that a crash interrupted is started over; nothing else is ever removed.
//!
//! ```text
//! LOCK        locked while the store is open; holds the process id
//! FORMAT.new  written first: a store is being created, nothing was acknowledged
//! FORMAT      FORMAT.new, renamed when the store is complete
//! REACHED     how often the store was closed: the least that the engine must know
//! engine/     the engine's files
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::errors;
use crate::{Error, Result};

/// The format this code writes, and the newest it reads.
const FORMAT: u32 = 1;
const FORMAT_NAME: &str = "annals embedded format";
const FORMAT_FILE: &str = "FORMAT";
const DRAFT_FILE: &str = "FORMAT.new";
const REACHED_FILE: &str = "REACHED";
const REACHED_DRAFT: &str = "REACHED.new";
const REACHED_NAME: &str = "closed";

/// A folder that only this process has open.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    is_new: bool,
    _lock: Lock,
}

/// The lock of a folder. Unlocked when dropped, or by the system when the process ends.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    /// Closing is not enough: a child process that another thread is just starting has the file open
    /// too, until it calls exec.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl Folder {
    /// Opens the folder, creating it if it is missing.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |cause| errors::on_folder(cause, "open the store", path.display());
        refuse_foreign_files(path)?;
        create(path).map_err(failed)?;
        let lock = lock(path)?;
        let is_new = match fs::read_to_string(path.join(FORMAT_FILE)) {
            Ok(text) => check_format(&text, path).map(|()| false)?,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => true,
            Err(cause) => return Err(failed(cause)),
        };
        let folder = Self {
            path: path.to_owned(),
            is_new,
            _lock: lock,
        };
        if is_new {
            folder.begin()?;
        }
        Ok(folder)
    }

    /// Records durably that a store is being created, and removes an earlier attempt.
    fn begin(&self) -> Result<()> {
        let failed = |cause| errors::on_folder(cause, "create the store", self.path.display());
        let draft = self.path.join(DRAFT_FILE);
        let has_engine = self.engine().try_exists().map_err(failed)?;
        if has_engine && !draft.try_exists().map_err(failed)? {
            return Err(Error::corrupt(
                "the file FORMAT of the store is missing; restore it from a backup",
            )
            .fact("folder", self.path.display()));
        }
        let begin = || -> io::Result<()> {
            if has_engine {
                fs::remove_dir_all(self.engine())?;
            }
            let mut file = File::create(&draft)?;
            writeln!(file, "{FORMAT_NAME} {FORMAT}")?;
            file.sync_all()?;
            sync_folder(&self.path)
        };
        begin().map_err(failed)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn engine(&self) -> PathBuf {
        self.path.join("engine")
    }

    /// Marks a new store as complete, durably.
    pub(super) fn finish(&self) -> Result<()> {
        if !self.is_new {
            return Ok(());
        }
        let finish = || -> io::Result<()> {
            // The engine syncs what is in its keyspaces, not that they are there.
            sync_folder(&self.engine().join("keyspaces"))?;
            fs::rename(self.path.join(DRAFT_FILE), self.path.join(FORMAT_FILE))?;
            sync_folder(&self.path)
        };
        finish().map_err(|cause| errors::on_folder(cause, "create the store", self.path.display()))
    }

    /// How often the store was closed, according to the file; 0 without one.
    pub(super) fn closes(&self) -> Result<u64> {
        let path = self.path.join(REACHED_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(0),
            // Not UTF-8: reported below.
            Err(cause) if cause.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(cause) => return Err(errors::on_folder(cause, "open the store", path.display())),
        };
        let number = text.trim().strip_prefix(REACHED_NAME);
        let number = number.and_then(|rest| rest.trim().split_once(' '));
        let number = number.and_then(|(number, check)| {
            let sum = format!("{:08x}", crc32fast::hash(number.as_bytes()));
            number.parse().ok().filter(|_| sum == check)
        });
        number.ok_or_else(|| {
            Error::corrupt("the file REACHED is damaged; verify the store, then remove the file")
                .fact("folder", self.path.display())
        })
    }

    /// Records durably how often the store was closed.
    pub(super) fn record_closes(&self, closes: u64) -> Result<()> {
        let draft = self.path.join(REACHED_DRAFT);
        let check = crc32fast::hash(closes.to_string().as_bytes());
        let write = || -> io::Result<()> {
            let mut file = File::create(&draft)?;
            writeln!(file, "{REACHED_NAME} {closes} {check:08x}")?;
            file.sync_all()?;
            fs::rename(&draft, self.path.join(REACHED_FILE))
        };
        write().map_err(|cause| errors::on_folder(cause, "close the store", self.path.display()))
    }
}

/// Creates the folder and its parents, durably.
fn create(path: &Path) -> io::Result<()> {
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

fn sync_folder(path: &Path) -> io::Result<()> {
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
    const OURS: [&str; 6] = [
        "LOCK",
        FORMAT_FILE,
        DRAFT_FILE,
        REACHED_FILE,
        REACHED_DRAFT,
        "engine",
    ];
    let mut foreign = None;
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if name == FORMAT_FILE {
            return Ok(());
        }
        if !OURS.iter().any(|ours| name == *ours) {
            foreign = Some(name);
        }
    }
    match foreign {
        None => Ok(()),
        Some(name) => Err(Error::invalid(
            "folder has other files and is not an annals store; use an empty or new one",
        )
        .fact("folder", path.display())
        .fact("file", name.display())),
    }
}

fn lock(path: &Path) -> Result<Lock> {
    let failed = |cause| errors::on_folder(cause, "lock the store", path.display());
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path.join("LOCK")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The process id is a courtesy; failing to read it changes nothing.
            let _ = file.read_to_string(&mut holder);
            return Err(errors::already_open()
                .fact("process", holder.trim())
                .fact("folder", path.display()));
        }
    }
    let mut lock = Lock(file);
    lock.0.set_len(0).map_err(failed)?;
    writeln!(lock.0, "{}", std::process::id()).map_err(failed)?;
    Ok(lock)
}

fn check_format(text: &str, path: &Path) -> Result<()> {
    let number = text.trim().strip_prefix(FORMAT_NAME);
    let number = number.and_then(|number| number.trim().parse::<u32>().ok());
    match number {
        Some(1..=FORMAT) => Ok(()),
        Some(newer) => Err(Error::invalid(
            "the store was written by a newer version; update annals",
        )
        .fact("format", newer)
        .fact("newest known", FORMAT)
        .fact("folder", path.display())),
        None => Err(
            Error::corrupt("the file FORMAT is damaged; restore it from a backup")
                .fact("folder", path.display()),
        ),
    }
}
