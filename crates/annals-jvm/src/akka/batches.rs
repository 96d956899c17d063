//! Batches: the events of one append, which are replayed together or not at all.
//!
//! Each member tells its place (`idx`) and the last place (`cnt`). A batch whose writer was cut
//! off, or was fenced by another, lacks members: the others are passed over.
//!
//! Promises: the same verdict as the plugin's filter on any sequence of rows; members that were
//! deleted count as present, so that what a deletion left of a batch stays visible.
//! Never: holds more than one batch.

use super::row::Row;

/// The rows of one batch, while its end has not been met.
#[derive(Debug)]
struct Pending {
    end: u64,
    rows: Vec<Row>,
}

/// Lets whole batches pass.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Members below this number were deleted.
    low: u64,
    pending: Option<Pending>,
    /// Every number up to here belongs to a batch that was met, whole or not.
    claimed: u64,
}

impl Batches {
    /// Batches of an id whose events below `low` are deleted.
    pub(super) fn above(low: u64) -> Self {
        Self {
            low,
            ..Self::default()
        }
    }

    /// The rows that are known to be part of the history now that this one, the next, was met.
    pub(super) fn push(&mut self, row: Row) -> Vec<Row> {
        let Some(place) = row.batch else {
            self.pending = None;
            return vec![row];
        };
        let (number, begin, end) = (row.number.get(), row.begin(), row.end());
        self.claimed = self.claimed.max(end);
        match &mut self.pending {
            Some(pending) if pending.end == end => pending.rows.push(row),
            pending => {
                let rows = vec![row];
                *pending = Some(Pending { end, rows });
            }
        }
        // The plugin never delivers a batch of one.
        if number < end || place.last == 0 {
            return Vec::new();
        }
        let rows = self
            .pending
            .take()
            .map_or_else(Vec::new, |pending| pending.rows);
        let deleted = self.low.saturating_sub(begin);
        let is_whole = rows.len() as u64 + deleted == place.last + 1;
        if is_whole { rows } else { Vec::new() }
    }

    /// A number that a batch of ours has lost, once this row is met and all was read again: the last
    /// member of ours is put when all others are there, and what we put behind a batch comes behind
    /// its last member, or in its place. Of what the plugin wrote neither can be said: its batches
    /// are put in no order, and it goes on behind events that were rejected.
    pub(super) fn lost(&self, row: &Row) -> Option<u64> {
        if !row.is_ours() {
            return None;
        }
        let (number, begin, end) = (row.number.get(), row.begin(), row.end());
        match &self.pending {
            Some(other) if begin > other.end => {
                let is_ours = other.rows.iter().any(Row::is_ours);
                is_ours.then_some(other.end)
            }
            pending if row.batch.is_some() && number == end => {
                let members = pending.as_ref().filter(|pending| pending.end == end);
                let members = members.map_or(&[][..], |pending| &pending.rows);
                let mut met = members.iter().map(|row| row.number.get()).peekable();
                (begin.max(self.low)..end).find(|wanted| met.next_if_eq(wanted).is_none())
            }
            _ => None,
        }
    }

    /// Which rows are to be read again before this one is pushed: not all of a batch was met that
    /// this row ends, or stands behind. Rows are not read all at one moment: while some are, others
    /// may come where has been looked already.
    pub(super) fn doubts(&self, row: &Row) -> Option<(u64, u64)> {
        let (number, begin, end) = (row.number.get(), row.begin(), row.end());
        let (own, other) = match &self.pending {
            Some(pending) if pending.end == end => (Some(pending), None),
            other => (None, other.as_ref()),
        };
        let met = own.map_or(0, |pending| pending.rows.len() as u64);
        let deleted = self.low.saturating_sub(begin);
        let is_short = number == end && met + deleted < end - begin;
        // A row of somebody else's inside of a batch says that it never becomes whole.
        let other = other.filter(|other| begin > other.end);
        let from = match other.and_then(|other| other.rows.first()) {
            Some(first) => first.begin(),
            None if is_short => begin,
            None => return None,
        };
        let to = if is_short { number } else { begin - 1 };
        Some((from.max(self.low), to))
    }

    /// Forgets the members that were met of a batch that is read again.
    pub(super) fn restart(&mut self) {
        self.pending = None;
    }

    /// Where the batch ends whose members are being collected.
    pub(super) fn awaited(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.end)
    }

    /// Notes the batch of a row that is not to be delivered.
    pub(super) fn claim(&mut self, row: &Row) {
        if row.batch.is_some() {
            self.claimed = self.claimed.max(row.end());
        }
    }

    /// Whether a number that is not there belongs to a batch that was met.
    pub(super) fn claims(&self, number: u64) -> bool {
        number <= self.claimed
    }
}

#[cfg(test)]
#[path = "batches_tests.rs"]
mod tests;
