//! The tables of j5ik2o's akka-persistence-dynamodb: journal, snapshots and durable state.
//! `docs/format.md` tells their bytes.
//!
//! The keys are made by [resolvers](PartitionKeyResolver), which the settings choose by name; own
//! ones are given to [`J5ik2oJournal::open_with`].

mod append;
mod batches;
mod closing;
mod deletion;
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
mod tables;
mod verify;

pub use journal::J5ik2oJournal;
pub use keys::Resolvers;
pub use resolvers::{PartitionKeyResolver, SortKeyResolver};

pub(super) use tables::tables;
