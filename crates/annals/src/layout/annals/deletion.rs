//! Deleting up to a number: payloads go, numbers stay taken.
//!
//! A deleted commit leaves a mark under its key: which numbers stood there, and the token. So a
//! writer that was frozen meanwhile still finds its successor key taken, and the highest number is
//! known even where everything is deleted. The mark of the very first commit also tells how far
//! everything is deleted, so that neither a full replay nor the next deletion walks over marks.
//!
//! Promises: commits are deleted from the first on, `AT_ONCE` at a time, so wherever it is cut off
//! no event in front of a mark is meant to be there any more; running it again, or twice at once,
//! is safe. A mark is written before the parts it makes useless are deleted.
//! Never: deletes the item of a commit.

use futures::TryStreamExt;

use super::commit::{BLOB, Commit};
use super::journal::AnnalsJournal;
use super::keys;
use crate::items::limits::WRITE_BATCH_MAX;
use crate::items::{
    Condition, Item, KeyPart, Query, SortRange, Write, WriteError, query_all, query_pages,
};
use crate::{Error, PersistenceId, Result, SequenceNumber};

/// How often a commit is replaced while another deletion changes it.
const TRIES_MAX: usize = 16;
/// How many marks are put in no order.
pub(super) const AT_ONCE: usize = WRITE_BATCH_MAX;

