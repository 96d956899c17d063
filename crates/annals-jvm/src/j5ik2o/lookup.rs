//! Finding the end of an id's history.
//!
//! Promises: the last number that was ever used, deleted or not. Three requests at once where the
//! keys are in order: the table, the index for rows of another time, and the mark; otherwise the
//! index and the mark, and one look behind them.

use futures::TryStreamExt;

use super::journal::J5ik2oJournal;
use super::keys::on_index;
use super::mark::Mark;
use super::row::Row;
use super::rows::{Range, Rows, Step};
use annals::items::Item;
use annals::journal::Signature;
use annals::layout::support::Signatures;
use annals::{PersistenceId, Result, SequenceNumber};

/// The end of a history.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The last row, unless all that is known of it is that it was there.
    pub(super) last: Option<Row>,
    /// The last number that was ever used; 0: none.
    pub(super) highest: u64,
    pub(super) mark: Mark,
}

impl Tail {
    fn of(row: Option<Row>, mark: Mark) -> Self {
        let last = row.filter(|row| row.number >= mark.high);
        Self {
            highest: last.as_ref().map_or(mark.high, |row| row.number),
            last,
            mark,
        }
    }

    /// The last number before a batch that may be under way: nothing of that is appended yet.
    pub(super) fn settled(&self) -> u64 {
        self.open().map_or(self.highest, |open| open.begin() - 1)
    }

    /// The last row, if it is of a batch whose last member is missing.
    pub(super) fn open(&self) -> Option<&Row> {
        let last = self.last.as_ref();
        last.filter(|row| row.is_live() && !row.is_end())
    }
}

impl J5ik2oJournal {
    /// Which appends took the numbers from one to another: rows tell it also when they are deleted.
    pub(super) async fn find_signatures(
        &self,
        id: &PersistenceId,
        (from, to): (SequenceNumber, SequenceNumber),
    ) -> Result<Vec<Signature>> {
        let mut signatures = Signatures::from(from);
        let mut rows = Rows::of(self, id, Range::between(from.get(), to.get()));
        while let Some(step) = rows.next().await? {
            let Step::Row(row) = step else { continue };
            if signatures.has_met_none() {
                signatures.forget_before(row.number);
            }
            // A last member is put when all others are there.
            match SequenceNumber::new(row.number).filter(|_| row.is_end() && !row.is_closed()) {
                Some(number) => signatures.meet(number, Some(row.token(self.columns())?)),
                None => signatures.pass(row.number),
            }
        }
        Ok(signatures.until(to))
    }

    /// The end of an id's history as the store has it.
    pub(super) async fn tail(&self, id: &PersistenceId) -> Result<Tail> {
        let asked = futures::try_join!(
            self.mark(id),
            self.last_in_index(id),
            self.last_in_table(id)
        );
        let (mark, indexed, stored) = asked?;
        let rows = [indexed, stored].into_iter().flatten();
        let known = Tail::of(rows.max_by_key(|row| row.number), mark);
        match self.keys.are_ordered() {
            true => Ok(known),
            false => self.tail_behind(id, known).await,
        }
    }

    /// The last row under the keys in use now, where they are in order.
    async fn last_in_table(&self, id: &PersistenceId) -> Result<Option<Row>> {
        if !self.keys.are_ordered() {
            return Ok(None);
        }
        let query = self.keys.between(id, 1, u64::MAX)?.descending();
        let mut rows = self.query(query.limit(1));
        while let Some(item) = rows.try_next().await? {
            if self.is_owned(id, &item) {
                return self.row(item).map(Some);
            }
        }
        Ok(None)
    }

    /// The last row that the index shows.
    async fn last_in_index(&self, id: &PersistenceId) -> Result<Option<Row>> {
        let found = self.last_item_in_index(id).await?;
        found.map(|item| self.row(item)).transpose()
    }

    /// The last number that the index shows.
    pub(super) async fn last_indexed(&self, id: &PersistenceId) -> Result<Option<u64>> {
        let found = self.last_item_in_index(id).await?;
        let name = &self.columns().sequence_nr_column_name;
        Ok(found.and_then(|item| item.get(name)?.as_u64()))
    }

    async fn last_item_in_index(&self, id: &PersistenceId) -> Result<Option<Item>> {
        let index = &self.section().get_journal_rows_index_name;
        let query = on_index(index, id, (1, u64::MAX)).descending().limit(1);
        let found = self.store.query(&self.table, query).await?.items;
        Ok(found.into_iter().next())
    }

    /// The end, given what is known to be there.
    async fn tail_behind(&self, id: &PersistenceId, known: Tail) -> Result<Tail> {
        let mut rows = Rows::behind(self, id, known.highest);
        let mut tail = known;
        while let Some(step) = rows.next().await? {
            if let Step::Row(row) = step {
                tail = Tail::of(Some(row), tail.mark);
            }
        }
        Ok(tail)
    }
}
