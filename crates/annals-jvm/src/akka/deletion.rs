//! Deletion and skipping on the `akka` layout: items below the low marker are emptied.
//!
//! The plugin removes the items. An emptied item costs the same and keeps its number in use: a
//! stalled writer gets a conflict, instead of putting an event below the low marker that would be
//! acknowledged and never replayed. But the plugin takes the last item of the last hundred as the
//! end of the history. If it removed items after an emptied one, it would find the wrong end. So if
//! the JVM deletes too (`jvm-deletes`), items are removed here as well, and each append checks the
//! low marker again instead (`is_above_deleted`).
//!
//! The last [`KEPT`] rows are read before they are emptied, because an emptied item keeps its append
//! and its position there. Older rows are emptied unread, including numbers without a row. This is
//! safe unless the last row belongs to an open batch: its writer found every earlier batch complete,
//! or used the number of its last member so that it can never be completed. An open batch may be in
//! flight, so all its rows are read and its missing members are left alone: its writer must be
//! stopped at the last member or not at all.
//!
//! Skipped numbers that count as deleted are below the low marker. The first and the last have an
//! emptied item. The first belongs to a batch that ends after the last, so that concurrent writers
//! use the number after it; the last is what the plugin takes as the highest number. Skipped numbers
//! between events are a batch with its first and its last but one member. The next event takes the
//! number of its last member, as after any interrupted batch.
//!
//! Guarantees: the last row of a batch keeps its position. The number after a skip is fixed by the
//! first put, so no append that is acknowledged meanwhile is below the low marker.

use super::format::AkkaRows;
use super::keys::{Marker, PARTITION, by_hundreds, hundred};
use super::row::{emptied, tombstone};
use super::tail::open_row;
use crate::rows::{
    BatchIndex, Deletion, Head, Markers, NewRow, Row, RowAppend, RowDelete, RowTable, Tail,
    WRITES_AT_ONCE, in_use, put_placeholder, rewrite,
};
use annals::items::{Item, Write};
use annals::journal::Skip;
use annals::{NewEvent, PersistenceId, Result, SequenceNumber};

/// How many of the last rows a deletion reads: ten units for events of 1 KB. A repeated append is
/// recognised among these.
const KEPT: u32 = 32;

/// The last rows to empty: all from a number on.
#[derive(Debug, Default)]
pub(crate) struct LastRows {
    from: u64,
    rows: Vec<Row>,
}

impl LastRows {
    fn end_with(&self, number: u64) -> bool {
        let last = self.rows.last().map(|row| row.number);
        last == Some(number)
    }
}

impl RowDelete for AkkaRows {
    type Read = LastRows;

    async fn plan_deletion(&self, id: &PersistenceId, to: u64) -> Result<Deletion<LastRows>> {
        let (was, read, to) = match to == SequenceNumber::LAST.get() {
            true => self.read_end(id).await?,
            false => self.read_to(id, to).await?,
        };
        Ok(Deletion {
            to: self.past_dead(id, (was, to), &read).await?,
            was,
            highest: 0,
            read,
        })
    }

    async fn raise_low(&self, id: &PersistenceId, to: Markers, was: Markers) -> Result<Markers> {
        self.put_low(id, to.low, was.done).await?;
        Ok(Markers { low: to.low, ..was })
    }

    async fn finish_deletion(
        &self,
        id: &PersistenceId,
        markers: Markers,
        read: Option<LastRows>,
    ) -> Result<()> {
        if markers.done + 1 >= markers.low {
            return Ok(());
        }
        let last = match read.filter(|read| read.end_with(markers.low - 1)) {
            Some(read) => read,
            None => self.last_rows(id, markers.low - 1).await?,
        };
        self.empty(id, markers, last).await
    }

    fn deleted(&self, id: &PersistenceId, row: &Row, _: Markers) -> Result<Option<Write>> {
        if self.jvm_deletes() {
            return Ok(Some(Write::Delete(self.keys.event(id, row.number))));
        }
        match row.is_deleted() {
            true => Ok(None),
            false => emptied(row).map(|item| Some(Write::Put(item))),
        }
    }

