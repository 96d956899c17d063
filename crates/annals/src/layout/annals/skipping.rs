//! Taking numbers that no event has: commits without events, one behind the other.
//!
//! Promises: when it is done every number up to the wanted one is taken, and a commit ends there;
//! wherever it is cut off, the journal is whole, and it can be repeated.
//! Trusts: whoever calls the numbers deleted to have no event among them.
//! Never: overwrites a key.

use super::blob::{Blob, Header};
use super::body::Body;
use super::commit::{COMMIT_EVENTS_MAX, Commit};
use super::deletion;
use super::journal::AnnalsJournal;
use crate::items::{Condition, WriteError};
use crate::journal::Skip;
use crate::{Error, PersistenceId, Result, SequenceNumber};

pub(super) async fn skip(journal: &AnnalsJournal, id: &PersistenceId, skip: Skip) -> Result<()> {
    journal.record().await?;
    let mut last = journal.find_highest(id).await?;
    while last < Some(skip.to) {
        last = Some(take(journal, id, (last, &skip)).await?);
    }
    match skip.is_deleted {
        true => deletion::delete_to(journal, id, skip.to).await,
        false => Ok(()),
    }
}

/// Takes some of the numbers behind `last`; answers the last of them. The wanted one is taken alone,
/// so that whoever looks for the commit that ends there finds it near.
async fn take(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    (last, skip): (Option<SequenceNumber>, &Skip),
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
    let body = Body::LeftOut;
    let commit = Commit {
        id: id.clone(),
        first,
        blob: Blob { header, body },
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
            let is_ours = |existing: &Commit| existing.blob == commit.blob;
            if !existing.transpose()?.as_ref().is_some_and(is_ours) {
                return Err(Error::conflict(format!(
                    "somebody else appends meanwhile; do it again when nobody does. id=`{id}`, number=`{first}`"
                )));
            }
        }
    }
    journal.heads.learn(id, end);
    Ok(end)
}
