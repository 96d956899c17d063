//! Entities: what an application writes.
//!
//! An entity is a state that is made of its events. The application says three things about it: how
//! an event changes it ([`Entity::apply`]), what a command does to it ([`Handle::handle`]), and how
//! events and state are stored (derived). Deciding is pure and synchronous; everything else is done
//! here: recovery from snapshot and tail, appending on the condition that nobody else did, deciding
//! again where somebody was faster, snapshots and what is deleted behind them.
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
//! enum Happened {
//!     Counted { by: u64 },
//! }
//!
//! impl Entity for Counter {
//!     const TYPE: &'static str = "Counter";
//!     type Event = Happened;
//!     type Error = std::convert::Infallible;
//!
//!     fn apply(&mut self, event: &Happened) {
//!         let Happened::Counted { by } = event;
//!         self.count += by;
//!     }
//! }
//!
//! struct Count(u64);
//!
//! impl Handle<Count> for Counter {
//!     type Reply = u64;
//!
//!     fn handle(&self, command: &Count, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
//!         let counted = Happened::Counted { by: command.0 };
//!         Ok(persist(counted).reply(|counter: &Self| counter.count))
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let annals = Annals::embedded(folder.path()).await?;
//! let counters = annals.region::<Counter>(EntitySettings::new());
//! assert_eq!(counters.ask("visits", Count(1)).await?, 1);
//! assert_eq!(counters.ask("visits", Count(2)).await?, 3);
//! # Ok(())
//! # }
//! ```
//!
//! There are two hosts for the same code: a [`Region`] keeps entities in memory while they are used,
//! each with a bounded mailbox; an [`Executor`] loads one for each command, for functions that live
//! for one request. With the feature `testing`, `testkit` tests decisions without either.
//!
//! What nobody will ask the history of needs no events: [`durable`] has the same shape for a value.

pub mod codec;
mod context;
mod derived;
pub mod durable;
mod effect;
mod ending;
mod error;
mod evolution;
mod executor;
mod host;
mod hosting;
mod live;
mod model;
mod once;
mod recovery;
mod region;
mod retention;
mod settings;
mod stored;
mod variant;

#[cfg(feature = "testing")]
pub mod testkit;

pub use context::Cx;
pub use effect::{Effect, none, persist, persist_all, reply};
pub use error::AskError;
pub use evolution::{Adapter, Unknown};
pub use executor::Executor;
pub(crate) use host::Host;
pub use live::Once;
pub use model::{Entity, Handle};
pub use region::Region;
pub use retention::Retention;
pub use settings::EntitySettings;
pub use stored::{EntityEvent, Format, Stored};

/// Derives [`trait@EntityEvent`].
///
/// The name of an enum's variant is the manifest, its content the payload. JSON and CBOR are for
/// what derives serde's `Serialize` and `Deserialize`, and names are serde's: what renames a variant
/// or gives it an alias there does so here. A variant without content is `{}`. Of a struct the name
/// of the struct is the manifest.
///
/// - `#[event(format = "json")]`, of the whole type or a variant: how it is written; see [`codec`]
///   for what else there is. Both of serde's formats are read, and each of the others alone. What
///   serde does not write holds one value or nothing, and needs `#[serde(skip)]` beside others that
///   serde writes.
/// - `#[event(name = "a", alias = "b")]`, of what serde does not name: the manifest that it is
///   written with, and others that it is read with.
/// - `#[event(codec = "akka:1042")]`, of the whole type or a variant: what it is recorded as, where
///   that is not the format's own codec. On the layouts `akka` and `j5ik2o` this chooses the JVM's
///   serializer by its number, which is told the manifest.
/// - `#[event(schema = 2)]`, of the whole type or a variant: the number of the shape. What is stored
///   with another number is `Corrupt`, unless an [`Adapter`] makes it today's and says so with the
///   number. Adding a field with `#[serde(default)]` needs no new number.
/// - `#[event(tags("a", "b"))]`, of the whole type or a variant: what it is tagged with.
/// - A variant with `#[serde(other)]` stands for all events that no other has the name of. One with
///   `#[event(raw)]` does too, and holds them as they are stored: its [`NewEvent`](crate::NewEvent)
///   has their manifest, schema number, codec, bytes, tags and metadata, and is written so again.
///
/// ```
/// use annals::entity::EntityEvent;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// enum Happened {
///     Opened,
///     #[event(schema = 2, tags("money"))]
///     Deposited { amount: u64 },
///     #[serde(rename = "blocked", alias = "Frozen")]
///     Blocked(String),
/// }
///
/// let event = Happened::Deposited { amount: 10 }.to_event()?;
/// assert_eq!(event.manifest, "Deposited");
/// assert_eq!(event.payload, r#"{"amount":10}"#);
/// assert_eq!((event.schema, event.tags), (2, vec!["money".to_owned()]));
/// assert_eq!(Happened::Opened.to_event()?.payload, "{}");
///
/// let old = Happened::Blocked("fraud".into()).to_event()?.manifest("Frozen");
/// assert_eq!(Happened::from_event(&old)?, Some(Happened::Blocked("fraud".into())));
/// assert_eq!(Happened::from_event(&old.manifest("Cancelled"))?, None);
/// # Ok::<(), annals::Error>(())
/// ```
///
/// Variants in formats of their own, and one for what nobody knows:
///
/// ```
/// use annals::entity::EntityEvent;
/// use annals::{Codec, NewEvent};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// enum Happened {
///     Opened { by: String },
///     #[serde(skip)]
///     #[event(format = "bytes", name = "photo", codec = "akka:1042")]
///     Photographed(Vec<u8>),
///     #[serde(skip)]
///     #[event(raw)]
///     Other(NewEvent),
/// }
///
/// let photo = Happened::Photographed(vec![1, 2]).to_event()?;
/// assert_eq!((photo.manifest.as_str(), photo.codec.to_string()), ("photo", "akka:1042".into()));
/// let cancelled = NewEvent::new(Codec::Text, "too late").manifest("Cancelled").schema(7);
/// let other = Happened::from_event(&cancelled)?.unwrap();
/// assert_eq!(other.to_event()?, cancelled);
/// # Ok::<(), annals::Error>(())
/// ```
///
/// A serde that keeps the name elsewhere has none for the manifest:
///
/// ```compile_fail
/// #[derive(serde::Serialize, serde::Deserialize, annals::entity::EntityEvent)]
/// #[serde(tag = "type")]
/// enum Happened {
///     Opened,
/// }
/// ```
pub use annals_macros::EntityEvent;

/// Derives [`trait@Stored`].
///
/// - `#[stored(format = "json")]`: how it is written; see [`codec`] for what else there is. Both of
///   serde's formats are read, and each of the others alone.
/// - `#[stored(schema = 2)]`: the number of the shape. A payload of another number is `Corrupt`: it
///   has another shape.
/// - `#[stored(name = "a", alias = "b")]`: the manifest that it is written with, and others that it
///   is read with; without a name there is none, and none is asked for.
/// - `#[stored(codec = "akka:1042")]`: what it is recorded as, as for events.
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

/// What derived code calls. Nothing of it is promised.
#[doc(hidden)]
pub mod __private {
    pub use super::derived::*;
}