    async fn skip_deleted(&self, id: &PersistenceId, skip: Skip, tail: &Tail) -> Result<()> {
        let to = skip.to.get();
        if tail.markers.low > to {
            return Ok(());
        }
        if tail.next > to + 1 {
            return Err(in_use(id, to));
        }
        // If the JVM deletes too, deleted rows are removed.
        if !self.jvm_deletes() {
            if tail.next < to {
                let mut first = self.tombstone_at(id, tail.next);
                let last = to + 1 - tail.next;
                BatchIndex { index: 0, last }.insert(&mut first);
                put_placeholder(self, id, first, is_same).await?;
            }
            put_placeholder(self, id, self.tombstone_at(id, to), is_same).await?;
        }
        if hundred(to) * PARTITION > tail.markers.high {
            self.raise_high(id, to).await?;
        }
        self.put_low(id, to + 1, to).await?;
        self.base.forget(id);
        Ok(())
    }

    async fn skip_between(&self, id: &PersistenceId, skip: Skip, tail: &Tail) -> Result<()> {
        let to = skip.to.get();
        let begin = match tail.next <= to {
            true => tail.next,
            // An earlier skip put it.
            false => open_row(tail).map_or(to + 1, Row::begin),
        };
        if tail.next > to + 1 || begin > to {
            return Err(in_use(id, to));
        }
        let last = to + 1 - begin;
        for index in [0, last - 1] {
            let item = self.item(&NewRow {
                id,
                number: SequenceNumber::new(begin + index).unwrap_or(skip.to),
                batch: Some(BatchIndex { index, last }),
                token: skip.token,
                time_ms: skip.time_ms,
                causation: None,
                correlation: None,
                event: &NewEvent::default(),
            })?;
            put_placeholder(self, id, item, is_same).await?;
        }
        let head = Head::after(to, tail.markers.high);
        let head = self.acknowledge(id, head).await?;
        self.base.learn(id, head);
        Ok(())
    }

    async fn purge(&self, id: &PersistenceId) -> Result<bool> {
        let last = self.extent(id).await?;
        // The feed knows a purge by its last item: without the first row, a low marker.
        if self.jvm_deletes() && last > 0 {
            self.put_low(id, last + 1, 0).await?;
        }
        // The first hundred goes last, and the markers after it: as long as anything is left they
        // point to it, and an interrupted purge can be repeated. The first row goes after the markers,
        // and is found without them.
        let hundreds: Vec<_> = by_hundreds(2, last).collect();
        for (from, to) in hundreds.into_iter().rev() {
            let keys = (from..=to).map(|number| Write::Delete(self.keys.event(id, number)));
            self.base
                .store
                .write(&self.base.table, keys.collect())
                .await?;
        }
        let markers = (0..self.keys.shards).flat_map(|shard| {
            let kinds = [Marker::High, Marker::Low];
            kinds.map(|marker| Write::Delete(self.keys.marker_in(marker, id, shard)))
        });
        let first = (last > 0).then(|| Write::Delete(self.keys.event(id, 1)));
        self.base
            .store
            .write(&self.base.table, markers.chain(first).collect())
            .await?;
        Ok(last > 0)
    }
}

/// Whether a row is the expected placeholder.
fn is_same(row: &Row, found: &Row) -> bool {
    match row.is_deleted() {
        true => found.is_deleted(),
        false => !found.is_deleted() && found.batch == row.batch,
    }
}

impl AkkaRows {
    fn tombstone_at(&self, id: &PersistenceId, number: u64) -> Item {
        let key = self.keys.event(id, number);
        tombstone(self.base.table.key().item_of(&key))
    }

    /// The last number to delete if the range ends inside an incomplete batch: the end of that
    /// batch. If only part of it were below the low marker, its missing members would be taken as
    /// deleted, and the others would be replayed.
    async fn past_dead(
        &self,
        id: &PersistenceId,
        (markers, to): (Markers, u64),
        rows: &LastRows,
    ) -> Result<u64> {
        if to < markers.low {
            return Ok(to);
        }
        let cut = match rows.rows.last().filter(|_| rows.end_with(to)) {
            Some(row) => Some(row.clone()),
            None => {
                let after = self.keys.between(id, to + 1, u64::MAX).limit(1);
                self.first_row(after).await?
            }
        };
        let Some(cut) = cut.filter(|row| row.begin() <= to && row.end() > to) else {
            return Ok(to);
        };
        let (begin, end) = (cut.begin(), cut.end());
        let from = begin.max(markers.low);
        let found = self.rows_between(id, from, end).await?;
        let has_end = found.last().is_some_and(|row| row.number == end);
        let is_member = |row: &&Row| (row.begin(), row.end()) == (begin, end);
        let is_whole = found.iter().filter(is_member).count() as u64 == end + 1 - from;
        // Without its last member it may be in flight.
        if is_whole || !has_end {
            return Ok(to);
        }
        // The writer that used its last number has an event there that is replayed.
        let after = found.iter().filter(|row| row.number > to);
        let other = after.clone().find(|row| !is_member(row));
        Ok(other.map_or(end, |row| row.number - 1))
    }

