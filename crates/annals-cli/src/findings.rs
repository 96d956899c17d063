//! What is wrong with what a store keeps: of one id, or of everything there is.
//!
//! Promises: the command line and the server look at the same, in the same order: events, snapshots,
//! values, and, of everything, what large writes left behind.

use std::time::Duration;

use annals::journal::Journal;
use annals::snapshot::Snapshots;
use annals::state::States;
use annals::verify::{Finding, Verify};
use annals::{PersistenceId, Result};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

/// Large writes may be under way for as long.
const ORPHAN_AGE: Duration = Duration::from_secs(60 * 60);

/// A list for each id or whatever else was looked at, empty where nothing is wrong.
pub(crate) type Found = BoxStream<'static, Result<Vec<Finding>>>;

/// Where to look; what has no table is left out.
pub(crate) struct Places {
    pub(crate) journal: Journal,
    pub(crate) snapshots: Option<Snapshots>,
    pub(crate) states: Option<States>,
}

impl Places {
    /// What is wrong, as it is found.
    pub(crate) fn findings(self, whose: Option<&PersistenceId>, how: Verify) -> Found {
        let Self {
            journal,
            snapshots,
            states,
        } = self;
        let events = match whose.cloned() {
            None => journal.verify_all(how),
            Some(id) => {
                let journal = journal.clone();
                stream::once(async move { journal.verify(&id, how).await }).boxed()
            }
        };
        let of_snapshots = snapshots.iter().map(|snapshots| snapshots.verify(whose));
        let of_states = states.iter().map(|states| states.verify(whose));
        let kept: Vec<_> = of_snapshots.chain(of_states).collect();
        let all = events.chain(stream::iter(kept).flatten());
        if whose.is_some() {
            return all.boxed();
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
        all.chain(left).boxed()
    }
}
