//! Skipping sequence numbers: commits without events, one after the other.
//!
//! Guarantees: afterwards every sequence number up to the given one is used, and a commit ends there.
//! An interrupted skip leaves an intact journal and is repeatable. No key is overwritten. Relies on
//! the caller: numbers that are marked as deleted had no events.

use super::body::Body;
use super::commit::{COMMIT_EVENTS_MAX, Commit};
use super::commit::{Header, StoredCommit};
use super::deletion;
use super::journal::AnnalsJournal;
use crate::items::{Condition, WriteError};
use crate::journal::Skip;
use crate::{Error, PersistenceId, Result, SequenceNumber};

pub(super) async fn skip(journal: &AnnalsJournal, id: &PersistenceId, skip: Skip) -> Result<()> {
    journal.record().await?;
    let mut last = journal.find_highest(id).await?;
    while last < Some(skip.to) {
        last = Some(skip_some(journal, id, last, &skip).await?);
    }
    match skip.is_deleted {
        true => deletion::delete_to(journal, id, skip.to).await.map(|_| ()),
        false => Ok(()),
    }
}

/// Skips some of the sequence numbers after `last`; returns the last of them. The final one is skipped
/// alone, so that the commit that ends there also begins there.
async fn skip_some(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    last: Option<SequenceNumber>,
    skip: &Skip,
) -> Result<SequenceNumber> {
    let left = skip.to.get() - last.map_or(0, SequenceNumber::get);
    let count = (left - 1).clamp(1, COMMIT_EVENTS_MAX as u64);
    let first = last.map_or(Some(SequenceNumber::FIRST), SequenceNumber::next);
    let first = first.unwrap_or(skip.to);
    let header = Header {
        count,
        time_ms: skip.time_ms,
        token: skip.token,
        gone: 0,
        low: None,
        causation: None,
        correlation: None,
        snapshot: None,
    };
    let body = Body::Skipped;
    let commit = Commit {
        id: id.clone(),
        first,
        stored: StoredCommit { header, body },
    };
    let (end, item) = (commit.last()?, commit.to_item(journal.span));
    match journal
        .store
        .put(&journal.table, item, Condition::Absent)
        .await
    {
        Ok(_) => {}
        Err(WriteError::Failed(error)) => return Err(error),
        Err(WriteError::Refused { existing, .. }) => {
            let existing = existing.map(|item| journal.commit_of(id, &item));
            let is_ours = |existing: &Commit| existing.stored == commit.stored;
            if !existing.transpose()?.as_ref().is_some_and(is_ours) {
                return Err(Error::conflict(
                    "another writer appends to this id; stop it and try again",
                )
                .fact("id", id)
                .fact("number", first));
            }
        }
    }
    journal.learn(id, end);
    Ok(end)
}
