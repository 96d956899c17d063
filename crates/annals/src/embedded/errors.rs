//! Errors of the index and the file system, as [`Error`]s that say what to do.
//!
//! Guarantees: a full disk, too many open files, a broken disk and damaged bytes are distinguished,
//! wherever in the engine they occur.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io;
use std::path::Path;

use lsm_tree::Error as TreeError;

use crate::Error;

/// An error of the index's tree while it opens. If its files are damaged, it is made again.
pub(super) fn on_open(error: TreeError, folder: &Path) -> Error {
    let folder = folder.display();
    if let Some(cause) = io_of(&error)
        && !is_cut_short(cause)
    {
        return on_folder(copy_of(cause), "open the store", folder);
    }
    match error {
        TreeError::InvalidVersion(_) => {
            Error::invalid("the engine's files have an unknown format; update annals")
                .fact("folder", folder)
                .because(error)
        }
        other => Error::corrupt("the engine's files are damaged")
            .fact("folder", folder)
            .because(readable(other)),
    }
}

/// A file of the tree ends too early.
fn is_cut_short(cause: &io::Error) -> bool {
    [io::ErrorKind::UnexpectedEof, io::ErrorKind::NotFound].contains(&cause.kind())
}

/// The index holds changes that are not those of the log.
pub(super) fn foreign_index(folder: &Path) -> Error {
    Error::corrupt(
        "the index belongs to another store, or to another history of this one; close the store and remove its folder `index`, which is then made again",
    )
    .fact("folder", folder.display())
}

/// The store is open in another process.
pub(super) fn already_open() -> Error {
    Error::unavailable("another process has this store open; stop it, or use another folder")
}

/// The store is open in this process.
pub(super) fn open_here() -> Error {
    Error::unavailable(
        "this process has the store open already; drop the other `Annals` and its regions first, or use them",
    )
}

/// The engine's error for people: it prints checksums of 39 digits.
fn readable(error: TreeError) -> Box<dyn StdError + Send + Sync> {
    match error {
        TreeError::ChecksumMismatch { .. } => "a block does not match its checksum".into(),
        other => other.into(),
    }
}

/// An error of the file system in the store's folder.
pub(super) fn on_folder(cause: io::Error, what: &str, folder: impl Display) -> Error {
    let error = match temporary(&cause) {
        Some(advice) => Error::unavailable(format!("cannot {what}: {advice}")),
        None => Error::invalid(format!(
            "cannot {what}; check that the folder exists and can be read and written"
        )),
    };
    error.fact("folder", folder).because(cause)
}

/// An error of the index during a read.
pub(super) fn on_read(error: TreeError) -> Error {
    match io_of(&error) {
        Some(cause) if !is_cut_short(cause) => {
            let what = temporary(cause).unwrap_or("the disk failed to read; check it");
            Error::unavailable(what).because(error)
        }
        _ => Error::corrupt(
            "a file of the index is damaged; the log has everything. close the store and remove its folder `index`, which is then made again",
        )
        .because(readable(error)),
    }
}

/// An error of the index while it writes or merges files. The log has everything.
pub(super) fn on_upkeep(error: TreeError) -> Error {
    let advice = io_of(&error).and_then(temporary);
    let what = advice.unwrap_or("the disk failed to write the index; check it");
    Error::unavailable(what).because(readable(error))
}

/// A write to the log failed; it may have succeeded.
pub(super) fn on_commit(cause: &io::Error) -> Error {
    let what = temporary(cause).unwrap_or("the disk failed to write; check it");
    Error::unavailable(format!("{what}, then restart. the last writes may be lost"))
}

/// A segment of the log could not be begun early. Nothing is lost.
pub(super) fn on_seal(cause: io::Error) -> Error {
    let what = temporary(&cause).unwrap_or("the disk failed to write; check it");
    Error::unavailable(format!("cannot begin a segment of the log: {what}")).because(cause)
}

/// A write to the log failed before.
pub(super) fn after_failure() -> Error {
    Error::unavailable(
        "the store takes no writes after one failed; check the disk and its free space, then restart",
    )
}

/// A write was refused for lack of space; nothing was written.
pub(super) fn disk_full(folder: &impl Display) -> Error {
    Error::unavailable(
        "the disk is full; free space or lower embedded.reserve-mib. nothing was written",
    )
    .fact("folder", folder)
}

/// The log has no room for a change, and no segment could be prepared; nothing was written.
pub(super) fn no_room(cause: io::Error, folder: &Path) -> Error {
    if cause.kind() == io::ErrorKind::StorageFull {
        return disk_full(&folder.display()).because(cause);
    }
    let what = temporary(&cause).unwrap_or("the disk failed to write; check it");
    let error = Error::unavailable(format!("{what}. nothing was written"));
    error.fact("folder", folder.display()).because(cause)
}

/// The operating system's error, however deep the engine has wrapped it.
fn io_of(error: &TreeError) -> Option<&io::Error> {
    let bottom: &(dyn StdError + 'static) = error;
    let mut chain = std::iter::successors(Some(bottom), |&error| error.source());
    chain.find_map(|error| error.downcast_ref())
}

/// The advice for a temporary failure.
fn temporary(cause: &io::Error) -> Option<&'static str> {
    /// EMFILE and ENFILE.
    const TOO_MANY_FILES: [i32; 2] = [24, 23];
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("the disk is full; free space")
        }
        _ if cause
            .raw_os_error()
            .is_some_and(|number| TOO_MANY_FILES.contains(&number)) =>
        {
            Some("too many files are open; raise the limit (ulimit -n)")
        }
        _ => None,
    }
}

/// A copy of an error of the operating system.
fn copy_of(cause: &io::Error) -> io::Error {
    match cause.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(cause.kind(), cause.to_string()),
    }
}
