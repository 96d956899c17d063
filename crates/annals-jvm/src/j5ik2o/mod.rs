//! The tables of j5ik2o's akka-persistence-dynamodb: journal, snapshots and durable state.
//! `docs/format.md` tells their bytes.
//!
//! The keys are made by [resolvers](PartitionKeyResolver), which the settings choose by name; own
//! ones are given to [`J5ik2oJournal::open_with`] and [`J5ik2oSnapshots::open_with`].

mod append;
mod batches;
mod closing;
mod deletion;
mod hints;
mod ids;
mod journal;
mod keys;
mod lookup;
mod mark;
mod proof;
mod replay;
mod resolvers;
mod row;
mod rows;
mod separator;
mod skipping;
mod snapshots;
mod states;
mod tables;
mod value;
mod verify;

pub(crate) use hints::hints;
pub use journal::J5ik2oJournal;
pub use keys::Resolvers;
pub use resolvers::{PartitionKeyResolver, SortKeyResolver};
pub use snapshots::J5ik2oSnapshots;
pub use states::J5ik2oStates;

pub(crate) use tables::tables;
