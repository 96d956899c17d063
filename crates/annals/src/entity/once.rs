//! Commands that have been handled, by their ids: those of the last events.
//!
//! The id of a command is stored with its events, as what caused them. So it survives every crash
//! that they survive, and no snapshot has to carry it.
//!
//! Promises: a command whose events are among the last so many is known again.
//! Never: knows a command that wrote no events; it has changed nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::Event;

/// Commands by their ids, and the number of the first event of each.
#[derive(Debug, Default)]
pub(super) struct Recent {
    by_id: HashMap<Arc<str>, u64>,
    order: VecDeque<(u64, Arc<str>)>,
}

impl Recent {
    pub(super) fn get(&self, id: &str) -> Option<u64> {
        self.by_id.get(id).copied()
    }

    pub(super) fn insert(&mut self, id: &str, number: u64) {
        if self.by_id.contains_key(id) {
            return;
        }
        let id: Arc<str> = id.into();
        self.order.push_back((number, id.clone()));
        self.by_id.insert(id, number);
    }

    /// An event was met.
    pub(super) fn passed(&mut self, event: &Event, remembered: u64) {
        let number = event.sequence_number.get();
        if remembered > 0
            && let Some(id) = &event.causation
        {
            self.insert(id, number);
        }
        self.forget(number, remembered);
    }

    /// Forgets what is not among the last events any more.
    pub(super) fn forget(&mut self, last: u64, remembered: u64) {
        while let Some((number, _)) = self.order.front()
            && number + remembered <= last
        {
            if let Some((_, id)) = self.order.pop_front() {
                self.by_id.remove(&id);
            }
        }
    }
}
