//! Verification of a whole table: every id that a scan finds, and every item that belongs to none.
//!
//! Guarantees: a corrupt id is a finding and does not end the stream.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{Stream, TryStreamExt};

use super::{JournalLayout, annotate};
use crate::verify::report::{self, ScannedEntry};
use crate::verify::{Finding, FindingStream, Repairs, StoredKind, Verifier, Verify};
use crate::{ErrorKind, PersistenceId, Result};

/// Verifies the entries of a scan, one after the other. An id that cannot be read does not end it.
pub fn verify_scanned<L: JournalLayout>(
    layout: L,
    scanned: impl Stream<Item = Result<ScannedEntry>> + Send + 'static,
) -> FindingStream {
    let verifier = Arc::new(EventVerifier(Arc::new(layout)));
    FindingStream::new(scanned.and_then(move |entry| {
        let verifier = verifier.clone();
        async move {
            match entry {
                ScannedEntry::Stray(finding) => Ok(vec![finding]),
                ScannedEntry::Id(id) => verifier.verify(&id, &Verify::Check.into()).await,
            }
        }
    }))
}

/// Checks the events of an id.
pub(super) struct EventVerifier(pub(super) Arc<dyn JournalLayout>);

#[async_trait]
impl Verifier for EventVerifier {
    async fn verify(&self, id: &PersistenceId, repairs: &Repairs) -> Result<Vec<Finding>> {
        match self.0.verify(id, repairs).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                Ok(vec![report::unreadable(StoredKind::Event, id, &error)])
            }
            ended => ended.map_err(annotate("verify", id)),
        }
    }
}
