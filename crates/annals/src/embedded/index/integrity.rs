//! The check that the engine does not make itself: it trusts the file that names its tables, and aborts
//! the process if that is damaged. Its checksum is compared before the engine opens.
//!
//! Guarantees: no file is changed.

use std::fs;
use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::embedded::errors;
use crate::{Error, Result};

/// The file that names a tree's current version file, with its checksum and the checksum kind.
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

/// Compares the file that names a tree's tables with its checksum.
///
/// # Errors
/// `Corrupt` if it is damaged; `Invalid` if a newer engine wrote it.
pub(in super::super) fn check(tree: &Path) -> Result<()> {
    let failed = |cause| errors::on_folder(cause, "open the store", tree.display());
    let current = match fs::read(tree.join(CURRENT)) {
        Ok(current) => current,
        // The tree was being created.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed(cause)),
    };
    match check_version(tree, &current).map_err(failed)? {
        Verdict::Intact => Ok(()),
        Verdict::Damaged => {
            Err(Error::corrupt("the engine's files are damaged").fact("folder", tree.display()))
        }
        Verdict::UnknownChecksum(kind) => Err(Error::invalid(
            "the engine's files were written by a newer version; update annals",
        )
        .fact("checksum kind", kind)
        .fact("folder", tree.display())),
    }
}

/// `current` holds the number of the version file, its checksum and the kind of that, little-endian.
fn check_version(tree: &Path, current: &[u8]) -> io::Result<Verdict> {
    let Some((number, rest)) = current.split_first_chunk() else {
        return Ok(Verdict::Damaged);
    };
    let Some((checksum, [kind])) = rest.split_first_chunk() else {
        return Ok(Verdict::Damaged);
    };
    let version = tree.join(format!("v{}", u64::from_le_bytes(*number)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const VERSION: &[u8] = b"tables";

    /// A tree whose file `current` has this checksum and kind.
    fn tree(checksum: u128, kind: u8) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("v7"), VERSION).unwrap();
        let mut current = 7u64.to_le_bytes().to_vec();
        current.extend(checksum.to_le_bytes());
        current.push(kind);
        fs::write(tree.path().join(CURRENT), current).unwrap();
        tree
    }

    #[test]
    fn an_intact_tree_passes() {
        let tree = tree(xxh3_128(VERSION), XXH3);
        assert!(check(tree.path()).is_ok());
    }

    #[test]
    fn an_unknown_checksum_kind_is_a_newer_version_and_not_damage() {
        let tree = tree(1234, 9);
        let error = check(tree.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(error.fact_value("checksum kind"), Some("9"));
        assert!(error.message().contains("update annals"), "{error}");
    }

    #[test]
    fn a_wrong_checksum_is_damage() {
        let tree = tree(1234, XXH3);
        let error = check(tree.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }

    #[test]
    fn a_flipped_bit_in_the_checksum_kind_is_damage() {
        for bit in 0..8 {
            let tree = tree(xxh3_128(VERSION), XXH3 ^ (1 << bit));
            let error = check(tree.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
    }
}
