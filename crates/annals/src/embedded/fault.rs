//! What goes wrong below: errors of the engine and of the disk, as errors of ours.
//!
//! Promises: each says what to do; a full disk is told from a broken one.

use std::io;
use std::path::Path;

use crate::Error;

/// An error of the engine while the store was being opened.
pub(super) fn on_open(error: fjall::Error, folder: &Path) -> Error {
    let folder = folder.display();
    match error {
        fjall::Error::Io(cause) => on_folder(cause, "open the store", folder),
        fjall::Error::Locked => Error::unavailable(format!(
            "another process has this store open; stop it or use another folder. folder=`{folder}`"
        )),
        fjall::Error::InvalidVersion(_) => Error::invalid(format!(
            "the engine's files have a format this annals does not know; update annals. folder=`{folder}`"
        ))
        .because(error),
        other => Error::corrupt(format!(
            "the engine cannot recover its files; keep a copy of the folder and restore a backup. folder=`{folder}`"
        ))
        .because(other),
    }
}

/// An error of the file system about the store's folder.
pub(super) fn on_folder(cause: io::Error, what: &str, folder: impl std::fmt::Display) -> Error {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => disk_full(&folder),
        _ => Error::invalid(format!(
            "cannot {what}; check that the folder exists and can be read and written. folder=`{folder}`"
        )),
    }
    .because(cause)
}

/// An error of the engine during a read.
pub(super) fn on_read(error: fjall::Error) -> Error {
    match error {
        fjall::Error::Io(cause) => {
            Error::unavailable("the disk did not answer a read; check it").because(cause)
        }
        other => Error::corrupt(
            "the engine's files do not read back; keep a copy of the folder and restore a backup",
        )
        .because(other),
    }
}

/// An error of the engine during a commit. Whether the commit landed is not known.
pub(super) fn on_commit(error: fjall::Error) -> Error {
    match error {
        fjall::Error::Io(cause) if cause.kind() == io::ErrorKind::StorageFull => {
            Error::unavailable(
                "the disk is full and the last writes may be lost; free space, then restart",
            )
            .because(cause)
        }
        fjall::Error::Poisoned => Error::unavailable(
            "the store takes no writes since one failed; see that the disk is well and has space, then restart",
        ),
        other => Error::unavailable(
            "the disk did not take a write, which may be lost; see that it is well, then restart",
        )
        .because(other),
    }
}

/// The refusal of a write while there is too little space; nothing was written.
pub(super) fn disk_full(folder: &impl std::fmt::Display) -> Error {
    Error::unavailable(format!(
        "the disk is full; free space or lower embedded.reserve-mib. nothing was written. folder=`{folder}`"
    ))
}
