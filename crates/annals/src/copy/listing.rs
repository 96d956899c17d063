//! The ids to copy: those of the source, then those that only the target has.
//!
//! Guarantees: each id once; an id without events is listed by its snapshots. An empty source never
//! deletes everything from the target.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, StreamExt, TryStreamExt};

use super::CopyEndpoint;
use crate::{Error, IdStream};

/// The ids listed so far. All of them fit in memory.
#[derive(Clone, Default)]
pub(super) struct ListedIds(Arc<Mutex<HashSet<Arc<str>>>>);

impl ListedIds {
    /// The ids of an endpoint that were not listed yet.
    pub(super) fn list(&self, endpoint: &CopyEndpoint, prefix: &str) -> IdStream {
        let journals = endpoint.journal.persistence_ids(prefix);
        let snapshots = endpoint.snapshots.as_ref();
        let snapshots = snapshots.map(|snapshots| snapshots.ids(prefix));
        let all = journals.chain(stream::iter(snapshots).flatten());
        let listed = self.0.clone();
        IdStream::new(all.try_filter(move |id| {
            let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
            std::future::ready(listed.insert(id.as_str().into()))
        }))
    }

    /// As [`list`](Self::list), for a target from which they will be deleted.
    pub(super) fn list_for_deletion(&self, endpoint: &CopyEndpoint, prefix: &str) -> IdStream {
        let (listed, ids) = (self.clone(), self.list(endpoint, prefix));
        // Evaluated when the ids of the source have all been listed.
        let ids = stream::once(async move {
            match listed.is_empty() {
                false => ids,
                true => refused(ids),
            }
        });
        IdStream::new(ids.flatten())
    }

    fn is_empty(&self) -> bool {
        let listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listed.is_empty()
    }
}

fn refused(ids: IdStream) -> IdStream {
    IdStream::new(ids.and_then(|id| async move {
        Err(Error::invalid(
            "the source has no ids, so all ids of the target would be deleted; check the source, or purge the ids yourself",
        )
        .fact("id", id))
    }))
}
