//! Deletion and skipping on the `j5ik2o` layout: rows below the marker are flagged as deleted, as
//! the plugin does, or emptied (`soft-delete = false`).
//!
//! The last row is only flagged, since the plugin finds the highest number by it. An emptied row
//! keeps its key, so that a stalled writer gets a conflict, and is not in the plugin's index. The
//! marker has the last number, even if the index is empty.
//!
//! Skipped numbers are rows of an abandoned batch. Between events every number gets a row. If they
//! count as deleted, only the first and the last get one, and the marker covers all: a stalled writer
//! would use the first, and the plugin goes by the last. The first is put before the marker is
//! raised, so it is a row of an abandoned batch: a deleted event above the marker would be damage.
//!
//! Guarantees: rows that were deleted before are not read again. Rows are written under the keys
//! they were read with, whatever the current settings.

use super::format::J5ik2oRows;
use super::row::{Tombstone, closed, emptied, flagged, is_shown};
use super::tail::open_row;
use crate::rows::{
    Deletion, EVENTS_MAX, Head, Markers, NewRow, Row, RowAppend, RowDelete, RowTable, Tail, in_use,
    put_placeholder, rewrite,
};
use annals::items::Write;
use annals::journal::Skip;
use annals::{NewEvent, PersistenceId, Result};

impl RowDelete for J5ik2oRows {
    type Read = ();

    async fn plan_deletion(&self, id: &PersistenceId, to: u64) -> Result<Deletion<()>> {
        let tail = self.tail(id).await?;
        Ok(Deletion {
            was: tail.markers,
            to: to.min(tail.append_after),
            highest: tail.highest,
            read: (),
        })
    }

    async fn raise_low(&self, id: &PersistenceId, to: Markers, was: Markers) -> Result<Markers> {
        self.raise_marker(id, to, was).await
    }

    async fn finish_deletion(
        &self,
        id: &PersistenceId,
        markers: Markers,
        _: Option<()>,
    ) -> Result<()> {
        if markers.done + 1 >= markers.low {
            return Ok(());
        }
        let delete = |row: &Row| self.deleted(id, row, markers);
        let numbers = (markers.done + 1, markers.low - 1);
        rewrite(self, id, numbers, delete).await?;
        self.end_deletion(id, markers).await
    }

    /// The last row is only flagged: without any row, the plugin would restart at 1, below our
    /// marker.
    fn deleted(&self, _: &PersistenceId, row: &Row, markers: Markers) -> Result<Option<Write>> {
        let columns = self.columns();
        let is_flagged = self.section().soft_delete || row.number >= markers.high;
        Ok(match is_flagged {
            true if row.is_live() => Some(Write::Put(flagged(row, columns))),
            false if is_shown(columns, &row.item) => {
                let item = emptied(row, self.base.table.key(), columns)?;
                Some(Write::Put(item))
            }
            _ => None,
        })
    }

    async fn skip_deleted(&self, id: &PersistenceId, skip: Skip, tail: &Tail) -> Result<()> {
        let to = self.free_to(id, skip, tail)?;
        if tail.highest < to {
            let first = tail.highest + 1;
            let row = self.tombstone_at(given_up(id, (first, first), skip), first)?;
            let item = closed(&row, self.columns());
            put_placeholder(self, id, item, does_not_count).await?;
        }
        // Before the last row is put: unexplained numbers before a row would be a gap.
        let markers = Markers {
            low: to + 1,
            done: to,
            high: to,
        };
        self.raise_marker(id, markers, tail.markers).await?;
        self.base.forget(id);
        let item = self.item(&NewRow {
            id,
            number: skip.to,
            batch: None,
            token: skip.token,
            time_ms: skip.time_ms,
            causation: None,
            correlation: None,
            event: &NewEvent::default(),
        })?;
        let item = flagged(&self.row(item)?, self.columns());
        put_placeholder(self, id, item, does_not_count).await
    }

    async fn skip_between(&self, id: &PersistenceId, skip: Skip, tail: &Tail) -> Result<()> {
        let to = self.free_to(id, skip, tail)?;
        // As many at once as a batch may have.
        for begin in (tail.highest + 1..=to).step_by(EVENTS_MAX) {
            let end = to.min(begin + (EVENTS_MAX as u64 - 1));
            let first = self.tombstone_at(given_up(id, (begin, end), skip), begin)?;
            // Closed, so that an event with the first number is not taken as a member.
            let item = closed(&first, self.columns());
            put_placeholder(self, id, item, does_not_count).await?;
            if begin < end {
                self.close_batch(id, &first).await?;
            }
        }
        self.base.learn(id, Head::after(to, 0));
        Ok(())
    }

    async fn purge(&self, id: &PersistenceId) -> Result<bool> {
        let tail = self.tail(id).await?;
        let markers = tail.markers;
        let last = open_row(&tail).map_or(tail.highest, Row::end);
        let remove = |row: &Row| {
            let key = self.base.table.key_of(&row.item)?;
            Ok(Some(Write::Delete(key)))
        };
        let last = last.max(markers.high);
        // Everything is hidden first: nobody reads a history that is removed in part. The feed knows a
        // purge by the marker, whose key has the id.
        if markers.low <= last && last > 0 {
            let hidden = Markers {
                low: last + 1,
                done: markers.done,
                high: last,
            };
            self.raise_marker(id, hidden, markers).await?;
        }
        rewrite(self, id, (1, last), remove).await?;
        // The marker goes last: an interrupted purge can be repeated.
        if last > 0 {
            let writes = vec![Write::Delete(self.keys.marker(id))];
            self.base.store.write(&self.base.table, writes).await?;
        }
        Ok(last > 0)
    }
}

impl J5ik2oRows {
    /// The last number to skip, if there is no event or batch in flight in the range.
    fn free_to(&self, id: &PersistenceId, skip: Skip, tail: &Tail) -> Result<u64> {
        let to = skip.to.get();
        match open_row(tail).is_some() || tail.highest > to {
            true => Err(in_use(id, to)),
            false => Ok(to),
        }
    }
}

/// Whether an existing row can serve as the placeholder.
fn does_not_count(_: &Row, found: &Row) -> bool {
    !found.is_live()
}

/// Rows of an abandoned batch.
fn given_up(id: &PersistenceId, (begin, end): (u64, u64), skip: Skip) -> Tombstone<'_> {
    Tombstone {
        id,
        begin,
        end,
        time_ms: skip.time_ms,
    }
}
