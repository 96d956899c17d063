//! Takes a backup, also while an owner writes.
//!
//! ```text
//! 1  read the log up to its end, as a reader beside the owner does
//! 2  copy segments that the folder does not have; read each copy back
//! 3  replace MANIFEST                                                  the new backup is complete
//! 4  remove files that only the old one had
//! ```
//!
//! Files of the old backup are not touched before step 4: a copy gets a name with the checksum of its
//! bytes. A process that is killed leaves files that no manifest names; the next backup removes them.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::errors;
use super::super::folder;
use super::super::log::{self, Link, Recovered, Segment, check_copy};
use super::disk::{Disk, read};
use super::manifest::{Hex, MARKER, Manifest, NAME, Stored};
use crate::{Clock, Error, ErrorKind, Result, SystemClock};

/// The name of a copy that is not complete.
const COPYING: &str = "copying";
const NEW_MANIFEST: &str = "MANIFEST.new";
/// How often to begin, as the owner may just have replaced a segment.
const TRIES_MAX: usize = 3;

/// What [`backup`] did. See there for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The position of the last change in the backup; 0 if the store has none.
    pub position: u64,
    /// When that change was written: ms since the Unix epoch; `None` if there is none.
    pub time_ms: Option<u64>,
    /// Every point from this position on can be restored; 0 if nothing is erased. An earlier one can be
    /// restored if nothing was erased since that was there, except for snapshots:
    /// [`Annals::restore`](crate::Annals::restore) leaves these out.
    pub restorable_from: u64,
    /// Files that were copied.
    pub files_copied: u64,
    /// Files of the backup before that are as they were.
    pub files_reused: u64,
    /// Bytes that were copied.
    pub bytes_copied: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Backs up the store in `folder` into the folder `to`, also while this or another process has the
/// store open. The next backup into the same folder copies only what is new.
///
/// It holds every change that was acknowledged before the call. `verify` reads also the files again that
/// were copied earlier, and replaces damaged ones.
///
/// ```
/// use annals::embedded::{Embedded, RestorePoint, backup, restore};
/// use annals::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let (data, copy, restored) = (folder.path().join("data"), folder.path().join("copy"), folder.path().join("restored"));
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let items = Embedded::open(&data, &Default::default())?;
/// items.create_table(&table, Default::default()).await?;
/// items.put(&table, Item::new().with("id", "a"), Condition::Absent).await?;
/// let report = backup(&data, &copy, false)?;
/// assert_eq!((report.position, report.files_copied), (3, 1));
///
/// restore(&copy, &restored, RestorePoint::End)?;
/// let items = Embedded::open(&restored, &Default::default())?;
/// let found = items.get(&table, vec![Key::new("a")]).await?.items;
/// assert_eq!(found, [Some(Item::new().with("id", "a"))]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Invalid` if there is no store in `folder`, or `to` has other files or backups of another store or
/// history; `Unavailable` if another backup into `to` is in flight, or the disk is full; `Corrupt` if
/// the store or the list of files is damaged. The backup before stays complete.
pub fn backup(folder: &Path, to: &Path, verify: bool) -> Result<BackupReport> {
    backup_in_steps(folder, to, verify, &Disk { step: &|| () })
}

pub(super) fn backup_in_steps(
    folder: &Path,
    to: &Path,
    verify: bool,
    disk: &Disk<'_>,
) -> Result<BackupReport> {
    // Before the end of the log is read, so everything acknowledged by then is in the backup.
    let taken_ms = SystemClock::new().now_ms();
    let log = folder::log_beside(folder)?;
    let lock = prepare(folder, to, disk)?;
    let mut copier = Copier {
        to,
        disk,
        verify,
        copied: Vec::new(),
        bytes_copied: 0,
        time_ms: 0,
        report: BackupReport::default(),
    };
    let mut tries = 1;
    let report = loop {
        match take(&log, taken_ms, &mut copier) {
            Err(error) if error.kind() == ErrorKind::Corrupt && tries < TRIES_MAX => {}
            Ok(None) if tries < TRIES_MAX => {}
            Ok(None) => {
                break Err(Error::unavailable(
                    "the owner of the store erases values faster than they can be copied; try again",
                )
                .fact("folder", folder.display()));
            }
            Ok(Some(report)) => break Ok(report),
            Err(error) => break Err(error),
        }
        tries += 1;
    };
    let _ = lock.unlock();
    report
}

fn failed(to: &Path) -> impl Fn(io::Error) -> Error {
    move |cause| errors::on_folder(cause, "write the backup", to.display())
}

