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

/// Commands by their ids, and the numbers of the first and the last event of each.
#[derive(Debug, Default)]
pub(super) struct Recent {
    by_id: HashMap<Arc<str>, (u64, u64)>,
    /// By the last event. One that has come to a later event since is there again.
    order: VecDeque<(u64, Arc<str>)>,
}

impl Recent {
    /// The number of a command's first event, or of the first that is remembered.
    pub(super) fn get(&self, id: &str) -> Option<u64> {
        self.by_id.get(id).map(|(first, _)| *first)
    }

    /// A command's events are these, or these as well.
    pub(super) fn insert(&mut self, id: &str, first: u64, last: u64) {
        match self.by_id.get_mut(id) {
            // A command that was handled long ago is another one with the same id.
            Some(known) if known.1 + 1 == first => known.1 = last,
            Some(_) => return,
            None => {
                self.by_id.insert(id.into(), (first, last));
            }
        }
        self.order.push_back((last, id.into()));
    }

    /// An event was met.
    pub(super) fn passed(&mut self, event: &Event, remembered: u64) {
        let number = event.sequence_number.get();
        if remembered > 0
            && let Some(id) = &event.causation
        {
            self.insert(id, number, number);
        }
        self.forget(number, remembered);
    }

    /// Forgets what is not among the last events any more.
    pub(super) fn forget(&mut self, last: u64, remembered: u64) {
        while let Some((number, _)) = self.order.front()
            && number + remembered <= last
        {
            if let Some((number, id)) = self.order.pop_front()
                && self.by_id.get(&id).is_some_and(|known| known.1 == number)
            {
                self.by_id.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_while_its_last_event_is_among_the_last() {
        let mut recent = Recent::default();
        recent.insert("a", 1, 5);
        recent.forget(5, 3);
        assert_eq!(recent.get("a"), Some(1), "more events than are remembered");
        recent.insert("b", 6, 6);
        recent.forget(7, 3);
        assert_eq!((recent.get("a"), recent.get("b")), (Some(1), Some(6)));
        recent.forget(8, 3);
        assert_eq!((recent.get("a"), recent.get("b")), (None, Some(6)));
    }

    #[test]
    fn events_that_are_met_one_by_one_are_one_command() {
        let mut recent = Recent::default();
        for number in 1..=5 {
            recent.insert("a", number, number);
            recent.forget(number, 3);
        }
        assert_eq!(recent.get("a"), Some(1));
        recent.forget(7, 3);
        assert_eq!(recent.get("a"), Some(1));
        recent.forget(8, 3);
        assert_eq!(recent.get("a"), None);
        assert!(recent.order.is_empty(), "nothing is kept of it");
    }
}
