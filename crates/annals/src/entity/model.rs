//! The traits that an application implements: entities, their commands, and how events and states are
//! stored.

use super::{Cx, Effect};
use crate::{NewEvent, Payload, Result};

/// An event-sourced entity: a state computed from its events.
///
/// The state is the implementing type itself; a new entity starts with its default.
///
/// ```
/// use annals::entity::{Entity, EntityEvent, Stored};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Stored, Default)]
/// struct Account {
///     balance: u64,
/// }
///
/// #[derive(Serialize, Deserialize, EntityEvent)]
/// #[event(entity = Account)]
/// enum AccountEvent {
///     Deposited { amount: u64 },
///     Withdrawn { amount: u64 },
/// }
///
/// #[derive(thiserror::Error, Debug)]
/// #[error("insufficient funds. balance=`{0}`")]
/// struct InsufficientFunds(u64);
///
/// impl Entity for Account {
///     const TYPE: &'static str = "Account";
///     type Event = AccountEvent;
///     type Error = InsufficientFunds;
///
///     fn apply(&mut self, event: &AccountEvent) {
///         match event {
///             AccountEvent::Deposited { amount } => self.balance += amount,
///             AccountEvent::Withdrawn { amount } => self.balance -= amount,
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event-sourced entity",
    label = "`annals::entity::Entity` is not implemented for `{Self}`",
    note = "implement `annals::entity::Entity` for `{Self}`: its type name, its events, its error, and `apply`",
    note = "for a value without history, implement `annals::entity::durable::Entity` and use `durable_region` or `durable_executor`"
)]
pub trait Entity: Default + Stored + Send + Sync + 'static {
    /// The name of the entity type. It is part of every persistence id (`TYPE|ID`), so it must never
    /// change.
    const TYPE: &'static str;
    /// The events.
    type Event: EntityEvent;
    /// Why a command is rejected.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Apply an event. This cannot fail: the event is in the journal, so it has happened.
    fn apply(&mut self, event: &Self::Event);
}

/// Handles commands of type `C`.
///
/// A handler is pure and synchronous: it reads the state and returns an effect. On a conflict with
/// another writer it runs again with the newer state, so it must not have side effects; put what must
/// happen after the events are durable into [`Effect::then`].
///
/// Each command is a type with its own reply. An enum of commands with a common reply works too.
///
/// ```
/// # use annals::entity::{Entity, EntityEvent, Stored};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Stored, Default)]
/// # struct Account { balance: u64 }
/// # #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
/// # #[event(entity = Account)]
/// # enum AccountEvent { Deposited { amount: u64 }, Closed }
/// # impl Entity for Account {
/// #     const TYPE: &'static str = "Account";
/// #     type Event = AccountEvent;
/// #     type Error = std::fmt::Error;
/// #     fn apply(&mut self, event: &AccountEvent) {
/// #         if let AccountEvent::Deposited { amount } = event { self.balance += amount; }
/// #     }
/// # }
/// use annals::entity::{Cx, Effect, Handle, persist};
///
/// struct Deposit(u64);
///
/// impl Handle<Deposit> for Account {
///     /// The new balance.
///     type Reply = u64;
///
///     fn handle(&self, command: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
///         let event = AccountEvent::Deposited { amount: command.0 };
///         Ok(persist(event).reply(|account| account.balance))
///     }
/// }
/// # annals::entity::testkit::given::<Account>([]).when(&Deposit(7)).then_reply(7);
/// ```
///
/// A command without a handler does not compile, and the error names both types:
///
/// ```compile_fail,E0277
/// # use annals::entity::{AskError, Entity, EntityEvent, Region, Stored};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Stored, Default)]
/// # struct Account { balance: u64 }
/// # #[derive(Serialize, Deserialize, EntityEvent)]
/// # enum AccountEvent { Closed }
/// # impl Entity for Account {
/// #     const TYPE: &'static str = "Account";
/// #     type Event = AccountEvent;
/// #     type Error = std::fmt::Error;
/// #     fn apply(&mut self, _: &AccountEvent) {}
/// # }
/// struct Withdraw(u64);
///
/// async fn withdraw(accounts: &Region<Account>) {
///     let _ = accounts.ask("alice", Withdraw(10)).await;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle the command `{C}`",
    label = "no handler for `{C}`",
    note = "implement `annals::entity::Handle<{C}>` for `{Self}`"
)]
pub trait Handle<C>: Entity {
    /// What the caller gets.
    type Reply: Send + 'static;

