//! Closes an interrupted batch before an append after it.
//!
//! First puts a tombstone in place of its last member, so that the batch can never be completed and
//! its writer, if it still runs, gets a conflict. Then puts a tombstone for every missing number, and
//! flags every row as deleted: the plugin, which has no batches, skips them as we do.
//!
//! The row in place of the last member records when this is done. An append after it finishes the
//! closing first.
//!
//! Guarantees: after closing, no row of the batch is live. Repeatable and resumable, even by several
//! processes at once. Never closes a complete batch.

use super::format::J5ik2oRows;
use super::row::{Tombstone, closed};
use crate::rows::{Row, RowCodec, RowTable};
use annals::items::Write;
use annals::{PersistenceId, Result};

/// How many numbers are read at once.
const AT_ONCE: u64 = 100;

impl J5ik2oRows {
    /// Closes the batch of a row; returns `false` if it was completed meanwhile.
    pub(super) async fn close_batch(&self, id: &PersistenceId, member: &Row) -> Result<bool> {
        let (begin, end) = (member.begin(), member.end());
        let tombstone = Tombstone {
            id,
            begin,
            end,
            time_ms: self.time_ms(member),
        };
        let last = self.take_number(tombstone, end).await?;
        let is_whole = |last: &Row| !last.is_closed() && last.begin() == begin;
        if last.as_ref().is_some_and(is_whole) {
            return Ok(false);
        }
        let mut from = begin;
        while from < end {
            let to = (end - 1).min(from + (AT_ONCE - 1));
            let mut writes = Vec::new();
            let mut found = self.rows_between(id, from, to).await?;
            for number in from..=to {
                let row = match found.remove(&number) {
                    Some(row) => Some(row),
                    // Its writer may be putting it right now.
                    None => self.take_number(tombstone, number).await?,
                };
                let live = row.filter(|row| row.is_live() && row.begin() == begin);
                writes.extend(live.map(|row| Write::Put(closed(&row, self.columns()))));
            }
            if !writes.is_empty() {
                self.base.store.write(&self.base.table, writes).await?;
            }
            from = to + 1;
        }
        if last.is_none_or(|last| last.is_closing()) {
            let row = self.tombstone_at(tombstone, end)?;
            let writes = vec![Write::Put(closed(&row, self.columns()))];
            self.base.store.write(&self.base.table, writes).await?;
        }
        Ok(true)
    }

    pub(super) fn tombstone_at(&self, tombstone: Tombstone<'_>, number: u64) -> Result<Row> {
        let key = self.keys.key(tombstone.id, number)?;
        let mut item = self.base.table.key().item_of(&key);
        tombstone.fill(&mut item, self.columns(), number);
        self.row(item)
    }

    /// Puts a tombstone for a number; returns the row that is there already.
    async fn take_number(&self, tombstone: Tombstone<'_>, number: u64) -> Result<Option<Row>> {
        let item = self.tombstone_at(tombstone, number)?.item;
        let Some(existing) = self.base.put_new(item).await? else {
            return Ok(None);
        };
        self.check_owner(tombstone.id, number, &existing)?;
        self.row(existing).map(Some)
    }
}
