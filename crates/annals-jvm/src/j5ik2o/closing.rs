//! Closing a batch that was cut off: before anything is appended behind it.
//!
//! The number of its last member is taken first, so that it can never become whole and its writer,
//! if it lives, is refused. Then every number that it lacks is taken as well, and every row it has
//! is marked as deleted: the plugin, which knows no batches, passes them over as we do.
//!
//! What stands in the place of the last member tells when all that is done: whoever appends behind
//! it finishes first.
//!
//! Promises: when it is done no row of the batch is live; safe to be cut off, to be repeated, and to
//! be done by several at once.
//! Never: closes a batch that is whole.

use super::journal::J5ik2oJournal;
use super::row::{Row, Tombstone};
use annals::items::{Condition, Write, WriteError};
use annals::{Error, PersistenceId, Result};

/// How many numbers are looked up at once.
const LOOKED_UP: u64 = 100;

impl J5ik2oJournal {
    /// Closes the batch that a row is of; answers whether it is closed. Not where it became whole.
    pub(super) async fn close(&self, id: &PersistenceId, member: &Row) -> Result<bool> {
        let (begin, end) = (member.begin(), member.end());
        let tombstone = Tombstone {
            id,
            begin,
            end,
            time_ms: member.time_ms(self.columns()),
        };
        let last = self.take_number(tombstone, end).await?;
        if last
            .as_ref()
            .is_some_and(|last| !last.is_closed() && last.begin() == begin)
        {
            return Ok(false);
        }
        let mut from = begin;
        while from < end {
            let to = (end - 1).min(from + (LOOKED_UP - 1));
            let mut writes = Vec::new();
            let mut found = self.rows_between(id, from, to).await?;
            for number in from..=to {
                let row = match found.remove(&number) {
                    Some(row) => Some(row),
                    // Its writer may be putting it right now.
                    None => self.take_number(tombstone, number).await?,
                };
                let live = row.filter(|row| row.is_live() && row.begin() == begin);
                writes.extend(live.map(|row| Write::Put(row.closed(self.columns()))));
            }
            if !writes.is_empty() {
                self.store.write(&self.table, writes).await?;
            }
            from = to + 1;
        }
        if last.is_none_or(|last| last.is_closing()) {
            let closed = self.tombstone_at(tombstone, end)?.closed(self.columns());
            let writes = vec![Write::Put(closed)];
            self.store.write(&self.table, writes).await?;
        }
        Ok(true)
    }

    pub(super) fn tombstone_at(&self, tombstone: Tombstone<'_>, number: u64) -> Result<Row> {
        let key = self.keys.key(tombstone.id, number)?;
        let mut item = self.table.key().item_of(&key);
        tombstone.fill(&mut item, self.columns(), number);
        self.row(item)
    }

    /// Takes a number for nothing; answers what has it already.
    async fn take_number(&self, tombstone: Tombstone<'_>, number: u64) -> Result<Option<Row>> {
        let item = self.tombstone_at(tombstone, number)?.item;
        match self.store.put(&self.table, item, Condition::Absent).await {
            Ok(_) => Ok(None),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => {
                let existing = existing.ok_or_else(refused_for_nothing)?;
                self.check_owner(tombstone.id, number, &existing)?;
                self.row(*existing).map(Some)
            }
        }
    }
}

pub(super) fn refused_for_nothing() -> Error {
    Error::unavailable("the store refused an event for nothing; try again")
}
