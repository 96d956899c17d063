//! Retention: when a snapshot is saved, and what is deleted then.
//!
//! Promises: what fails here is warned of and done next time; no command fails by it. Events are
//! deleted only up to a snapshot that was saved and is kept.

use std::fmt;
use std::sync::Arc;

use futures::StreamExt;

use super::Entity;
use super::host::Host;
use super::live::Live;
use crate::snapshot::{Criteria, Place};
use crate::{Result, SequenceNumber};

type When<E> = Arc<dyn Fn(&E, u64) -> bool + Send + Sync>;

/// When snapshots are saved, and what is kept.
///
/// ```
/// use annals::entity::Retention;
/// # #[derive(Default, serde::Serialize, serde::Deserialize)] struct Account { is_closed: bool }
///
/// let every_hundred = Retention::<Account>::every(100).keep(2).delete_events();
/// let when_closed = Retention::<Account>::when(|account, _since| account.is_closed);
/// # let _ = (every_hundred, when_closed);
/// ```
pub struct Retention<E> {
    when: Option<When<E>>,
    bytes: Option<u64>,
    keep: usize,
    deletes_events: bool,
}

impl<E> Clone for Retention<E> {
    fn clone(&self) -> Self {
        Self {
            when: self.when.clone(),
            bytes: self.bytes,
            keep: self.keep,
            deletes_events: self.deletes_events,
        }
    }
}

impl<E> Retention<E> {
    /// No snapshots but those that effects ask for.
    pub fn never() -> Self {
        Self {
            when: None,
            bytes: None,
            keep: 1,
            deletes_events: false,
        }
    }

    /// A snapshot whenever so many events have come since the last, at least one.
    pub fn every(events: u64) -> Self {
        Self::when(move |_, since| since >= events.max(1))
    }

    /// A snapshot whenever the payloads since the last have so many bytes.
    pub fn every_bytes(bytes: u64) -> Self {
        Self {
            bytes: Some(bytes.max(1)),
            ..Self::never()
        }
    }

    /// A snapshot whenever this says so, of the state and the number of events since the last.
    pub fn when(when: impl Fn(&E, u64) -> bool + Send + Sync + 'static) -> Self {
        Self {
            when: Some(Arc::new(when)),
            ..Self::never()
        }
    }

    /// Keeps so many snapshots, at least one; older ones are deleted.
    #[must_use]
    pub fn keep(mut self, snapshots: usize) -> Self {
        self.keep = snapshots.max(1);
        self
    }

    /// Deletes the events that the oldest snapshot kept knows of.
    #[must_use]
    pub fn delete_events(mut self) -> Self {
        self.deletes_events = true;
        self
    }

    pub(super) fn deletes_events(&self) -> bool {
        self.deletes_events
    }

    pub(super) fn is_due(&self, state: &E, since: u64, bytes: u64) -> bool {
        let by_bytes = self.bytes.is_some_and(|most| bytes >= most);
        by_bytes || self.when.as_ref().is_some_and(|when| when(state, since))
    }
}

impl<E> fmt::Debug for Retention<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retention")
            .field("bytes", &self.bytes)
            .field("keep", &self.keep)
            .field("deletes_events", &self.deletes_events)
            .finish_non_exhaustive()
    }
}

impl<E: Entity> Host<E> {
    /// Saves a snapshot of what is there, and deletes what is not to be kept any longer.
    pub(super) async fn retain(&self, live: &mut Live<E>) {
        let Some(at) = live.place else {
            live.saves = false;
            return;
        };
        if let Err(error) = self.save(live, at).await {
            let id = &live.id;
            tracing::warn!(%id, %error, "a snapshot was not saved; the next one is");
        }
    }

    async fn save(&self, live: &mut Live<E>, at: Place) -> Result<()> {
        let payload = live.state.to_payload()?;
        self.snapshots.save(&live.id, at, payload).await?;
        live.since = 0;
        live.bytes = 0;
        live.saves = false;
        let retention = &self.settings.retention;
        // Only those count that a recovery can begin with: one that is not understood, of a newer
        // release perhaps, is not kept instead of one that is.
        let newest = self.snapshots.find(&live.id, Criteria::ALL);
        let mut kept = newest.filter_map(|found| {
            let found = found.ok().filter(|found| {
                found.sequence_number <= at.number && E::from_payload(&found.payload).is_ok()
            });
            std::future::ready(found)
        });
        let mut oldest = None;
        for _ in 0..retention.keep {
            match kept.next().await {
                Some(snapshot) => oldest = Some(snapshot.sequence_number),
                // There are fewer than are to be kept.
                None => return Ok(()),
            }
        }
        let Some(oldest) = oldest else { return Ok(()) };
        if let Some(before) = SequenceNumber::new(oldest.get() - 1) {
            let older = Criteria {
                max_number: before,
                ..Criteria::ALL
            };
            self.snapshots.delete(&live.id, older).await?;
        }
        // Commands that are to be known again are known by their events.
        let to = oldest.get().saturating_sub(self.settings.remembered);
        if let Some(to) = SequenceNumber::new(to).filter(|_| retention.deletes_events) {
            self.journal.delete_to(&live.id, to).await?;
        }
        Ok(())
    }
}
