//! Sequence numbers to skip when a journal with gaps is copied.

use crate::{SequenceNumber, Token};

/// Sequence numbers to use up without events.
///
/// Used by [`copy`](crate::copy); see [`Copier`](crate::copy::Copier) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skip {
    /// The last number to skip.
    pub to: SequenceNumber,
    /// Whether they count as deleted. If so, all events before them must be deleted too. Otherwise
    /// they are a gap between events.
    pub is_deleted: bool,
    /// Distinguishes this skip from other writes.
    pub token: Token,
    /// The time of the skip, in milliseconds since the Unix epoch.
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