/// Creates the folder of the backup if it is missing, and locks it.
fn prepare(folder: &Path, to: &Path, disk: &Disk<'_>) -> Result<File> {
    let failed = failed(to);
    refuse_foreign_files(to)?;
    folder::create(to).map_err(&failed)?;
    let inner = to.canonicalize().map_err(&failed)?;
    let outer = folder.canonicalize().map_err(&failed)?;
    if inner.starts_with(&outer) {
        let _ = fs::remove_dir(to);
        return Err(Error::invalid(
            "the backup is inside the store's folder; use a folder elsewhere, best on another disk",
        )
        .fact("backup", to.display()));
    }
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let lock = options.open(to.join(MARKER)).map_err(&failed)?;
    (disk.step)();
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        Err(TryLockError::WouldBlock) => return Err(in_use(to)),
    }
    disk.sync_folder(to).map_err(failed)?;
    Ok(lock)
}

pub(super) fn in_use(to: &Path) -> Error {
    Error::unavailable("another process uses this backup; try again when it is done")
        .fact("backup", to.display())
}

fn refuse_foreign_files(to: &Path) -> Result<()> {
    let mut entries = match fs::read_dir(to) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed(to)(cause)),
    };
    let Some(first) = entries.next() else {
        return Ok(());
    };
    let first = first.map_err(failed(to))?.file_name();
    if [MARKER, NAME].iter().any(|name| to.join(name).exists()) {
        return Ok(());
    }
    Err(
        Error::invalid("the folder has other files and no backup; use an empty or new one")
            .fact("folder", to.display())
            .fact("file", first.display()),
    )
}

/// `None`: the copies lack values that are current at the end of this backup, because the owner erased
/// them meanwhile.
fn take(log: &Path, taken_ms: u64, copier: &mut Copier<'_>) -> Result<Option<BackupReport>> {
    let (to, disk) = (copier.to, copier.disk);
    let recovered = log::recover_beside(log)?;
    recovered.sync_end(log).map_err(failed(to))?;
    let segments = recovered.segments(log);
    let before = Manifest::read(to)?;
    if let Some(before) = &before {
        check_history(before, &recovered, &segments, to)?;
    }
    let known = before.map(|before| before.segments).unwrap_or_default();
    let position = segments
        .last()
        .map_or(0, |last| last.end.position.0.saturating_sub(1));
    copier.time_ms = 0;
    copier.report = BackupReport {
        position,
        ..BackupReport::default()
    };
    let mut stored = Vec::with_capacity(segments.len());
    for segment in &segments {
        let known = known.iter().find(|it| it.number == segment.number);
        stored.push(copier.segment(segment, known)?);
    }
    for copy in &stored {
        let erased = log::erased_in(&to.join(&copy.file), copy.number)?;
        if erased.is_some_and(|erased| erased >= recovered.end.position) {
            return Ok(None);
        }
        let erased = erased.map_or(0, |erased| erased.0);
        copier.report.restorable_from = copier.report.restorable_from.max(erased);
    }
    let (mut report, time_ms) = (copier.report, copier.time_ms);
    report.bytes_copied = copier.bytes_copied;
    report.time_ms = (report.position > 0).then_some(time_ms);
    let manifest = Manifest {
        mark: recovered.mark().into(),
        taken_ms,
        position: report.position,
        time_ms,
        segments: stored,
    };
    replace(&manifest, to, disk)?;
    Ok(Some(report))
}

/// Refuses a folder of another store, and one whose backup has events that this store does not have.
fn check_history(
    before: &Manifest,
    recovered: &Recovered,
    segments: &[Segment],
    to: &Path,
) -> Result<()> {
    if before.mark != recovered.mark().into() {
        return Err(
            Error::invalid("the folder has backups of another store; use another folder")
                .fact("backup", to.display()),
        );
    }
    let Some(last) = before.segments.last() else {
        return Ok(());
    };
    let segment = segments.iter().find(|it| it.number == last.number);
    let has_end = match segment {
        None => false,
        Some(segment) if segment.end == last.end() || segment.start == last.end() => true,
        Some(segment) => {
            let mut is_found = false;
            check_copy(&segment.path, segment.number, |frame, _| {
                is_found |= frame.after == last.end();
                Ok(())
            })?;
            is_found
        }
    };
    match has_end {
        true => Ok(()),
        false => Err(Error::invalid(
            "the backup in this folder has events that the store does not have, as after a restore to an earlier position; use another folder",
        )
        .fact("backup ends at", before.position)
        .fact("backup", to.display())),
    }
}

/// Copies segments.
struct Copier<'a> {
    to: &'a Path,
    disk: &'a Disk<'a>,
    verify: bool,
    /// What was copied, also by attempts that came to nothing: the next one need not copy it again.
    copied: Vec<Stored>,
    bytes_copied: u64,
    /// When the last group so far was written.
    time_ms: u64,
    report: BackupReport,
}

