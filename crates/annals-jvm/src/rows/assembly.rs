//! Decides which rows of a replay count, that is, are delivered. Without I/O.
//!
//! [`Assembly::assemble`] takes rows in order and returns their events, until it needs something:
//! more rows, rows that must be read again, or a decision about missing numbers or deleted rows.
//! Rows are not read atomically: while some are read, earlier ones may be stored. Every row that
//! counts was stored before the rows after it, so numbers that seem to be missing before a row are
//! read again, once.
//!
//! Guarantees: events in order, each once. A batch counts entirely or not at all; deleted members
//! count as seen, so the rest of a partly deleted batch stays visible. A missing number is reported
//! unless a batch explains it. Rows of the plugin are filtered as by the plugin itself. Holds at most
//! a page and a batch in memory.

use std::collections::{BTreeMap, VecDeque};

use super::format::RowCodec;
use super::row::{Row, RowState};
use crate::settings::ReplayFilterSettings;
use crate::writers::Writers;
use annals::{Event, PersistenceId, Result};

/// What an assembly needs to continue.
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

/// The checks that were made before a row is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Checks {
    Nothing,
    /// Missing rows before it were read again.
    Again,
    /// Missing rows before it were explained.
    Explained,
}

/// The rows of one batch, until its last member is read.
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
    queue: VecDeque<(Row, Checks)>,
    pending: Option<Pending>,
    /// Consecutive deleted rows that have lost their batch: the plugin's soft deletion replaces a
    /// row without our attributes.
    deleted: Option<(u64, u64)>,
    /// The first number of the window that is not deleted.
    start: u64,
    /// Members before this number are not needed for a batch to count.
    low: u64,
    /// Every number up to here belongs to a batch that was read, complete or not.
    claimed: u64,
    next: u64,
    last_row: u64,
    last_event: u64,
    has_begun: bool,
    is_torn: bool,
}

