//! Deleting the events that a snapshot replaces.
//!
//! Guarantees: if retention names consumers, an event is deleted only after each of them has handled it and
//! has no dead letter of its id. Whatever is unknown keeps events: a consumer that does not exist, a store
//! that fails. Consumers that always lag a little do not keep events for ever: what waits is remembered
//! with the position that they must pass, and checked when the next snapshot is saved.

use super::Entity;
use super::consumers::{Consumer, Waiting};
use super::host::Host;
use crate::feed::{Position, Reading};
use crate::{Error, PersistenceId, Result, SequenceNumber};

impl<E: Entity> Host<E> {
    /// Fails if retention waits for consumers that cannot be.
    pub(super) fn check_retention(&self) -> Result<()> {
        let retention = &self.settings.retention;
        let mut consumers = retention.consumers().iter();
        if consumers.len() > 0 && !retention.deletes_events() {
            return Err(Error::invalid(
                "retention waits for consumers but deletes no events; add `delete_events`, or leave the consumers out",
            )
            .fact("type", E::TYPE));
        }
        consumers.try_for_each(|consumer| {
            let checked = self.held_back.consumers.check(consumer);
            checked.map_err(|cause| {
                Error::invalid("retention cannot wait for a consumer; correct it, or leave it out")
                    .fact("type", E::TYPE)
                    .fact("consumer", consumer)
                    .because(cause)
            })
        })
    }

    /// Deletes the events up to a number, or as many of them as every consumer has handled. The rest waits
    /// for the next snapshot.
    pub(super) async fn delete_events(&self, id: &PersistenceId, to: SequenceNumber) -> Result<()> {
        if self.settings.retention.consumers().is_empty() {
            self.journal.delete_to(id, to).await?;
            return Ok(());
        }
        // The events are appended already, so they are all before the end.
        let until = Reading::new(&self.journal).head().await?;
        let mut waiting = self.held_back.take(id);
        waiting.retain(|earlier| earlier.to <= to);
        waiting.push(Waiting { to, until });
        let handled = self.handled_to(id).await;
        let is_handled = |waiting: &Waiting| {
            let mut handled = handled.iter().flatten();
            handled.all(|to| to.includes(&waiting.until))
        };
        let last = waiting.iter().rposition(is_handled);
        let last = last.filter(|_| handled.is_some());
        let deleted = last.and_then(|last| waiting.drain(..=last).next_back());
        // The oldest must stay, or a consumer that lags would never reach what waits. The newest is for one
        // that has caught up.
        if waiting.len() > 2 {
            waiting.remove(1);
        }
        if !waiting.is_empty() {
            self.held_back.put(id, waiting);
        }
        if let Some(deleted) = deleted {
            self.journal.delete_to(id, deleted.to).await?;
        }
        Ok(())
    }

    /// The positions up to which consumers have handled the events of an id; `None` if that is unknown.
    async fn handled_to(&self, id: &PersistenceId) -> Option<Vec<Position>> {
        let mut all = Vec::new();
        for consumer in self.settings.retention.consumers() {
            match self.held_back.consumers.handled_to(consumer, id).await {
                Ok(Some(positions)) => all.extend(positions),
                unknown => {
                    self.warn(consumer, unknown.err());
                    return None;
                }
            }
        }
        Some(all)
    }

    fn warn(&self, consumer: &Consumer, error: Option<Error>) {
        let now = self.shared.clock.monotonic();
        if !self.held_back.should_warn(consumer, now) {
            return;
        }
        let entity_type = E::TYPE;
        match error {
            None => tracing::warn!(
                entity_type,
                %consumer,
                "no events are deleted: retention waits for a consumer that does not exist; start or create it, or correct the name"
            ),
            Some(error) => tracing::warn!(
                entity_type,
                %consumer,
                %error,
                "no events are deleted: how far a consumer has come cannot be read; it is tried again with each snapshot"
            ),
        }
    }
}
