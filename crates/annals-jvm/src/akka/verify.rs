//! Verifying an id of the `akka` layout, row by row.
//!
//! Promises: rows that came while others were read are no finding. Every write of a repair is on
//! the condition that what it replaces is as it was read, or only raises a mark, so appends beside
//! it lose nothing.
//!
//! A low mark that is too high hides events, and to "finish" its deletion would lose them. So events
//! below it are taken away only where something besides the number in the mark tells that they were
//! deleted: the mark's checksum, or an event behind them that is gone.
//! Never: lowers a mark that can be read.

use super::journal::AkkaJournal;
use super::keys::{Mark, PARTITION, hundred};
use super::marks::{Damaged, Marks, MarksFound};
use super::row::Row;
use crate::{checksum, serialization};
use annals::items::{Item, Write, WriteError};
use annals::layout::support::{Damage, Findings, NO_OTHER_COPY, error_chain};
use annals::verify::{Finding, Problem, Repairs, StoredKind};
use annals::{PersistenceId, Result};

const DEAD: &str =
    "its writer was cut off or refused; replay passes it over, and its numbers stay taken";
const DELETED: &str = "lowering it would bring deleted events back";
const HIDDEN: &str = "either the mark is wrong or a deletion was cut off, and nothing here tells which; to delete the events remove their items, to have them back put the right number into the mark, without its checksum";
const UNKNOWN: &str = "how far events are deleted is not told anywhere else; put the right number into the mark, without its checksum";
const OTHERS: &str = "which of the two is right is for a person to say";
const CHANGED: &str = "somebody else changed it meanwhile; look again";

/// Behind so many empty hundreds the next one that is looked at is the one that a mark names: a
/// wrong mark may name one that is never reached.
const EMPTY_MAX: u64 = 10_000;
/// Of how many numbers that are missing it is asked whether they have come meanwhile.
const LATE_MAX: u64 = 10_000;

struct Checker<'a> {
    journal: &'a AkkaJournal,
    id: &'a PersistenceId,
    marks: Marks,
    is_low_proven: bool,
    damaged: Vec<Damaged>,
    findings: Findings,
    next: u64,
    /// The batch that is being met: where it begins and ends, and how many members it has.
    batch: Option<(u64, u64, u64)>,
    /// Every number up to here belongs to a batch that was met.
    claimed: u64,
    last: u64,
    /// Rows that do not tell their place.
    unread: Vec<u64>,
    /// Events below the low mark.
    hidden: Vec<Row>,
    /// The last number below the low mark that is known to have been deleted.
    trace: u64,
    /// The next number below the low mark.
    below: u64,
}

pub(super) async fn verify(
    journal: &AkkaJournal,
    id: &PersistenceId,
    repairs: &Repairs,
) -> Result<Vec<Finding>> {
    let found = journal.find_marks(id).await?;
    let MarksFound {
        marks,
        is_low_proven,
        damaged,
    } = found;
    let mut checker = Checker {
        journal,
        id,
        marks,
        is_low_proven,
        damaged,
        findings: Findings::new(StoredKind::Event, id, repairs),
        next: marks.low.max(1),
        batch: None,
        claimed: 0,
        last: 0,
        unread: Vec::new(),
        hidden: Vec::new(),
        trace: 0,
        below: 1,
    };
    let (mut at, mut empty) = (0, 0);
    loop {
        let first = (at * PARTITION).max(1);
        let items = journal.items_between(id, first, u64::MAX).await?;
        // Deleted hundreds are empty; behind the marks an empty one is the end.
        if items.is_empty() && at > hundred(checker.marks.used()) {
            break;
        }
        empty = if items.is_empty() { empty + 1 } else { 0 };
        for item in items {
            checker.check(item).await?;
        }
        at += 1;
        if empty > EMPTY_MAX {
            let marks = [checker.marks.low, checker.marks.high];
            let further = marks.map(hundred).into_iter().filter(|mark| *mark > at);
            at = further.min().unwrap_or(at);
        }
    }
    checker.finish().await
}