    /// Decide what the command does.
    ///
    /// # Errors
    /// The entity's own error if it rejects the command. Nothing is written then.
    fn handle(&self, command: &C, cx: &Cx<'_>) -> Result<Effect<Self, Self::Reply>, Self::Error>;
}

/// A type that is stored as one payload: the state of an entity, a durable value.
///
/// Derive it for serde types (`#[derive(Stored)]` as JSON, or `#[stored(format = "cbor",
/// schema = 2)]`), protocol buffers, text, bytes, and types with a custom
/// [codec](super::codec). Implement it by hand for anything else:
///
/// ```
/// use annals::entity::Stored;
/// use annals::{Codec, Error, Payload, Result};
///
/// struct Counter(u64);
///
/// impl Stored for Counter {
///     fn to_payload(&self) -> Result<Payload> {
///         Ok(Payload::new(Codec::Bytes, self.0.to_be_bytes().to_vec()))
///     }
///
///     fn from_payload(payload: &Payload) -> Result<Self> {
///         let bytes = payload.bytes.as_ref().try_into();
///         let bytes = bytes.map_err(|cause| Error::corrupt("not a counter").because(cause))?;
///         Ok(Self(u64::from_be_bytes(bytes)))
///     }
/// }
/// # let payload = Counter(7).to_payload().unwrap();
/// # assert_eq!(Counter::from_payload(&payload).unwrap().0, 7);
/// ```
///
/// A state that is not stored cannot be an entity:
///
/// ```compile_fail,E0277
/// #[derive(Default)]
/// struct Session {
///     user: String,
/// }
///
/// impl annals::entity::durable::Entity for Session {
///     const TYPE: &'static str = "Session";
///     type Error = std::convert::Infallible;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored",
    label = "`annals::entity::Stored` is not implemented for `{Self}`",
    note = "add `#[derive(serde::Serialize, serde::Deserialize, annals::entity::Stored)]` to `{Self}`, or implement `Stored` by hand"
)]
pub trait Stored: Sized {
    /// Encode the value.
    ///
    /// # Errors
    /// `Invalid` if the format cannot represent it.
    fn to_payload(&self) -> Result<Payload>;

    /// Decode the value.
    ///
    /// # Errors
    /// `Corrupt` if the payload does not decode or has another schema number.
    fn from_payload(payload: &Payload) -> Result<Self>;
}

/// The events of an entity: usually an enum with one variant per event.
///
/// Derive it for serde enums (`#[derive(EntityEvent)]`): the variant's name is the manifest and its
/// fields are the payload. `Deposited { amount: 10 }` is stored as `Deposited` and `{"amount":10}`,
/// which readers in other languages expect. Variants can also hold a protocol buffers message, text,
/// bytes, or a value with a custom [codec](super::codec). Implement it by hand for anything else:
///
/// ```
/// use annals::entity::{Entity, EntityEvent, EventOf};
/// use annals::{Codec, Error, NewEvent, Result};
///
/// struct Beat(u8);
///
/// impl EntityEvent for Beat {
///     fn to_event(&self) -> Result<NewEvent> {
///         Ok(NewEvent::new(Codec::Bytes, vec![self.0]).manifest("Beat"))
///     }
///
///     fn from_event(event: &NewEvent) -> Result<Option<Self>> {
///         match (event.manifest.as_str(), event.payload.as_ref()) {
///             ("Beat", [n]) => Ok(Some(Self(*n))),
///             ("Beat", _) => Err(Error::corrupt("a beat has one byte")),
///             _ => Ok(None),
///         }
///     }
/// }
///
/// impl<E: Entity<Event = Beat>> EventOf<E> for Beat {}
/// # let event = Beat(7).to_event().unwrap();
/// # assert_eq!(Beat::from_event(&event).unwrap().unwrap().0, 7);
/// # assert!(Beat::from_event(&event.manifest("Other")).unwrap().is_none());
/// ```
///
/// A type without it cannot be an entity's event:
///
/// ```compile_fail,E0277
/// # #[derive(Default, serde::Serialize, serde::Deserialize, annals::entity::Stored)]
/// # struct Account;
/// struct Closed;
///
/// impl annals::entity::Entity for Account {
///     const TYPE: &'static str = "Account";
///     type Event = Closed;
///     type Error = std::convert::Infallible;
///     fn apply(&mut self, _: &Closed) {}
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event type",
    label = "`annals::entity::EntityEvent` is not implemented for `{Self}`",
    note = "add `#[derive(serde::Serialize, serde::Deserialize, annals::entity::EntityEvent)]` to `{Self}`, or implement `EntityEvent` by hand"
)]
pub trait EntityEvent: Sized + Send + Sync + 'static {
    /// Encode the event.
    ///
    /// # Errors
    /// `Invalid` if the format cannot represent it.
    fn to_event(&self) -> Result<NewEvent>;

    /// Decode the event; `None` if it is not one of this type.
    ///
    /// # Errors
    /// `Corrupt` if the payload does not decode.
    fn from_event(event: &NewEvent) -> Result<Option<Self>>;
}

/// Says which entity an event belongs to, so that [`persist`](super::persist) infers the entity and
/// closures after it need no type: `persist(event).reply(|account| account.balance)`.
///
/// Derived with [`EntityEvent`](derive@super::EntityEvent): name the entity with
/// `#[event(entity = Account)]`. Without it the event may belong to any entity whose
/// [`Event`](Entity::Event) it is, and closures must name the type: `|account: &Self|`. See
/// [`EntityEvent`] for an example by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event of `{E}`",
    label = "not an event of `{E}`",
    note = "name the entity in the derive: `#[event(entity = {E})]`, or implement `annals::entity::EventOf<{E}>` for `{Self}`"
)]
pub trait EventOf<E> {}
