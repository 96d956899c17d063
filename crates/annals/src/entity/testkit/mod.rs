//! Tests of handlers without a store or a runtime: given events, when a command, then an outcome.
//!
//! Guarantees: every step also checks what a journal needs. Events and states read back as they were
//! written. Replayed events lead to the same state. A state from a snapshot decides the same and
//! continues to the same state. Deciding twice gives the same result. A failure shows the expected and
//! the actual outcome, at the line of the test.
//! States are compared by their stored form, so they need not implement `PartialEq`. The testkit never
//! waits, reads a clock, or runs callbacks unless asked to ([`Decided::then_run_callbacks`]).

mod checks;
mod decided;
mod given;
#[cfg(test)]
mod tests;
mod value;
#[cfg(test)]
mod value_tests;

pub use decided::Decided;
pub use given::{Given, given};
pub use value::{DecidedValue, GivenValue, given_no_value, given_value};
