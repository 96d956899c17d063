//! Entities: what an application implements.
//!
//! An event-sourced entity is a state computed from its events. The application implements how an event
//! changes the state ([`Entity::apply`]) and what a command does ([`Handle::handle`]), and derives how
//! events and state are stored. Handlers are pure and synchronous. Annals does the rest: recovery from
//! a snapshot and the events after it, conditional appends, deciding again after a conflict, snapshots
//! and retention.
//!
//! ```
//! use annals::Annals;
//! use annals::entity::{Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Stored, persist};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Default, Serialize, Deserialize, Stored)]
//! struct Counter {
//!     count: u64,
//! }
//!
//! #[derive(Serialize, Deserialize, EntityEvent)]
//! #[event(entity = Counter)]
//! enum CounterEvent {
//!     Increased { by: u64 },
//! }
//!
//! impl Entity for Counter {
//!     const TYPE: &'static str = "Counter";
//!     type Event = CounterEvent;
//!     type Error = std::convert::Infallible;
//!
//!     fn apply(&mut self, event: &CounterEvent) {
//!         let CounterEvent::Increased { by } = event;
//!         self.count += by;
//!     }
//! }
//!
//! struct Increase(u64);
//!
//! impl Handle<Increase> for Counter {
//!     type Reply = u64;
//!
//!     fn handle(&self, command: &Increase, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
//!         let increased = CounterEvent::Increased { by: command.0 };
//!         Ok(persist(increased).reply(|counter| counter.count))
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let annals = Annals::embedded(folder.path()).await?;
//! let counters = annals.region::<Counter>(EntitySettings::new());
//! assert_eq!(counters.ask("visits", Increase(1)).await?, 1);
//! assert_eq!(counters.ask("visits", Increase(2)).await?, 3);
//! # Ok(())
//! # }
//! ```
//!
//! Two hosts run the same code: a [`Region`] keeps entities in memory while they are used, each with a
//! bounded mailbox; an [`Executor`] loads an entity for each command, for functions that serve one
//! request. With the feature `testkit`, `entity::testkit` tests handlers without a store.
//!
//! If you don't need history, use [`durable`].

mod backend;
pub mod codec;
mod consumers;
mod context;
mod deletion;
mod derive_support;
pub mod durable;
mod effect;
mod error;
mod evolution;
mod executor;
mod host;
mod loaded;
mod model;
mod recovery;
mod region;
mod settings;
mod variant;

#[cfg(feature = "testkit")]
pub mod testkit;

pub(crate) use backend::Shared;
pub(crate) use consumers::{Consumer, Consumers, HeldBack};
pub use context::Cx;
pub use effect::{Effect, none, persist, persist_all, reply};
pub use error::{AskError, Problem};
pub(crate) use evolution::EventReader;
pub use executor::Executor;
pub(crate) use host::Host;
pub use loaded::Once;
pub use model::{Entity, EntityEvent, EventOf, Handle, Stored};
pub use region::Region;
pub use settings::{EntitySettings, Retention};

