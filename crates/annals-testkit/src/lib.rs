//! Tests for stores and layouts of Annals: the conformance suite, the property lists, and decorators
//! that inject faults.
//!
//! ```text
//! conformance   what every store must do
//! tck           what journals, snapshots, state and the log must do on every layout and store
//! hooked        a decorator: every call goes through a hook that a test writes
//! faulty        a decorator: faults by seed or by script
//! lagging       a decorator: global indexes that lag
//! gate          a decorator: calls wait until the test releases them
//! journals      journals for tests, opened as a new process opens them
//! ```
//!
//! Tests of an application's own entities need none of this: see `annals::entity::testkit`.

pub mod conformance;
pub mod faulty;
pub mod gate;
pub mod hooked;
pub mod journals;
pub mod lagging;
pub mod tck;

use std::sync::Arc;

use annals::store::Store;
use annals::{Clock, Random};

/// A store with a clock and randomness that the test decides.
pub fn store(items: impl Into<Store>, clock: Arc<dyn Clock>, random: Random) -> Store {
    items.into().with_clock(clock).with_random(random)
}

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
