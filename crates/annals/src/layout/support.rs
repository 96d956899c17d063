//! Helpers for authors of layouts: collecting findings, listing ids, recognising appends.
//!
//! Applications need none of this.

use std::collections::HashSet;
use std::sync::Arc;

use futures::{Stream, TryStreamExt};

use crate::{IdStream, PersistenceId, Result};

pub use crate::journal::scanned::verify_scanned;
pub use crate::journal::signature::Signatures;
pub use crate::verify::report::{
    Damage, Findings, NO_OTHER_COPY, ScannedEntry, SeenIds, error_chain, stray_item, unreadable,
    unreadable_at,
};

/// The ids of a stream that begin with `prefix`, each once. All of them fit in memory.
pub fn each_once(
    ids: impl Stream<Item = Result<Option<PersistenceId>>> + Send + 'static,
    prefix: &str,
) -> IdStream {
    let (prefix, mut seen) = (prefix.to_owned(), HashSet::new());
    IdStream::new(ids.try_filter_map(move |id| {
        let id = id.filter(|id| id.as_str().starts_with(&prefix));
        let id = id.filter(|id| seen.insert(Arc::<str>::from(id.as_str())));
        std::future::ready(Ok(id))
    }))
}
