//! The library from outside: stores against the conformance suite, decorators, house rules.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod conformance;
mod crash;
mod embedded;
