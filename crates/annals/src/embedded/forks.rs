//! Where a restored store leaves the history of its original: a record in the log, made by the restore.
//!
//! ```text
//! key: 4, the last position that both have (u64)      value: the number of the new history (u32)
//! ```
//! Numbers are big-endian.
//!
//! Guarantees: positions of the original are valid up to the record, and refused after it, although both
//! stores may have changes there. The record is in the log, so it is covered by its checksums, and every
//! backup of the store has it.

use super::codec;
use super::index::{Kind, Snapshot};
use crate::items::Origin;
use crate::{Error, Result};

/// The end of one history and the beginning of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fork {
    /// The last position of the history before.
    pub(super) after: u64,
    /// The number of the history that begins.
    pub(super) number: u32,
}

impl Fork {
    /// The change that records it: its key and value.
    pub(super) fn record(self) -> (Vec<u8>, [u8; 4]) {
        let key = codec::prefixed(vec![Kind::Fork as u8], &self.after.to_be_bytes());
        (key, self.number.to_be_bytes())
    }

    /// The fork that a change records; `None` if it records something else.
    pub(super) fn read(key: &[u8], value: Option<&[u8]>) -> Result<Option<Self>> {
        let Some(after) = key.strip_prefix(&[Kind::Fork as u8]) else {
            return Ok(None);
        };
        let parse = || {
            Some(Self {
                after: u64::from_be_bytes(after.try_into().ok()?),
                number: u32::from_be_bytes(value?.try_into().ok()?),
            })
        };
        let fork = parse();
        fork.map(Some).ok_or_else(|| {
            Error::corrupt("the record of a restore does not parse; restore a backup")
        })
    }
}

/// The forks of a store, in order.
pub(super) fn load(snapshot: &Snapshot) -> Result<Vec<Fork>> {
    let mut forks = Vec::new();
    for entry in snapshot.entries(codec::all(&[Kind::Fork as u8])) {
        let (key, value) = entry?;
        forks.extend(Fork::read(&key, Some(&value))?);
    }
    Ok(forks)
}

/// The histories before the current one, and its number. `first` is the number of the first.
pub(super) fn lineage(first: u32, forks: &[Fork]) -> (Vec<Origin>, u32) {
    let mut origins = Vec::with_capacity(forks.len());
    let mut number = first;
    for fork in forks {
        origins.push(Origin {
            number,
            last: fork.after,
        });
        number = fork.number;
    }
    (origins, number)
}
