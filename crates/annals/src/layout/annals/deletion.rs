//! Deleting up to a number: payloads go, numbers stay taken.
//!
//! A deleted commit leaves a mark under its key: which numbers stood there, and the token. So a
//! writer that was frozen meanwhile still finds its successor key taken, and the highest number is
//! known even where everything is deleted. The mark of the very first commit also tells how far
//! everything is deleted, so that neither a replay nor the next deletion walks over marks.
//!
//! Promises: what is deleted is deleted from the first event on, whenever it is cut off; running
//! it again, or twice at once, is safe.

use futures::TryStreamExt;

use super::commit::Commit;
use super::journal::AnnalsJournal;
use super::keys;
use crate::items::{Condition, Item, KeyPart, Query, SortRange, Write, WriteError, query_pages};
use crate::{Error, PersistenceId, Result, SequenceNumber};

/// How often the first commit's mark is put while another deletion changes it.
const TRIES_MAX: usize = 16;

pub(super) async fn delete_to(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    to: SequenceNumber,
) -> Result<()> {
    let Some((first, _)) = first_commit(journal, id).await? else {
        return Ok(());
    };
    let mut low = first.low();
    // The first commit goes first, and its mark is raised again when the others are gone.
    if low.is_none() {
        low = mark_first(journal, id, to, None).await?;
    }
    let Some(mut low) = low else {
        return Ok(());
    };
    let before = low;
    while let Some(next) = low.next().filter(|next| *next <= to) {
        match delete_bucket(journal, id, next, to).await? {
            Some(end) => low = end,
            None => break,
        }
    }
    if low > before {
        mark_first(journal, id, to, Some(low)).await?;
    }
    Ok(())
}

async fn first_commit(
    journal: &AnnalsJournal,
    id: &PersistenceId,
) -> Result<Option<(Commit, Item)>> {
    let key = keys::commit(id, SequenceNumber::FIRST, journal.span);
    let found = journal.items.get(&journal.table, vec![key]).await?.items;
    match found.into_iter().next().flatten() {
        Some(item) => Ok(Some((journal.commit_of(id, &item)?, item))),
        None => Ok(None),
    }
}

/// Deletes what is to be deleted of the first commit and raises its mark, never lowering it.
/// Answers how far everything is deleted, if the first commit is.
async fn mark_first(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    to: SequenceNumber,
    low: Option<SequenceNumber>,
) -> Result<Option<SequenceNumber>> {
    for _ in 0..TRIES_MAX {
        let Some((first, item)) = first_commit(journal, id).await? else {
            return Ok(None);
        };
        let mut left = match first.is_deleted() {
            true => first.clone(),
            false => first.without(to)?,
        };
        let wanted = low.max(first.low());
        left.blob.header.low = match left.is_deleted() {
            true => wanted.max(Some(first.last()?)),
            false => None,
        };
        if replace(journal, &first, item, left.clone()).await? {
            return Ok(left.low());
        }
    }
    Err(Error::unavailable(
        "other deletions keep being quicker; try again",
    ))
}

/// Deletes up to `to` from the bucket of `next` on; answers where the last whole commit that was
/// deleted ends, or `None` where nothing more is to be deleted.
async fn delete_bucket(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    next: SequenceNumber,
    to: SequenceNumber,
) -> Result<Option<SequenceNumber>> {
    let range = SortRange::Between(KeyPart::from(next.get()), KeyPart::from(to.get()));
    let query = Query::of(keys::commits(id, journal.span.bucket(next))).within(range);
    let mut pages = query_pages(journal.items.clone(), journal.table.clone(), query);
    let mut end = None;
    while let Some(page) = pages.try_next().await? {
        let mut marks = Vec::new();
        let mut cut = None;
        for item in page.items {
            let commit = journal.commit_of(id, &item)?;
            if commit.last()? > to {
                cut = Some((commit, item));
                break;
            }
            end = Some(commit.last()?);
            if !commit.is_deleted() {
                marks.extend(commit.part_keys().into_iter().map(Write::Delete));
                marks.push(Write::Put(commit.without(to)?.to_item(journal.span)));
            }
        }
        // A mark is the last word on its key, so nobody minds who writes it or how often.
        journal.items.write(&journal.table, marks).await?;
        if let Some((commit, item)) = cut {
            cut_short(journal, commit, item, to).await?;
            break;
        }
    }
    Ok(end)
}

/// Takes the first events out of a commit that goes on behind `to`.
async fn cut_short(
    journal: &AnnalsJournal,
    mut commit: Commit,
    mut item: Item,
    to: SequenceNumber,
) -> Result<()> {
    for _ in 0..TRIES_MAX {
        if commit.is_deleted() || commit.gone_to() >= to.get() {
            return Ok(());
        }
        let left = commit.without(to)?;
        if replace(journal, &commit, item, left).await? {
            return Ok(());
        }
        // Another deletion was quicker; perhaps it went further.
        let key = keys::commit(&commit.id, commit.first, journal.span);
        let found = journal.items.get(&journal.table, vec![key]).await?.items;
        let found = found.into_iter().next().flatten();
        item = found.ok_or_else(|| Error::corrupt("a commit is gone without a mark"))?;
        commit = journal.commit_of(&commit.id, &item)?;
    }
    Err(Error::unavailable(
        "other deletions keep being quicker; try again",
    ))
}

/// Replaces a commit by what is left of it, unless somebody else changed it meanwhile.
async fn replace(
    journal: &AnnalsJournal,
    old: &Commit,
    old_item: Item,
    left: Commit,
) -> Result<bool> {
    let blob = old_item.get(super::commit::BLOB).cloned();
    let blob = blob.ok_or_else(|| Error::corrupt("a commit has no bytes"))?;
    let orphaned = old.part_keys().into_iter().filter(|_| left.is_deleted());
    let orphaned = orphaned.map(Write::Delete).collect();
    let condition = Condition::Equals(super::commit::BLOB.to_owned(), blob);
    let written = left.write(journal.span)?;
    match journal
        .items
        .put(&journal.table, written.item, condition)
        .await
    {
        Ok(_) => {
            journal.items.write(&journal.table, orphaned).await?;
            Ok(true)
        }
        Err(WriteError::Refused { .. }) => Ok(false),
        Err(WriteError::Failed(error)) => Err(error),
    }
}
