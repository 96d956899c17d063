//! Reads the rows of an id in order, deleted or not.
//!
//! If the keys are in order, the table itself is read, strongly consistent; rows before and after
//! may be under keys of older settings and are read from the index. Otherwise the index is a hint:
//! missing numbers, and numbers after its last row, are looked up key by key, strongly consistent,
//! until none is found.
//!
//! Guarantees: returns every row that was stored when the read began, each number once, in order. A
//! number is left out only if no known key has it. Holds at most a page in memory. Relies on the
//! index to have caught up with rows under keys of older settings.

use std::collections::VecDeque;
use std::pin::Pin;

use futures::stream::{Peekable, StreamExt, TryStreamExt};

use super::format::J5ik2oRows;
use super::keys::on_index;
use super::row::numbers_in;
use crate::rows::{Markers, Row, RowTable, VerifyRow};
use annals::items::ItemStream;
use annals::items::{Item, Query};
use annals::layout::support::error_chain;
use annals::verify::Problem;
use annals::{Error, ErrorKind, PersistenceId, Result, SequenceNumber};

/// How many keys are looked up at once.
const LOOKED_UP: u64 = 100;
/// How many rows before a stored row may not be stored yet.
const LATE_MAX: u64 = 10_000;

type Items = Box<Peekable<ItemStream>>;

/// Sources of rows; the last one pushed is read first.
enum Source {
    /// The table, up to the wanted end.
    Table(Items),
    /// The index, up to a number.
    Index(Items, u64),
    /// Key by key, from a number to one.
    Keys(u64, u64),
    /// A row that was read before earlier rows.
    Held(VerifyRow),
    /// Key by key, as many at once, for as long as there are rows.
    After(u64),
}

/// Which rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) from: u64,
    pub(super) to: u64,
    /// How many are requested at once, where few are expected to be needed.
    pub(super) page: Option<u32>,
    /// Whether rows below the marker are left out.
    pub(super) skips_deleted: bool,
    /// Whether unreadable rows are returned as such, and a damaged marker is ignored.
    pub(super) allows_damaged: bool,
}

impl Range {
    pub(super) fn between(from: u64, to: u64) -> Self {
        Self {
            from,
            to: to.min(SequenceNumber::LAST.get()),
            page: None,
            skips_deleted: false,
            allows_damaged: false,
        }
    }
}

/// The rows of an id.
pub(crate) struct Rows {
    format: J5ik2oRows,
    id: PersistenceId,
    range: Range,
    sources: Vec<Source>,
    ready: VecDeque<VerifyRow>,
    next: u64,
    /// The end of the batch that is being read, unless it is complete.
    open_end: u64,
    /// The marker when the read began.
    pub(super) marker: Markers,
    /// The last number that the index shows, where the table is read.
    indexed: u64,
    has_begun: bool,
    /// Whether the current keys have rows of this id.
    has_rows: bool,
    /// Whether this id has a row right before the first number, or after it.
    pub(super) is_anchored: bool,
    /// The row right before the first number, if it was read.
    pub(super) before: Option<Row>,
}

impl Rows {
    pub(super) fn new(format: &J5ik2oRows, id: &PersistenceId, range: Range) -> Self {
        Self {
            format: format.clone(),
            id: id.clone(),
            range,
            sources: Vec::new(),
            ready: VecDeque::new(),
            next: range.from,
            open_end: 0,
            marker: Markers::default(),
            indexed: 0,
            has_begun: false,
            has_rows: false,
            is_anchored: false,
            before: None,
        }
    }

    /// The rows after a number as the table has them, key by key.
    pub(super) fn after(format: &J5ik2oRows, id: &PersistenceId, row: u64) -> Self {
        let mut rows = Self::new(format, id, Range::between(row + 1, u64::MAX));
        rows.has_begun = true;
        rows.sources.push(Source::After(1));
        rows
    }

    /// Reads the table from the row before the first on: if it is stored, the id's rows have the
    /// current keys.
    fn table(&self, from: u64) -> Result<Items> {
        let (from, to) = (from.saturating_sub(1), self.range.to);
        let query = self.format.keys.between(&self.id, from, to)?;
        Ok(self.query(query))
    }

