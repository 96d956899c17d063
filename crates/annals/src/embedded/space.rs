//! The free space of the disk, which puts must leave a part of.

use std::path::{Path, PathBuf};

use super::{errors, log};
use crate::Result;

/// For how many changes, and for how many bytes of them, a look at the disk counts.
const CHANGES_MAX: u32 = 64;
const BYTES_MAX: u64 = 1024 * 1024;

/// Checks that the disk has room, without asking the system each time.
#[derive(Debug)]
pub(super) struct Space {
    folder: PathBuf,
    reserve_bytes: u64,
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    free_bytes: u64,
    /// Changes since then, and their bytes.
    changes: u32,
    used_bytes: u64,
}

impl Space {
    pub(super) fn new(folder: PathBuf, reserve_bytes: u64) -> Self {
        Self {
            folder,
            reserve_bytes,
            seen: None,
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes room for a change.
    ///
    /// # Errors
    /// `Unavailable` if less than the reserve would remain.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        let has_room = |seen: &Seen, reserve: u64| {
            seen.free_bytes
                >= reserve
                    .saturating_add(seen.used_bytes)
                    .saturating_add(bytes)
        };
        let reserve = self.reserve_bytes;
        let recent = self.seen.take().filter(|seen| {
            seen.used_bytes < BYTES_MAX && seen.changes < CHANGES_MAX && has_room(seen, reserve)
        });
        let mut seen = match recent {
            Some(seen) => seen,
            None => self.look()?,
        };
        let has_room = has_room(&seen, reserve);
        seen.changes += 1;
        seen.used_bytes += bytes;
        if has_room {
            self.seen = Some(seen);
            return Ok(());
        }
        Err(errors::disk_full(&self.folder.display()))
    }

    fn look(&self) -> Result<Seen> {
        let path = &self.folder;
        let free_bytes = log::free_bytes(path).map_err(|cause| {
            let what = "read the free space of the disk";
            errors::on_folder(cause, what, path.display())
        })?;
        Ok(Seen {
            changes: 0,
            free_bytes,
            used_bytes: 0,
        })
    }
}
