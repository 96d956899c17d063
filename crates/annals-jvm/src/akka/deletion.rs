//! Deleting up to a number: the low mark is raised first, then the items are emptied.
//!
//! The plugin removes the items. An emptied one costs the same to write and keeps its number taken:
//! a writer of ours that was frozen meanwhile is refused, where it would otherwise put an event
//! below the low mark, acknowledge it and lose it. The plugin replays nothing below the low mark.
//! But it takes the last item of the last hundred for the end, and were it to remove the items
//! behind an emptied one, for the wrong end: where it deletes too (`jvm-deletes`), items are removed
//! here as there, and appends look once more instead (`append.rs`).
//!
//! The last [`KEPT`] rows are read before they are emptied, for what an emptied one keeps of them:
//! the append it came with and its place there. Older ones are emptied unread, and numbers without a
//! row with them. Behind the last row, if that does not show an open batch, nothing before it is
//! undecided: whoever put it found every batch before it whole, or took its last number, so that it
//! never becomes whole. An emptied item in such a batch stops its writer a little earlier. The batch
//! of a last row that shows it open may be under way: all of it is read, and what is missing of it is
//! left alone, since its writer is to be stopped at its last member or not at all.
//!
//! Promises: a replay never sees a history that is deleted in part; a deletion that was cut off
//! goes on where it was with the next one, whoever makes it. What its last row says of a batch
//! stays.

use futures::stream::{self, StreamExt, TryStreamExt};

use super::journal::AkkaJournal;
use super::keys::{Mark, PARTITION, by_hundreds, hundred};
use super::lookup::open_end;
use super::marks::Marks;
use super::row::{Row, forgotten};
use annals::items::{Item, Write};
use annals::{PersistenceId, Result, SequenceNumber};

/// Of how many of the last numbers a deletion reads the rows: ten units for events of 1 KB. More
/// cost more, fewer forget sooner which append an event came with.
const KEPT: u32 = 32;
/// How many items are emptied with one call: whole requests.
const WRITES: usize = 100;

/// The last rows that are to be emptied: all there are from a number on.
#[derive(Debug, Default)]
struct LastRows {
    from: u64,
    rows: Vec<Row>,
}

impl LastRows {
    fn end_with(&self, number: u64) -> bool {
        let last = self.rows.last().map(|row| row.number.get());
        last == Some(number)
    }
}

pub(super) async fn delete_to(journal: &AkkaJournal, id: &PersistenceId, to: u64) -> Result<()> {
    let (marks, rows, to) = match to == SequenceNumber::LAST.get() {
        true => journal.read_end(id).await?,
        false => journal.read_to(id, to).await?,
    };
    let to = journal.past_dead(id, (marks, to), &rows).await?;
    let low = marks.low.max(to + 1);
    if low > marks.low.max(1) {
        journal.raise_low(id, low, marks.done).await?;
    }
    let marks = Marks { low, ..marks };
    match rows.end_with(low - 1) {
        true => journal.take_away(id, marks, rows).await,
        false => journal.finish_deletion(id, marks).await,
    }
}

impl AkkaJournal {
    /// The number up to which is deleted where a batch is cut: all of one that lacks members and
    /// never counted. Were only a part of it below the low mark, what is missing there would be taken
    /// for deleted, and the rest would count.
    async fn past_dead(
        &self,
        id: &PersistenceId,
        (marks, to): (Marks, u64),
        rows: &LastRows,
    ) -> Result<u64> {
        if to < marks.low {
            return Ok(to);
        }
        let cut = match rows.rows.last().filter(|_| rows.end_with(to)) {
            Some(row) => Some(row.clone()),
            None => {
                let behind = self.keys.between(id, to + 1, u64::MAX).limit(1);
                self.row(behind).await?
            }
        };
        let Some(cut) = cut.filter(|row| row.begin() <= to && row.end() > to) else {
            return Ok(to);
        };
        let (begin, end) = (cut.begin(), cut.end());
        let from = begin.max(marks.low);
        let found = self.rows_between(id, from, end).await?;
        let has_end = found.last().is_some_and(|row| row.number.get() == end);
        let is_member = |row: &&Row| (row.begin(), row.end()) == (begin, end);
        let is_whole = found.iter().filter(is_member).count() as u64 == end + 1 - from;
        // Without its end it may be under way.
        if is_whole || !has_end {
            return Ok(to);
        }
        // Who took its last number has an event there that counts.
        let behind = found.iter().filter(|row| row.number.get() > to);
        let other = behind.clone().find(|row| !is_member(row));
        Ok(other.map_or(end, |row| row.number.get() - 1))
    }

    /// The low mark, the last rows up to a number, and that number if it was ever used, or else the
    /// highest. Its row proves that it was.
    async fn read_to(&self, id: &PersistenceId, to: u64) -> Result<(Marks, LastRows, u64)> {
        let low = self.marks_of(id, &[Mark::Low]);
        let (mut marks, rows) = futures::try_join!(low, self.last_rows(id, to))?;
        if to < marks.low || rows.end_with(to) {
            return Ok((marks, rows, to));
        }
        marks.high = self.marks_of(id, &[Mark::High]).await?.high;
        let tail = self.tail_behind(id, marks, None).await?;
        Ok((marks, rows, to.min(tail.highest)))
    }