impl Checker<'_> {
    async fn check(&mut self, item: Item) -> Result<()> {
        let number = self.journal.keys.number_of(&item)?.get();
        let row = match Row::of(&self.journal.keys, item.clone()) {
            Ok(row) => row,
            Err(error) => {
                match Row::moved_from(&self.journal.keys, &item) {
                    Some(place) => self.collision(number, place),
                    None => self.unreadable(number, error_chain(&error)),
                }
                self.unread.push(number);
                self.next = self.next.max(number + 1);
                return Ok(());
            }
        };
        if number < self.marks.low {
            self.check_deleted(row);
            return Ok(());
        }
        if row.is_gone() {
            return self.check_gone(number).await;
        }
        self.check_place(&row).await?;
        self.check_content(&row);
        self.last = number;
        Ok(())
    }

    /// Below the low mark there are emptied items, or none.
    fn check_deleted(&mut self, row: Row) {
        let number = row.number.get();
        if number > self.below {
            self.trace = number - 1;
        }
        self.below = number + 1;
        match row.is_gone() {
            true => self.trace = number,
            false => self.hidden.push(row),
        }
    }

    /// An emptied item tells that everything up to it was deleted.
    async fn check_gone(&mut self, number: u64) -> Result<()> {
        // By a deletion that came while rows were read, or before the mark was lost.
        let now = self.journal.find_marks(self.id).await?;
        // Deletions go from the first event on, so whatever stands before it is meant to go too.
        if self.last == 0 {
            self.marks.done = number;
        }
        let is_told = now.marks.low > number || self.is_low_damaged();
        if !is_told {
            let detail = "an emptied event is not below the low mark".to_owned();
            let numbers = (number, number);
            if self
                .findings
                .repair(Damage::new(Problem::LowMark, numbers, detail))
            {
                let done = self.marks.done;
                self.journal.raise_low(self.id, number + 1, done).await?;
            }
        }
        self.marks.low = number + 1;
        self.next = number + 1;
        self.batch = None;
        self.is_low_proven = true;
        self.trace = number;
        Ok(())
    }

    fn is_low_damaged(&self) -> bool {
        self.damaged.iter().any(|one| one.mark == Mark::Low)
    }

    async fn check_place(&mut self, row: &Row) -> Result<()> {
        let number = row.number.get();
        let (begin, end) = (row.begin(), row.end());
        let is_member = |batch: &(u64, u64, u64)| (batch.0, batch.1) == (begin, end);
        if !self.batch.as_ref().is_some_and(is_member) {
            self.leave_batch().await?;
        }
        if self.next < begin && self.claimed < begin - 1 {
            self.gap(begin - 1).await?;
        }
        self.next = number + 1;
        if row.batch.is_some() {
            self.claimed = self.claimed.max(end);
            let met = self.batch.map_or(0, |batch| batch.2) + 1;
            self.batch = Some((begin, end, met));
        }
        Ok(())
    }

    /// A batch is left: has it been whole?
    async fn leave_batch(&mut self) -> Result<()> {
        let Some((begin, end, met)) = self.batch.take() else {
            return Ok(());
        };
        let deleted = self.marks.low.saturating_sub(begin);
        let is_inside = |number: &&u64| (begin..=end).contains(*number);
        let unread = self.unread.iter().filter(is_inside).count() as u64;
        let count = end - begin + 1;
        // The plugin passes a batch of one over as well.
        let is_alone = begin == end;
        let is_short = is_alone || met + deleted + unread < count;
        if is_short && (is_alone || !self.has_all(begin.max(self.marks.low), end).await?) {
            let detail = format!("{met} of {count} events are there");
            self.findings.leave(
                Damage::new(Problem::IncompleteBatch, (begin, end), detail),
                DEAD,
            );
        }
        Ok(())
    }

    /// Whether all these numbers are there by now: rows are not read all at one moment.
    async fn has_all(&self, from: u64, to: u64) -> Result<bool> {
        if from > to || to - from > LATE_MAX {
            return Ok(false);
        }
        let found = self.journal.items_in(self.id, from, to).await?;
        Ok(found.len() as u64 == to + 1 - from)
    }

    async fn gap(&mut self, to: u64) -> Result<()> {
        let from = self.next;
        let marks = self.journal.find_marks(self.id).await?.marks;
        if marks.low > to || self.has_all(from, to).await? {
            return Ok(());
        }
        self.journal.check_shards(self.id).await?;
        let detail = "no event has these numbers".to_owned();
        self.findings
            .leave(Damage::new(Problem::Gap, (from, to), detail), NO_OTHER_COPY);
        Ok(())
    }

    fn check_content(&mut self, row: &Row) {
        let number = row.number.get();
        let (id, seq) = row.told().unwrap_or_default();
        let is_other = id.as_ref().is_some_and(|id| id != self.id.as_str());
        if is_other || seq.is_some_and(|seq| seq != number) {
            self.collision(number, (id.unwrap_or_default(), seq.unwrap_or(0)));
            return;
        }
        match row.event(self.id) {
            Err(error) => self.unreadable(number, error_chain(&error)),
            Ok(Some((event, _))) if !checksum::is_sealed(&row.item) => {
                let data = &event.data;
                if let Some(fault) = serialization::malformed(&data.codec, &data.payload) {
                    self.unreadable(number, fault.to_owned());
                }
            }
            Ok(_) => {}
        }
    }

    fn collision(&mut self, number: u64, (id, seq): (String, u64)) {
        let detail = format!("the item tells another place. id=`{id}`, number=`{seq}`");
        self.findings.leave(
            Damage::new(Problem::Collision, (number, number), detail),
            OTHERS,
        );
    }

    fn unreadable(&mut self, number: u64, detail: String) {
        let numbers = (number, number);
        self.findings.leave(
            Damage::new(Problem::Unreadable, numbers, detail),
            NO_OTHER_COPY,
        );
    }

    async fn finish(mut self) -> Result<Vec<Finding>> {
        self.leave_batch().await?;
        if self.below < self.marks.low {
            self.trace = self.marks.low - 1;
        }
        let (high, low) = (self.marks.high, self.marks.low);
        if self.next <= high && self.claimed < high {
            self.gap(high).await?;
        }
        let is_mended = self.damaged.iter().any(|one| one.mark == Mark::High);
        self.finish_damaged().await?;
        let due = hundred(self.last) * PARTITION;
        if due > high && !is_mended {
            let detail = format!("it is {high}, and events go on in the hundred of {due}");
            if self
                .findings
                .repair(Damage::new(Problem::HighMark, (due, self.last), detail))
            {
                self.journal.raise_high(self.id, self.last).await?;
            }
        }
        // Marked as deleted, with nothing behind it, and no event was ever marked as high as that.
        if !self.is_low_proven && self.hidden.is_empty() && self.last == 0 && low > high + PARTITION
        {
            let detail = format!("it is {low}, and no event was ever marked as high as that");
            self.findings
                .leave(Damage::new(Problem::LowMark, (low, low), detail), DELETED);
        }
        self.finish_hidden().await?;
        Ok(self.findings.finish())
    }

    /// Marks that are not as they were written. A high mark is a hint that the events make up for; a
    /// low mark is the truth, unless it tells it twice.
    async fn finish_damaged(&mut self) -> Result<()> {
        let used = self.last.max(self.marks.low.saturating_sub(1));
        let shards = u64::from(self.journal.keys.shards);
        for one in std::mem::take(&mut self.damaged) {
            let (detail, said) = (error_chain(&one.error), one.value().unwrap_or(0));
            let (problem, right) = match one.mark {
                Mark::Low => (Problem::LowMark, one.told_twice()),
                // The last hundred that the shard is for; without one it says nothing.
                Mark::High => {
                    let (at, shard) = (hundred(used), u64::from(one.shard));
                    let back = (at + shards - shard % shards) % shards;
                    let right = at.saturating_sub(back) * PARTITION;
                    (Problem::HighMark, Some(right))
                }
            };
            let Some(right) = right else {
                self.findings
                    .leave(Damage::new(problem, (said, said), detail), UNKNOWN);
                continue;
            };
            let numbers = (right.min(said), right.max(said));
            if self.findings.repair(Damage::new(problem, numbers, detail))
                && !self.journal.mend(self.id, &one, right).await?
            {
                self.findings.give_up(CHANGED);
            }
        }
        Ok(())
    }

    /// Events below the low mark.
    async fn finish_hidden(&mut self) -> Result<()> {
        let (done, low) = (self.marks.done, self.marks.low);
        let (is_proven, trace) = (self.is_low_proven, self.trace);
        let is_told = |row: &&Row| is_proven || trace > row.number.get();
        let hidden = std::mem::take(&mut self.hidden);
        let is_cut_off = done + 1 < low;
        let first = hidden.iter().find(|row| !is_told(row));
        if let Some(first) = first {
            let numbers = (first.number.get(), low - 1);
            let detail = format!("it is {low}, and none of these events is deleted");
            self.findings
                .leave(Damage::new(Problem::LowMark, numbers, detail), HIDDEN);
        }
        for row in hidden.iter().filter(is_told) {
            if is_cut_off && row.number.get() > done {
                continue;
            }
            self.take_away(row).await?;
        }
        // A deletion that was cut off.
        if is_cut_off && first.is_none() {
            let (from, to) = (done + 1, low - 1);
            let detail = "a deletion was cut off".to_owned();
            if self
                .findings
                .repair(Damage::new(Problem::Leftover, (from, to), detail))
            {
                self.journal.finish_deletion(self.id, self.marks).await?;
            }
        }
        Ok(())
    }

    async fn take_away(&mut self, row: &Row) -> Result<()> {
        let (number, journal) = (row.number.get(), self.journal);
        let detail = "an event below the low mark was not deleted".to_owned();
        let is_wanted =
            self.findings
                .repair(Damage::new(Problem::Leftover, (number, number), detail));
        if !is_wanted {
            return Ok(());
        }
        let condition = row.unchanged();
        let Some((write, condition)) = journal.taken_away(self.id, row)?.zip(condition) else {
            self.findings.give_up(CHANGED);
            return Ok(());
        };
        let (items, table) = (&journal.store, &journal.table);
        let written = match write {
            Write::Put(item) => items.put(table, item, condition).await,
            Write::Delete(key) => items.delete(table, key, condition).await,
        };
        match written {
            Ok(_) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { .. }) => {
                self.findings.give_up(CHANGED);
                Ok(())
            }
        }
    }
}
