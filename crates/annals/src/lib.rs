//! Event-sourced persistence, on one machine and on DynamoDB, with the same code and guarantees.

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

#[cfg(feature = "embedded")]
pub mod bench;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod counting;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod entity;
#[cfg(feature = "testing")]
pub mod faulty;
pub mod items;
pub mod journal;
#[cfg(feature = "testing")]
pub mod lagging;
pub mod layout;
pub mod memory;
pub mod settings;
pub mod snapshot;
pub mod state;
#[cfg(feature = "testing")]
pub mod tck;
pub mod verify;

pub use clock::{Clock, ManualClock, SystemClock};
pub use codec::Codec;
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, NewEvent, Token};
pub use facade::Annals;
pub use id::{PERSISTENCE_ID_BYTES_MAX, PersistenceId, SequenceNumber};
pub use payload::Payload;
pub use random::Random;

/// The README's example compiles.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
