//! Errors of the engine and the file system, as [`Error`]s that say what to do.
//!
//! Guarantees: a full disk, too many open files, a broken disk and damaged bytes are distinguished,
//! wherever in the engine they occur.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io;
use std::path::Path;

use fjall::LsmError;

use crate::Error;

/// An error of the engine while the store opens.
pub(super) fn on_open(error: fjall::Error, folder: &Path) -> Error {
    let folder = folder.display();
    if let Some(cause) = io_of(&error) {
        return on_folder(copy_of(cause), "open the store", folder);
    }
    match error {
        fjall::Error::Locked => already_open().fact("folder", folder),
        fjall::Error::InvalidVersion(_) => {
            Error::invalid("the engine's files have an unknown format; update annals")
                .fact("folder", folder)
                .because(error)
        }
        other => Error::corrupt(
            "the engine cannot recover its files; keep a copy of the folder and restore a backup",
        )
        .fact("folder", folder)
        .because(readable(other)),
    }
}

/// The store is open in another process.
pub(super) fn already_open() -> Error {
    Error::unavailable(
        "another process has this store open; stop it, use another folder, or add --server URL if it is `annals serve`",
    )
}

/// The engine's error for people: it prints checksums of 39 digits.
fn readable(error: fjall::Error) -> Box<dyn StdError + Send + Sync> {
    match error {
        fjall::Error::Storage(LsmError::ChecksumMismatch { .. }) => {
            "a block does not match its checksum".into()
        }
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

/// An error of the engine during a read.
pub(super) fn on_read(error: fjall::Error) -> Error {
    match io_of(&error) {
        Some(cause) => {
            let what = temporary(cause).unwrap_or("the disk failed to read; check it");
            Error::unavailable(what).because(error)
        }
        None => Error::corrupt(
            "the engine's files do not read back; keep a copy of the folder and restore a backup",
        )
        .because(readable(error)),
    }
}

/// An error of the engine during a commit, which may have succeeded.
pub(super) fn on_commit(error: fjall::Error) -> Error {
    if matches!(error, fjall::Error::Poisoned) {
        return Error::unavailable(
            "the store takes no writes after one failed; check the disk and its free space, then restart",
        );
    }
    let advice = io_of(&error).and_then(temporary);
    let what = advice.unwrap_or("the disk failed to write; check it");
    let message = format!("{what}, then restart. the last writes may be lost");
    Error::unavailable(message).because(error)
}

/// A write was refused for lack of space; nothing was written.
pub(super) fn disk_full(folder: &impl Display) -> Error {
    Error::unavailable(
        "the disk is full; free space or lower embedded.reserve-mib. nothing was written",
    )
    .fact("folder", folder)
}

/// The operating system's error, however deep the engine has wrapped it.
fn io_of(error: &fjall::Error) -> Option<&io::Error> {
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