/// Derives [`trait@EntityEvent`].
///
/// The name of an enum variant (or of a struct) is the manifest, its content is the payload. JSON and
/// CBOR need serde's `Serialize` and `Deserialize`, and use serde's names: its renames and aliases
/// apply. A variant without content is stored as `{}`.
///
/// | attribute | on | meaning |
/// | --- | --- | --- |
/// | `#[event(entity = Account)]` | type | The entity of these events. [`persist`] then infers it, so that closures need no types; see [`EventOf`]. |
/// | `#[event(format = "json")]` | type, variant | The format to write; see [`codec`] for the others. Both serde formats are read, and of the others only the one named. A variant that serde does not write holds one value or nothing, and needs `#[serde(skip)]` if serde writes other variants. |
/// | `#[event(name = "a", alias = "b")]` | variant that serde does not write | The manifest to write, and others to accept. |
/// | `#[event(codec = "akka:1042")]` | type, variant | The codec name to store, if it is not the format's own. On the layouts `akka` and `j5ik2o` it selects the JVM serializer by its number; that serializer gets the manifest. |
/// | `#[event(schema = 2)]` | type, variant | The schema number. Another stored number is `Corrupt`, unless an [adapter](EntitySettings::adapter) converts the event. A new field with `#[serde(default)]` needs no new number. |
/// | `#[event(tags("a", "b"))]` | type, variant | The tags to store. |
/// | `#[serde(other)]` | variant | Accepts all events with an unknown manifest. |
/// | `#[event(raw)]` | variant | The same, and holds the [`NewEvent`](crate::NewEvent) as it is stored, with manifest, schema number, codec, bytes, tags and metadata. It is written back unchanged. |
///
/// ```
/// use annals::entity::EntityEvent;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// enum AccountEvent {
///     Opened,
///     #[event(schema = 2, tags("money"))]
///     Deposited { amount: u64 },
///     #[serde(rename = "blocked", alias = "Frozen")]
///     Blocked(String),
/// }
///
/// let event = AccountEvent::Deposited { amount: 10 }.to_event()?;
/// assert_eq!(event.manifest, "Deposited");
/// assert_eq!(event.payload, r#"{"amount":10}"#);
/// assert_eq!((event.schema, event.tags), (2, vec!["money".to_owned()]));
/// assert_eq!(AccountEvent::Opened.to_event()?.payload, "{}");
///
/// let old = AccountEvent::Blocked("fraud".into()).to_event()?.manifest("Frozen");
/// assert_eq!(AccountEvent::from_event(&old)?, Some(AccountEvent::Blocked("fraud".into())));
/// assert_eq!(AccountEvent::from_event(&old.manifest("Cancelled"))?, None);
/// # Ok::<(), annals::Error>(())
/// ```
///
/// Variants with their own formats, and one for unknown events:
///
/// ```
/// use annals::entity::EntityEvent;
/// use annals::{Codec, NewEvent};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// enum AccountEvent {
///     Opened { by: String },
///     #[serde(skip)]
///     #[event(format = "bytes", name = "photo", codec = "akka:1042")]
///     Photographed(Vec<u8>),
///     #[serde(skip)]
///     #[event(raw)]
///     Other(NewEvent),
/// }
///
/// let photo = AccountEvent::Photographed(vec![1, 2]).to_event()?;
/// assert_eq!((photo.manifest.as_str(), photo.codec.to_string()), ("photo", "akka:1042".into()));
/// let cancelled = NewEvent::new(Codec::Text, "too late").manifest("Cancelled").schema(7);
/// let other = AccountEvent::from_event(&cancelled)?.unwrap();
/// assert_eq!(other.to_event()?, cancelled);
/// # Ok::<(), annals::Error>(())
/// ```
///
/// An enum that is not externally tagged has no name for the manifest:
///
/// ```compile_fail
/// #[derive(serde::Serialize, serde::Deserialize, annals::entity::EntityEvent)]
/// #[serde(tag = "type")]
/// enum AccountEvent {
///     Opened,
/// }
/// ```
pub use annals_macros::EntityEvent;

/// Derives [`trait@Stored`].
///
/// | attribute | meaning |
/// | --- | --- |
/// | `#[stored(format = "json")]` | The format to write; see [`codec`] for the others. Both serde formats are read, and of the others only the one named. |
/// | `#[stored(schema = 2)]` | The schema number. A payload with another number is `Corrupt`. |
/// | `#[stored(name = "a", alias = "b")]` | The manifest to write, and others to accept. Without a name there is none, and any is accepted. |
/// | `#[stored(codec = "akka:1042")]` | The codec name to store, as for events. |
///
/// ```
/// use annals::ErrorKind;
/// use annals::entity::Stored;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Stored, Default)]
/// #[stored(schema = 2)]
/// struct Account {
///     balance: u64,
/// }
///
/// let payload = Account { balance: 10 }.to_payload()?;
/// assert_eq!(payload.bytes, r#"{"balance":10}"#);
/// assert_eq!(Account::from_payload(&payload)?.balance, 10);
/// let old = Account::from_payload(&payload.schema(1));
/// assert_eq!(old.err().unwrap().kind(), ErrorKind::Corrupt);
/// # Ok::<(), annals::Error>(())
/// ```
pub use annals_macros::Stored;

/// What derived code calls. Not part of the public API.
#[doc(hidden)]
pub mod __private {
    pub use super::derive_support::*;
    pub use crate::payload::SerdeFormat;
}
