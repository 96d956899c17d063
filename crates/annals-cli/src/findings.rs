//! Findings: what is wrong with an id, or with everything that is stored.
//!
//! Promises: the command line and the server check the same, in the same order: events, snapshots,
//! whether snapshots are beyond the last event, values, and, of everything, leftovers of large writes.

use std::time::Duration;

use annals::journal::Journal;
use annals::snapshot::{Criteria, Snapshots};
use annals::state::States;
use annals::verify::{FindingStream, Verify};
use annals::{PersistenceId, Result};
use futures::StreamExt;
use futures::stream;

/// Large writes may be in flight for as long.
const ORPHAN_AGE: Duration = Duration::from_secs(60 * 60);

/// What is checked; `None` without a table.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) journal: Journal,
    pub(crate) snapshots: Option<Snapshots>,
    pub(crate) states: Option<States>,
}

impl Sources {
    /// Whether anything is stored under an id.
    pub(crate) async fn has(&self, id: &PersistenceId) -> Result<bool> {
        if self.journal.highest(id).await?.is_some() {
            return Ok(true);
        }
        if let Some(snapshots) = &self.snapshots
            && snapshots.find(id, Criteria::ALL).next().await.is_some()
        {
            return Ok(true);
        }
        match &self.states {
            Some(states) => Ok(states.get(id).await?.is_some()),
            None => Ok(false),
        }
    }

    /// What is wrong, as it is found: a list for each id, or for items that belong to none.
    pub(crate) fn findings(self, id: Option<&PersistenceId>, how: Verify) -> FindingStream {
        let Self {
            journal,
            snapshots,
            states,
        } = self;
        let events = match id.cloned() {
            None => journal.verify_all(how),
            Some(id) => {
                let journal = journal.clone();
                FindingStream::new(stream::once(async move { journal.verify(&id, how).await }))
            }
        };
        let of_snapshots = snapshots.iter().flat_map(|snapshots| {
            let beyond_end = journal.verify_snapshots(snapshots, id);
            [snapshots.verify(id), beyond_end]
        });
        let of_states = states.iter().map(|states| states.verify(id));
        let kept: Vec<_> = of_snapshots.chain(of_states).collect();
        let all = events.chain(stream::iter(kept).flatten());
        if id.is_some() {
            return FindingStream::new(all);
        }
        let left = stream::once(async move { journal.orphans(ORPHAN_AGE, how).await });
        let left = left.chain(
            stream::iter(snapshots)
                .then(move |snapshots| async move { snapshots.orphans(ORPHAN_AGE, how).await }),
        );
        let left = left.chain(
            stream::iter(states)
                .then(move |states| async move { states.orphans(ORPHAN_AGE, how).await }),
        );
        FindingStream::new(all.chain(left))
    }
}
