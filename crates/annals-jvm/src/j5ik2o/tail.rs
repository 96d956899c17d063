//! The tail: the end of an id's history, and the rows after the event that an append expects.
//!
//! Guarantees: finds the last number ever used, deleted or not. If the keys are in order, with three
//! concurrent requests: the table, the index for rows of older settings, and the marker. Otherwise
//! with the index and the marker, and then a lookup by key.

use futures::TryStreamExt;

use super::format::J5ik2oRows;
use super::keys::on_index;
use super::reader::{Range, Rows};
use crate::rows::{After, Head, Markers, Row, RowAppend, RowCodec, RowTable, Tail, Wanted};
use annals::items::Item;
use annals::{PersistenceId, Result};

/// How many rows are requested at once: only the first append after the expected event is needed.
const PAGE: u32 = 16;

fn tail_of(row: Option<Row>, markers: Markers) -> Tail {
    let last = row.filter(|row| row.number >= markers.high);
    let highest = last.as_ref().map_or(markers.high, |row| row.number);
    // Members of a batch in flight are not appended yet.
    let open = last.as_ref().filter(|row| row.is_live() && !row.is_end());
    Tail {
        highest,
        next: highest + 1,
        append_after: open.map_or(highest, |open| open.begin() - 1),
        last,
        markers,
    }
}

/// The last row, if it is of a batch whose last member is missing.
pub(super) fn open_row(tail: &Tail) -> Option<&Row> {
    let last = tail.last.as_ref();
    last.filter(|row| row.is_live() && !row.is_end())
}

impl RowAppend for J5ik2oRows {
    /// The plugin has no batches and would replay the members.
    const CLOSES_BATCHES: bool = true;

    async fn tail(&self, id: &PersistenceId) -> Result<Tail> {
        let (markers, indexed, stored) = futures::try_join!(
            self.marker(id),
            self.last_in_index(id),
            self.last_in_table(id)
        )?;
        let rows = [indexed, stored].into_iter().flatten();
        let mut tail = tail_of(rows.max_by_key(|row| row.number), markers);
        if !self.keys.are_ordered() {
            let mut rows = Rows::after(self, id, tail.highest);
            while let Some(row) = rows.next().await? {
                tail = tail_of(Some(row), markers);
            }
        }
        Ok(tail)
    }

    async fn highest(&self, id: &PersistenceId) -> Result<u64> {
        Ok(self.tail(id).await?.append_after)
    }

    async fn after(&self, wanted: &Wanted<'_>) -> Result<After> {
        // The marker and the rows are read at once. Rows that it counts as used and that were not
        // found may have been stored and deleted between the two reads, our own among them. The
        // marker was raised after they were stored, so a second look finds what is left of them.
        match self.look_after(wanted).await? {
            Some(after) => Ok(after),
            None => {
                let after = self.look_after(wanted).await?;
                Ok(after.unwrap_or_else(|| After::Taken(Vec::new())))
            }
        }
    }

    async fn close(&self, id: &PersistenceId, member: &Row) -> Result<bool> {
        self.close_batch(id, member).await
    }
}

