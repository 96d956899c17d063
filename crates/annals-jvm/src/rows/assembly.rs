//! Which rows of a replay count: a pure function of rows, without I/O.
//!
//! [`Assembly::assemble`] takes the rows it was given in order and returns their events, until it
//! needs something: more rows, rows that must be read again, or a decision about numbers that are
//! missing or rows that are deleted. Rows are not all read at one moment: while some are read,
//! others may be stored where the reader has been already. All that counts before a row was stored
//! when the row was put, so whatever seems to be missing before it is read again, once.
//!
//! Guarantees: events in the order of their numbers, each once. A batch counts as a whole or not
//! at all; members that were deleted count as met, so what a deletion left of a batch stays
//! visible. A missing number is reported unless a batch explains it. On rows that the plugin wrote
//! the verdicts are those of the plugin's own filter.
//! Never holds more than a page and a batch.

use std::collections::{BTreeMap, VecDeque};

use super::format::RowCodec;
use super::row::{Row, RowState};
use crate::settings::ReplayFilterSettings;
use crate::writers::Writers;
use annals::{Event, PersistenceId, Result};

/// What an assembly needs before it can go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// More rows.
    Rows,
    /// The rows of these numbers again, with [`Assembly::add_again`].
    Again(u64, u64),
    /// The last row before this number, with [`Assembly::claim`].
    Before(u64),
    /// A reason why these numbers are missing.
    Explain(u64, u64),
    /// What to do about a deleted row: [`Assembly::skip_deleted`] or [`Assembly::restart_after`].
    Deleted(Row),
}

/// What has been asked about a row before it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Nothing,
    /// What was missing before it was read again.
    Again,
    /// What is missing before it was explained.
    Explained,
}

/// The rows of one batch, while its end has not been met.
#[derive(Debug)]
struct Pending {
    end: u64,
    rows: Vec<Row>,
}

/// Assembles the events of an id.
#[derive(Debug)]
pub(crate) struct Assembly<C> {
    codec: C,
    id: PersistenceId,
    filter: ReplayFilterSettings,
    writers: Writers,
    queue: VecDeque<(Row, Asked)>,
    pending: Option<Pending>,
    /// Deleted rows, one after the other, that no longer say which batch they were of: the plugin's
    /// soft deletion puts a row anew, without our attributes.
    deleted: Option<(u64, u64)>,
    /// The first number of the window that is not deleted.
    start: u64,
    /// Members of a batch before this number need not be met for it to count.
    low: u64,
    /// Every number up to here belongs to a batch that was met, whole or not.
    claimed: u64,
    next: u64,
    last_row: u64,
    last_event: u64,
    has_begun: bool,
    is_torn: bool,
}

impl<C: RowCodec> Assembly<C> {
    /// Of the rows from `start` on, where everything before `low` is deleted.
    pub(crate) fn new(codec: C, id: PersistenceId, start: u64, low: u64) -> Self {
        let filter = ReplayFilterSettings::default();
        Self {
            codec,
            id,
            filter,
            writers: Writers::new(filter),
            queue: VecDeque::new(),
            pending: None,
            deleted: None,
            start,
            // Where the last member proves the others, those before the window are not needed.
            low: if C::COUNTS_MEMBERS { low } else { start },
            claimed: 0,
            next: start,
            last_row: 0,
            last_event: 0,
            has_begun: false,
            is_torn: false,
        }
    }

    /// With this filter of older writers' events.
    pub(crate) fn filtered(mut self, filter: ReplayFilterSettings) -> Self {
        self.filter = filter;
        self.writers = Writers::new(filter);
        self
    }

    /// The next number there should be a row of.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The last row that was met; 0: none.
    pub(crate) fn last_row(&self) -> u64 {
        self.last_row
    }

    /// The last event that counts; 0: none.
    pub(crate) fn last_event(&self) -> u64 {
        self.last_event
    }

    /// Whether rows count, or may count once their batch is whole.
    pub(crate) fn has_live_rows(&self) -> bool {
        let pending = self.pending.iter().flat_map(|pending| &pending.rows);
        self.last_event > 0 || pending.into_iter().any(Row::is_live)
    }

