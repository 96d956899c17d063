//! Reads stored events, also those of earlier releases.
//!
//! Guarantees: adapters see each event as it was stored and turn it into none, one or several. An
//! event that neither an adapter nor the event type knows is an error, unless the settings say to skip
//! it.

use std::fmt;
use std::sync::Arc;

use super::EntityEvent;
use crate::{Error, Event, NewEvent, Result};

type Adapter = dyn Fn(NewEvent) -> Result<Vec<NewEvent>> + Send + Sync;

/// Turns stored events into an entity's events.
#[derive(Clone, Default)]
pub(super) struct EventReader {
    adapters: Vec<Arc<Adapter>>,
    pub(super) skips_unknown: bool,
}

/// What a stored event was read as.
pub(super) struct ReadEvents<E> {
    pub(super) events: Vec<E>,
    pub(super) has_skipped: bool,
}

impl EventReader {
    pub(super) fn add_adapter(
        &mut self,
        adapt: impl Fn(NewEvent) -> Result<Vec<NewEvent>> + Send + Sync + 'static,
    ) {
        self.adapters.push(Arc::new(adapt));
    }

    /// Read a stored event. Errors name it.
    pub(super) fn read<E: EntityEvent>(&self, event: &Event) -> Result<ReadEvents<E>> {
        self.try_read(event).map_err(|cause| {
            let (id, number) = (&event.persistence_id, event.sequence_number);
            let (manifest, schema) = (&event.data.manifest, event.data.schema);
            let message = "an event cannot be read; give a new field a default (`#[serde(default)]`), a renamed one an alias, or add an adapter";
            Error::new(cause.kind(), message)
                .fact("id", id)
                .fact("number", number)
                .fact("manifest", manifest)
                .fact("schema", schema)
                .because(cause)
        })
    }

    fn try_read<E: EntityEvent>(&self, event: &Event) -> Result<ReadEvents<E>> {
        let mut adapted = vec![event.data.clone()];
        for adapt in &self.adapters {
            let next = adapted.into_iter().map(|event| adapt(event));
            let next: Vec<Vec<NewEvent>> = next.collect::<Result<_>>()?;
            adapted = next.into_iter().flatten().collect();
        }
        let mut read = ReadEvents {
            events: Vec::new(),
            has_skipped: false,
        };
        for stored in adapted {
            match E::from_event(&stored)? {
                Some(event) => read.events.push(event),
                None if self.skips_unknown => {
                    read.has_skipped = true;
                    let (id, number) = (&event.persistence_id, event.sequence_number);
                    let manifest = stored.manifest;
                    tracing::warn!(%id, %number, manifest, "skipping an unknown event");
                }
                None => {
                    return Err(Error::corrupt(
                        "the event type does not know this manifest; add a variant or an adapter, or skip unknown events",
                    )
                    .fact("manifest", stored.manifest));
                }
            }
        }
        Ok(read)
    }
}

impl fmt::Debug for EventReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventReader")
            .field("adapters", &self.adapters.len())
            .field("skips_unknown", &self.skips_unknown)
            .finish()
    }
}
