//! What snapshots and durable state have in common here: when something was under way, and the
//! payload by which it is known again.

use annals::{Codec, Payload};

/// From when to when something was under way, in steps of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) began: u64,
    ended: u64,
}

impl Span {
    /// One that has begun and not ended.
    pub(super) fn from(began: u64) -> Self {
        Self {
            began,
            ended: u64::MAX,
        }
    }

    pub(super) fn end(&mut self, at: u64) {
        self.ended = at;
    }

    /// Whether it was over when the other began.
    pub(super) fn is_before(self, other: Self) -> bool {
        self.ended < other.began
    }
}

/// What became of a write, as far as its writer was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It may have landed.
    Nothing,
    Done,
    Refused,
}

/// The payload of a write, and of no other. `noise` makes it large.
pub(super) fn payload(attempt: usize, fact: u64, noise: &[u8]) -> Payload {
    let mut bytes = format!("{attempt}/{fact}|").into_bytes();
    bytes.extend_from_slice(noise);
    Payload::new(Codec::Bytes, bytes)
}

/// Reads a payload back: which write, and what it said.
pub(super) fn parse(payload: &Payload) -> Option<(usize, u64)> {
    let label = payload.bytes.split(|byte| *byte == b'|').next()?;
    let (attempt, fact) = std::str::from_utf8(label).ok()?.split_once('/')?;
    Some((attempt.parse().ok()?, fact.parse().ok()?))
}
