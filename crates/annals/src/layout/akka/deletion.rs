//! Deleting up to a number: the low mark is raised first, then the items are emptied.
//!
//! The plugin removes the items. An emptied one costs the same to write and keeps its number taken:
//! a writer of ours that was frozen meanwhile is refused, where it would otherwise put an event
//! below the low mark, acknowledge it and lose it. The plugin replays nothing below the low mark.
//! But it takes the last item of the last hundred for the end, and were it to remove the items
//! behind an emptied one, for the wrong end: where it deletes too (`jvm-deletes`), items are removed
//! here as there, and appends look once more instead (`append.rs`).
//! Rows are read before they are emptied, for what an emptied one keeps of them.
//!
//! Numbers without a row are left alone: they may be of a batch that is under way, whose writer is
//! to be stopped at its last member or not at all.
//!
//! Promises: a replay never sees a history that is deleted in part; a deletion that was cut off
//! goes on where it was with the next one, whoever makes it.

use super::journal::AkkaJournal;
use super::keys::{Mark, by_hundreds};
use super::marks::Marks;
use super::row::Row;
use crate::items::Write;
use crate::{PersistenceId, Result};

pub(super) async fn delete_to(journal: &AkkaJournal, id: &PersistenceId, to: u64) -> Result<()> {
    let tail = journal.tail(id).await?;
    let (marks, to) = (tail.marks, to.min(tail.highest));
    let low = marks.low.max(to + 1);
    if low > marks.low.max(1) {
        journal.raise_low(id, low, marks.done).await?;
    }
    journal.finish_deletion(id, Marks { low, ..marks }).await
}

impl AkkaJournal {
    /// Empties the items below the low mark that have not been, as far as it tells.
    pub(super) async fn finish_deletion(&self, id: &PersistenceId, marks: Marks) -> Result<()> {
        if marks.done + 1 >= marks.low {
            return Ok(());
        }
        for (from, to) in by_hundreds(marks.done + 1, marks.low - 1) {
            let mut writes = Vec::new();
            for item in self.items_between(id, from, to).await? {
                writes.extend(self.taken_away(id, &Row::of(&self.keys, item)?)?);
            }
            if !writes.is_empty() {
                self.items.write(&self.table, writes).await?;
            }
        }
        self.end_deletion(id, marks.low).await
    }

    /// What a deletion does with a row, if anything is left to do.
    pub(super) fn taken_away(&self, id: &PersistenceId, row: &Row) -> Result<Option<Write>> {
        if self.settings.jvm_deletes {
            let key = self.keys.event(id, row.number.get());
            return Ok(Some(Write::Delete(key)));
        }
        match row.is_gone() {
            true => Ok(None),
            false => row.emptied().map(|item| Some(Write::Put(item))),
        }
    }
}

/// Removes every trace of an id. To be done only while nobody uses it: its numbers begin anew.
pub(super) async fn purge(journal: &AkkaJournal, id: &PersistenceId) -> Result<()> {
    let tail = journal.tail(id).await?;
    let last = tail.highest.max(tail.next.saturating_sub(1));
    for (from, to) in by_hundreds(1, last) {
        let numbers = from..=to;
        let keys = numbers.map(|number| Write::Delete(journal.keys.event(id, number)));
        journal.items.write(&journal.table, keys.collect()).await?;
    }
    // The marks go last: whoever is cut off can do it again.
    let shards = 0..journal.keys.shards;
    let marks = shards.flat_map(|shard| {
        [Mark::Low, Mark::High].map(|mark| Write::Delete(journal.keys.mark_in(mark, id, shard)))
    });
    journal.items.write(&journal.table, marks.collect()).await?;
    journal.heads.forget(id);
    Ok(())
}
