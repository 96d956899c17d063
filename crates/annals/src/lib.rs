//! Event-sourced persistence, on one machine and on DynamoDB, with the same code and guarantees.
//!
//! Annals keeps what happened to things: an account, a cart, a sensor. What happened is never
//! changed or lost; how things are now is worked out from it. This page goes from the first event
//! to a service that survives being killed.
//!
//! # An event, and then another
//!
//! [`Annals`] is everything on one store. The embedded one is a folder; nothing has to be installed
//! and nothing runs beside your program.
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
//! An append that has returned is on the disk. It says what it believes to be last
//! ([`Expected`](journal::Expected)): where somebody else was first it is refused as a conflict, and
//! nothing is overwritten. So two processes may write the same id without knowing of each other.
//!
//! # What an application writes
//!
//! Few want to handle bytes and numbers. An [`Entity`](entity::Entity) is a state, the events that
//! make it, and the commands it understands; how it is loaded, kept in memory, and decided again
//! where somebody was faster is not the application's business.
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
//! enum Happened {
//!     Deposited { amount: u64 },
//!     Withdrawn { amount: u64 },
//! }
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("there are only {0}")]
//! struct TooLittle(u64);
//!
//! impl Entity for Account {
//!     const TYPE: &'static str = "Account";
//!     type Event = Happened;
//!     type Error = TooLittle;
//!
//!     fn apply(&mut self, event: &Happened) {
//!         match event {
//!             Happened::Deposited { amount } => self.balance += amount,
//!             Happened::Withdrawn { amount } => self.balance -= amount,
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
//!     fn handle(&self, deposit: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, TooLittle> {
//!         let deposited = Happened::Deposited { amount: deposit.0 };
//!         Ok(persist(deposited).reply(|account: &Self| account.balance))
//!     }
//! }
//!
//! impl Handle<Withdraw> for Account {
//!     type Reply = u64;
//!
//!     fn handle(&self, withdraw: &Withdraw, _: &Cx<'_>) -> Result<Effect<Self, u64>, TooLittle> {
//!         if withdraw.0 > self.balance {
//!             return Err(TooLittle(self.balance));
//!         }
//!         let withdrawn = Happened::Withdrawn { amount: withdraw.0 };
//!         Ok(persist(withdrawn).reply(|account: &Self| account.balance))
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
//! A decision is tested without a store or a runtime (feature `testing`):
//!
//! ```
//! # use annals::entity::{Cx, Effect, Entity, EntityEvent, Handle, Stored, persist};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Default, Serialize, Deserialize, Stored)]
//! # struct Account { balance: u64 }
//! # #[derive(Serialize, Deserialize, EntityEvent, PartialEq, Debug)]
//! # enum Happened { Deposited { amount: u64 } }
//! # impl Entity for Account {
//! #     const TYPE: &'static str = "Account";
//! #     type Event = Happened;
//! #     type Error = std::convert::Infallible;
//! #     fn apply(&mut self, Happened::Deposited { amount }: &Happened) { self.balance += amount; }
//! # }
//! # struct Deposit(u64);
//! # impl Handle<Deposit> for Account {
//! #     type Reply = u64;
//! #     fn handle(&self, deposit: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
//! #         Ok(persist(Happened::Deposited { amount: deposit.0 }).reply(|a: &Self| a.balance))
//! #     }
//! # }
//! # #[cfg(feature = "testing")] {
//! use annals::entity::testkit::given;
//!
//! given::<Account>([Happened::Deposited { amount: 10 }])
//!     .when(&Deposit(5))
//!     .then_events([Happened::Deposited { amount: 5 }])
//!     .then_reply(15);
//! # }
//! ```
//!
//! [`entity`] goes on from here: snapshots and retention, commands that are handled once, events of
//! yesterday under the code of today, values without a history ([`entity::durable`]).
//!
//! # What can go wrong
//!
//! There is one [`Error`], and its [`kind`](Error::kind) says what to do: `Conflict`, reload and
//! decide again (entities do); `Unavailable`, the same call later; `Invalid`, fix the call;
//! `Corrupt`, stop and look. What is absent is `None`.
//!
//! # From a folder to DynamoDB
//!
//! Everything above runs on any store that implements [`Items`](items::Items): [`memory`] for tests,
//! [`embedded`] on one machine, and DynamoDB in the crate `annals-aws`, whose `create` returns the
//! same [`Annals`]. How events become items is a [`layout`]: ours, or that of the JVM plugins whose
//! tables you have already (the crate `annals-jvm`).
//!
//! # Where things are
//!
//! | To | look at |
//! | --- | --- |
//! | write an application | [`entity`] |
//! | append, replay, follow, delete events | [`journal`] |
//! | keep a state beside its events | [`snapshot`] |
//! | keep only the current value | [`state`] |
//! | copy all of it to another layout or store | [`copy`] |
//! | know what it costs | [`store`] |
//! | look for damage | [`verify`] |
//! | choose names, limits, layouts | [`settings`] |

// Derived code says `::annals`, here as well.
extern crate self as annals;

mod clock;
mod codec;
mod error;
mod event;
mod facade;
mod id;
mod payload;
mod random;

pub mod copy;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod entity;
pub mod items;
pub mod journal;
pub mod layout;
pub mod log;
pub mod memory;
pub mod settings;
pub mod snapshot;
pub mod state;
pub mod store;
pub mod verify;

pub use clock::{Clock, ManualClock, SystemClock};
pub use codec::{Codec, Scalar};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, NewEvent, Token};
pub use facade::Annals;
pub use id::{IdStream, PERSISTENCE_ID_BYTES_MAX, PersistenceId, SequenceNumber};
pub use payload::Payload;
pub use random::Random;

/// The README's example compiles.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
