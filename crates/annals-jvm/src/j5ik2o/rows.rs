//! Rows in order: everything that is stored under an id's numbers, deleted or not, and which
//! numbers are missing.
//!
//! Where the keys are in order, the table itself is asked, strongly consistent. What is missing
//! there, before its rows or behind them, may stand under keys of another time: the index knows it.
//! Where the keys are not in order, the index is a hint; what it lacks is looked up key by key,
//! strongly consistent, and so is what comes behind its last row, until nothing does.
//!
//! Promises: every row that was there when the reading began, each number once, in order; a number
//! is missing only where no key that can be computed has it.
//! Trusts: that rows under keys of another time are old enough for the index to have them.
//! Never: holds more than a page.

use std::collections::VecDeque;
use std::pin::Pin;

use futures::stream::{Peekable, Stream, StreamExt, TryStreamExt};

use super::journal::J5ik2oJournal;
use super::keys::on_index;
use super::mark::Mark;
use super::row::Row;
use annals::items::{Item, Query};
use annals::{Error, ErrorKind, PersistenceId, Result, SequenceNumber};

/// How many keys are looked up at once.
const LOOKED_UP: u64 = 100;
/// How many rows before one that is there may not be yet.
const LATE_MAX: u64 = 10_000;

type ItemStream = Pin<Box<dyn Stream<Item = Result<Item>> + Send>>;

/// What is met next.
#[derive(Debug)]
pub(super) enum Step {
    Row(Row),
    /// No row has these numbers. The row behind them is of an append that begins here.
    Missing(u64, u64, u64),
}

/// Where rows come from; the last one pushed is asked first.
enum Source {
    /// The table, up to the wanted end.
    Table(Box<Peekable<ItemStream>>),
    /// The index, up to a number.
    Index(Box<Peekable<ItemStream>>, u64),
    /// Key by key, from a number to one.
    Keys(u64, u64),
    /// A row that was met before others that belong before it.
    Held(Row),
    /// Key by key, for as long as there are rows.
    Behind(u64),
}

/// Which rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) from: u64,
    pub(super) to: u64,
    /// How many are asked for at once, where few are expected to be needed.
    pub(super) page: Option<u32>,
    /// Whether rows below the mark are left out where that is known.
    pub(super) skips_deleted: bool,
    /// Whether rows that cannot be read are met as such, and a mark is passed over.
    pub(super) meets_damaged: bool,
}

impl Range {
    pub(super) fn between(from: u64, to: u64) -> Self {
        Self {
            from,
            to: to.min(SequenceNumber::LAST.get()),
            page: None,
            skips_deleted: false,
            meets_damaged: false,
        }
    }
}

/// The rows of an id.
pub(super) struct Rows {
    journal: J5ik2oJournal,
    id: PersistenceId,
    range: Range,
    sources: Vec<Source>,
    ready: VecDeque<Step>,
    next: u64,
    /// Where the batch ends whose members were met last, unless they all were.
    open_end: u64,
    mark: Mark,
    /// The last number that the index shows, where the table is asked.
    indexed: u64,
    has_begun: bool,
    /// Whether the keys in use now have rows of this id.
    has_rows: bool,
    /// Whether something of this id stands right before the first number, or behind it.
    is_anchored: bool,
    /// What stands right before the first number, where it was met.
    before: Option<Row>,
}

impl Rows {
    pub(super) fn of(journal: &J5ik2oJournal, id: &PersistenceId, range: Range) -> Self {
        Self {
            journal: journal.clone(),
            id: id.clone(),
            range,
            sources: Vec::new(),
            ready: VecDeque::new(),
            next: range.from,
            open_end: 0,
            mark: Mark::default(),
            indexed: 0,
            has_begun: false,
            has_rows: false,
            is_anchored: false,
            before: None,
        }
    }

