//! Deleting up to a sequence number: payloads are deleted, sequence numbers stay used.
//!
//! A deleted commit leaves a tombstone under its key, with its sequence numbers and token. A writer
//! that was paused still finds the successor key taken, and the highest sequence number is known even
//! if everything is deleted. The tombstone of the very first commit has the low watermark, up to
//! which everything is deleted, so that neither a full replay nor the next deletion reads tombstones.
//!
//! Guarantees: commits are deleted in order, `BATCH` at a time, so after an interruption every event
//! before a tombstone counts as deleted. Repeatable, also concurrently. A tombstone is written before
//! its chunks are deleted. The item of a commit is never deleted.

use futures::TryStreamExt;

use super::commit::{COMMIT_BYTES, Commit};
use super::journal::AnnalsJournal;
use super::keys;
use crate::items::limits::WRITE_BATCH_MAX;
use crate::items::{Condition, Item, KeyPart, Query, SortRange, Write, WriteError};
use crate::{Error, PersistenceId, Result, SequenceNumber};

/// Attempts to replace a commit while other deletions change it.
const ATTEMPTS_MAX: usize = 16;
/// Tombstones that are written in one unordered batch.
pub(super) const BATCH: usize = WRITE_BATCH_MAX;

/// Returns `to`, or the end of the history if that is lower; `None` if there is no history.
pub(super) async fn delete_to(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    to: SequenceNumber,
) -> Result<Option<SequenceNumber>> {
    let Some(first) = journal.item_at(id, SequenceNumber::FIRST).await? else {
        return Ok(None);
    };
    // Delete the first commit first; its low watermark is raised after the others are deleted.
    let first = journal.commit_of(id, &first)?;
    let before = match first.low() {
        Some(low) => low,
        None => match replace(journal, id, SequenceNumber::FIRST, |commit| {
            with_watermark(commit.without(to)?, None)
        })
        .await?
        .low()
        {
            Some(low) => low,
            // The first commit continues after `to`.
            None => return Ok(Some(to)),
        },
    };
    let mut deletion = Deletion {
        journal,
        id,
        to,
        low: before,
    };
    let outcome = deletion.run().await;
    let low = deletion.low;
    // Record what is deleted, also if the rest failed.
    if low > before {
        replace(journal, id, SequenceNumber::FIRST, |commit| {
            with_watermark(commit.clone(), Some(low))
        })
        .await?;
    }
    outcome.map(Some)
}

/// The first commit with its low watermark raised to `low`, and to its own end; never lowered.
fn with_watermark(mut first: Commit, low: Option<SequenceNumber>) -> Result<Commit> {
    if first.is_deleted() {
        first.stored.header.low = first.low().max(low).max(Some(first.last()?));
    }
    Ok(first)
}

struct Deletion<'a> {
    journal: &'a AnnalsJournal,
    id: &'a PersistenceId,
    to: SequenceNumber,
    /// Everything up to here is deleted.
    low: SequenceNumber,
}

impl Deletion<'_> {
    /// Deletes bucket by bucket, up to `to`, a commit that continues after it, or the end; returns
    /// `to` or the end.
    async fn run(&mut self) -> Result<SequenceNumber> {
        while let Some(next) = self.low.next().filter(|next| *next <= self.to) {
            let range = SortRange::Between(KeyPart::from(next.get()), KeyPart::from(self.to.get()));
            let partition = keys::commits(self.id, self.journal.span.bucket(next));
            let query = Query::of(partition).within(range);
            let mut pages = self.journal.store.query_pages(&self.journal.table, query);
            let before = self.low;
            while let Some(page) = pages.try_next().await? {
                for batch in page.items.chunks(BATCH) {
                    if let Some(partial) = self.delete(batch).await? {
                        self.shorten(partial).await?;
                        return Ok(self.to);
                    }
                }
            }
            if self.low == before {
                break;
            }
        }
        Ok(self.low.min(self.to))
    }

    /// Deletes the first events of a commit that continues after `to`.
    async fn shorten(&self, first: SequenceNumber) -> Result<()> {
        let to = self.to;
        let left = |commit: &Commit| commit.without(to);
        replace(self.journal, self.id, first, left).await?;
        Ok(())
    }

    /// Deletes whole commits; returns the start of a commit that continues after `to`.
    async fn delete(&mut self, batch: &[Item]) -> Result<Option<SequenceNumber>> {
        let commits = batch
            .iter()
            .map(|item| self.journal.commit_of(self.id, item));
        let commits = commits.collect::<Result<Vec<Commit>>>()?;
        let (mut tombstones, mut chunks, mut partial) = (Vec::new(), Vec::new(), None);
        let mut low = self.low;
        for commit in commits {
            if low.next() != Some(commit.first) {
                let (id, first) = (self.id, commit.first);
                return Err(Error::corrupt(
                    "events are missing from the journal; run `annals verify`",
                )
                .fact("id", id)
                .fact("missing after", low)
                .fact("next found", first));
            }
            if commit.last()? > self.to {
                partial = Some(commit.first);
                break;
            }
            low = commit.last()?;
            if !commit.is_deleted() {
                chunks.extend(commit.chunk_keys().into_iter().map(Write::Delete));
                tombstones.push(Write::Put(
                    commit.without(self.to)?.to_item(self.journal.span),
                ));
            }
        }
        // A tombstone is final and the same from every writer, so it needs no condition.
        self.write(tombstones).await?;
        self.write(chunks).await?;
        self.low = low;
        Ok(partial)
    }

    async fn write(&self, writes: Vec<Write>) -> Result<()> {
        if !writes.is_empty() {
            self.journal
                .store
                .write(&self.journal.table, writes)
                .await?;
        }
        Ok(())
    }
}

