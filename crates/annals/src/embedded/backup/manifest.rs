//! The file `MANIFEST`: what a backup consists of.
//!
//! ```text
//! annals backup format 1 CHECKSUM     XXH3, 64 bits, of the rest, in hexadecimal
//! JSON
//! ```
//!
//! Guarantees: a manifest that is read is as it was written.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

use super::super::errors;
use super::super::log::{Link, Position};
use crate::{Error, Result};

pub(super) const NAME: &str = "MANIFEST";
/// Marks a folder of backups, also before the first is complete.
pub(super) const MARKER: &str = "BACKUP";
const FIRST_LINE: &str = "annals backup format ";
const FORMAT: u32 = 1;

/// A backup.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Manifest {
    /// The store's mark.
    pub(super) mark: Hex,
    /// When the backup began: everything acknowledged before is in it.
    pub(super) taken_ms: u64,
    /// The last position; 0 if the store has none.
    pub(super) position: u64,
    /// When the last group was written; 0 if there is none.
    pub(super) time_ms: u64,
    /// In order, from the first of the log.
    pub(super) segments: Vec<Stored>,
}

/// A segment in a backup.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Stored {
    pub(super) number: u64,
    pub(super) file: String,
    pub(super) bytes: u64,
    /// XXH3, 128 bits, of the file.
    pub(super) checksum: Hex,
    /// The first link of the chain, and the last.
    pub(super) first: u64,
    pub(super) previous: Hex,
    pub(super) next: u64,
    pub(super) last: Hex,
    /// When its last group was written; without one, of the segment before.
    pub(super) time_ms: u64,
    /// When the store's file was changed: ns since the Unix epoch.
    pub(super) modified_ns: u64,
}

impl Stored {
    pub(super) fn start(&self) -> Link {
        Link {
            position: Position(self.first),
            previous: self.previous.0 as u64,
        }
    }

    pub(super) fn end(&self) -> Link {
        Link {
            position: Position(self.next),
            previous: self.last.0 as u64,
        }
    }
}

/// A number as hexadecimal text: JSON readers round large numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hex(pub(super) u128);

impl From<u64> for Hex {
    fn from(number: u64) -> Self {
        Self(number.into())
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u128::from_str_radix(&text, 16);
        number.map(Self).map_err(serde::de::Error::custom)
    }
}

impl Manifest {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut json = serde_json::to_vec_pretty(self)
            .map_err(|cause| Error::invalid("the backup cannot be described").because(cause))?;
        json.push(b'\n');
        let mut bytes = format!("{FIRST_LINE}{FORMAT} {:016x}\n", xxh3_64(&json)).into_bytes();
        bytes.append(&mut json);
        Ok(bytes)
    }

    /// Reads the manifest of a folder; `None` without one.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged; `Invalid` if a newer version wrote it.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(errors::on_folder(cause, "read the backup", path.display())),
        };
        Self::decode(&bytes).map(Some).map_err(|error| match error {
            None => Error::corrupt(
                "the list of the backup's files is damaged; use another folder of backups",
            )
            .fact("file", path.display()),
            Some(format) => {
                Error::invalid("the backup was written by a newer version; update annals")
                    .fact("format", format)
                    .fact("file", path.display())
            }
        })
    }

    /// # Errors
    /// The format if it is newer, `None` if the bytes are damaged.
    fn decode(bytes: &[u8]) -> Result<Self, Option<u32>> {
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(None)?;
        let (line, json) = bytes.split_at_checked(end + 1).ok_or(None)?;
        let line = std::str::from_utf8(line).map_err(|_| None)?;
        let rest = line.strip_prefix(FIRST_LINE).ok_or(None)?;
        let (format, checksum) = rest.trim_end().split_once(' ').ok_or(None)?;
        let format: u32 = format.parse().map_err(|_| None)?;
        if checksum != format!("{:016x}", xxh3_64(json)) {
            return Err(None);
        }
        if format != FORMAT {
            return Err(Some(format));
        }
        serde_json::from_slice(json).map_err(|_| None)
    }
}
