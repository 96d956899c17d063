//! Event-sourced persistence, on one machine and on DynamoDB, with the same code and guarantees.
//!
//! Annals stores the events of entities: an account, a cart, a sensor. Events are never changed or lost;
//! the current state is computed from them. This page goes from the first event to a service that
//! survives a crash.
//!
//! # Append and replay
//!
//! [`Annals`] opens everything on one store. The embedded store is a folder; there is nothing to install
//! and no server to run.
//!
//! ```
//! use annals::journal::{Expected, Window};
//! use annals::{Annals, Codec, NewEvent};
//! use futures::TryStreamExt;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let annals = Annals::embedded(folder).await?;
//! let journal = annals.journal();
//!
//! let id = "Cart|42".parse()?;
//! let opened = NewEvent::new(Codec::Json, "{}").manifest("Opened");
//! let appended = journal.append(&id, Expected::Empty, opened).await?;
//!
//! let added = NewEvent::new(Codec::Json, r#"{"what":"a book"}"#).manifest("Added");
//! journal.append(&id, Expected::Last(appended.last), added).await?;
//!
//! let mut events = journal.replay(&id, Window::ALL);
//! while let Some(event) = events.try_next().await? {
//!     println!("{} {}", event.sequence_number, event.data.manifest);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! When an append returns, it is on disk. It names the last event it knows
//! ([`Expected`](journal::Expected)): if another writer was faster, it fails with a conflict and nothing
//! is overwritten. So two processes can write the same id without coordination.
//!
//! # Entities
//!
//! Most applications don't want to handle bytes and sequence numbers. An [`Entity`](entity::Entity) is a
//! state, its events, and the commands it handles. Annals loads it, keeps it in memory, and decides again
//! after a conflict.
//!
//! ```
//! use annals::Annals;
//! use annals::entity::{Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Stored, persist};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Default, Serialize, Deserialize, Stored)]
//! struct Account {
//!     balance: u64,
//! }
//!
//! #[derive(Serialize, Deserialize, EntityEvent)]
//! #[event(entity = Account)]
//! enum AccountEvent {
//!     Deposited { amount: u64 },
//!     Withdrawn { amount: u64 },
//! }
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("insufficient funds. balance=`{0}`")]
//! struct InsufficientFunds(u64);
//!
//! impl Entity for Account {
//!     const TYPE: &'static str = "Account";
//!     type Event = AccountEvent;
//!     type Error = InsufficientFunds;
//!
//!     fn apply(&mut self, event: &AccountEvent) {
//!         match event {
//!             AccountEvent::Deposited { amount } => self.balance += amount,
//!             AccountEvent::Withdrawn { amount } => self.balance -= amount,
//!         }
//!     }
//! }
//!
//! struct Deposit(u64);
//! struct Withdraw(u64);
//!
//! impl Handle<Deposit> for Account {
//!     type Reply = u64;
//!
//!     fn handle(&self, deposit: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
//!         let deposited = AccountEvent::Deposited { amount: deposit.0 };
//!         Ok(persist(deposited).reply(|account| account.balance))
//!     }
//! }
//!
//! impl Handle<Withdraw> for Account {
//!     type Reply = u64;
//!
//!     fn handle(&self, withdraw: &Withdraw, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
//!         if withdraw.0 > self.balance {
//!             return Err(InsufficientFunds(self.balance));
//!         }
//!         let withdrawn = AccountEvent::Withdrawn { amount: withdraw.0 };
//!         Ok(persist(withdrawn).reply(|account| account.balance))
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let annals = Annals::embedded(folder).await?;
//! let accounts = annals.region::<Account>(EntitySettings::new());
//! assert_eq!(accounts.ask("alice", Deposit(10)).await?, 10);
//! assert_eq!(accounts.ask("alice", Withdraw(4)).await?, 6);
//! assert!(accounts.ask("alice", Withdraw(7)).await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! Handlers are tested without a store or a runtime (feature `testkit`):
//!
//! ```
//! # use annals::entity::{Cx, Effect, Entity, EntityEvent, Handle, Stored, persist};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Default, Serialize, Deserialize, Stored)]
//! # struct Account { balance: u64 }
//! # #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
//! # #[event(entity = Account)]
//! # enum AccountEvent { Deposited { amount: u64 } }
//! # impl Entity for Account {
//! #     const TYPE: &'static str = "Account";
//! #     type Event = AccountEvent;
//! #     type Error = std::convert::Infallible;
//! #     fn apply(&mut self, AccountEvent::Deposited { amount }: &AccountEvent) { self.balance += amount; }
//! # }
//! # struct Deposit(u64);
//! # impl Handle<Deposit> for Account {
//! #     type Reply = u64;
//! #     fn handle(&self, deposit: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
//! #         Ok(persist(AccountEvent::Deposited { amount: deposit.0 }).reply(|account| account.balance))
//! #     }
//! # }
//! # #[cfg(feature = "testkit")] {
//! use annals::entity::testkit::given;
//!
//! given::<Account>([AccountEvent::Deposited { amount: 10 }])
//!     .when(&Deposit(5))
//!     .then_events([AccountEvent::Deposited { amount: 5 }])
//!     .then_reply(15);
//! # }
//! ```
//!
//! [`entity`] has the rest: snapshots and retention, commands that are handled once, metadata and
//! correlation ids, schema evolution, values without history ([`entity::durable`]).
//!
//! # Errors
//!
//! There is one [`Error`], and its [`kind`](Error::kind) says what to do: `Conflict`: reload and decide
//! again (entities do that). `Unavailable`: retry later. `Invalid`: fix the call. `Corrupt`: stop; an
//! operator must look. Absence is `None`, not an error.
//!
//! # From a folder to DynamoDB
//!
//! All of this runs on any store that implements [`Items`](items::Items): [`memory`] for tests,
//! [`embedded`] on one machine, and DynamoDB in the crate `annals-aws`, whose `create` returns the same
//! [`Annals`]. A [`layout`] maps events to items: ours, or the one of the JVM plugin whose tables you
//! already have (the crate `annals-jvm`).
//!
//! # Modules
//!
//! | To | see |
//! | --- | --- |
//! | write an application | [`entity`] |
//! | append, replay, follow, delete events | [`journal`] |
//! | save an entity's state next to its events | [`snapshot`] |
//! | store only the current value | [`state`] |
//! | share the work on new events among members | [`group`] |
//! | keep a read model, or react to events | [`projection`] |
//! | play back the events of all entities by time | [`log`] |
//! | copy everything to another layout or store | [`copy`] |
//! | know what it costs | [`store`] |
//! | find damage | [`verify`] |
//! | choose names and limits | [`settings`] |
//! | add a store, or a layout | [`items`], [`layout`] |

// Derived code names `::annals`, in this crate too.
extern crate self as annals;

#[cfg(all(doctest, feature = "embedded"))]
mod book;
mod clock;
mod codec;
mod consumers;
mod error;
mod event;
mod facade;
mod id;
mod payload;
mod random;
#[cfg(feature = "embedded")]
mod restoring;
mod stream;

pub mod copy;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod entity;
pub mod feed;
pub mod group;
pub mod items;
pub mod journal;
pub mod layout;
pub mod log;
pub mod memory;
pub mod projection;

pub mod settings;
pub mod snapshot;
pub mod state;
pub mod store;
pub mod verify;

pub use clock::{Clock, ManualClock, SystemClock};
pub use codec::Codec;
// The JVM's plain values, for annals-jvm.
#[doc(hidden)]
pub use codec::Scalar;
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, NewEvent, Token};
pub use facade::{Annals, Purged};
pub use id::{IdStream, PERSISTENCE_ID_BYTES_MAX, PersistenceId, SequenceNumber};
pub use payload::Payload;
pub use random::Random;
pub use stream::ResultStream;

/// The examples of the workspace's README compile.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The example of this crate's README compiles.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../README.md")]
struct CrateReadme;