    /// Where the batch ends whose members are being collected.
    pub(crate) fn awaited(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.end)
    }

    /// Whether a batch was met that is not whole, and was not closed.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn || self.pending.is_some()
    }

    /// Whether a number that no row has belongs to a batch that was met.
    pub(crate) fn claims(&self, number: u64) -> bool {
        number <= self.claimed
    }

    /// Notes the batch of a row that is not delivered.
    pub(crate) fn claim(&mut self, row: &Row) {
        if row.batch.is_some() {
            self.claimed = self.claimed.max(row.end());
        }
    }

    /// Adds the next row.
    pub(crate) fn add(&mut self, row: Row) {
        self.queue.push_back((row, Asked::Nothing));
    }

    /// Adds rows that were read again.
    pub(crate) fn add_again(&mut self, rows: Vec<Row>) {
        let queue = std::mem::take(&mut self.queue);
        let queued = queue.into_iter().map(|entry| (entry.0.number, entry));
        let mut queue: BTreeMap<u64, (Row, Asked)> = queued.collect();
        queue.extend(
            rows.into_iter()
                .map(|row| (row.number, (row, Asked::Again))),
        );
        self.queue = queue.into_values().collect();
    }

    /// Takes rows until something is needed; adds the events that are known to count by then.
    ///
    /// # Errors
    /// `Corrupt` where an event that counts cannot be read, or the filter of writers refuses it.
    pub(crate) fn assemble(&mut self, events: &mut Vec<Event>) -> Result<Need> {
        while let Some((row, asked)) = self.queue.pop_front() {
            // Read again together with a row before.
            if row.number < self.next {
                continue;
            }
            if let Some((need, asked)) = self.need_before(&row, asked) {
                self.queue.push_front((row, asked));
                return Ok(need);
            }
            match row.state {
                RowState::Live => {
                    let rows = self.push(row);
                    self.count(rows, events)?;
                }
                RowState::Deleted => return Ok(Need::Deleted(row)),
                RowState::Closed | RowState::Closing => self.pass_closed(&row),
            }
        }
        Ok(Need::Rows)
    }

    /// What is needed before a row is taken, and what has been asked about it then.
    fn need_before(&mut self, row: &Row, asked: Asked) -> Option<(Need, Asked)> {
        // Everything up to the row is deleted, or nothing before it is.
        if C::DELETES_FROM_START && row.is_deleted() {
            return None;
        }
        if asked == Asked::Nothing && row.is_live() {
            if let Some(need) = self.beginning(row) {
                return Some((need, Asked::Nothing));
            }
            if let Some(need) = self.doubts(row) {
                return Some((need, Asked::Again));
            }
        }
        if asked < Asked::Explained
            && let Some((from, to)) = self.missing(row)
        {
            return Some((Need::Explain(from, to), Asked::Explained));
        }
        None
    }

    /// What the first row needs: the members before the window of a batch that the window cuts, or,
    /// where the window begins with missing numbers, a batch before it that may claim them.
    fn beginning(&mut self, row: &Row) -> Option<Need> {
        if !C::COUNTS_MEMBERS || std::mem::replace(&mut self.has_begun, true) {
            return None;
        }
        let begin = row.begin().max(self.low).max(1);
        if begin < self.start {
            self.next = begin;
            return Some(Need::Again(begin, self.start - 1));
        }
        (row.number > self.start).then_some(Need::Before(self.start))
    }

    /// Which rows are to be read again before this one is taken: not all of a batch was met that it
    /// ends or follows, or numbers are missing before it. The rows met of that batch are taken anew,
    /// together with those read again.
    fn doubts(&mut self, row: &Row) -> Option<Need> {
        let (begin, end, low) = (row.begin(), row.end(), self.low);
        let is_own = self.awaited() == Some(end);
        let met = self
            .pending
            .as_ref()
            .map_or(&[][..], |pending| &pending.rows);
        let own = match is_own {
            true => met.len() as u64,
            false => 0,
        };
        let is_deleted = |number: &u64| self.is_deleted(*number);
        let deleted = (begin.max(low)..end).filter(is_deleted).count() as u64;
        let wanted = end.saturating_sub(begin.max(low)).saturating_sub(deleted);
        let short = (row.is_end() && own < wanted).then_some((begin.max(low), row.number));
        // A foreign row inside of a batch says that it never becomes whole.
        let other = met
            .first()
            .filter(|_| !is_own && self.awaited() < Some(begin));
        let other = other.map(|first| (first.begin().max(low), begin - 1));
        let missing =
            (self.next < begin && !self.claims(begin - 1)).then(|| (self.next, begin - 1));
        // A reader that looks up what is missing before it hands out a row has done so already.
        let doubts = match C::COUNTS_MEMBERS {
            true => [short, other, missing],
            false => [short, None, None],
        };
        let doubts = doubts.into_iter().flatten();
        let span = doubts.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        let (from, to) = unmet(met, row.number, span)?;
        self.next = self.next.min(span.0);
        let again = self
            .pending
            .take()
            .into_iter()
            .flat_map(|pending| pending.rows);
        for row in again.collect::<Vec<_>>().into_iter().rev() {
            self.queue.push_front((row, Asked::Again));
        }
        Some(Need::Again(from, to))
    }

    /// Numbers before a row that nothing explains: never stored, or lost by a batch of ours. Our
    /// last member is put when all others are stored, and what we put after a batch comes after its
    /// last member, or in its place. Of the plugin's rows neither can be said: it puts batches in
    /// no order, and goes on after events that were rejected.
    fn missing(&self, row: &Row) -> Option<(u64, u64)> {
        let (begin, end) = (row.begin(), row.end());
        if self.next < begin && !self.claims(begin - 1) {
            return Some((self.next, begin - 1));
        }
        if !row.is_live() || (C::COUNTS_MEMBERS && !self.codec.is_ours(row)) {
            return None;
        }
        let lost = match &self.pending {
            Some(other) if begin > other.end => {
                let is_ours = |row| self.codec.is_ours(row);
                let is_ours = is_ours(row) && other.rows.iter().any(is_ours);
                is_ours.then_some(other.end)
            }
            pending if row.batch.is_some() && row.is_end() => {
                let members = pending.as_ref().filter(|pending| pending.end == end);
                let members = members.map_or(&[][..], |pending| &pending.rows);
                let mut met = members.iter().map(|row| row.number).peekable();
                (begin.max(self.low)..end)
                    .find(|wanted| met.next_if_eq(wanted).is_none() && !self.is_deleted(*wanted))
            }
            _ => None,
        };
        lost.map(|lost| (lost, lost))
    }

    /// Takes a row; returns the rows that are known to count by it.
    fn push(&mut self, row: Row) -> Vec<Row> {
        self.next = row.number + 1;
        self.last_row = row.number;
        let Some(batch) = row.batch else {
            self.give_up();
            return vec![row];
        };
        let (begin, end, is_end) = (row.begin(), row.end(), row.is_end());
        self.claimed = self.claimed.max(end);
        match &mut self.pending {
            Some(pending) if pending.end == end => pending.rows.push(row),
            _ => {
                self.give_up();
                let rows = vec![row];
                self.pending = Some(Pending { end, rows });
            }
        }
        // The plugin never delivers a batch of one.
        if !is_end || batch.last == 0 {
            return Vec::new();
        }
        let rows = self
            .pending
            .take()
            .map_or_else(Vec::new, |pending| pending.rows);
        let deleted = self.low.saturating_sub(begin);
        let is_whole = !C::COUNTS_MEMBERS || rows.len() as u64 + deleted == batch.last + 1;
        if is_whole { rows } else { Vec::new() }
    }

    /// The events of rows that count, as far as their writers do.
    fn count(&mut self, rows: Vec<Row>, events: &mut Vec<Event>) -> Result<()> {
        for row in rows.iter().filter(|row| row.is_live()) {
            let Some((event, writer)) = self.codec.event(&self.id, row)? else {
                continue;
            };
            if let Some(event) = self.writers.push(event, &writer)? {
                self.last_event = row.number;
                events.push(event);
            }
        }
        Ok(())
    }

    /// Takes a deleted row as one that does not count. As a member of its batch it was met.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble).
    pub(crate) fn skip_deleted(&mut self, row: Row, events: &mut Vec<Event>) -> Result<()> {
        match row.batch {
            Some(_) => {
                let rows = self.push(row);
                self.count(rows, events)
            }
            None => {
                self.next = row.number + 1;
                self.last_row = row.number;
                self.deleted = Some(match self.deleted {
                    Some((first, last)) if last + 1 == row.number => (first, row.number),
                    _ => (row.number, row.number),
                });
                Ok(())
            }
        }
    }

    /// Whether a number was met as a deleted row that does not say its batch.
    fn is_deleted(&self, number: u64) -> bool {
        let deleted = self.deleted;
        deleted.is_some_and(|(first, last)| (first..=last).contains(&number))
    }

    /// Begins anew after a row up to which everything is deleted.
    pub(crate) fn restart_after(&mut self, row: &Row) {
        self.writers = Writers::new(self.filter);
        self.pending = None;
        self.has_begun = true;
        self.claimed = 0;
        self.claim(row);
        self.next = row.number + 1;
        self.low = self.next;
    }

    fn pass_closed(&mut self, row: &Row) {
        self.next = row.number + 1;
        self.last_row = row.number;
        self.claim(row);
        self.is_torn |= row.is_closing();
        if self.awaited().is_some_and(|end| row.number <= end) {
            self.give_up();
        }
    }

    /// The batch whose end has not been met never becomes whole.
    fn give_up(&mut self) {
        self.is_torn |= self.pending.take().is_some();
    }
}

/// The first and the last number of a span that is neither among the rows met, nor the row itself.
fn unmet(met: &[Row], row: u64, (from, to): (u64, u64)) -> Option<(u64, u64)> {
    let is_met =
        |number: &u64| *number == row || met.binary_search_by_key(number, |row| row.number).is_ok();
    let first = (from..=to).find(|number| !is_met(number))?;
    let last = (first..=to).rev().find(|number| !is_met(number))?;
    Some((first, last))
}

#[cfg(test)]
#[path = "assembly_tests.rs"]
mod tests;