/// Deletes commits between two sequence numbers that are before a tombstone: an interrupted deletion
/// left them.
///
/// # Errors
/// `Corrupt` if one cannot be read; those before it are deleted.
pub(super) async fn delete_again(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    from: SequenceNumber,
    to: SequenceNumber,
) -> Result<()> {
    let span = journal.span;
    for bucket in span.bucket(from).0..=span.bucket(to).0 {
        let range = SortRange::Between(KeyPart::from(from.get()), KeyPart::from(to.get()));
        let query = Query::of(keys::commits(id, keys::Bucket(bucket))).within(range);
        let mut all = journal.store.query_all(&journal.table, query);
        while let Some(item) = all.try_next().await? {
            let commit = journal.commit_of(id, &item)?;
            if !commit.is_deleted() {
                replace(journal, id, commit.first, |commit| commit.without(to)).await?;
            }
        }
    }
    delete_to(journal, id, to).await?;
    Ok(())
}

/// The last deleted sequence number, 0 for none: the commit after the low watermark may be shortened.
pub(super) async fn deleted_to(journal: &AnnalsJournal, id: &PersistenceId) -> Result<u64> {
    let deleted_in = |commit: &Commit| match commit.is_deleted() {
        true => commit.last().map(SequenceNumber::get),
        false => Ok(commit.first.get() + commit.stored.header.gone - 1),
    };
    let Some(first) = journal.commit_at(id, SequenceNumber::FIRST).await? else {
        return Ok(0);
    };
    let low = first
        .low()
        .map_or(0, SequenceNumber::get)
        .max(deleted_in(&first)?);
    let next = SequenceNumber::new(low + 1).filter(|_| first.is_deleted());
    let Some(next) = next else { return Ok(low) };
    match journal.commit_at(id, next).await? {
        Some(commit) => deleted_in(&commit),
        None => Ok(low),
    }
}

/// Deletes everything of an id, from the last bucket to the first, so that it is repeatable. Returns
/// whether there was anything.
pub(super) async fn purge(journal: &AnnalsJournal, id: &PersistenceId) -> Result<bool> {
    let last = journal.find_highest(id).await?;
    let last = last.map_or(0, |last| journal.span.bucket(last).0);
    let mut is_found = false;
    for bucket in (0..=last).rev() {
        let query = Query::of(keys::commits(id, keys::Bucket(bucket)));
        let mut pages = journal.store.query_pages(&journal.table, query);
        while let Some(page) = pages.try_next().await? {
            let mut writes = Vec::new();
            is_found |= !page.items.is_empty();
            for item in page.items.iter().rev() {
                let chunks = journal.commit_of(id, item)?.chunk_keys();
                writes.extend(chunks.into_iter().map(Write::Delete));
                writes.push(Write::Delete(journal.table.key_of(item)?));
            }
            journal.store.write(&journal.table, writes).await?;
        }
    }
    journal.forget(id);
    Ok(is_found)
}

/// Replaces a commit by the result of `left`, also next to other deletions; returns the new commit.
async fn replace(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    first: SequenceNumber,
    left: impl Fn(&Commit) -> Result<Commit>,
) -> Result<Commit> {
    // If a response is lost, the client's retry is refused by its own put: remember the chunks of
    // every earlier commit.
    let mut chunks = Vec::new();
    for _ in 0..ATTEMPTS_MAX {
        let item = journal.item_at(id, first).await?;
        let item = item.ok_or_else(|| {
            Error::corrupt("a commit disappeared without a tombstone; run `annals verify`")
                .fact("id", id)
                .fact("number", first)
        })?;
        let old = journal.commit_of(id, &item)?;
        chunks.extend(old.chunk_keys());
        let new = left(&old)?;
        if new != old && !swap(journal, &item, new.shrunk(journal.span)?).await? {
            continue;
        }
        if new.is_deleted() && !chunks.is_empty() {
            let orphans = chunks.into_iter().map(Write::Delete).collect();
            journal.store.write(&journal.table, orphans).await?;
        }
        return Ok(new);
    }
    Err(Error::unavailable(
        "other deletions of this id are in progress; try again",
    ))
}

/// Replaces an item if it is unchanged; returns whether it was.
async fn swap(journal: &AnnalsJournal, old: &Item, new: Item) -> Result<bool> {
    let bytes = old.get(COMMIT_BYTES).cloned();
    let bytes = bytes.ok_or_else(|| Error::corrupt("a commit has no bytes"))?;
    let condition = Condition::Equals(COMMIT_BYTES.to_owned(), bytes);
    match journal.store.put(&journal.table, new, condition).await {
        Ok(_) => Ok(true),
        Err(WriteError::Refused { .. }) => Ok(false),
        Err(WriteError::Failed(error)) => Err(error),
    }
}