impl<C: RowCodec> Assembly<C> {
    /// Assembles the rows from `start` on; everything before `low` is deleted.
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
            // If the last member proves the others, those before the window are not needed.
            low: if C::COUNTS_MEMBERS { low } else { start },
            claimed: 0,
            next: start,
            last_row: 0,
            last_event: 0,
            has_begun: false,
            is_torn: false,
        }
    }

    /// Sets the filter of older writers' events.
    pub(crate) fn filtered(mut self, filter: ReplayFilterSettings) -> Self {
        self.filter = filter;
        self.writers = Writers::new(filter);
        self
    }

    /// The next expected number.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The last row that was read; 0: none.
    pub(crate) fn last_row(&self) -> u64 {
        self.last_row
    }

    /// The last event that counts; 0: none.
    pub(crate) fn last_event(&self) -> u64 {
        self.last_event
    }

    /// Whether any row counts, or may count once its batch is complete.
    pub(crate) fn has_live_rows(&self) -> bool {
        let pending = self.pending.iter().flat_map(|pending| &pending.rows);
        self.last_event > 0 || pending.into_iter().any(Row::is_live)
    }

    /// The end of the batch whose members are being collected.
    pub(crate) fn awaited(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.end)
    }

    /// Whether there is an incomplete batch that was not closed.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn || self.pending.is_some()
    }

    /// Whether a number without a row belongs to a batch.
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
        self.queue.push_back((row, Checks::Nothing));
    }

    /// Adds rows that were read again.
    pub(crate) fn add_again(&mut self, rows: Vec<Row>) {
        let queue = std::mem::take(&mut self.queue);
        let queued = queue.into_iter().map(|entry| (entry.0.number, entry));
        let mut queue: BTreeMap<u64, (Row, Checks)> = queued.collect();
        queue.extend(
            rows.into_iter()
                .map(|row| (row.number, (row, Checks::Again))),
        );
        self.queue = queue.into_values().collect();
    }

    /// Handles rows until something is needed; adds the events that are known to count.
    ///
    /// # Errors
    /// `Corrupt` if an event that counts cannot be read, or fails the filter of writers.
    pub(crate) fn assemble(&mut self, events: &mut Vec<Event>) -> Result<Need> {
        while let Some((row, checks)) = self.queue.pop_front() {
            // Read again together with a row before.
            if row.number < self.next {
                continue;
            }
            if let Some((need, checks)) = self.need_before(&row, checks) {
                self.queue.push_front((row, checks));
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

    /// What is needed before a row is handled, and the checks made so far.
    fn need_before(&mut self, row: &Row, checks: Checks) -> Option<(Need, Checks)> {
        // Everything up to the row is deleted, or nothing before it is.
        if C::DELETES_FROM_START && row.is_deleted() {
            return None;
        }
        if checks == Checks::Nothing && row.is_live() {
            if let Some(need) = self.beginning(row) {
                return Some((need, Checks::Nothing));
            }
            if let Some(need) = self.doubts(row) {
                return Some((need, Checks::Again));
            }
        }
        if checks < Checks::Explained
            && let Some((from, to)) = self.missing(row)
        {
            return Some((Need::Explain(from, to), Checks::Explained));
        }
        None
    }

    /// What the first row needs: the members before the window if the window starts inside a batch,
    /// or, if the window starts with missing numbers, a batch before it that may explain them.
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

    /// The rows to read again before this one is handled: members are missing from a batch that it
    /// ends or follows, or numbers are missing before it. Rows of that batch are handled again,
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
        // Another append's row inside a batch means that it will never be complete.
        let other = met
            .first()
            .filter(|_| !is_own && self.awaited() < Some(begin));
        let other = other.map(|first| (first.begin().max(low), begin - 1));
        let missing =
            (self.next < begin && !self.claims(begin - 1)).then(|| (self.next, begin - 1));
        // A reader that looks up missing numbers itself has done so already.
        let doubts = match C::COUNTS_MEMBERS {
            true => [short, other, missing],
            false => [short, None, None],
        };
        let doubts = doubts.into_iter().flatten();
        let span = doubts.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        let (from, to) = missing_span(met, row.number, span)?;
        self.next = self.next.min(span.0);
        let again = self
            .pending
            .take()
            .into_iter()
            .flat_map(|pending| pending.rows);
        for row in again.collect::<Vec<_>>().into_iter().rev() {
            self.queue.push_front((row, Checks::Again));
        }
        Some(Need::Again(from, to))
    }

    /// Unexplained missing numbers before a row: never stored, or lost from a batch of ours. Our last
    /// member is put after all others, and our next append goes after it or takes its number. Neither
    /// holds for the plugin: it puts batches in any order, and skips the numbers of rejected events.
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

    /// Handles a row; returns the rows that are now known to count.
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

    /// The events of rows that count, without those of filtered writers.
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

    /// Skips a deleted row. It still counts as seen for its batch.
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

    /// Whether a number has a deleted row that has lost its batch.
    fn is_deleted(&self, number: u64) -> bool {
        let deleted = self.deleted;
        deleted.is_some_and(|(first, last)| (first..=last).contains(&number))
    }

    /// Restarts after a row up to which everything is deleted.
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

    /// Gives up the open batch: it will never be complete.
    fn give_up(&mut self) {
        self.is_torn |= self.pending.take().is_some();
    }
}

/// The first and the last number of a span that has no row.
fn missing_span(met: &[Row], row: u64, (from, to): (u64, u64)) -> Option<(u64, u64)> {
    let is_met =
        |number: &u64| *number == row || met.binary_search_by_key(number, |row| row.number).is_ok();
    let first = (from..=to).find(|number| !is_met(number))?;
    let last = (first..=to).rev().find(|number| !is_met(number))?;
    Some((first, last))
}

#[cfg(test)]
#[path = "assembly_tests.rs"]
mod tests;
