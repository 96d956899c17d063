//! Numbers to be taken without events, where a journal is copied that has none there.

use crate::{SequenceNumber, Token};

/// Numbers to be taken without events.
///
/// Used by [`copy`](crate::copy); see [`Copier`](crate::copy::Copier) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skip {
    /// The last of them.
    pub to: SequenceNumber,
    /// Whether they count as deleted, as everything before them must: no event is there. Otherwise
    /// they stand between events, as numbers that were never used.
    pub is_deleted: bool,
    /// What tells whoever takes them from everybody else.
    pub token: Token,
    /// When they are taken, in milliseconds since the Unix epoch.
    pub time_ms: u64,
}

impl Skip {
    /// Numbers between events, up to this one, that were never used.
    pub fn new(to: SequenceNumber, token: Token, time_ms: u64) -> Self {
        Self {
            to,
            is_deleted: false,
            token,
            time_ms,
        }
    }
}
