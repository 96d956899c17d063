//! The store handle: a store of items with a clock, randomness, counters and spans.
//!
//! Guarantees: every error names its request, table and keys; every call is counted when it ends; a
//! call inside a span gets a span of its own. Implementations of `Items` need none of this.
//!
//! # Metrics
//!
//! Every [`Store`] reports to the recorder of the `metrics` crate that is installed when the store is
//! opened:
//!
//! | counter | label | counts |
//! |---|---|---|
//! | [`REQUESTS`] | `verb` | requests to the store |
//! | [`WRITE_UNITS`] | | write units consumed |
//! | [`READ_UNITS`] | | read units consumed; halves are added up to whole units |
//! | [`REFUSED`] | | conditional writes that were refused |
//! | [`FAILED`] | | calls that failed |

mod counts;
mod error_context;
mod handle;

pub use counts::{Count, Counts, FAILED, READ_UNITS, REFUSED, REQUESTS, Verb, WRITE_UNITS};
pub use handle::Store;
