//! Following an id: its stored events, then new ones as they are appended.

use std::time::Duration;

use futures::TryStreamExt;
use futures::stream;

use super::{EventStream, Journal, Window};
use crate::{ErrorKind, PersistenceId, SequenceNumber};

/// How long to wait before the next read: short after an event, longer while none comes.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Journal {
    /// Returns the events from a sequence number on, and then every later one as it is appended.
    /// The stream does not end; drop it to stop. Events that are deleted before they are read are
    /// skipped.
    pub fn follow(&self, id: &PersistenceId, from: SequenceNumber) -> EventStream {
        let (journal, id) = (self.clone(), id.clone());
        // The next number, the pause, and whether the current replay returned an event.
        let start = (Some(from), PAUSE_MIN, false);
        let events = journal.replay(&id, Window::from(from));
        let followed = stream::try_unfold((start, events), move |((next, pause, came), events)| {
            let (journal, id) = (journal.clone(), id.clone());
            let (mut pause, mut came, mut events) = (pause, came, events);
            async move {
                // Ends after the largest sequence number.
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
                        // A deletion overtook the replay, or the store failed: the next replay
                        // shows which.
                        Err(error) if came && error.kind() == ErrorKind::Unavailable => {}
                        Err(error) => return Err(error),
                    }
                    came = false;
                    events = journal.replay(&id, Window::from(from));
                }
                Ok(None)
            }
        });
        EventStream::new(followed)
    }
}
