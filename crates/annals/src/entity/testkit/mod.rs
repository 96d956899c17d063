//! Tests of entities without a store or a runtime: what was, what is asked, what is to become of it.
//!
//! Promises: beside what a test asks, every step checks what a journal will demand sooner or later.
//! Events and states read back as they were written; events that were read back make the same
//! state; a state from its snapshot makes the same decisions as one from its events, and goes on to
//! the same state; deciding twice decides the same. A failure shows both sides, at the line of the
//! test that asked.
//! Trusts: what is stored to tell two states apart, so that they need not be comparable.
//! Never: waits, reads a clock, or runs what an effect lets follow unless it is told to.
//!
//! For tests with a store there are [`faulty`](crate::faulty), whose [`script`] says what goes wrong
//! and when, and [`ManualClock`](crate::ManualClock).
//!
//! [`script`]: crate::faulty::Faulty::scripted

mod checks;
mod decided;
mod given;
#[cfg(test)]
mod tests;
mod value;

pub use decided::Decided;
pub use given::{Given, given};
pub use value::{DecidedValue, GivenValue, given_no_value, given_value};