    /// The low marker, the last rows up to a number, and that number if it was ever used (a row
    /// proves it), or else the highest.
    async fn read_to(&self, id: &PersistenceId, to: u64) -> Result<(Markers, LastRows, u64)> {
        let low = self.markers_of(id, &[Marker::Low]);
        let (mut markers, rows) = futures::try_join!(low, self.last_rows(id, to))?;
        if to < markers.low || rows.end_with(to) {
            return Ok((markers, rows, to));
        }
        markers.high = self.markers_of(id, &[Marker::High]).await?.high;
        let tail = self.tail_after(id, markers, None).await?;
        Ok((markers, rows, to.min(tail.highest)))
    }

    /// The same for a deletion of all events: the last rows of the last hundred.
    async fn read_end(&self, id: &PersistenceId) -> Result<(Markers, LastRows, u64)> {
        let markers = self.all_markers(id).await?;
        let at = hundred(markers.used());
        let query = self.keys.last_of(id, at).limit(KEPT);
        let items = self.base.store.query(&self.base.table, query).await?.items;
        let rows = items.into_iter().rev().map(|item| self.row(item));
        let rows: Vec<Row> = rows.collect::<Result<_>>()?;
        let number = |row: Option<&Row>| row.map_or(0, |row| row.number);
        let (from, last) = (number(rows.first()), number(rows.last()));
        let proves_highest = rows.last().is_some_and(|row| self.proves_highest(row));
        let is_full = last % PARTITION == PARTITION - 1;
        let to = match proves_highest && !is_full && last >= markers.used() {
            true => last,
            false => {
                let seen = (at, rows.last().cloned());
                self.tail_after(id, markers, Some(seen)).await?.highest
            }
        };
        Ok((markers, LastRows { from, rows }, to))
    }

    /// The last rows up to a number; only one if rows are removed, since then nothing is kept.
    async fn last_rows(&self, id: &PersistenceId, to: u64) -> Result<LastRows> {
        let more = match self.jvm_deletes() {
            true => 0,
            false => u64::from(KEPT) - 1,
        };
        let from = to.saturating_sub(more).max(1);
        let rows = self.rows_between(id, from, to).await?;
        Ok(LastRows { from, rows })
    }

    /// Empties everything from the end of the last deletion to the low marker; `last` are its last
    /// rows.
    async fn empty(&self, id: &PersistenceId, markers: Markers, last: LastRows) -> Result<()> {
        let (from, to) = (markers.done + 1, markers.low - 1);
        let LastRows { from: read, rows } = last;
        let Some(last) = rows.last().filter(|row| row.number == to) else {
            // Without the last row, earlier batches may be open. Read every row, and put nothing
            // where there is none.
            let delete = |row: &Row| self.deleted(id, row, markers);
            rewrite(self, id, (from, to), delete).await?;
            return self.end_deletion(id, markers.low).await;
        };
        let unread = match (self.jvm_deletes(), last.open_end()) {
            (true, _) => to + 1,
            (false, None) => read,
            (false, Some(_)) => last.begin().max(from).min(read),
        };
        let mut kept = self.rows_between(id, unread, read - 1).await?;
        kept.extend(rows);
        kept.retain(|row| row.number >= from.max(unread));
        let kept = kept.iter().map(|row| self.deleted(id, row, markers));
        let kept: Vec<Write> = kept.filter_map(Result::transpose).collect::<Result<_>>()?;
        let unread = (from..unread).map(|number| match self.jvm_deletes() {
            true => Write::Delete(self.keys.event(id, number)),
            false => Write::Put(self.tombstone_at(id, number)),
        });
        let mut writes = unread.chain(kept);
        loop {
            let some: Vec<Write> = writes.by_ref().take(WRITES_AT_ONCE).collect();
            if some.is_empty() {
                return self.end_deletion(id, markers.low).await;
            }
            self.base.store.write(&self.base.table, some).await?;
        }
    }
}
