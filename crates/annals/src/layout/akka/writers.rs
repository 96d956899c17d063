//! Writers: events of two writers in one history, told apart by their writer's uuid.
//!
//! The plugin puts without a condition, so a writer that was thought dead may have written over
//! and behind the events of its successor. Akka's core looks for that while it replays; so do we,
//! with the same modes. It also holds events back to see whether a later one has a smaller number.
//! Rows come in order, each number once, so nothing has to be held. Our own appends are fenced and
//! have a uuid each.
//!
//! Promises: the verdicts of the core's filter on rows that come in order.

use std::collections::VecDeque;

use crate::settings::{ReplayFilterMode, ReplayFilterSettings};
use crate::{Error, Event, Result};

/// Lets the events of the newest writer pass.
#[derive(Debug)]
pub(super) struct Writers {
    settings: ReplayFilterSettings,
    current: Option<String>,
    old: VecDeque<String>,
}

impl Writers {
    pub(super) fn new(settings: ReplayFilterSettings) -> Self {
        Self {
            settings,
            current: None,
            old: VecDeque::new(),
        }
    }

    /// The event, if it counts.
    pub(super) fn push(&mut self, event: Event, writer: &str) -> Result<Option<Event>> {
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

    /// What becomes of an older writer's event behind a newer one's.
    fn judge(&self, event: Event) -> Result<Option<Event>> {
        let (id, number) = (&event.persistence_id, event.sequence_number);
        match self.settings.mode {
            ReplayFilterMode::Fail => Err(Error::corrupt(format!(
                "an older writer's event is behind a newer one's; set replay-filter.mode to go on. id=`{id}`, number=`{number}`"
            ))),
            ReplayFilterMode::RepairByDiscardOld => {
                tracing::warn!(%id, %number, "an older writer's event is behind a newer one's: left out");
                Ok(None)
            }
            ReplayFilterMode::Warn | ReplayFilterMode::Off => {
                tracing::warn!(%id, %number, "an older writer's event is behind a newer one's");
                Ok(Some(event))
            }
        }
    }
}

#[cfg(test)]
#[path = "writers_tests.rs"]
mod tests;
