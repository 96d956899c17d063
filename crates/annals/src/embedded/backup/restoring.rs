//! Puts a backup in place as a store, up to its end, a position or a time.
//!
//! Guarantees: every file of the backup is read and checked before anything is in place, and what is
//! put in place was opened as a store. Nothing is overwritten. A process that is killed leaves nothing
//! in place; the next restore into the same folder removes what it left beside it.
//!
//! A restore stops after a whole group: its changes were acknowledged together or depend on each other.
//! The store keeps its mark. Its history is told by the chain of checksums: a backup of it into a folder
//! that has later events is refused (`take.rs`).
//!
//! Erasures remove values from sealed segments. A backup that was taken after one cannot be restored to a
//! point before the change that superseded such a value (`check_whole`).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::super::log::{self, Link, Position, check_copy};
use super::super::private_folder::{PrivateFolder, remove_dead};
use super::super::{Embedded, errors, folder};
use super::disk::{Disk, read};
use super::manifest::{MARKER, Manifest, Stored};
use super::take::in_use;
use crate::{Error, Result};

const PREFIX: &str = ".annals-restore-";

/// Where a restore stops. See [`backup`](super::backup) for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestorePoint {
    /// At the end of the backup.
    #[default]
    End,
    /// After the last whole group of changes up to this position.
    Position(u64),
    /// Before the first group that was written later than this: ms since the Unix epoch.
    Time(u64),
}

/// What [`restore`] did. See [`backup`](super::backup) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The position of the last change in the store; 0 if it has none.
    pub position: u64,
    /// When that change was written: ms since the Unix epoch; `None` if there is none.
    pub time_ms: Option<u64>,
    /// Files of the backup that were checked.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Restores the backup in `from` as a store in `folder`, which must be missing or empty. See
/// [`backup`](super::backup) for an example.
///
/// # Errors
/// `Corrupt` if any file of the backup is damaged or missing; `Invalid` if there is no backup, the point
/// is outside it, or `folder` is not empty; `Unavailable` if a backup is being written, or the disk is
/// full. Nothing is in place then.
pub fn restore(from: &Path, folder: &Path, point: RestorePoint) -> Result<Restored> {
    restore_in_steps(from, folder, point, &Disk { step: &|| () })
}

pub(super) fn restore_in_steps(
    from: &Path,
    folder: &Path,
    point: RestorePoint,
    disk: &Disk<'_>,
) -> Result<Restored> {
    let lock = lock(from)?;
    let manifest = Manifest::read(from)?.ok_or_else(|| {
        Error::invalid("there is no complete backup in this folder").fact("folder", from.display())
    })?;
    refuse_used(folder)?;
    check_point(&manifest, point)?;
    let stop = check_all(&manifest, from, point)?;
    let bytes = manifest.segments.iter().map(|it| it.bytes).sum();
    let restored = Restored {
        position: stop.end.position.0.saturating_sub(1),
        time_ms: (stop.end.position > Position::FIRST).then_some(stop.time_ms),
        files: manifest.segments.len() as u64,
        bytes,
    };
    build(&manifest, (from, folder), stop, disk)?;
    if let Some(lock) = lock {
        let _ = lock.unlock();
    }
    Ok(restored)
}

