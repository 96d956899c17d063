//! Integrity checks that the engine does not make itself.
//!
//! - The engine trusts the file that names its tables, and aborts the process if it is damaged. Its
//!   checksum is compared before the engine opens.
//! - The engine takes damage in its journal for the torn tail of the last write, and drops the rest.
//!   A store that is closed writes a counter as the last entry of the engine, and the same counter
//!   into a file. If the engine has a smaller one, the end of its journal is lost.
//!
//! Guarantees: a store that was closed has everything when it is opened again, or the error is
//! `Corrupt`. Writes that were lost after the last close are not noticed. No file of the engine is
//! changed.

use std::fs;
use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::errors;
use crate::{Error, Result};

/// The file that names a keyspace's current version file, with its checksum and the checksum kind.
const CURRENT: &str = "current";
/// The checksum kind of lsm-tree 3.1: XXH3, 128 bits.
const XXH3: u8 = 0;

/// How the file `current` fits the version file that it names.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Intact,
    Damaged,
    /// The checksum is of a kind that this version does not know.
    UnknownChecksum(u8),
}

/// Compares the files that name tables with their checksums.
///
/// # Errors
/// `Corrupt` if one is damaged; `Invalid` if a newer engine wrote it.
pub(super) fn check(engine: &Path) -> Result<()> {
    let failed = |cause| errors::on_folder(cause, "open the store", engine.display());
    let keyspaces = match fs::read_dir(engine.join("keyspaces")) {
        Ok(keyspaces) => keyspaces,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed(cause)),
    };
    for keyspace in keyspaces {
        let keyspace = keyspace.map_err(failed)?.path();
        let current = match fs::read(keyspace.join(CURRENT)) {
            Ok(current) => current,
            // The keyspace was being created.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(failed(cause)),
        };
        match check_version(&keyspace, &current).map_err(failed)? {
            Verdict::Intact => {}
            Verdict::Damaged => {
                return Err(Error::corrupt(
                    "the engine's files are damaged; keep a copy of the folder and restore a backup",
                )
                .fact("folder", keyspace.display()));
            }
            Verdict::UnknownChecksum(kind) => {
                return Err(Error::invalid(
                    "the engine's files were written by a newer version; update annals",
                )
                .fact("checksum kind", kind)
                .fact("folder", keyspace.display()));
            }
        }
    }
    Ok(())
}

/// `current` holds the number of the version file, its checksum and the kind of that, little-endian.
fn check_version(keyspace: &Path, current: &[u8]) -> io::Result<Verdict> {
    let Some((number, rest)) = current.split_first_chunk() else {
        return Ok(Verdict::Damaged);
    };
    let Some((checksum, [kind])) = rest.split_first_chunk() else {
        return Ok(Verdict::Damaged);
    };
    let version = keyspace.join(format!("v{}", u64::from_le_bytes(*number)));
    let is_match = match fs::read(version) {
        Ok(bytes) => xxh3_128(&bytes) == u128::from_le_bytes(*checksum),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Verdict::Damaged),
        Err(cause) => return Err(cause),
    };
    Ok(match (*kind, is_match) {
        (XXH3, true) => Verdict::Intact,
        // A known checksum that matches under an unknown kind: the kind itself is damaged.
        (XXH3, false) | (_, true) => Verdict::Damaged,
        (kind, false) => Verdict::UnknownChecksum(kind),
    })
}

/// Compares the counter of closes in the engine with the one in the file.
///
/// # Errors
/// `Corrupt` if the engine's is smaller.
pub(super) fn check_closes(in_engine: u64, in_file: u64, folder: &Path) -> Result<()> {
    if in_engine >= in_file {
        return Ok(());
    }
    Err(Error::corrupt(
        "the engine has lost the end of its journal, and with it the last writes; restore a backup, or remove the file REACHED to continue without them",
    )
    .fact("folder", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const VERSION: &[u8] = b"tables";

    /// A keyspace whose file `current` has this checksum and kind.
    fn keyspace(checksum: u128, kind: u8) -> tempfile::TempDir {
        let engine = tempfile::tempdir().unwrap();
        let keyspace = engine.path().join("keyspaces").join("1");
        fs::create_dir_all(&keyspace).unwrap();
        fs::write(keyspace.join("v7"), VERSION).unwrap();
        let mut current = 7u64.to_le_bytes().to_vec();
        current.extend(checksum.to_le_bytes());
        current.push(kind);
        fs::write(keyspace.join(CURRENT), current).unwrap();
        engine
    }

    #[test]
    fn an_intact_keyspace_passes() {
        let engine = keyspace(xxh3_128(VERSION), XXH3);
        assert!(check(engine.path()).is_ok());
    }

    #[test]
    fn an_unknown_checksum_kind_is_a_newer_version_and_not_damage() {
        let engine = keyspace(1234, 9);
        let error = check(engine.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(error.fact_value("checksum kind"), Some("9"));
        assert!(error.message().contains("update annals"), "{error}");
    }

    #[test]
    fn a_wrong_checksum_is_damage() {
        let engine = keyspace(1234, XXH3);
        let error = check(engine.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }

    #[test]
    fn a_flipped_bit_in_the_checksum_kind_is_damage() {
        for bit in 0..8 {
            let engine = keyspace(xxh3_128(VERSION), XXH3 ^ (1 << bit));
            let error = check(engine.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
    }
}