    /// The same where everything is to be deleted: the last rows of the last hundred.
    async fn read_end(&self, id: &PersistenceId) -> Result<(Marks, LastRows, u64)> {
        let marks = self.marks(id).await?;
        let at = hundred(marks.used());
        let query = self.keys.last_of(id, at).limit(KEPT);
        let items = self.store.query(&self.table, query).await?.items;
        let rows = items.into_iter().rev();
        let rows: Vec<Row> = rows
            .map(|item| Row::of(&self.keys, item))
            .collect::<Result<_>>()?;
        let number = |row: Option<&Row>| row.map_or(0, |row| row.number.get());
        let (from, last) = (number(rows.first()), number(rows.last()));
        let is_told = rows.last().is_some_and(|row| self.is_told(row));
        let is_full = last % PARTITION == PARTITION - 1;
        let to = match is_told && !is_full && last >= marks.used() {
            true => last,
            false => {
                let seen = (at, rows.last().cloned());
                self.tail_behind(id, marks, Some(seen)).await?.highest
            }
        };
        Ok((marks, LastRows { from, rows }, to))
    }

    /// The rows of the last numbers up to this one. Of what is removed nothing is kept: there the
    /// last is enough.
    async fn last_rows(&self, id: &PersistenceId, to: u64) -> Result<LastRows> {
        let more = match self.settings.jvm_deletes {
            true => 0,
            false => u64::from(KEPT) - 1,
        };
        let from = to.saturating_sub(more).max(1);
        let rows = self.rows_between(id, from, to).await?;
        Ok(LastRows { from, rows })
    }

    /// The rows between two numbers, several hundreds at once.
    async fn rows_between(&self, id: &PersistenceId, from: u64, to: u64) -> Result<Vec<Row>> {
        let read = by_hundreds(from, to).map(|(from, to)| self.items_between(id, from, to));
        let read = stream::iter(read).buffered(self.settings.replay_parallelism.max(1));
        let items: Vec<Vec<Item>> = read.try_collect().await?;
        let items = items.into_iter().flatten();
        items.map(|item| Row::of(&self.keys, item)).collect()
    }

    /// Empties the items below the low mark that have not been, as far as it tells.
    pub(super) async fn finish_deletion(&self, id: &PersistenceId, marks: Marks) -> Result<()> {
        if marks.done + 1 >= marks.low {
            return Ok(());
        }
        let rows = self.last_rows(id, marks.low - 1).await?;
        self.take_away(id, marks, rows).await
    }

    /// Empties everything between what is done and the low mark, of which these are the last rows.
    async fn take_away(&self, id: &PersistenceId, marks: Marks, last: LastRows) -> Result<()> {
        let (from, to) = (marks.done + 1, marks.low.saturating_sub(1));
        if from > to {
            return Ok(());
        }
        let LastRows { from: read, rows } = last;
        let Some(last) = rows.last().filter(|row| row.number.get() == to) else {
            // It would tell that all before it is decided.
            return self.take_away_read(id, marks).await;
        };
        let unread = match (self.settings.jvm_deletes, open_end(last)) {
            (true, _) => to + 1,
            (false, None) => read,
            (false, Some(_)) => last.begin().max(from).min(read),
        };
        let mut kept = self.rows_between(id, unread, read - 1).await?;
        kept.extend(rows);
        kept.retain(|row| row.number.get() >= from.max(unread));
        let kept = kept.iter().map(|row| self.taken_away(id, row));
        let kept: Vec<Write> = kept.filter_map(Result::transpose).collect::<Result<_>>()?;
        let unread = (from..unread).map(|number| self.taken_unread(id, number));
        let mut writes = unread.chain(kept);
        loop {
            let some: Vec<Write> = writes.by_ref().take(WRITES).collect();
            if some.is_empty() {
                return self.end_deletion(id, marks.low).await;
            }
            self.store.write(&self.table, some).await?;
        }
    }

    /// The same where each row is read, and nothing is put where there is none.
    async fn take_away_read(&self, id: &PersistenceId, marks: Marks) -> Result<()> {
        for (from, to) in by_hundreds(marks.done + 1, marks.low - 1) {
            let mut writes = Vec::new();
            for item in self.items_between(id, from, to).await? {
                writes.extend(self.taken_away(id, &Row::of(&self.keys, item)?)?);
            }
            if !writes.is_empty() {
                self.store.write(&self.table, writes).await?;
            }
        }
        self.end_deletion(id, marks.low).await
    }

    /// What a deletion does with a row, if anything is left to do.
    pub(super) fn taken_away(&self, id: &PersistenceId, row: &Row) -> Result<Option<Write>> {
        if self.settings.jvm_deletes {
            let key = self.keys.event(id, row.number.get());
            return Ok(Some(Write::Delete(key)));
        }
        match row.is_gone() {
            true => Ok(None),
            false => row.emptied().map(|item| Some(Write::Put(item))),
        }
    }

    /// What a deletion does with a number of which it knows nothing.
    fn taken_unread(&self, id: &PersistenceId, number: u64) -> Write {
        let key = self.keys.event(id, number);
        match self.settings.jvm_deletes {
            true => Write::Delete(key),
            false => Write::Put(forgotten(self.table.key().item_of(&key))),
        }
    }
}

/// Removes every trace of an id. To be done only while nobody uses it: its numbers begin anew.
pub(super) async fn purge(journal: &AkkaJournal, id: &PersistenceId) -> Result<()> {
    let last = journal.extent(id).await?;
    // The first hundred goes last, and the marks behind it: as long as there is anything they tell
    // of it, and whoever is cut off can do it again.
    let hundreds: Vec<_> = by_hundreds(1, last).collect();
    for (from, to) in hundreds.into_iter().rev() {
        let numbers = from..=to;
        let keys = numbers.map(|number| Write::Delete(journal.keys.event(id, number)));
        journal.store.write(&journal.table, keys.collect()).await?;
    }
    let shards = 0..journal.keys.shards;
    let marks = shards.flat_map(|shard| {
        [Mark::Low, Mark::High].map(|mark| Write::Delete(journal.keys.mark_in(mark, id, shard)))
    });
    journal.store.write(&journal.table, marks.collect()).await?;
    journal.heads.forget(id);
    Ok(())
}
