//! Recovery: the newest snapshot and the events after it.

use futures::{StreamExt, TryStreamExt, stream};

use super::{EventStream, Journal, Window};
use crate::snapshot::{Criteria, Snapshot, Snapshots};
use crate::{Error, PersistenceId, Result, SequenceNumber};

/// What an entity starts from.
///
/// See [`Journal::recover`] for an example.
#[non_exhaustive]
pub struct Recovered {
    /// The newest snapshot that decodes, if there is one.
    pub snapshot: Option<Snapshot>,
    /// The events after the snapshot, or all events if there is none.
    pub events: EventStream,
}

impl Journal {
    /// Reads the newest snapshot and the events after it. A snapshot that does not decode is
    /// skipped; if none is left, all events are replayed. If a snapshot was skipped and events
    /// before it are deleted, the event stream fails, since the remaining events lead to another
    /// state.
    ///
    /// On the `annals` layout this takes two requests plus further pages of events, if the snapshot
    /// was saved at the [`Appended`](super::Appended) that [`append`](Self::append) returned.
    ///
    /// ```
    /// # use annals::journal::Expected;
    /// # use annals::layout::AnnalsLayout;
    /// # use annals::memory::Memory;
    /// # use annals::{Annals, Codec, Event, NewEvent, Payload, PersistenceId};
    /// # use futures::TryStreamExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
    /// # let (journal, snapshots) = (annals.journal(), annals.snapshots());
    /// let id: PersistenceId = "Account|1".parse()?;
    /// let appended = journal.append(&id, Expected::Empty, NewEvent::new(Codec::Text, "+10")).await?;
    /// snapshots.save(&id, appended, Payload::new(Codec::Text, "10")).await?;
    /// journal.append(&id, Expected::Last(appended.last), NewEvent::new(Codec::Text, "+5")).await?;
    ///
    /// let recovered = journal.recover(&id, snapshots).await?;
    /// assert_eq!(recovered.snapshot.expect("it was saved").payload.bytes, "10");
    /// let events: Vec<Event> = recovered.events.try_collect().await?;
    /// assert_eq!(events.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the store fails. The event stream reports its own errors.
    pub async fn recover(&self, id: &PersistenceId, snapshots: &Snapshots) -> Result<Recovered> {
        let (snapshot, has_skipped) = snapshots.load_with_skipped(id, Criteria::ALL).await?;
        let window = match &snapshot {
            None => Some(Window::ALL),
            Some(found) => found.sequence_number.next().map(Window::from),
        };
        let anchor = snapshot.as_ref().and_then(|found| found.anchor);
        let events = match window {
            Some(window) if has_skipped => self.replay_whole(id, window, anchor).await?,
            Some(window) => self.replay_anchored(id, window, anchor),
            None => EventStream::empty(),
        };
        Ok(Recovered { snapshot, events })
    }

    /// Replays the window, and fails if its first events are deleted.
    async fn replay_whole(
        &self,
        id: &PersistenceId,
        window: Window,
        anchor: Option<SequenceNumber>,
    ) -> Result<EventStream> {
        let id = id.clone();
        // Read first, so that events appended meanwhile do not count as missing.
        let highest = self.highest(&id).await?;
        let is_missing = highest >= Some(window.from);
        let mut events = self.replay_anchored(&id, window, anchor);
        let whole = stream::once(async move {
            let first = events.try_next().await?;
            let found = first.as_ref().map(|event| event.sequence_number);
            if found.map_or(is_missing, |found| found > window.from) {
                let from = window.from;
                return Err(Error::corrupt(
                    "a snapshot does not decode and events before it are deleted; check the snapshot",
                )
                .fact("id", &id)
                .fact("missing from", from));
            }
            Ok(stream::iter(first.map(Ok)).chain(events))
        });
        Ok(EventStream::new(whole.try_flatten()))
    }

    /// The snapshot stored in the last append, if there is one. No events follow it.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn last_snapshot(&self, id: &PersistenceId) -> Result<Option<Snapshot>> {
        self.layout.last_snapshot(id).await
    }
}