/// Keeps backups from replacing the files; `None` on a disk that cannot be locked.
fn lock(from: &Path) -> Result<Option<File>> {
    let Ok(file) = File::open(from.join(MARKER)) else {
        return Ok(None);
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(in_use(from)),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Refuses a folder with files.
fn refuse_used(folder: &Path) -> Result<()> {
    let is_used = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => false,
        Err(cause) => {
            return Err(errors::on_folder(
                cause,
                "restore the store",
                folder.display(),
            ));
        }
    };
    match is_used {
        false => Ok(()),
        true => Err(Error::invalid(
            "the folder to restore into is not empty; move it away, or name another. nothing was changed",
        )
        .fact("folder", folder.display())),
    }
}

/// Refuses a point that the backup does not have.
fn check_point(manifest: &Manifest, point: RestorePoint) -> Result<()> {
    let refused = match point {
        RestorePoint::Position(position) if position > manifest.position => {
            Some("the backup ends before this position")
        }
        RestorePoint::Time(time_ms) if time_ms > manifest.taken_ms => {
            Some("the backup was taken before this time")
        }
        _ => None,
    };
    match refused {
        None => Ok(()),
        Some(message) => Err(Error::invalid(message)
            .fact("last position", manifest.position)
            .fact("taken at", manifest.taken_ms)),
    }
}

/// The end of the store to be.
#[derive(Clone, Copy, Debug)]
struct Stop {
    /// The segment in which it ends.
    segment: u64,
    end: Link,
    time_ms: u64,
}

/// Reads every file of the backup, and finds where to stop.
fn check_all(manifest: &Manifest, from: &Path, point: RestorePoint) -> Result<Stop> {
    let mut stop: Option<Stop> = None;
    let mut is_past = false;
    let mut before = None;
    for (stored, number) in manifest.segments.iter().zip(0..) {
        let path = from.join(&stored.file);
        let damaged =
            || damaged("a file of the backup is damaged", from).fact("file", &stored.file);
        if stored.number != number || before.is_some_and(|before| before != stored.start()) {
            return Err(damaged());
        }
        check_file(stored, &path)?;
        // A store may end where a segment begins. The segment before it may be compressed, and have
        // erased values: it is copied as it is.
        if !is_past {
            stop = Some(Stop {
                segment: number,
                end: stored.start(),
                time_ms: stop.map_or(0, |stop| stop.time_ms),
            });
        }
        let checked = check_copy(&path, number, |frame| {
            is_past |= match point {
                RestorePoint::End => false,
                RestorePoint::Position(last) => frame.after.position.0 > last.saturating_add(1),
                RestorePoint::Time(last_ms) => frame.time_ms > last_ms,
            };
            if !is_past {
                stop = Some(Stop {
                    segment: number,
                    end: frame.after,
                    time_ms: frame.time_ms,
                });
            }
        })?;
        if checked != (stored.start(), stored.end())
            || log::mark_of(&path, number)? as u128 != manifest.mark.0
        {
            return Err(damaged());
        }
        before = Some(stored.end());
    }
    let stop = stop.ok_or_else(|| damaged("the backup has no files", from))?;
    if stop.end.position == Position::FIRST && point != RestorePoint::End {
        return Err(Error::invalid(
            "the backup has nothing before this point; name a later one",
        ));
    }
    match point {
        RestorePoint::End => Ok(stop),
        _ => check_whole(manifest, from, stop),
    }
}

/// Refuses a point at which values were there that are erased from the backup since.
fn check_whole(manifest: &Manifest, from: &Path, stop: Stop) -> Result<Stop> {
    for stored in &manifest.segments {
        if stored.number > stop.segment {
            break;
        }
        let erased = log::erased_in(&from.join(&stored.file), stored.number)?;
        if let Some(erased) = erased.filter(|erased| *erased >= stop.end.position) {
            return Err(Error::invalid(
                "values of this point were deleted or overwritten later, and are erased from the backup; name a later one, or use an older backup",
            )
            .fact("earliest position", erased));
        }
    }
    Ok(stop)
}

fn damaged(what: &str, from: &Path) -> Error {
    Error::corrupt(format!(
        "{what}; use another backup. nothing was put in place"
    ))
    .fact("backup", from.display())
}

/// Compares a file with its checksum.
fn check_file(stored: &Stored, path: &Path) -> Result<()> {
    let found = match read(path, u64::MAX, |_| Ok(())) {
        Ok(found) => Some(found),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
        Err(cause) => return Err(errors::on_folder(cause, "read the backup", path.display())),
    };
    match found == Some((stored.bytes, stored.checksum.0)) {
        true => Ok(()),
        false => {
            Err(damaged("a file of the backup is damaged or missing", path)
                .fact("file", &stored.file))
        }
    }
}

fn set_modified(path: &Path, modified_ns: u64) -> io::Result<()> {
    let time = std::time::UNIX_EPOCH + Duration::from_nanos(modified_ns);
    File::options().write(true).open(path)?.set_modified(time)
}

/// Builds the store beside its place, opens it once, and puts it in place.
fn build(
    manifest: &Manifest,
    (from, folder): (&Path, &Path),
    stop: Stop,
    disk: &Disk<'_>,
) -> Result<()> {
    let failed = |cause| errors::on_folder(cause, "restore the store", folder.display());
    let parent = folder
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    folder::create(parent).map_err(failed)?;
    remove_dead(parent, PREFIX);
    let private = PrivateFolder::create(parent, PREFIX).map_err(failed)?;
    let store = private.path().join("store");
    let log = store.join("log");
    fs::create_dir_all(&log).map_err(failed)?;
    (disk.step)();
    for stored in &manifest.segments {
        let path = from.join(&stored.file);
        if stored.number == stop.segment {
            let end = log::write_last(&path, stored.number, stop.end, &log)?;
            (disk.step)();
            log::finish_copy(&log, end)?;
            break;
        }
        let name = log::segment_name(stored.number);
        let copied = disk.copy(&path, &log.join(&name), u64::MAX);
        if copied.map_err(failed)? != (stored.bytes, stored.checksum.0) {
            return Err(damaged("a file of the backup was changed meanwhile", from)
                .fact("file", &stored.file));
        }
        // The next backup into the same folder finds it unchanged.
        set_modified(&log.join(name), stored.modified_ns).map_err(failed)?;
    }
    folder::write_format(&store).map_err(failed)?;
    (disk.step)();
    // Makes the index, and shows that the store opens.
    drop(Embedded::open(&store, &Default::default())?);
    (disk.step)();
    disk.rename(&store, folder).map_err(failed)?;
    disk.sync_folder(parent).map_err(failed)
}
