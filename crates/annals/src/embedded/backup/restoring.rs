//! Puts a backup in place as a store, up to its end, a position or a time.
//!
//! Guarantees: every file of the backup is read and checked before anything is in place, and what is
//! put in place was opened as a store. Nothing is overwritten. A process that is killed leaves nothing
//! in place; the next restore into the same folder removes what it left beside it.
//!
//! A restore stops after a whole group: its changes were acknowledged together or depend on each other.
//! The store keeps its mark, and gets a new number for its history (`forks.rs`), because its original may
//! continue, too: then both give the same positions to different changes. A backup of it into a folder that
//! has other changes is refused (`take.rs`), by the chain of checksums.
//!
//! Erasures remove values from sealed segments. A backup that was taken after one cannot be restored to a
//! point before the change that superseded such a value, except for items that may be left out
//! (`left_out.rs`): the restored log ends with deletions of these.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::forks::{self, Fork};
use super::super::history::number_of;
use super::super::log::{self, Frame, LastSegment, Link, Position, Writer, check_copy};
use super::super::private_folder::{PrivateFolder, remove_dead};
use super::super::{Embedded, errors, folder};
use super::disk::{Disk, read};
use super::left_out::{self, LeftOut};
use super::manifest::{MARKER, Manifest, Stored};
use super::take::in_use;
use crate::items::{Key, Origin, TableName};
use crate::{Error, Random, Result};

const PREFIX: &str = ".annals-restore-";
/// Bytes of deletions in a frame.
const FRAME_BYTES: usize = 1024 * 1024;

/// Where a restore stops. See [`backup`](super::backup) for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestorePoint {
    /// At the end of the backup.
    #[default]
    End,
    /// After the last whole group of changes up to this position.
    Position(u64),
    /// The same, by a position of the feed: its generation, which must be that of the store or one that it
    /// continues, and its place.
    Fed {
        /// [`Position::generation`](crate::feed::Position::generation).
        generation: u32,
        /// [`LanePosition::place`](crate::feed::LanePosition::place).
        place: u64,
    },
    /// Before the first group that was written later than this: ms since the Unix epoch.
    Time(u64),
}

/// What [`restore`] did. See [`backup`](super::backup) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The position of the last change of the backup in the store; 0 if it has none.
    pub position: u64,
    /// When that change was written: ms since the Unix epoch; `None` if there is none.
    pub time_ms: Option<u64>,
    /// Snapshots that were deleted or replaced after this point, and that the store lacks. Only
    /// [`Annals::restore`](crate::Annals::restore) leaves any out.
    pub snapshots_left_out: u64,
    /// Files of the backup that were checked.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Restores the backup in `from` as a store in `folder`, which must be missing or empty. See
/// [`backup`](super::backup) for an example.
///
/// A point at which there were values that are erased from the backup since is refused, also if all of
/// them are snapshots: [`Annals::restore`](crate::Annals::restore) leaves these out.
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
    prepare(from, folder, (point, &[]), disk)?.put_in_place(disk)
}

/// A restored store beside its place.
pub(crate) struct Prepared {
    private: PrivateFolder,
    folder: PathBuf,
    left_out: Vec<LeftOut>,
    restored: Restored,
    lock: Option<File>,
}

impl Prepared {
    /// Restores a backup beside the folder, without items of these tables if they are erased.
    pub(crate) fn new(
        from: &Path,
        folder: &Path,
        point: RestorePoint,
        optional: &[TableName],
    ) -> Result<Self> {
        prepare(from, folder, (point, optional), &Disk { step: &|| () })
    }

    /// Opens the store for reading, where it is now.
    pub(crate) fn open(&self) -> Result<Embedded> {
        Embedded::open_read_only(&self.store(), &Default::default())
    }