    fn index(&self, from: u64, to: u64) -> Items {
        let index = &self.format.section().get_journal_rows_index_name;
        self.query(on_index(index, &self.id, (from, to)))
    }

    fn query(&self, mut query: Query) -> Items {
        query.limit = self.range.page;
        Box::new(self.format.query(query).peekable())
    }

    /// Reads the marker and the first page. `next` does this if needed.
    pub(super) async fn begin(&mut self) -> Result<()> {
        self.has_begun = true;
        let Range { from, to, .. } = self.range;
        let is_ordered = self.format.keys.are_ordered();
        // The row before the first is read too, to know whether the range begins inside the history
        // or right after it.
        let mut rows = match is_ordered {
            true => self.table(from)?,
            false => self.index(from.saturating_sub(1).max(1), to),
        };
        let (format, id) = (&self.format, &self.id);
        let hint = async {
            match is_ordered {
                true => format.last_indexed(id).await,
                false => Ok(None),
            }
        };
        let (marker, hint, _) =
            futures::join!(format.marker(id), hint, Pin::new(&mut *rows).peek());
        self.marker = match marker {
            Err(error) if self.is_allowed(&error) => Markers::default(),
            marker => marker?,
        };
        let Markers { low, high, .. } = self.marker;
        self.indexed = hint?.unwrap_or(0);
        self.is_anchored = high > 0 && from <= high + 1;
        if self.range.skips_deleted && low > from {
            self.next = low;
            rows = match is_ordered {
                true => self.table(low)?,
                false => self.index(low, to),
            };
        }
        if is_ordered {
            self.sources.push(Source::Table(rows));
        } else {
            self.sources.push(Source::After(1));
            self.sources.push(Source::Index(rows, to));
        }
        Ok(())
    }

