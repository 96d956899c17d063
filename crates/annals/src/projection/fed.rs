//! A typed event of the feed, and how stored events become typed ones.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::entity::{EntityEvent, EventReader};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// An event as a projection sees it: the application's type, and what was stored with it.
///
/// ```
/// use annals::projection::Fed;
/// # #[derive(serde::Serialize, serde::Deserialize, annals::entity::EntityEvent)]
/// # enum CartEvent { Added { cents: u64 }, CheckedOut }
///
/// fn describe(event: &Fed<CartEvent>) -> String {
///     match &event.event {
///         CartEvent::Added { cents } => format!("cart {}: {cents} more cents", event.entity()),
///         CartEvent::CheckedOut => format!("cart {} is checked out", event.entity()),
///     }
/// }
/// # let opened = annals::entity::EntityEvent::to_event(&CartEvent::CheckedOut).unwrap();
/// # let stored = annals::Event::new("Cart|42".parse().unwrap(), annals::SequenceNumber::FIRST, annals::Token::from_bytes([0; 8]), opened);
/// # assert_eq!(describe(&Fed::new(CartEvent::CheckedOut, stored)), "cart 42 is checked out");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fed<E> {
    /// The event.
    pub event: E,
    /// The event as it is stored: persistence id, sequence number, time, tags, metadata.
    pub stored: Event,
}

impl<E> Fed<E> {
    /// An event and how it is stored, for tests.
    pub fn new(event: E, stored: Event) -> Self {
        Self { event, stored }
    }

    /// The persistence id, `TYPE|ID`.
    pub fn id(&self) -> &PersistenceId {
        &self.stored.persistence_id
    }

    /// The entity's id without its type.
    pub fn entity(&self) -> &str {
        let id = self.id().as_str();
        id.split_once('|').map_or(id, |(_, entity)| entity)
    }

    /// The sequence number.
    pub fn sequence_number(&self) -> SequenceNumber {
        self.stored.sequence_number
    }

    /// When it was appended, in milliseconds since the Unix epoch; 0 if that is unknown.
    pub fn time_ms(&self) -> u64 {
        self.stored.time_ms
    }
}

/// The typed events of a stored one: usually one; none or several after adapters.
pub(super) fn read<E: EntityEvent>(reader: &EventReader, stored: &Event) -> Result<Vec<Fed<E>>> {
    let read = guarded("reading an event", || reader.read::<E>(stored))??;
    let fed = read.events.into_iter();
    Ok(fed.map(|event| Fed::new(event, stored.clone())).collect())
}

/// Calls the application's code; a panic becomes an error.
pub(super) fn guarded<T>(doing: &str, call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| panicked(doing, &*panic))
}

/// The error of a panic.
pub(super) fn panicked(doing: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = "the code of the projection panicked; fix it, or handle the event differently";
    Error::invalid(message)
        .fact("doing", doing)
        .fact("panic", text.unwrap_or_default())
}