    /// The rows behind a number as the table has them, key by key.
    pub(super) fn behind(journal: &J5ik2oJournal, id: &PersistenceId, row: u64) -> Self {
        let range = Range::between(row + 1, u64::MAX);
        let mut rows = Self::of(journal, id, range);
        rows.has_begun = true;
        rows.sources.push(Source::Behind(1));
        rows
    }

    /// The mark as it was when the reading began.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// Whether anything of the id was met, or the row right before the first number.
    pub(super) fn is_anchored(&self) -> bool {
        self.is_anchored
    }

    /// Asks the table, also for the row before: where that is there, the keys in use now have the
    /// id's rows.
    fn table(&self, from: u64) -> Result<Box<Peekable<ItemStream>>> {
        let (from, to) = (from.saturating_sub(1), self.range.to);
        let query = self.journal.keys.between(&self.id, from, to)?;
        Ok(self.ask_for(query))
    }

    fn index(&self, from: u64, to: u64) -> Box<Peekable<ItemStream>> {
        let section = &self.journal.settings.j5ik2o.dynamo_db_journal;
        let index = &section.get_journal_rows_index_name;
        self.ask_for(on_index(index, &self.id, (from, to)))
    }

    fn ask_for(&self, mut query: Query) -> Box<Peekable<ItemStream>> {
        query.limit = self.range.page;
        let rows: ItemStream = Box::pin(self.journal.query(query));
        Box::new(rows.peekable())
    }

    async fn begin(&mut self) -> Result<()> {
        self.has_begun = true;
        let Range { from, to, .. } = self.range;
        let is_ordered = self.journal.keys.are_ordered();
        // The row before the first is asked for too, to know that the range begins inside the
        // history, or right behind it.
        let mut rows = match is_ordered {
            true => self.table(from)?,
            false => self.index(from.saturating_sub(1).max(1), to),
        };
        let (journal, id) = (&self.journal, &self.id);
        let hint = async {
            match is_ordered {
                true => journal.last_indexed(id).await,
                false => Ok(None),
            }
        };
        let asked = futures::join!(journal.mark(id), hint, Pin::new(&mut *rows).peek());
        let mark = match asked.0 {
            Err(error) if self.meets(&error) => Mark::default(),
            mark => mark?,
        };
        let hint = asked.1?;
        self.mark = mark;
        self.is_anchored = mark.high > 0 && from <= mark.high + 1;
        self.indexed = hint.unwrap_or(0);
        if self.range.skips_deleted && mark.low > from {
            self.next = mark.low;
            rows = match is_ordered {
                true => self.table(mark.low)?,
                false => self.index(mark.low, to),
            };
        }
        if is_ordered {
            self.sources.push(Source::Table(rows));
        } else {
            self.sources.push(Source::Behind(1));
            self.sources.push(Source::Index(rows, to));
        }
        Ok(())
    }

    pub(super) async fn next(&mut self) -> Result<Option<Step>> {
        if !self.has_begun {
            self.begin().await?;
        }
        loop {
            if let Some(step) = self.ready.pop_front() {
                return Ok(Some(step));
            }
            if self.next > self.range.to {
                return Ok(None);
            }
            let Some(source) = self.sources.pop() else {
                return Ok(None);
            };
            self.ask(source).await?;
        }
    }

