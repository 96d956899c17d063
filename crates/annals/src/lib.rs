//! Event-sourced persistence, on one machine and on DynamoDB, with the same code and guarantees.

mod clock;
mod error;
mod random;

#[cfg(feature = "embedded")]
pub mod bench;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod counting;
#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "testing")]
pub mod faulty;
pub mod items;
pub mod layout;
pub mod memory;
pub mod settings;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use random::Random;

/// The README's example compiles.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
