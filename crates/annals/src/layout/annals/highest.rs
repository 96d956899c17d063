//! The highest number, without a marker and without a replay.
//!
//! Promises: one request with a hint, or for an id that is still in its first bucket; otherwise
//! about twice the logarithm of the number of buckets. Ends only where the bucket of the successor
//! has been seen without it, so a wrong hint or a skipped bucket costs requests, not truth.

use super::journal::AnnalsJournal;
use super::keys::Bucket;
use crate::{PersistenceId, Result, SequenceNumber};

/// The number of the last event ever appended.
pub(super) async fn find(
    journal: &AnnalsJournal,
    id: &PersistenceId,
) -> Result<Option<SequenceNumber>> {
    let mut last = journal.heads.get(id);
    let mut seen: Option<Bucket> = None;
    let mut empty: Option<Bucket> = None;
    let mut stride = 1;
    // Strides double while there is something, and are halved towards what is known to be empty.
    loop {
        let Some(next) = last.map_or(Some(SequenceNumber::FIRST), SequenceNumber::next) else {
            break;
        };
        let successor = journal.span.bucket(next);
        if seen == Some(successor) || empty == Some(successor) {
            break;
        }
        let probe = match empty {
            Some(empty) if empty > successor => Bucket(successor.0.midpoint(empty.0)),
            _ => Bucket(successor.0 + stride - 1),
        };
        match journal.last_in(id, probe, SequenceNumber::LAST).await? {
            Some(found) => {
                // The low mark of a shortened journal leads past what was deleted.
                last = last.max(Some(found.last()?)).max(found.low());
                seen = Some(probe);
                stride *= 2;
            }
            None => empty = Some(probe),
        }
    }
    if let Some(last) = last {
        journal.heads.learn(id, last);
    }
    Ok(last)
}