    async fn ask(&mut self, source: Source) -> Result<()> {
        match source {
            Source::Table(mut rows) => match rows.try_next().await? {
                Some(item) => {
                    self.sources.push(Source::Table(rows));
                    self.take_from_table(item)
                }
                None => {
                    // What comes behind may stand under keys of another time, or all does.
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
            Source::Index(mut rows, to) => match rows.try_next().await? {
                Some(item) => {
                    self.sources.push(Source::Index(rows, to));
                    self.take_from_index(item)
                }
                None => {
                    // Numbers that are known to lie inside of the history.
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
            Source::Behind(count) => self.look_behind(count).await,
        }
    }

    /// The row right before the first number, where it was met.
    pub(super) fn before(&self) -> Option<&Row> {
        self.before.as_ref()
    }

    fn meets(&self, error: &Error) -> bool {
        self.range.meets_damaged && error.kind() == ErrorKind::Corrupt
    }

    fn row(&self, item: Item) -> Result<Row> {
        match self.journal.row(item.clone()) {
            Err(error) if self.meets(&error) => Ok(self.damaged(item)),
            row => row,
        }
    }

    fn damaged(&self, item: Item) -> Row {
        let (keys, id) = (&self.journal.keys, &self.id);
        let key = self.journal.table.key_of(&item).ok();
        let fits = |number| key.is_some() && keys.key(id, number).ok() == key;
        let mut row = Row::damaged(self.journal.columns(), item.clone(), fits);
        // Nothing tells its number but where it stands.
        if row.number == 0 {
            row.number = self.next;
        }
        row
    }

    /// What stands under the keys of numbers.
    async fn rows_at(&mut self, from: u64, to: u64) -> Result<Vec<Option<Row>>> {
        let found = self.journal.get(&self.id, from..=to).await?.into_iter();
        let rows = found.map(|item| {
            let item = item.filter(|item| self.journal.is_owned(&self.id, item));
            item.map(|item| self.row(item)).transpose()
        });
        rows.collect()
    }

    fn take_from_table(&mut self, item: Item) -> Result<()> {
        if !self.journal.is_owned(&self.id, &item) {
            return Ok(());
        }
        self.has_rows = true;
        self.is_anchored = true;
        let row = self.row(item)?;
        if row.number > self.next {
            let (from, to) = (self.next, row.number - 1);
            let index = self.index(from, to);
            self.sources.push(Source::Held(row));
            self.sources.push(Source::Index(index, to));
        } else {
            self.push(row);
        }
        Ok(())
    }

    fn take_from_index(&mut self, item: Item) -> Result<()> {
        if !self.journal.is_owned(&self.id, &item) {
            return Ok(());
        }
        self.is_anchored = true;
        let row = self.row(item)?;
        if row.number > self.next {
            let to = row.number - 1;
            self.sources.push(Source::Held(row));
            self.look_up_to(to);
        } else {
            self.push(row);
        }
        Ok(())
    }

    /// A row is met; one that was met before, under another key, is passed over.
    fn push(&mut self, row: Row) {
        if row.number < self.next {
            if row.number + 1 == self.range.from {
                self.before = Some(row);
            }
            return;
        }
        if self.next < row.number {
            let missing = Step::Missing(self.next, row.number - 1, row.begin());
            self.ready.push_back(missing);
        }
        self.is_anchored = true;
        self.open_end = if row.is_live() { row.end() } else { 0 };
        self.next = row.number + 1;
        self.ready.push_back(Step::Row(row));
    }

    /// Has numbers looked up that the index or the table lacks. Of very many only the last: what
    /// comes late is at most what is written at once, and the rest was removed by the plugin.
    fn look_up_to(&mut self, to: u64) {
        let from = self.next.max(to.saturating_sub(LATE_MAX - 1));
        self.sources.push(Source::Keys(from, to));
    }

    /// Looks numbers up, as many at once as a request takes.
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

    /// Looks up what stands behind the last row, so many keys at once.
    async fn look_behind(&mut self, count: u64) -> Result<()> {
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
            self.sources.push(Source::Behind(more));
        } else if self.open_end >= self.next {
            self.look_for_end().await?;
        }
        Ok(())
    }

    /// The members of a batch are put in any order, the last one last: where that is there, all are.
    async fn look_for_end(&mut self) -> Result<()> {
        let end = self.open_end;
        let rows = self.rows_at(end, end).await?;
        if let Some(row) = rows.into_iter().flatten().next() {
            self.sources.push(Source::Behind(1));
            self.sources.push(Source::Held(row));
            self.look_up_to(end - 1);
        }
        Ok(())
    }
}