impl Copier<'_> {
    fn segment(&mut self, segment: &Segment, known: Option<&Stored>) -> Result<Stored> {
        let unreadable = |cause: io::Error| match cause.kind() {
            // Replaced since it was listed.
            io::ErrorKind::NotFound => Error::corrupt("a segment of the log is missing")
                .fact("file", segment.path.display()),
            _ => errors::on_folder(cause, "read the store", segment.path.display()),
        };
        let source = fs::metadata(&segment.path).map_err(unreadable)?;
        let bytes = segment.ends_at.unwrap_or(source.len());
        let modified_ns = (source.mtime() as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(source.mtime_nsec() as u64);
        let is_same = |it: &&Stored| {
            (it.number, it.bytes, it.modified_ns) == (segment.number, bytes, modified_ns)
                && (it.start(), it.end()) == (segment.start, segment.end)
        };
        let copied = self.copied.iter().find(is_same).cloned();
        let reused = known.filter(is_same).filter(|it| self.is_intact(it));
        let stored = match (copied, reused) {
            (None, Some(stored)) => {
                self.report.files_reused += 1;
                stored.clone()
            }
            (Some(stored), _) => {
                self.report.files_copied += 1;
                stored
            }
            (None, None) => {
                self.report.files_copied += 1;
                let stored = self.copy(segment, bytes, modified_ns)?;
                self.copied.push(stored.clone());
                self.bytes_copied += bytes;
                stored
            }
        };
        self.time_ms = stored.time_ms;
        self.report.bytes += stored.bytes;
        Ok(stored)
    }

    /// Whether a file of the backup before is still there; with `verify`, as it was.
    fn is_intact(&self, stored: &Stored) -> bool {
        let path = self.to.join(&stored.file);
        match self.verify {
            false => fs::metadata(path).is_ok_and(|found| found.len() == stored.bytes),
            true => read(&path, u64::MAX, |_| Ok(()))
                .is_ok_and(|read| read == (stored.bytes, stored.checksum.0)),
        }
    }

    fn copy(&mut self, segment: &Segment, bytes: u64, modified_ns: u64) -> Result<Stored> {
        let copying = self.to.join(COPYING);
        let copied = self.disk.copy(&segment.path, &copying, bytes);
        let (copied, checksum) = copied.map_err(failed(self.to))?;
        let mut time_ms = self.time_ms;
        let checked = check_copy(&copying, segment.number, |frame, _| {
            time_ms = frame.time_ms;
            Ok(())
        });
        let damaged = || {
            Error::corrupt(
                "a segment of the log is damaged, and was not backed up; the backup before is complete",
            )
            .fact("file", segment.path.display())
        };
        let checked = checked.map_err(|error| match error.kind() {
            ErrorKind::Corrupt => damaged().because(error),
            _ => error,
        })?;
        if copied != bytes || checked != (segment.start, segment.end) {
            return Err(damaged());
        }
        let ending = segment.path.extension().unwrap_or_default();
        let file = format!(
            "{:016}-{checksum:032x}.{}",
            segment.number,
            ending.display()
        );
        self.disk
            .rename(&copying, &self.to.join(&file))
            .map_err(failed(self.to))?;
        let number = |link: Link| (link.position.0, Hex::from(link.previous));
        let ((first, previous), (next, last)) = (number(segment.start), number(segment.end));
        Ok(Stored {
            number: segment.number,
            file,
            bytes,
            checksum: Hex(checksum),
            first,
            previous,
            next,
            last,
            time_ms,
            modified_ns,
        })
    }
}

/// Makes the new backup the current one, then removes the files that it does not use.
fn replace(manifest: &Manifest, to: &Path, disk: &Disk<'_>) -> Result<()> {
    let bytes = manifest.encode()?;
    let replace = || -> io::Result<()> {
        let new = to.join(NEW_MANIFEST);
        disk.write(&new, &bytes)?;
        // The names of the copies, before anything refers to them.
        disk.sync_folder(to)?;
        disk.rename(&new, &to.join(NAME))?;
        disk.sync_folder(to)?;
        for unused in unused(manifest, to)? {
            disk.remove(&unused)?;
        }
        Ok(())
    };
    replace().map_err(failed(to))
}

/// The files of earlier backups, also of incomplete ones. Others are left alone.
fn unused(manifest: &Manifest, to: &Path) -> io::Result<Vec<PathBuf>> {
    let mut unused = Vec::new();
    for entry in fs::read_dir(to)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_used = manifest.segments.iter().any(|it| it.file == name);
        if name == COPYING || (is_copy(name) && !is_used) {
            unused.push(to.join(name));
        }
    }
    Ok(unused)
}

/// Whether a file name is one of ours: a number, a checksum, an ending.
fn is_copy(name: &str) -> bool {
    let parts = name.split_once('-').and_then(|(number, rest)| {
        let (checksum, _) = rest.split_once('.')?;
        Some((number, checksum))
    });
    parts.is_some_and(|(number, checksum)| {
        (number.len(), checksum.len()) == (16, 32)
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && checksum.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
