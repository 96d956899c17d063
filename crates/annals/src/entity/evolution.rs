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

/// An event of another release, or one whose variant was renamed or removed.
const UNKNOWN: &str = "the event type does not know this manifest; if a variant was renamed, give it an alias (`#[serde(alias = \"…\")]`), otherwise add a variant or an adapter, or skip unknown events";

/// Turns stored events into an entity's events.
#[derive(Clone, Default)]
pub(crate) struct EventReader {
    adapters: Vec<Arc<Adapter>>,
    pub(super) skips_unknown: bool,
}

/// What a stored event was read as.
pub(crate) struct ReadEvents<E> {
    pub(crate) events: Vec<E>,
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
    pub(crate) fn read<E: EntityEvent>(&self, event: &Event) -> Result<ReadEvents<E>> {
        self.try_read(event).map_err(|cause| {
            let (id, number) = (&event.persistence_id, event.sequence_number);
            let (manifest, schema) = (&event.data.manifest, event.data.schema);
            let message = match cause.message() {
                UNKNOWN => UNKNOWN,
                _ => {
                    "an event cannot be read; give a new field a default (`#[serde(default)]`), a renamed one an alias, or add an adapter"
                }
            };
            let error = Error::new(cause.kind(), message)
                .fact("id", id)
                .fact("number", number)
                .fact("manifest", manifest)
                .fact("schema", schema);
            // What an adapter made of it may be unknown.
            let is_adapted = cause.fact_value("manifest") != Some(manifest);
            match message == UNKNOWN && !is_adapted {
                true => error,
                false => error.because(cause),
            }
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
                    return Err(Error::corrupt(UNKNOWN).fact("manifest", stored.manifest));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, SequenceNumber, Token};

    #[derive(Debug, serde::Serialize, serde::Deserialize, EntityEvent)]
    enum Known {
        Added { n: u64 },
    }

    fn error_of(reader: &EventReader, manifest: &str, payload: &'static str) -> Error {
        let data = NewEvent::new(Codec::Json, payload).manifest(manifest);
        let id = "Cart|1".parse().unwrap();
        let event = Event::new(id, SequenceNumber::FIRST, Token::from_bytes([0; 8]), data);
        let read = reader.read::<Known>(&event).map(|read| read.events);
        read.unwrap_err()
    }

    #[test]
    fn an_unknown_manifest_has_a_message_of_its_own_and_a_wrong_payload_another() {
        let mut reader = EventReader::default();
        let unknown = error_of(&reader, "Removed", "{}");
        let says = "the event type does not know this manifest; if a variant was renamed";
        assert!(unknown.message().starts_with(says), "{unknown}");
        assert_eq!(unknown.fact_value("manifest"), Some("Removed"));
        assert!(std::error::Error::source(&unknown).is_none());

        let wrong = error_of(&reader, "Added", "{}");
        assert!(wrong.message().contains("give a new field a default"));
        assert!(std::error::Error::source(&wrong).is_some());

        // The cause names what the adapter made of it.
        reader.add_adapter(|event| Ok(vec![event.manifest("Other")]));
        let adapted = format!("{:?}", error_of(&reader, "Added", "{}"));
        assert!(adapted.contains("manifest=`Added`"), "{adapted}");
        assert!(adapted.contains("manifest=`Other`"), "{adapted}");
    }
}
