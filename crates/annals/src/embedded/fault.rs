//! What goes wrong below: errors of the engine and of the disk, as errors of ours.
//!
//! Promises: each says what to do; a full disk and a lack of file handles are told from a broken
//! disk, and none of the three from damaged bytes, wherever in the engine they surface.

use std::error::Error as StdError;
use std::fmt::Display;
use std::io;
use std::path::Path;

use crate::Error;

/// An error of the engine while the store was being opened.
pub(super) fn on_open(error: fjall::Error, folder: &Path) -> Error {
    let folder = folder.display();
    if let Some(cause) = io_of(&error) {
        return on_folder(same(cause), "open the store", folder);
    }
    match error {
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
pub(super) fn on_folder(cause: io::Error, what: &str, folder: impl Display) -> Error {
    let error = passing(&cause).map_or_else(
        || {
            Error::invalid(format!(
                "cannot {what}; check that the folder exists and can be read and written. folder=`{folder}`"
            ))
        },
        |passing| Error::unavailable(format!("cannot {what}: {passing}. folder=`{folder}`")),
    );
    error.because(cause)
}

/// An error of the engine during a read.
pub(super) fn on_read(error: fjall::Error) -> Error {
    match io_of(&error) {
        Some(cause) => {
            let what = passing(cause).unwrap_or("the disk did not answer a read; check it");
            Error::unavailable(what).because(error)
        }
        None => Error::corrupt(
            "the engine's files do not read back; keep a copy of the folder and restore a backup",
        )
        .because(error),
    }
}

/// An error of the engine during a commit. Whether the commit landed is not known.
pub(super) fn on_commit(error: fjall::Error) -> Error {
    if matches!(error, fjall::Error::Poisoned) {
        return Error::unavailable(
            "the store takes no writes since one failed; see that the disk is well and has space, then restart",
        );
    }
    let passing = io_of(&error).and_then(passing);
    let what = passing.unwrap_or("the disk did not take a write; see that it is well");
    let message = format!("{what}. the last writes may be lost; then restart");
    Error::unavailable(message).because(error)
}

/// The refusal of a write while there is too little space; nothing was written.
pub(super) fn disk_full(folder: &impl Display) -> Error {
    Error::unavailable(format!(
        "the disk is full; free space or lower embedded.reserve-mib. nothing was written. folder=`{folder}`"
    ))
}

/// The error of the operating system at the bottom, however deep the engine has wrapped it.
fn io_of(error: &fjall::Error) -> Option<&io::Error> {
    let bottom: &(dyn StdError + 'static) = error;
    let mut chain = std::iter::successors(Some(bottom), |&error| error.source());
    chain.find_map(|error| error.downcast_ref())
}

/// What will pass once somebody has made room.
fn passing(cause: &io::Error) -> Option<&'static str> {
    /// Linux's numbers for "too many open files", of the process and of the system.
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

/// The same error of the operating system again.
fn same(cause: &io::Error) -> io::Error {
    match cause.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(cause.kind(), cause.to_string()),
    }
}
