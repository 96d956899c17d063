//! Evolution: events of yesterday for the code of today.
//!
//! Promises: adapters see every event as it was stored and make none, one or several of it; what no
//! adapter and no type knows is an error, unless the settings say that it is passed over.

use std::fmt;
use std::sync::Arc;

use super::EntityEvent;
use crate::{Error, Event, NewEvent, Result};

/// Makes today's events of a stored one, by its manifest, schema number and bytes: none, one or
/// several. What it does not know it gives back as it is.
///
/// ```
/// use annals::entity::Adapter;
/// use annals::{Codec, NewEvent};
///
/// // `Moved` was split in two, and `Pinged` is of no interest any more.
/// let adapter = Adapter::new(|event| match (event.manifest.as_str(), event.schema) {
///     ("Moved", 0) => Ok(vec![event.clone().manifest("Left"), event.manifest("Entered")]),
///     ("Pinged", _) => Ok(vec![]),
///     _ => Ok(vec![event]),
/// });
/// # let moved = NewEvent::new(Codec::Json, "{}").manifest("Moved");
/// # assert_eq!(adapter.adapt(moved).unwrap().len(), 2);
/// ```
#[derive(Clone)]
pub struct Adapter(Arc<Adapt>);

type Adapt = dyn Fn(NewEvent) -> Result<Vec<NewEvent>> + Send + Sync;

impl Adapter {
    /// An adapter.
    pub fn new(adapt: impl Fn(NewEvent) -> Result<Vec<NewEvent>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(adapt))
    }

    /// What it makes of an event.
    ///
    /// # Errors
    /// As the adapter fails.
    pub fn adapt(&self, event: NewEvent) -> Result<Vec<NewEvent>> {
        (self.0)(event)
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Adapter")
    }
}

/// What becomes of stored events that nobody knows.
///
/// A type of events that has a variant for them knows all: they are taken in as one that says
/// nothing (`#[serde(other)]`) or as they are stored (`#[event(raw)]`), and neither of these is
/// asked for.
///
/// ```
/// use annals::entity::{EntitySettings, Unknown};
/// use annals::{Codec, NewEvent, journal::Expected};
///
/// # use annals::entity::{Entity, EntityEvent, Stored};
/// # use annals::{Annals, memory::Memory, settings::Settings};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Default, Serialize, Deserialize, Stored)]
/// # struct Cart { items: u64 }
/// # #[derive(Serialize, Deserialize, EntityEvent)]
/// # enum Happened { Added }
/// # impl Entity for Cart {
/// #     const TYPE: &'static str = "Cart";
/// #     type Event = Happened;
/// #     type Error = std::convert::Infallible;
/// #     fn apply(&mut self, _: &Happened) { self.items += 1; }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let items = std::sync::Arc::new(Memory::new());
/// # let annals = Annals::create(items, &AnnalsLayout::default()).await?;
/// // No variant has this name, and no adapter knows it.
/// let pinged = NewEvent::new(Codec::Json, "{}").manifest("Pinged");
/// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, pinged).await?;
///
/// let strict = annals.executor::<Cart>(EntitySettings::new());
/// assert!(strict.view("42", |cart| cart.items).await.is_err());
/// let lenient = annals.executor::<Cart>(EntitySettings::new().unknown(Unknown::Skip));
/// assert_eq!(lenient.view("42", |cart| cart.items).await?, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// Recovery fails and says which.
    #[default]
    Fail,
    /// They are passed over, with a warning.
    Skip,
}

/// What a stored event came to.
pub(super) struct Read<E> {
    pub(super) events: Vec<E>,
    /// Whether something of it was passed over.
    pub(super) has_skipped: bool,
}

/// How stored events become an entity's.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) adapters: Vec<Adapter>,
    pub(super) unknown: Unknown,
}

impl Reading {
    /// The entity's events in a stored one.
    pub(super) fn read<E: EntityEvent>(&self, event: &Event) -> Result<Read<E>> {
        self.adapted(event).map_err(|cause| {
            let (id, number) = (&event.persistence_id, event.sequence_number);
            let (manifest, schema) = (&event.data.manifest, event.data.schema);
            Error::new(
                cause.kind(),
                format!(
                    "an event is not understood. id=`{id}`, number=`{number}`, manifest=`{manifest}`, schema=`{schema}`"
                ),
            )
            .because(cause)
        })
    }

    fn adapted<E: EntityEvent>(&self, event: &Event) -> Result<Read<E>> {
        let mut stored = vec![event.data.clone()];
        for adapter in &self.adapters {
            let adapted = stored.into_iter().map(|event| adapter.adapt(event));
            let adapted: Vec<Vec<NewEvent>> = adapted.collect::<Result<_>>()?;
            stored = adapted.into_iter().flatten().collect();
        }
        let mut read = Read {
            events: Vec::new(),
            has_skipped: false,
        };
        for stored in stored {
            match (E::from_event(&stored)?, self.unknown) {
                (Some(event), _) => read.events.push(event),
                (None, Unknown::Skip) => {
                    read.has_skipped = true;
                    let (id, number) = (&event.persistence_id, event.sequence_number);
                    tracing::warn!(%id, %number, manifest = stored.manifest, "an event is unknown: passed over");
                }
                (None, Unknown::Fail) => {
                    return Err(Error::corrupt(format!(
                        "no type has this name; an adapter can make it one, or unknown events are passed over. manifest=`{}`",
                        stored.manifest
                    )));
                }
            }
        }
        Ok(read)
    }
}
