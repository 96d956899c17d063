//! Following an id live: what is there, then what comes.

use std::time::Duration;

use futures::TryStreamExt;
use futures::stream;

use super::{EventStream, Journal, Window};
use crate::{PersistenceId, SequenceNumber};

/// How long to wait before looking again: shortly after something came, longer while nothing does.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Journal {
    /// The events from a number on, and then every later one as it is appended. Never ends by
    /// itself; dropping it ends it. What is deleted before it is reached is passed over.
    pub fn follow(&self, id: &PersistenceId, from: SequenceNumber) -> EventStream {
        let (journal, id) = (self.clone(), id.clone());
        let start = (
            Some(from),
            PAUSE_MIN,
            journal.replay(&id, Window::from(from)),
        );
        let followed = stream::try_unfold(start, move |(mut next, mut pause, mut events)| {
            let (journal, id) = (journal.clone(), id.clone());
            async move {
                // Ends where the numbers do.
                while let Some(from) = next {
                    if let Some(event) = events.try_next().await? {
                        next = event.sequence_number.next();
                        return Ok(Some((event, (next, PAUSE_MIN, events))));
                    }
                    journal.clock.sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    events = journal.replay(&id, Window::from(from));
                }
                Ok(None)
            }
        });
        Box::pin(followed)
    }
}
