//! The result of a copy.

use std::ops::AddAssign;

use crate::{Error, PersistenceId, ResultStream};

/// Counts of what was copied and what was already in the target.
///
/// ```
/// use annals::copy::Outcome;
///
/// fn is_up_to_date(outcome: &Outcome) -> bool {
///     outcome.copied.events == 0 && outcome.copied.snapshots == 0 && outcome.failure.is_none()
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Events written.
    pub events: u64,
    /// Events that were in the target.
    pub present: u64,
    /// Events of the target that were compared with the source.
    pub verified: u64,
    /// Events that the source has deleted and the target still has.
    pub kept: u64,
    /// Ids without events in the source that the target still has.
    pub ids_kept: u64,
    /// Such ids that were purged from the target.
    pub ids_purged: u64,
    /// Snapshots written and read back.
    pub snapshots: u64,
    /// Snapshots that were in the target.
    pub snapshots_present: u64,
    /// Snapshots that only the target has.
    pub snapshots_kept: u64,
    /// Such snapshots that were deleted from the target.
    pub snapshots_deleted: u64,
    /// Values of durable state written and read back.
    pub states: u64,
    /// Values that were in the target.
    pub states_present: u64,
}

impl AddAssign for Copied {
    fn add_assign(&mut self, more: Self) {
        self.events += more.events;
        self.present += more.present;
        self.verified += more.verified;
        self.kept += more.kept;
        self.ids_kept += more.ids_kept;
        self.ids_purged += more.ids_purged;
        self.snapshots += more.snapshots;
        self.snapshots_present += more.snapshots_present;
        self.snapshots_kept += more.snapshots_kept;
        self.snapshots_deleted += more.snapshots_deleted;
        self.states += more.states;
        self.states_present += more.states_present;
    }
}

/// The result for one id.
///
/// See [`Copier`](super::Copier) for an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The id.
    pub persistence_id: PersistenceId,
    /// The counts, also if it failed.
    pub copied: Copied,
    /// Whether the source has data of it, or it was listed by the target.
    pub is_found: bool,
    /// Whether the source ever had events of it, as far as they were copied. One outcome of
    /// [`Copier::all`](super::Copier::all) is about events and snapshots, another about the value.
    pub has_events: bool,
    /// Whether the source has snapshots of it.
    pub has_snapshots: bool,
    /// The error that stopped it.
    pub failure: Option<Error>,
}

/// A stream of outcomes, in no order. An error ends it: the ids cannot be listed.
///
/// See [`Copier`](super::Copier) for an example.
pub type OutcomeStream = ResultStream<Outcome>;
