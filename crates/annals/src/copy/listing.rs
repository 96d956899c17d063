//! Whose copies are made: every id that the source has something of, and then those that only the
//! target has.
//!
//! Promises: each id once. An id whose events were never written, or are purged, is listed by its
//! snapshots.
//! Never: lets everything in the target be deleted because the source has nothing.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, StreamExt, TryStreamExt};

use super::Side;
use crate::Error;
use crate::IdStream;

/// The ids that were listed so far. All of them fit in memory.
#[derive(Clone, Default)]
pub(super) struct Listed(Arc<Mutex<HashSet<Arc<str>>>>);

impl Listed {
    /// Every id of a side that was not listed yet.
    pub(super) fn of(&self, side: &Side, prefix: &str) -> IdStream {
        let journals = side.journal.persistence_ids(prefix);
        let snapshots = side.snapshots.as_ref();
        let snapshots = snapshots.map(|snapshots| snapshots.ids(prefix));
        let all = journals.chain(stream::iter(snapshots).flatten());
        let listed = self.0.clone();
        Box::pin(all.try_filter(move |id| {
            let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
            std::future::ready(listed.insert(id.as_str().into()))
        }))
    }

    /// As [`of`](Self::of), of a target in which they are to be deleted.
    pub(super) fn of_lacking(&self, side: &Side, prefix: &str) -> IdStream {
        let (listed, ids) = (self.clone(), self.of(side, prefix));
        // Asked when it is their turn: the source's are all listed then.
        let ids = stream::once(async move {
            match listed.is_empty() {
                false => ids,
                true => refused(ids),
            }
        });
        Box::pin(ids.flatten())
    }

    fn is_empty(&self) -> bool {
        let listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listed.is_empty()
    }
}

fn refused(ids: IdStream) -> IdStream {
    Box::pin(ids.and_then(|id| async move {
        Err(Error::invalid(format!(
            "the source has no ids, so with deletions all would go in the target; check the source, and purge the target's ids where that is meant. id=`{id}`"
        )))
    }))
}
