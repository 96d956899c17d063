//! The tables of j5ik2o's akka-persistence-dynamodb: journal, snapshots and durable state. Their
//! bytes: `docs/format.md`.
//!
//! [Resolvers](PartitionKeyResolver) make the keys. The settings choose them by name; pass your own
//! to [`J5ik2oJournal::open_with`] and [`J5ik2oSnapshots::open_with`].

mod closing;
mod deletion;
mod feed;
mod format;
mod hints;
mod ids;
mod keys;
mod marker;
mod reader;
mod replay;
mod resolvers;
mod row;
mod separator;
mod snapshots;
mod state_checks;
mod states;
mod tables;
mod tail;
mod value;
mod verify;

pub use format::J5ik2oJournal;
pub(crate) use hints::{hints, state_hints};
pub use keys::Resolvers;
pub use resolvers::{PartitionKeyResolver, SortKeyResolver};
pub use snapshots::J5ik2oSnapshots;
pub use states::J5ik2oStates;

pub(crate) use tables::tables;