pub(super) async fn delete_to(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    to: SequenceNumber,
) -> Result<()> {
    let Some(first) = journal.item_at(id, SequenceNumber::FIRST).await? else {
        return Ok(());
    };
    // The first commit goes first, and its mark is raised when the others are gone.
    let first = journal.commit_of(id, &first)?;
    let before = match first.low() {
        Some(low) => low,
        None => match replace(journal, id, SequenceNumber::FIRST, |commit| {
            marked(commit.without(to)?, None)
        })
        .await?
        .low()
        {
            Some(low) => low,
            None => return Ok(()),
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
    // What is deleted is deleted, also where the rest could not be.
    if low > before {
        replace(journal, id, SequenceNumber::FIRST, |commit| {
            marked(commit.clone(), Some(low))
        })
        .await?;
    }
    outcome
}

/// The first commit with its low mark raised to `low`, and to its own end; never lowered.
fn marked(mut first: Commit, low: Option<SequenceNumber>) -> Result<Commit> {
    if first.is_deleted() {
        first.blob.header.low = first.low().max(low).max(Some(first.last()?));
    }
    Ok(first)
}

struct Deletion<'a> {
    journal: &'a AnnalsJournal,
    id: &'a PersistenceId,
    to: SequenceNumber,
    /// Where the last commit ends that was deleted whole, with all before it.
    low: SequenceNumber,
}

impl Deletion<'_> {
    /// Deletes bucket by bucket, until `to`, a commit that goes on behind it, or the end.
    async fn run(&mut self) -> Result<()> {
        while let Some(next) = self.low.next().filter(|next| *next <= self.to) {
            let range = SortRange::Between(KeyPart::from(next.get()), KeyPart::from(self.to.get()));
            let partition = keys::commits(self.id, self.journal.span.bucket(next));
            let query = Query::of(partition).within(range);
            let (items, table) = (
                self.journal.store.items().clone(),
                self.journal.table.clone(),
            );
            let mut pages = query_pages(items, table, query);
            let before = self.low;
            while let Some(page) = pages.try_next().await? {
                for chunk in page.items.chunks(AT_ONCE) {
                    if let Some(cut) = self.delete(chunk).await? {
                        return self.cut_short(cut).await;
                    }
                }
            }
            if self.low == before {
                break;
            }
        }
        Ok(())
    }

    /// Takes the first events out of a commit that goes on behind `to`.
    async fn cut_short(&self, first: SequenceNumber) -> Result<()> {
        let to = self.to;
        let left = |commit: &Commit| commit.without(to);
        replace(self.journal, self.id, first, left).await?;
        Ok(())
    }

    /// Deletes commits that go whole; answers where one starts that does not.
    async fn delete(&mut self, chunk: &[Item]) -> Result<Option<SequenceNumber>> {
        let commits = chunk
            .iter()
            .map(|item| self.journal.commit_of(self.id, item));
        let commits = commits.collect::<Result<Vec<Commit>>>()?;
        let (mut marks, mut parts, mut cut) = (Vec::new(), Vec::new(), None);
        let mut low = self.low;
        for commit in commits {
            if low.next() != Some(commit.first) {
                let (id, first) = (self.id, commit.first);
                return Err(Error::corrupt(format!(
                    "events are missing from the journal; an operator must look. id=`{id}`, missing after=`{low}`, next found=`{first}`"
                )));
            }
            if commit.last()? > self.to {
                cut = Some(commit.first);
                break;
            }
            low = commit.last()?;
            if !commit.is_deleted() {
                parts.extend(commit.part_keys().into_iter().map(Write::Delete));
                marks.push(Write::Put(
                    commit.without(self.to)?.to_item(self.journal.span),
                ));
            }
        }
        // A mark is the last word on its key and the same whoever writes it, so it needs no
        // condition.
        self.write(marks).await?;
        self.write(parts).await?;
        self.low = low;
        Ok(cut)
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

/// Deletes commits between two numbers that stand before a mark: they came back, or were never
/// reached.
///
/// # Errors
/// `Corrupt` where one of them cannot be read; those before it are deleted then.
pub(super) async fn delete_again(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    (from, to): (SequenceNumber, SequenceNumber),
) -> Result<()> {
    let span = journal.span;
    for bucket in span.bucket(from).0..=span.bucket(to).0 {
        let range = SortRange::Between(KeyPart::from(from.get()), KeyPart::from(to.get()));
        let query = Query::of(keys::commits(id, keys::Bucket(bucket))).within(range);
        let (items, table) = (journal.store.items().clone(), journal.table.clone());
        let mut all = query_all(items, table, query);
        while let Some(item) = all.try_next().await? {
            let commit = journal.commit_of(id, &item)?;
            if !commit.is_deleted() {
                replace(journal, id, commit.first, |commit| commit.without(to)).await?;
            }
        }
    }
    delete_to(journal, id, to).await
}

/// The last number that is deleted, 0 for none: behind the low mark a commit may have been cut.
pub(super) async fn deleted_to(journal: &AnnalsJournal, id: &PersistenceId) -> Result<u64> {
    let cut = |commit: &Commit| match commit.is_deleted() {
        true => commit.last().map(SequenceNumber::get),
        false => Ok(commit.first.get() + commit.blob.header.gone - 1),
    };
    let Some(first) = journal.commit_at(id, SequenceNumber::FIRST).await? else {
        return Ok(0);
    };
    let low = first.low().map_or(0, SequenceNumber::get).max(cut(&first)?);
    let next = SequenceNumber::new(low + 1).filter(|_| first.is_deleted());
    let Some(next) = next else { return Ok(low) };
    match journal.commit_at(id, next).await? {
        Some(commit) => cut(&commit),
        None => Ok(low),
    }
}

/// Removes every trace of an id, from the last bucket to the first, so that it can be repeated
/// where it was cut off.
pub(super) async fn purge(journal: &AnnalsJournal, id: &PersistenceId) -> Result<()> {
    let last = journal.find_highest(id).await?;
    let last = last.map_or(0, |last| journal.span.bucket(last).0);
    for bucket in (0..=last).rev() {
        let query = Query::of(keys::commits(id, keys::Bucket(bucket)));
        let (items, table) = (journal.store.items().clone(), journal.table.clone());
        let mut pages = query_pages(items, table, query);
        while let Some(page) = pages.try_next().await? {
            let mut writes = Vec::new();
            for item in page.items.iter().rev() {
                let parts = journal.commit_of(id, item)?.part_keys();
                writes.extend(parts.into_iter().map(Write::Delete));
                writes.push(Write::Delete(journal.table.key_of(item)?));
            }
            journal.store.write(&journal.table, writes).await?;
        }
    }
    journal.heads.forget(id);
    Ok(())
}

/// Replaces a commit by what `left` makes of it, also while other deletions do the same; answers
/// what stands there then.
async fn replace(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    first: SequenceNumber,
    left: impl Fn(&Commit) -> Result<Commit>,
) -> Result<Commit> {
    // A put whose answer was lost is refused by itself when the client repeats it: what stood there
    // before is to be remembered.
    let mut parts = Vec::new();
    for _ in 0..TRIES_MAX {
        let item = journal.item_at(id, first).await?;
        let item = item.ok_or_else(|| {
            Error::corrupt(format!(
                "a commit is gone without a mark. id=`{id}`, number=`{first}`"
            ))
        })?;
        let old = journal.commit_of(id, &item)?;
        parts.extend(old.part_keys());
        let new = left(&old)?;
        if new != old && !swap(journal, &item, new.shrunk(journal.span)?).await? {
            continue;
        }
        if new.is_deleted() && !parts.is_empty() {
            let orphans = parts.into_iter().map(Write::Delete).collect();
            journal.store.write(&journal.table, orphans).await?;
        }
        return Ok(new);
    }
    Err(Error::unavailable(
        "other deletions keep being quicker; try again",
    ))
}

/// Puts an item in the place of another, if that is there as it was read; answers whether it was.
async fn swap(journal: &AnnalsJournal, old: &Item, new: Item) -> Result<bool> {
    let blob = old.get(BLOB).cloned();
    let blob = blob.ok_or_else(|| Error::corrupt("a commit has no bytes"))?;
    let condition = Condition::Equals(BLOB.to_owned(), blob);
    match journal.store.put(&journal.table, new, condition).await {
        Ok(_) => Ok(true),
        Err(WriteError::Refused { .. }) => Ok(false),
        Err(WriteError::Failed(error)) => Err(error),
    }
}