    /// The items that it lacks.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (&TableName, &Key)> {
        self.left_out.iter().map(|it| (&it.table, &it.key))
    }

    /// Puts the store in place; so many snapshots were left out.
    pub(crate) fn finish(mut self, snapshots_left_out: u64) -> Result<Restored> {
        self.restored.snapshots_left_out = snapshots_left_out;
        self.put_in_place(&Disk { step: &|| () })
    }

    fn store(&self) -> PathBuf {
        self.private.path().join("store")
    }

    fn put_in_place(self, disk: &Disk<'_>) -> Result<Restored> {
        let folder = &self.folder;
        let failed = |cause| errors::on_folder(cause, "restore the store", folder.display());
        refuse_used(folder)?;
        disk.rename(&self.store(), folder).map_err(failed)?;
        disk.sync_folder(parent_of(folder)).map_err(failed)?;
        if let Some(lock) = self.lock {
            let _ = lock.unlock();
        }
        Ok(self.restored)
    }
}

fn prepare(
    from: &Path,
    folder: &Path,
    (point, optional): (RestorePoint, &[TableName]),
    disk: &Disk<'_>,
) -> Result<Prepared> {
    let lock = lock(from)?;
    let manifest = Manifest::read(from)?.ok_or_else(|| {
        Error::invalid("there is no complete backup in this folder").fact("folder", from.display())
    })?;
    refuse_used(folder)?;
    check_point(&manifest, point)?;
    let stop = check_all(&manifest, from, point)?;
    let left_out = match point {
        RestorePoint::End => Vec::new(),
        _ if is_whole(&manifest, from, stop)? => Vec::new(),
        _ => left_out::find(&manifest, from, (stop.end.position, optional))?,
    };
    let bytes = manifest.segments.iter().map(|it| it.bytes).sum();
    let restored = Restored {
        position: stop.end.position.0.saturating_sub(1),
        time_ms: (stop.end.position > Position::FIRST).then_some(stop.time_ms),
        snapshots_left_out: 0,
        files: manifest.segments.len() as u64,
        bytes,
    };
    let build = Build {
        manifest: &manifest,
        from,
        stop,
        left_out: &left_out,
    };
    Ok(Prepared {
        private: build.beside(folder, disk)?,
        folder: folder.to_owned(),
        left_out,
        restored,
        lock,
    })
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
        RestorePoint::Position(position)
        | RestorePoint::Fed {
            place: position, ..
        } if position > manifest.position => Some("the backup ends before this position"),
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
    let mut forks = Vec::new();
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
        let checked = check_copy(&path, number, |frame, changes| {
            is_past |= match point {
                RestorePoint::End => false,
                RestorePoint::Position(last) | RestorePoint::Fed { place: last, .. } => {
                    frame.after.position.0 > last.saturating_add(1)
                }
                RestorePoint::Time(last_ms) => frame.time_ms > last_ms,
            };
            if !is_past {
                stop = Some(Stop {
                    segment: number,
                    end: frame.after,
                    time_ms: frame.time_ms,
                });
            }
            for change in changes {
                forks.extend(Fork::read(change.key, change.value)?);
            }
            Ok(())
        })?;
        if checked != (stored.start(), stored.end())
            || log::mark_of(&path, number)? as u128 != manifest.mark.0
        {
            return Err(damaged());
        }
        before = Some(stored.end());
    }
    check_generation(manifest, point, &forks)?;
    let stop = stop.ok_or_else(|| damaged("the backup has no files", from))?;
    if stop.end.position == Position::FIRST && point != RestorePoint::End {
        return Err(Error::invalid(
            "the backup has nothing before this point; name a later one",
        ));
    }
    Ok(stop)
}

/// Refuses a position of the feed if the backup has other changes before it.
fn check_generation(manifest: &Manifest, point: RestorePoint, forks: &[Fork]) -> Result<()> {
    let RestorePoint::Fed { generation, place } = point else {
        return Ok(());
    };
    let (origins, own) = forks::lineage(number_of(manifest.mark.0 as u64), forks);
    let is_shared = |it: &Origin| it.number == generation && place <= it.last;
    match generation == own || origins.iter().any(is_shared) {
        true => Ok(()),
        false => Err(Error::invalid(
            "the position is of another store's feed, or of events that were lost in a restore; use a backup that has them",
        )
        .fact("generation", generation)
        .fact("of the backup", own)),
    }
}

