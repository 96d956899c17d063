//! Events of a test in their stored form, numbered by id.

use std::collections::BTreeMap;

use crate::entity::EntityEvent;
use crate::feed::Filter;
use crate::{Event, PersistenceId, SequenceNumber, Token};

/// Events in the order of the feed.
#[derive(Debug, Default)]
pub(super) struct StoredEvents {
    numbers: BTreeMap<PersistenceId, SequenceNumber>,
    events: Vec<Event>,
}

#[expect(clippy::panic, reason = "for tests: a panic is how they fail")]
impl StoredEvents {
    /// Stores an event that the source wants, and returns its stored form.
    #[track_caller]
    pub(super) fn add<E: EntityEvent>(&mut self, id: &str, event: &E, source: &Filter) -> Event {
        let id: PersistenceId = match id.parse() {
            Ok(id) => id,
            Err(error) => panic!("{error:?}"),
        };
        let data = event.to_event();
        let data = data.unwrap_or_else(|error| panic!("the event cannot be stored: {error:?}"));
        let next = self.numbers.get(&id).map_or(1, |last| last.get() + 1);
        let number = SequenceNumber::new(next).unwrap_or(SequenceNumber::LAST);
        self.numbers.insert(id.clone(), number);
        let stored = Event::new(id, number, Token::from_bytes([0; 8]), data);
        if !source.accepts(&stored) {
            panic!("the projection's source does not want this event: {stored:?}");
        }
        self.events.push(stored.clone());
        stored
    }

    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }
}
