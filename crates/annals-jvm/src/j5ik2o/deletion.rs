//! Deleting up to a number: the mark is raised first, then the rows are marked as deleted, as the
//! plugin marks them, or emptied where the settings say that nothing is to stay (`soft-delete`).
//!
//! The last row of all is only marked: the plugin goes by it.
//! An emptied row keeps its key, so that a writer of ours that was frozen meanwhile is refused, and
//! shows the plugin's index nothing. The mark tells which number was last, also where the index
//! shows none any more.
//!
//! Promises: a replay never sees a history that is deleted in part; a deletion that was cut off
//! goes on where it was with the next one, whoever makes it; what was deleted before is not read
//! again. Rows are written under the keys they were read with, whatever the settings say today.

use super::journal::J5ik2oJournal;
use super::mark::Mark;
use super::row::Row;
use super::rows::{Range, Rows, Step};
use annals::items::{Item, Write};
use annals::{PersistenceId, Result};

/// How many rows are written at once.
const AT_ONCE: usize = 100;

pub(super) async fn delete_to(journal: &J5ik2oJournal, id: &PersistenceId, to: u64) -> Result<()> {
    let tail = journal.tail(id).await?;
    let was = tail.mark;
    let low = to.min(tail.settled()) + 1;
    let mark = match low > was.low.max(1) {
        true => {
            let mark = Mark {
                low,
                done: was.done,
                high: tail.highest.max(was.high),
            };
            journal.raise(id, mark, was).await?
        }
        false => was,
    };
    journal.finish_deletion(id, mark).await
}

impl J5ik2oJournal {
    /// Deletes the rows below the mark that have not been, as far as it tells.
    pub(super) async fn finish_deletion(&self, id: &PersistenceId, mark: Mark) -> Result<()> {
        if mark.done + 1 >= mark.low {
            return Ok(());
        }
        let range = Range::between(mark.done + 1, mark.low - 1);
        let mut rows = Rows::of(self, id, range);
        let mut writes = Vec::new();
        loop {
            let step = rows.next().await?;
            let is_end = step.is_none();
            if let Some(Step::Row(row)) = step {
                writes.extend(self.taken_away(&row, mark)?);
            }
            if writes.len() >= AT_ONCE || (is_end && !writes.is_empty()) {
                let writes = std::mem::take(&mut writes);
                self.store.write(&self.table, writes).await?;
            }
            if is_end {
                return self.end_deletion(id, mark).await;
            }
        }
    }

    /// What a deletion does with a row, if anything is left to do. The last row of all is marked at
    /// the most: without any, the plugin would begin at 1 again, below our mark.
    fn taken_away(&self, row: &Row, mark: Mark) -> Result<Option<Write>> {
        let columns = self.columns();
        let is_shown = row.item.get(&columns.persistence_id_column_name).is_some();
        Ok(
            match self.section().soft_delete || row.number >= mark.high {
                true if row.is_live() => Some(Write::Put(row.marked(columns))),
                false if is_shown => Some(Write::Put(row.emptied(self.table.key(), columns)?)),
                _ => None,
            },
        )
    }
}

/// Removes every trace of an id. To be done only while nobody uses it: its numbers begin anew.
pub(super) async fn purge(journal: &J5ik2oJournal, id: &PersistenceId) -> Result<()> {
    let tail = journal.tail(id).await?;
    let mark = tail.mark;
    let last = tail.open().map_or(tail.highest, Row::end).max(mark.high);
    let mut rows = Rows::of(journal, id, Range::between(1, last));
    let mut found: Vec<Item> = Vec::new();
    loop {
        let step = rows.next().await?;
        let is_end = step.is_none();
        if let Some(Step::Row(row)) = step {
            found.push(row.item);
        }
        if found.len() >= AT_ONCE || is_end {
            let keys = found.drain(..).map(|item| journal.table.key_of(&item));
            let writes = keys.map(|key| key.map(Write::Delete));
            let writes: Vec<_> = writes.collect::<Result<_>>()?;
            if !writes.is_empty() {
                journal.store.write(&journal.table, writes).await?;
            }
        }
        if is_end {
            break;
        }
    }
    // The mark goes last: whoever is cut off can do it again.
    if mark != Mark::default() {
        let writes = vec![Write::Delete(journal.keys.mark(id))];
        journal.store.write(&journal.table, writes).await?;
    }
    journal.heads.forget(id);
    Ok(())
}
