//! The store's folder: who has it open, and which format it is written in.
//!
//! Promises: one process at a time; a folder that is not ours or is newer than us is left alone;
//! a creation cut short by a crash is begun anew, and nothing else is ever removed.
//!
//! ```text
//! LOCK        held while the store is open; names the process
//! FORMAT.new  written before anything else: a store is being created, nothing was acknowledged
//! FORMAT      FORMAT.new, renamed when the store is complete
//! REACHED     how often the store was closed: what the engine must at least remember
//! engine/     the engine's files
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::fault;
use crate::{Error, Result};

/// The format this code writes, and the newest it reads.
const FORMAT: u32 = 1;
const FORMAT_NAME: &str = "annals embedded format";
const FORMAT_FILE: &str = "FORMAT";
const DRAFT_FILE: &str = "FORMAT.new";
const REACHED_FILE: &str = "REACHED";
const REACHED_DRAFT: &str = "REACHED.new";
const REACHED_NAME: &str = "closed";

/// A folder that this process alone has open.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    is_new: bool,
    /// Unlocked when dropped, or by the system when the process ends in whatever way.
    lock: File,
}

impl Drop for Folder {
    /// Closing would do, were it not for a child that another thread is just starting: until it
    /// has become another program, it has the file open too.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl Folder {
    /// Opens the folder, making it where there is none.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let broken = |cause| fault::on_folder(cause, "open the store", path.display());
        refuse_strangers(path)?;
        make(path).map_err(broken)?;
        let lock = lock(path)?;
        let is_new = match fs::read_to_string(path.join(FORMAT_FILE)) {
            Ok(text) => check_format(&text, path).map(|()| false)?,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => true,
            Err(cause) => return Err(broken(cause)),
        };
        let folder = Self {
            path: path.to_owned(),
            is_new,
            lock,
        };
        if is_new {
            folder.begin()?;
        }
        Ok(folder)
    }

    /// Notes durably that a store is being created, over what an earlier try left behind.
    fn begin(&self) -> Result<()> {
        let broken = |cause| fault::on_folder(cause, "create the store", self.path.display());
        let draft = self.path.join(DRAFT_FILE);
        let has_engine = self.engine().try_exists().map_err(broken)?;
        if has_engine && !draft.try_exists().map_err(broken)? {
            return Err(Error::corrupt(format!(
                "folder holds a store whose file FORMAT is missing; restore that file from a backup. folder=`{}`",
                self.path.display()
            )));
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
        begin().map_err(broken)
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
        finish().map_err(|cause| fault::on_folder(cause, "create the store", self.path.display()))
    }

    /// How often the store was closed at least; 0 where nobody noted it.
    pub(super) fn reached(&self) -> Result<u64> {
        let path = self.path.join(REACHED_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(0),
            // Not UTF-8: what is wrong with it is told below.
            Err(cause) if cause.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(cause) => return Err(fault::on_folder(cause, "open the store", path.display())),
        };
        let number = text.trim().strip_prefix(REACHED_NAME);
        let number = number.and_then(|rest| rest.trim().split_once(' '));
        let number = number.and_then(|(number, check)| {
            let sum = format!("{:08x}", crc32fast::hash(number.as_bytes()));
            number.parse().ok().filter(|_| sum == check)
        });
        number.ok_or_else(|| {
            Error::corrupt(format!(
                "file REACHED is damaged; see that the store is well, and remove it. folder=`{}`",
                self.path.display()
            ))
        })
    }

    /// Notes durably how often the store was closed.
    pub(super) fn reach(&self, closings: u64) -> Result<()> {
        let draft = self.path.join(REACHED_DRAFT);
        let check = crc32fast::hash(closings.to_string().as_bytes());
        let reach = || -> io::Result<()> {
            let mut file = File::create(&draft)?;
            writeln!(file, "{REACHED_NAME} {closings} {check:08x}")?;
            file.sync_all()?;
            fs::rename(&draft, self.path.join(REACHED_FILE))
        };
        reach().map_err(|cause| fault::on_folder(cause, "close the store", self.path.display()))
    }

    /// How many bytes the disk has left for us.
    pub(super) fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.path).map_err(|cause| {
            fault::on_folder(
                cause.into(),
                "ask how full the disk is",
                self.path.display(),
            )
        })?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// Makes the folder and those above it, durably.
fn make(path: &Path) -> io::Result<()> {
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

/// A folder with files in it, none of which says it is ours, is somebody else's.
fn refuse_strangers(path: &Path) -> Result<()> {
    let broken = |cause| fault::on_folder(cause, "open the store", path.display());
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(broken(cause)),
    };
    const OURS: [&str; 6] = [
        "LOCK",
        FORMAT_FILE,
        DRAFT_FILE,
        REACHED_FILE,
        REACHED_DRAFT,
        "engine",
    ];
    let mut stranger = None;
    for entry in entries {
        let name = entry.map_err(broken)?.file_name();
        if name == FORMAT_FILE {
            return Ok(());
        }
        if !OURS.iter().any(|ours| name == *ours) {
            stranger = Some(name);
        }
    }
    match stranger {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "folder holds other files and is not an annals store; name an empty or new one. folder=`{}`, file=`{}`",
            path.display(),
            name.display()
        ))),
    }
}

fn lock(path: &Path) -> Result<File> {
    let broken = |cause| fault::on_folder(cause, "lock the store", path.display());
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path.join("LOCK")).map_err(broken)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(cause)) => return Err(broken(cause)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Who holds it is told as a courtesy; not being able to read it changes nothing.
            let _ = file.read_to_string(&mut holder);
            return Err(Error::unavailable(format!(
                "another process has this store open; stop it or use another folder. process=`{}`, folder=`{}`",
                holder.trim(),
                path.display()
            )));
        }
    }
    file.set_len(0).map_err(broken)?;
    writeln!(file, "{}", std::process::id()).map_err(broken)?;
    Ok(file)
}

fn check_format(text: &str, path: &Path) -> Result<()> {
    let number = text.trim().strip_prefix(FORMAT_NAME);
    let number = number.and_then(|number| number.trim().parse::<u32>().ok());
    match number {
        Some(1..=FORMAT) => Ok(()),
        Some(newer) => Err(Error::invalid(format!(
            "store was written by a newer annals; update annals. format=`{newer}`, newest known=`{FORMAT}`, folder=`{}`",
            path.display()
        ))),
        None => Err(Error::corrupt(format!(
            "file FORMAT does not say which format the store has; restore it from a backup. folder=`{}`",
            path.display()
        ))),
    }
}
