//! Following an id live: what is there, then what comes.

use std::time::Duration;

use futures::TryStreamExt;
use futures::stream;

use super::{EventStream, Journal, Window};
use crate::{ErrorKind, PersistenceId, SequenceNumber};

/// How long to wait before looking again: shortly after something came, longer while nothing does.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Journal {
    /// The events from a number on, and then every later one as it is appended. Never ends by
    /// itself; dropping it ends it. What is deleted before it is reached is passed over, also where
    /// a deletion overtakes it.
    pub fn follow(&self, id: &PersistenceId, from: SequenceNumber) -> EventStream {
        let (journal, id) = (self.clone(), id.clone());
        // Where to go on, how long to wait, whether this replay has brought anything.
        let start = (Some(from), PAUSE_MIN, false);
        let events = journal.replay(&id, Window::from(from));
        let followed = stream::try_unfold((start, events), move |((next, pause, came), events)| {
            let (journal, id) = (journal.clone(), id.clone());
            let (mut pause, mut came, mut events) = (pause, came, events);
            async move {
                // Ends where the numbers do.
                while let Some(from) = next {
                    match events.try_next().await {
                        Ok(Some(event)) => {
                            let next = event.sequence_number.next();
                            return Ok(Some((event, ((next, PAUSE_MIN, true), events))));
                        }
                        Ok(None) => {
                            journal.store.clock().sleep(pause).await;
                            pause = (pause * 2).min(PAUSE_MAX);
                        }
                        // A deletion overtook it, or the store failed: going on tells which.
                        Err(error) if came && error.kind() == ErrorKind::Unavailable => {}
                        Err(error) => return Err(error),
                    }
                    came = false;
                    events = journal.replay(&id, Window::from(from));
                }
                Ok(None)
            }
        });
        Box::pin(followed)
    }
}
