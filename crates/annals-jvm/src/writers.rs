//! The writer of an event, by the uuid it carries, and events of two writers in one history.
//!
//! The plugin puts without a condition, so a writer that was believed dead may have overwritten the
//! events of its successor, or appended after them. Akka's core filters that during replay; so do
//! we, with the same modes and results. The core also buffers events to detect a later one with a
//! smaller number; rows come in order here, each number once, so nothing is buffered. Our own appends
//! are fenced and have a uuid each.

use std::collections::VecDeque;

use crate::settings::{ReplayFilterMode, ReplayFilterSettings};
use annals::{Error, Event, Result, Token};

/// The first half of the uuids of our writers.
const OURS: &str = "616e6e61-6c73-8000";

/// The writer of an event, as the JVM writes it: a uuid whose last half is the append's token. It is
/// independent of the process: if another process resumes an interrupted append, its events must
/// have one writer, or the replay filter would drop some.
pub(crate) fn writer_uuid(token: Token) -> String {
    let bits = u64::from_be_bytes(token.to_bytes());
    let (low, high) = (bits >> 48, bits & 0xFFFF_FFFF_FFFF);
    format!("{OURS}-{low:04x}-{high:012x}")
}

/// Whether a writer is one of ours.
pub(crate) fn is_ours(writer_uuid: &str) -> bool {
    writer_uuid.starts_with(OURS)
}

/// The token in a writer's uuid: its last 16 digits. Other texts get a token from their hash.
pub(crate) fn token_of(writer_uuid: &str) -> Token {
    let digits: String = writer_uuid.chars().filter(|c| *c != '-').collect();
    let last = digits.len().checked_sub(16).and_then(|at| digits.get(at..));
    let bits = last.and_then(|last| u64::from_str_radix(last, 16).ok());
    let bits = bits.unwrap_or_else(|| u64::from(crc32fast::hash(writer_uuid.as_bytes())));
    Token::from_bytes(bits.to_be_bytes())
}

/// Filters events of older writers.
#[derive(Debug)]
pub(crate) struct Writers {
    settings: ReplayFilterSettings,
    current: Option<String>,
    old: VecDeque<String>,
}

impl Writers {
    pub(crate) fn new(settings: ReplayFilterSettings) -> Self {
        Self {
            settings,
            current: None,
            old: VecDeque::new(),
        }
    }

    /// The event, if it passes the filter.
    pub(crate) fn push(&mut self, event: Event, writer: &str) -> Result<Option<Event>> {
        if self.settings.mode == ReplayFilterMode::Off || self.current.as_deref() == Some(writer) {
            return Ok(Some(event));
        }
        if self.old.iter().any(|old| old == writer) {
            return self.judge(event);
        }
        if let Some(before) = self.current.replace(writer.to_owned()) {
            self.old.push_back(before);
            if self.old.len() > self.settings.max_old_writers {
                self.old.pop_front();
            }
        }
        Ok(Some(event))
    }

    /// Decides about an older writer's event after a newer one's.
    fn judge(&self, event: Event) -> Result<Option<Event>> {
        let (id, number) = (&event.persistence_id, event.sequence_number);
        match self.settings.mode {
            ReplayFilterMode::Fail => Err(Error::corrupt(
                "an older writer's event comes after a newer one's; set replay-filter.mode to repair-by-discard-old or warn",
            )
            .fact("id", id)
            .fact("number", number)),
            ReplayFilterMode::RepairByDiscardOld => {
                tracing::warn!(%id, %number, "an older writer's event after a newer one's is discarded");
                Ok(None)
            }
            ReplayFilterMode::Warn | ReplayFilterMode::Off => {
                tracing::warn!(%id, %number, "an older writer's event comes after a newer one's");
                Ok(Some(event))
            }
        }
    }
}

#[cfg(test)]
#[path = "writers_tests.rs"]
mod tests;