/// Whether nothing that was there at this point is erased from the backup, as far as the headers of the
/// segments say it.
fn is_whole(manifest: &Manifest, from: &Path, stop: Stop) -> Result<bool> {
    let mut segments = manifest.segments.iter();
    segments.try_fold(true, |is_whole, stored| {
        if stored.number > stop.segment {
            return Ok(is_whole);
        }
        let erased = log::erased_in(&from.join(&stored.file), stored.number)?;
        Ok(is_whole && erased.is_none_or(|erased| erased < stop.end.position))
    })
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

fn parent_of(folder: &Path) -> &Path {
    let parent = folder.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A store that is built from a backup.
struct Build<'a> {
    manifest: &'a Manifest,
    from: &'a Path,
    stop: Stop,
    left_out: &'a [LeftOut],
}

impl Build<'_> {
    /// Builds the store beside its place, and opens it once.
    fn beside(&self, folder: &Path, disk: &Disk<'_>) -> Result<PrivateFolder> {
        let failed = |cause| errors::on_folder(cause, "restore the store", folder.display());
        let parent = parent_of(folder);
        folder::create(parent).map_err(failed)?;
        remove_dead(parent, PREFIX);
        let private = PrivateFolder::create(parent, PREFIX).map_err(failed)?;
        let store = private.path().join("store");
        let log = store.join("log");
        fs::create_dir_all(&log).map_err(failed)?;
        (disk.step)();
        for stored in &self.manifest.segments {
            if stored.number == self.stop.segment {
                let end = self.write_last(stored, &log)?;
                (disk.step)();
                log::finish_copy(&log, end)?;
                break;
            }
            self.copy(stored, &log, disk)?;
        }
        self.finish(&log)?;
        folder::write_format(&store).map_err(failed)?;
        (disk.step)();
        // Makes the index, and shows that the store opens.
        drop(Embedded::open(&store, &Default::default())?);
        (disk.step)();
        Ok(private)
    }

    /// The last position of the restored log: that of the fork.
    fn last(&self) -> Position {
        self.stop.end.position.plus(self.left_out.len() as u64)
    }

    fn write_last(&self, stored: &Stored, log: &Path) -> Result<log::CopyEnd> {
        let last = LastSegment {
            from: &self.from.join(&stored.file),
            number: stored.number,
            end: self.stop.end,
            erased_by: self.last(),
        };
        log::write_last(&last, log)
    }

    fn copy(&self, stored: &Stored, log: &Path, disk: &Disk<'_>) -> Result<()> {
        let failed = |cause| errors::on_folder(cause, "restore the store", log.display());
        let path = self.from.join(&stored.file);
        let erased = log::erased_in(&path, stored.number)?;
        if erased.is_some_and(|erased| erased > self.last()) {
            // Its header names a position that this log does not have.
            let source = (&*path, stored.number);
            log::copy_to(log, source, (stored.end(), self.last()))?;
            return Ok(());
        }
        let name = log::segment_name(stored.number);
        let copied = disk.copy(&path, &log.join(&name), u64::MAX);
        if copied.map_err(failed)? != (stored.bytes, stored.checksum.0) {
            return Err(
                damaged("a file of the backup was changed meanwhile", self.from)
                    .fact("file", &stored.file),
            );
        }
        // The next backup into the same folder finds it unchanged.
        set_modified(&log.join(name), stored.modified_ns).map_err(failed)
    }

    /// Ends the log with deletions of what is left out, so that what is erased was superseded, and with the
    /// record that a new history begins.
    fn finish(&self, log: &Path) -> Result<()> {
        let failed = |cause| errors::on_folder(cause, "restore the store", log.display());
        let mut writer = Writer::open(log, &log::recover(log)?)?;
        let mut frame = Frame::at(self.stop.end.position);
        let time_ms = self.stop.time_ms;
        for left_out in self.left_out {
            let (key, superseded) = left_out.deletion();
            frame.push(key, None, Some(superseded));
            if frame.len() >= FRAME_BYTES {
                writer.append_at(&mut frame, time_ms).map_err(failed)?;
                frame = Frame::at(frame.end());
            }
        }
        let fork = Fork {
            after: self.stop.end.position.0.saturating_sub(1),
            number: Random::from_machine().bits() as u32,
        };
        let (key, value) = fork.record();
        frame.push(&key, Some(&value), None);
        writer.append_at(&mut frame, time_ms).map_err(failed)?;
        writer.close().map_err(failed)
    }
}
