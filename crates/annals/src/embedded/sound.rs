//! Whether the engine's files are sound, as far as the engine itself does not look: it trusts the
//! file that names its tables, and where that is damaged it ends the process; and it takes damage in
//! its journal for the torn end of a last write, and goes on without what lies behind.
//!
//! For the first, the checksum that the engine keeps beside that file is compared before it opens.
//! For the second, a store that is closed notes a number of its own as the last thing in the engine,
//! and the same number in a file. An engine that has a smaller one has lost its end.
//!
//! Promises: a store that was closed and is opened again has everything that it had, or is told as
//! `Corrupt`. What is lost behind a last write that no closing followed is not found.
//! Never: changes a file of the engine.

use std::fs;
use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::fault;
use crate::{Error, Result};

/// Which file names a keyspace's tables: its number, its checksum, and of what kind that is.
const CURRENT: &str = "current";
/// The kind that is known here.
const XXH3: u8 = 0;

/// Compares the files that name tables with their checksums.
pub(super) fn check(engine: &Path) -> Result<()> {
    let broken = |cause| fault::on_folder(cause, "open the store", engine.display());
    let keyspaces = match fs::read_dir(engine.join("keyspaces")) {
        Ok(keyspaces) => keyspaces,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(broken(cause)),
    };
    for keyspace in keyspaces {
        let keyspace = keyspace.map_err(broken)?.path();
        let current = match fs::read(keyspace.join(CURRENT)) {
            Ok(current) => current,
            // One that was about to be made.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(broken(cause)),
        };
        if !is_sound(&keyspace, &current).map_err(broken)? {
            return Err(damaged(&keyspace));
        }
    }
    Ok(())
}

fn is_sound(keyspace: &Path, current: &[u8]) -> io::Result<bool> {
    let Some((number, rest)) = current.split_first_chunk() else {
        return Ok(false);
    };
    let Some((checksum, [kind])) = rest.split_first_chunk() else {
        return Ok(false);
    };
    if *kind != XXH3 {
        return Ok(false);
    }
    let named = keyspace.join(format!("v{}", u64::from_le_bytes(*number)));
    match fs::read(named) {
        Ok(bytes) => Ok(xxh3_128(&bytes) == u128::from_le_bytes(*checksum)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}

fn damaged(place: &Path) -> Error {
    Error::corrupt(format!(
        "the engine's files are damaged; keep a copy of the folder and restore a backup. folder=`{}`",
        place.display()
    ))
}

/// Compares how often the store was closed, as the engine has it and as it was noted.
pub(super) fn check_end(found: u64, noted: u64, folder: &Path) -> Result<()> {
    if found >= noted {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "the engine has lost the end of its journal, and with it the last writes; restore a backup, or remove the file REACHED to go on without them. folder=`{}`",
        folder.display()
    )))
}