impl J5ik2oRows {
    /// What comes after the expected event; `None` where the marker says that something was there,
    /// and no row shows what.
    async fn look_after(&self, wanted: &Wanted<'_>) -> Result<Option<After>> {
        let Wanted { id, last, .. } = *wanted;
        let range = Range {
            page: Some(PAGE),
            ..Range::between(last + 1, u64::MAX)
        };
        let mut rows = Rows::new(self, id, range);
        let mut members: Vec<Row> = Vec::new();
        let (mut open, mut closing) = (None, None);
        let mut next = last + 1;
        while let Some(row) = rows.next().await? {
            next = row.number + 1;
            if row.is_closed() {
                closing = Some(row).filter(Row::is_closing).or(closing);
                continue;
            }
            // A member that was deleted on its own still shows its batch.
            open = (!row.is_end()).then(|| row.clone());
            if members
                .first()
                .is_some_and(|first| !first.is_same_batch(&row))
            {
                members.clear();
            }
            members.push(row);
            if open.is_none() {
                return self.after_append(wanted, members).await.map(Some);
            }
        }
        let before = match rows.before.take() {
            None if last > 0 => self.find(id, last).await?,
            before => before,
        };
        let is_there = last == 0 || before.is_some() || rows.is_anchored;
        // The expected event may be inside an incomplete batch.
        match before {
            Some(row) if row.is_closing() => closing = closing.or(Some(row)),
            Some(row) if row.is_live() && !row.is_end() => open = open.or(Some(row)),
            _ => {}
        }
        // Numbers up to the marker were used, even without a row.
        let used = rows.marker.high;
        let head = |next| Head {
            last,
            next,
            high: 0,
        };
        if open.is_none() && next <= used {
            return Ok((last >= used).then(|| After::Nothing(head(used + 1))));
        }
        Ok(Some(match (open, closing) {
            (Some(open), _) if next > open.end() => After::Dead(Box::new(open)),
            (Some(open), _) => After::Open(Box::new(open), head(next)),
            (None, Some(closing)) => After::Dead(Box::new(closing)),
            (None, None) if !is_there => After::Taken(Vec::new()),
            (None, None) => After::Nothing(head(next)),
        }))
    }

    /// The first append after the expected event is stored: ours, or another's.
    async fn after_append(&self, wanted: &Wanted<'_>, mut rows: Vec<Row>) -> Result<After> {
        let Some(end) = rows.last() else {
            return Ok(After::Taken(Vec::new()));
        };
        if self.token(end)? == Some(wanted.stamped.token) {
            return Ok(After::Stored {
                end: end.number,
                time_ms: self.time_ms(end),
                high: 0,
            });
        }
        // Members that were not stored yet at the first lookup.
        let missing: Vec<u64> = (end.begin().max(wanted.last + 1)..end.number)
            .filter(|number| rows.binary_search_by_key(number, |row| row.number).is_err())
            .collect();
        rows.extend(self.rows_at(wanted.id, missing.into_iter()).await?);
        rows.sort_by_key(|row| row.number);
        // Events after the expected one existed and are deleted.
        if !rows.iter().all(Row::is_live) {
            return Ok(After::Taken(Vec::new()));
        }
        let mut events = Vec::new();
        for row in &rows {
            events.extend(self.event(wanted.id, row)?.map(|(event, _)| event));
        }
        Ok(After::Taken(events))
    }

    /// The last row under the current keys, if they are in order.
    async fn last_in_table(&self, id: &PersistenceId) -> Result<Option<Row>> {
        if !self.keys.are_ordered() {
            return Ok(None);
        }
        let query = self.keys.between(id, 1, u64::MAX)?.descending();
        let mut items = self.query(query.limit(1));
        while let Some(item) = items.try_next().await? {
            if self.is_owned(id, &item) {
                return self.row(item).map(Some);
            }
        }
        Ok(None)
    }

    /// The last row in the index.
    async fn last_in_index(&self, id: &PersistenceId) -> Result<Option<Row>> {
        let found = self.last_item_in_index(id).await?;
        found.map(|item| self.row(item)).transpose()
    }

    /// The last number in the index.
    pub(super) async fn last_indexed(&self, id: &PersistenceId) -> Result<Option<u64>> {
        let found = self.last_item_in_index(id).await?;
        let name = &self.columns().sequence_nr_column_name;
        Ok(found.and_then(|item| item.get(name)?.as_u64()))
    }

    async fn last_item_in_index(&self, id: &PersistenceId) -> Result<Option<Item>> {
        let index = &self.section().get_journal_rows_index_name;
        let query = on_index(index, id, (1, u64::MAX)).descending().limit(1);
        let found = self.base.store.query(&self.base.table, query).await?.items;
        Ok(found.into_iter().next())
    }
}
