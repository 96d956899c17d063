//! Settings of the layouts: plain data, under the JVM plugins' names where the meaning is the same.
//!
//! Guarantees: every key is optional, and an unknown key is refused.

mod akka;
mod j5ik2o;
pub(crate) mod layout;

pub use akka::{AwsApiLimits, Format, Gaps, ReplayFilterMode, ReplayFilterSettings, SnapshotOrder};
pub use j5ik2o::{
    J5ik2oJournal, J5ik2oSettings, J5ik2oSnapshot, J5ik2oState, JournalColumns, PartitionKeyKind,
    SnapshotColumns, SortKeyKind, StateColumns, StateKeyKind, StoredRevision, TableNameKind,
};
pub(crate) use layout::{AnyLayout, name_or};