    /// The next row.
    pub(super) async fn next(&mut self) -> Result<Option<Row>> {
        loop {
            match self.next_found().await? {
                Some(VerifyRow::Row(row)) => return Ok(Some(row)),
                Some(VerifyRow::Damaged { .. }) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next row, also an unreadable one if requested.
    pub(super) async fn next_found(&mut self) -> Result<Option<VerifyRow>> {
        if !self.has_begun {
            self.begin().await?;
        }
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Ok(Some(row));
            }
            if self.next > self.range.to {
                return Ok(None);
            }
            let Some(source) = self.sources.pop() else {
                return Ok(None);
            };
            self.read(source).await?;
        }
    }

    async fn read(&mut self, source: Source) -> Result<()> {
        match source {
            Source::Table(mut items) => match items.try_next().await? {
                Some(item) => {
                    self.sources.push(Source::Table(items));
                    self.take(item, true)
                }
                None => {
                    // Later rows, or all, may be under keys of older settings.
                    let from = match self.has_rows {
                        true => self.next,
                        false => self.next.saturating_sub(1).max(1),
                    };
                    if self.indexed >= from {
                        let index = self.index(from, self.range.to);
                        self.sources.push(Source::Index(index, self.range.to));
                    }
                    Ok(())
                }
            },
            Source::Index(mut items, to) => match items.try_next().await? {
                Some(item) => {
                    self.sources.push(Source::Index(items, to));
                    self.take(item, false)
                }
                None => {
                    // Numbers that are known to be inside of the history.
                    if to < self.range.to && self.next <= to {
                        self.look_up_to(to);
                    }
                    Ok(())
                }
            },
            Source::Keys(from, to) => self.look_up(from, to).await,
            Source::Held(row) => {
                self.push(row);
                Ok(())
            }
            Source::After(count) => self.look_after(count).await,
        }
    }

    fn is_allowed(&self, error: &Error) -> bool {
        self.range.allows_damaged && error.kind() == ErrorKind::Corrupt
    }

    fn decode(&self, item: Item) -> Result<VerifyRow> {
        match self.format.row(item.clone()) {
            Err(error) if self.is_allowed(&error) => Ok(VerifyRow::Damaged {
                number: self.number_of_damaged(&item),
                problem: Problem::Unreadable,
                detail: error_chain(&error),
            }),
            row => row.map(VerifyRow::Row),
        }
    }

    /// The number of an unreadable item: one that matches its key, any that it has, or the number
    /// that was read.
    fn number_of_damaged(&self, item: &Item) -> u64 {
        let key = self.format.base.table.key_of(item).ok();
        let key_of = |number| self.format.keys.key(&self.id, number).ok();
        let numbers = numbers_in(self.format.columns(), item);
        let fitting = numbers
            .iter()
            .find(|number| key.is_some() && key_of(**number) == key);
        let number = fitting
            .or(numbers.first())
            .copied()
            .filter(|number| *number > 0);
        number.unwrap_or(self.next)
    }

    /// The items under the keys of these numbers.
    async fn rows_at(&mut self, from: u64, to: u64) -> Result<Vec<Option<VerifyRow>>> {
        let found = self.format.get(&self.id, from..=to).await?.into_iter();
        let rows = found.map(|item| {
            let item = item.filter(|item| self.format.is_owned(&self.id, item));
            item.map(|item| self.decode(item)).transpose()
        });
        rows.collect()
    }

    /// Handles an item of the table or of the index. Missing numbers before it are looked up first:
    /// in the index, then key by key.
    fn take(&mut self, item: Item, is_of_table: bool) -> Result<()> {
        if !self.format.is_owned(&self.id, &item) {
            return Ok(());
        }
        self.has_rows |= is_of_table;
        self.is_anchored = true;
        let row = self.decode(item)?;
        let number = row.number();
        if number <= self.next {
            self.push(row);
            return Ok(());
        }
        self.sources.push(Source::Held(row));
        if is_of_table {
            let index = self.index(self.next, number - 1);
            self.sources.push(Source::Index(index, number - 1));
        } else {
            self.look_up_to(number - 1);
        }
        Ok(())
    }

    /// Handles a row; skips one that was read before under another key.
    fn push(&mut self, found: VerifyRow) {
        let number = found.number();
        if number < self.next {
            if let VerifyRow::Row(row) = found
                && number + 1 == self.range.from
            {
                self.before = Some(row);
            }
            return;
        }
        self.is_anchored = true;
        self.open_end = match &found {
            VerifyRow::Row(row) if row.is_live() => row.end(),
            _ => 0,
        };
        self.next = number + 1;
        self.ready.push_back(found);
    }

    /// Queues a lookup of missing numbers. Of very many only the last: late rows are at most those of
    /// one write, and the others were removed by the plugin.
    fn look_up_to(&mut self, to: u64) {
        let from = self.next.max(to.saturating_sub(LATE_MAX - 1));
        self.sources.push(Source::Keys(from, to));
    }

    /// Looks up numbers, as many as fit a request.
    async fn look_up(&mut self, from: u64, to: u64) -> Result<()> {
        let end = to.min(from + (LOOKED_UP - 1));
        let rows = self.rows_at(from, end).await?;
        if end < to {
            self.sources.push(Source::Keys(end + 1, to));
        }
        for row in rows.into_iter().flatten() {
            self.push(row);
        }
        Ok(())
    }

    /// Looks up the numbers after the last row, several keys at once.
    async fn look_after(&mut self, count: u64) -> Result<()> {
        let from = self.next;
        let end = (from + (count - 1)).min(self.range.to);
        let rows = self.rows_at(from, end).await?;
        let mut is_all = true;
        for row in rows {
            match row {
                Some(row) if is_all => self.push(row),
                _ => is_all = false,
            }
        }
        if is_all {
            let more = (count * 4).min(LOOKED_UP);
            self.sources.push(Source::After(more));
        } else if self.open_end >= self.next {
            self.look_for_end().await?;
        }
        Ok(())
    }

    /// Members of a batch are put in any order, the last one last: if it is stored, all are.
    async fn look_for_end(&mut self) -> Result<()> {
        let end = self.open_end;
        let rows = self.rows_at(end, end).await?;
        if let Some(row) = rows.into_iter().flatten().next() {
            self.sources.push(Source::After(1));
            self.sources.push(Source::Held(row));
            self.look_up_to(end - 1);
        }
        Ok(())
    }
}
