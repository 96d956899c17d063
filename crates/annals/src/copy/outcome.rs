//! What a copy came to.

use std::ops::AddAssign;
use std::pin::Pin;

use futures::Stream;

use crate::{Error, PersistenceId, Result};

/// What was copied, and what was there.
///
/// ```
/// use annals::copy::Copied;
///
/// let mut all = Copied { events: 2, ..Copied::default() };
/// all += Copied { events: 1, verified: 3, ..Copied::default() };
/// assert_eq!((all.events, all.verified), (3, 3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Events that were written.
    pub events: u64,
    /// Events that were there.
    pub present: u64,
    /// Events of the target that were read and found to be the source's.
    pub verified: u64,
    /// Events that the target still has and the source has deleted.
    pub kept: u64,
    /// Ids of whose events the source has none, never had any or has purged them, and that the
    /// target still has.
    pub ids_kept: u64,
    /// Such ids that were purged in the target.
    pub ids_purged: u64,
    /// Snapshots that were written; they were read back as well.
    pub snapshots: u64,
    /// Snapshots that were there.
    pub snapshots_present: u64,
    /// Snapshots that the target still has and the source has not.
    pub snapshots_kept: u64,
    /// Such snapshots that were deleted in the target.
    pub snapshots_deleted: u64,
    /// Values of durable state that were written; they were read back as well.
    pub states: u64,
    /// Values that were there.
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

/// What became of one id.
///
/// See [`Copier`](super::Copier) for an example.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whose.
    pub persistence_id: PersistenceId,
    /// What was done, also where it failed then.
    pub copied: Copied,
    /// Whether the source has anything of it; also of an id that was met in the target.
    pub is_found: bool,
    /// What ended it before its end.
    pub failure: Option<Error>,
}

/// Outcomes as they come, in no order. An error ends it: the ids could not be listed.
///
/// See [`Copier`](super::Copier) for an example.
pub type OutcomeStream = Pin<Box<dyn Stream<Item = Result<Outcome>> + Send>>;
