//! Deletion and skipping on the `akka` layout: items below the low marker are emptied.
//!
//! The plugin removes the items. An emptied one costs the same to write and keeps its number taken:
//! a writer of ours that was frozen meanwhile is refused, where it would otherwise put an event
//! below the low marker, acknowledge it and lose it. The plugin replays nothing below the low marker.
//! But it takes the last item of the last hundred for the end, and were it to remove the items
//! after an emptied one, for the wrong end: where it deletes too (`jvm-deletes`), items are removed
//! here as there, and appends look once more instead (`is_above_deleted`).
//!
//! The last [`KEPT`] rows are read before they are emptied, for what an emptied one keeps of them:
//! the append it came with and its position there. Older ones are emptied unread, and numbers without
//! a row with them. Before the last row, if that does not show an open batch, nothing is undecided:
//! its writer found every batch before it whole, or took its last number, so that it never becomes
//! whole. An emptied item in such a batch stops its writer a little earlier. The batch of a last row
//! that shows it open may be in flight: all of it is read, and what is missing of it is left alone,
//! since its writer is to be stopped at its last member or not at all.
//!
//! Skipped numbers that count as deleted are below the low marker. The first and the last of them
//! have an emptied item: the first shows a batch that ends after the last, so that writers meanwhile
//! want the number after it too; the last is what the plugin takes for the highest. Skipped numbers
//! between events are of a batch whose first and last but one member are there. The event after them
//! takes the number of its last member, as after any batch whose writer died.
//!
//! Guarantees: what its last row says of a batch stays. The number that the next event gets after a
//! skip is known from the first put on, so no append that is acknowledged meanwhile is below the low
//! marker.

use super::format::AkkaRows;
use super::keys::{Marker, PARTITION, by_hundreds, hundred};
use super::row::{emptied, tombstone};
use super::tail::open_row;
use crate::rows::{
    BatchIndex, Deletion, Head, Markers, NewRow, Row, RowAppend, RowDelete, RowTable, Tail,
    WRITES_AT_ONCE, put_placeholder, rewrite, taken,
};
use annals::items::{Item, Write};
use annals::journal::Skip;
use annals::{NewEvent, PersistenceId, Result, SequenceNumber};

/// Of how many of the last numbers a deletion reads the rows: ten units for events of 1 KB. More
/// cost more, fewer forget sooner which append an event came with.
const KEPT: u32 = 32;

/// The last rows that are to be emptied: all there are from a number on.
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
            return Err(taken(id, to));
        }
        // Where the JVM deletes too, nothing is left of what is deleted.
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
            // It was begun before.
            false => open_row(tail).map_or(to + 1, Row::begin),
        };
        if tail.next > to + 1 || begin > to {
            return Err(taken(id, to));
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

    async fn purge(&self, id: &PersistenceId) -> Result<()> {
        let last = self.extent(id).await?;
        // The first hundred goes last, and the markers after it: as long as anything is left they
        // point to it, and an interrupted purge can be repeated.
        let hundreds: Vec<_> = by_hundreds(1, last).collect();
        for (from, to) in hundreds.into_iter().rev() {
            let keys = (from..=to).map(|number| Write::Delete(self.keys.event(id, number)));
            self.base
                .store
                .write(&self.base.table, keys.collect())
                .await?;
        }
        let markers = (0..self.keys.shards).flat_map(|shard| {
            let kinds = [Marker::Low, Marker::High];
            kinds.map(|marker| Write::Delete(self.keys.marker_in(marker, id, shard)))
        });
        self.base
            .store
            .write(&self.base.table, markers.collect())
            .await?;
        Ok(())
    }
}

/// Whether a row is the placeholder that was to be put.
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

    /// The number up to which is deleted where a batch is cut: all of one that lacks members and
    /// never counted. Were only a part of it below the low marker, what is missing there would be
    /// taken for deleted, and the rest would count.
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
        // Without its end it may be in flight.
        if is_whole || !has_end {
            return Ok(to);
        }
        // The writer that took its last number has an event there that counts.
        let after = found.iter().filter(|row| row.number > to);
        let other = after.clone().find(|row| !is_member(row));
        Ok(other.map_or(end, |row| row.number - 1))
    }

    /// The low marker, the last rows up to a number, and that number if it was ever used, or else
    /// the highest. Its row proves that it was.
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

    /// The same where everything is to be deleted: the last rows of the last hundred.
    async fn read_end(&self, id: &PersistenceId) -> Result<(Markers, LastRows, u64)> {
        let markers = self.all_markers(id).await?;
        let at = hundred(markers.used());
        let query = self.keys.last_of(id, at).limit(KEPT);
        let items = self.base.store.query(&self.base.table, query).await?.items;
        let rows = items.into_iter().rev().map(|item| self.row(item));
        let rows: Vec<Row> = rows.collect::<Result<_>>()?;
        let number = |row: Option<&Row>| row.map_or(0, |row| row.number);
        let (from, last) = (number(rows.first()), number(rows.last()));
        let is_told = rows.last().is_some_and(|row| self.is_told(row));
        let is_full = last % PARTITION == PARTITION - 1;
        let to = match is_told && !is_full && last >= markers.used() {
            true => last,
            false => {
                let seen = (at, rows.last().cloned());
                self.tail_after(id, markers, Some(seen)).await?.highest
            }
        };
        Ok((markers, LastRows { from, rows }, to))
    }

    /// The rows of the last numbers up to this one. Of what is removed nothing is kept: there the
    /// last is enough.
    async fn last_rows(&self, id: &PersistenceId, to: u64) -> Result<LastRows> {
        let more = match self.jvm_deletes() {
            true => 0,
            false => u64::from(KEPT) - 1,
        };
        let from = to.saturating_sub(more).max(1);
        let rows = self.rows_between(id, from, to).await?;
        Ok(LastRows { from, rows })
    }

    /// Empties everything between what is done and the low marker, of which these are the last rows.
    async fn empty(&self, id: &PersistenceId, markers: Markers, last: LastRows) -> Result<()> {
        let (from, to) = (markers.done + 1, markers.low - 1);
        let LastRows { from: read, rows } = last;
        let Some(last) = rows.last().filter(|row| row.number == to) else {
            // It would prove that all before it is decided. Each row is read instead, and nothing is
            // put where there is none.
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
