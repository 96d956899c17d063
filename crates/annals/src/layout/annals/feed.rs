//! The feed of the journal: what changes of its items mean.
//!
//! An append is one put of a commit under a new key. Every later change of that item is a deletion:
//! a tombstone, a commit without its first events, or a raised low watermark on the very first commit.

use std::sync::Arc;

use async_trait::async_trait;

use super::commit::{Commit, CommitReader};
use super::journal::AnnalsJournal;
use super::keys;
use crate::items::{Change, Changed, Key, KeyPart, TableSpec};
use crate::journal::{FeedLayout, Fetched, Meaning};
use crate::{Error, PersistenceId, Result, SequenceNumber, Token};

#[async_trait]
impl FeedLayout for AnnalsJournal {
    fn table(&self) -> &Arc<TableSpec> {
        &self.table
    }

    async fn is_listed(&self, id: &PersistenceId) -> Result<bool> {
        let first = self.item_at(id, SequenceNumber::FIRST).await?;
        Ok(first.is_some())
    }

    fn id_of(&self, change: &Change) -> Option<PersistenceId> {
        let KeyPart::S(partition) = &change.key.partition else {
            return None;
        };
        keys::parse_commits(partition).map(|(id, _)| id)
    }

    fn meaning(&self, id: &PersistenceId, change: Change) -> Result<Meaning> {
        let first = number_of(&change.key).ok_or_else(|| {
            Error::corrupt("item in the journal has no sequence number").fact("id", id)
        })?;
        Ok(match change.now {
            // The first commit is the last that a purge removes.
            Changed::Deleted if first == SequenceNumber::FIRST => Meaning::Purged,
            Changed::Deleted => Meaning::Nothing,
            // It may only have been shortened.
            Changed::Erased if !change.has_replaced => Meaning::Elsewhere(first, None),
            // A later change says the same.
            Changed::Erased => Meaning::Nothing,
            Changed::Put(item) => {
                let bucket = self.span.bucket(first);
                let mut commits = CommitReader::new(id.clone(), self.span);
                if let KeyPart::S(partition) = &change.key.partition {
                    commits = commits.within(bucket, partition);
                }
                let commit = commits.read(&item)?;
                match change.has_replaced {
                    true => deletion(&commit),
                    false => append(commit)?,
                }
            }
        })
    }

    async fn fetch(
        &self,
        id: &PersistenceId,
        first: SequenceNumber,
        token: Option<Token>,
    ) -> Result<Fetched> {
        let commit = self.commit_at(id, first).await?;
        let is_wanted = |commit: &Commit| match token {
            Some(token) => commit.token() == token,
            // Its value was erased: it was deleted, or replaced by what is left of it. If nothing was
            // deleted from the commit that is there now, it is one from after a purge, which has a
            // place of its own.
            None => commit.has_deleted_events(),
        };
        let whole = match commit.filter(is_wanted) {
            Some(commit) => self.joined(commit).await?,
            None => None,
        };
        let events = whole.map_or_else(|| Ok(Vec::new()), |whole| whole.events())?;
        Ok(match events.is_empty() {
            true => Fetched::Deleted,
            false => Fetched::Events(events),
        })
    }
}

/// What a new commit means.
fn append(commit: Commit) -> Result<Meaning> {
    if commit.is_deleted() {
        // Sequence numbers that a copy skipped.
        return Ok(Meaning::Nothing);
    }
    Ok(match commit.chunk_summary() {
        None => Meaning::Appended(commit.events()?),
        Some(_) => Meaning::Elsewhere(commit.first, Some(commit.token())),
    })
}

/// What a commit means that replaced another one.
fn deletion(commit: &Commit) -> Meaning {
    let gone = commit.stored.header.gone;
    let shortened = SequenceNumber::new((commit.first.get() + gone).saturating_sub(1));
    let to = match commit.is_deleted() {
        true => commit.low(),
        false => shortened.filter(|_| gone > 0),
    };
    // A tombstone in the middle: the one of the first commit names all.
    to.map_or(Meaning::Nothing, Meaning::Deleted)
}

/// The sequence number in the key of a commit.
fn number_of(key: &Key) -> Option<SequenceNumber> {
    match key.sort {
        Some(KeyPart::N(number)) => number.to_u64().and_then(SequenceNumber::new),
        _ => None,
    }
}
