//! Shared by snapshots and durable state: the time span of an operation, its outcome, and payloads
//! that identify their write.

use annals::{Codec, Payload};

/// The time span of an operation, in steps of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) began: u64,
    ended: u64,
}

impl Span {
    /// An operation that has not ended yet.
    pub(super) fn from(began: u64) -> Self {
        Self {
            began,
            ended: u64::MAX,
        }
    }

    pub(super) fn end(&mut self, at: u64) {
        self.ended = at;
    }

    /// Whether it ended before the other began.
    pub(super) fn is_before(self, other: Self) -> bool {
        self.ended < other.began
    }
}

/// The outcome of a write for its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// It may be stored.
    Unknown,
    Done,
    Refused,
}

/// The unique payload of a write. `noise` makes it large.
pub(super) fn payload(attempt: usize, fact: u64, noise: &[u8]) -> Payload {
    let mut bytes = format!("{attempt}/{fact}|").into_bytes();
    bytes.extend_from_slice(noise);
    Payload::new(Codec::Bytes, bytes)
}

/// The write and the value in a payload.
pub(super) fn parse(payload: &Payload) -> Option<(usize, u64)> {
    let label = payload.bytes.split(|byte| *byte == b'|').next()?;
    let (attempt, fact) = std::str::from_utf8(label).ok()?.split_once('/')?;
    Some((attempt.parse().ok()?, fact.parse().ok()?))
}
