//! Verifying an id of the `akka` layout, row by row.

use super::journal::AkkaJournal;
use super::keys::{PARTITION, hundred};
use super::marks::Marks;
use super::row::Row;
use crate::items::{Item, Value};
use crate::verify::{Finding, Findings, Problem, Verify};
use crate::{PersistenceId, Result};

const LOST: &str = "what was there is not to be had from anywhere here";
const DEAD: &str =
    "its writer was cut off or refused; replay passes it over, and its numbers stay taken";
const DELETED: &str = "lowering it would bring deleted events back";
const OTHERS: &str = "which of the two is right is for a person to say";

struct Checker<'a> {
    journal: &'a AkkaJournal,
    id: &'a PersistenceId,
    marks: Marks,
    findings: Findings,
    next: u64,
    /// The batch that is being met: where it begins and ends, and how many members it has.
    batch: Option<(u64, u64, u64)>,
    /// Every number up to here belongs to a batch that was met.
    claimed: u64,
    last: u64,
}

pub(super) async fn verify(
    journal: &AkkaJournal,
    id: &PersistenceId,
    verify: Verify,
) -> Result<Vec<Finding>> {
    let marks = journal.marks(id).await?;
    let mut checker = Checker {
        journal,
        id,
        marks,
        findings: Findings::about(id, verify),
        next: marks.low.max(1),
        batch: None,
        claimed: 0,
        last: 0,
    };
    let mut at = 0;
    loop {
        let first = (at * PARTITION).max(1);
        let items = journal.items_between(id, first, u64::MAX).await?;
        // Deleted hundreds are empty; behind the marks an empty one is the end.
        if items.is_empty() && at > hundred(marks.used()) {
            break;
        }
        for item in items {
            checker.check(item).await?;
        }
        at += 1;
    }
    checker.finish().await
}

impl Checker<'_> {
    async fn check(&mut self, item: Item) -> Result<()> {
        let number = self.journal.keys.number_of(&item)?.get();
        let row = match Row::of(&self.journal.keys, item) {
            Ok(row) => row,
            Err(error) => {
                self.unreadable(number, error.to_string());
                return Ok(());
            }
        };
        if number < self.marks.low {
            return self.check_deleted(&row).await;
        }
        if row.is_gone() {
            return self.check_gone(number).await;
        }
        self.check_place(&row);
        self.check_content(&row);
        self.last = number;
        Ok(())
    }

    /// Below the low mark there are emptied items, or none.
    async fn check_deleted(&mut self, row: &Row) -> Result<()> {
        let number = row.number.get();
        if row.is_gone() || self.marks.done < number {
            return Ok(());
        }
        let detail = "an event below the low mark was not deleted".to_owned();
        if self
            .findings
            .repair(Problem::Leftover, (number, number), detail)
        {
            let writes = self.journal.taken_away(self.id, row)?.into_iter();
            let (items, table) = (&self.journal.items, &self.journal.table);
            items.write(table, writes.collect()).await?;
        }
        Ok(())
    }

    /// An emptied item tells that everything up to it was deleted.
    async fn check_gone(&mut self, number: u64) -> Result<()> {
        // Deletions go from the first event on, so whatever stands before it is meant to go too.
        if self.last == 0 {
            self.marks.done = number;
        }
        let detail = "an emptied event is not below the low mark".to_owned();
        if self
            .findings
            .repair(Problem::LowMark, (number, number), detail)
        {
            let done = self.marks.done;
            self.journal.raise_low(self.id, number + 1, done).await?;
        }
        self.marks.low = number + 1;
        self.next = number + 1;
        self.leave_batch();
        Ok(())
    }

    fn check_place(&mut self, row: &Row) {
        let number = row.number.get();
        let (begin, end) = (row.begin(), row.end());
        let is_member = |batch: &(u64, u64, u64)| (batch.0, batch.1) == (begin, end);
        if !self.batch.as_ref().is_some_and(is_member) {
            self.leave_batch();
        }
        if self.next < begin && self.claimed < begin - 1 {
            self.gap(begin - 1);
        }
        self.next = number + 1;
        if row.batch.is_some() {
            self.claimed = self.claimed.max(end);
            let met = self.batch.map_or(0, |batch| batch.2) + 1;
            self.batch = Some((begin, end, met));
        }
    }

    /// A batch is left: has it been whole?
    fn leave_batch(&mut self) {
        let Some((begin, end, met)) = self.batch.take() else {
            return;
        };
        let deleted = self.marks.low.saturating_sub(begin);
        // The plugin passes a batch of one over as well.
        if begin == end || met + deleted < end - begin + 1 {
            let detail = format!("{met} of {} events are there", end - begin + 1);
            self.findings
                .leave(Problem::IncompleteBatch, (begin, end), (detail, DEAD));
        }
    }

    fn gap(&mut self, to: u64) {
        let detail = "no event has these numbers".to_owned();
        let numbers = (self.next, to);
        self.findings.leave(Problem::Gap, numbers, (detail, LOST));
    }

    fn check_content(&mut self, row: &Row) {
        let number = row.number.get();
        if let Err(error) = row.event(self.id) {
            let detail = std::error::Error::source(&error)
                .map_or_else(|| error.to_string(), |cause| cause.to_string());
            self.unreadable(number, detail);
        }
        let told = row.item.get("persistence_id").and_then(Value::as_str);
        let seq = row.item.get("seq").and_then(Value::as_u64);
        let is_other = told.is_some_and(|told| told != self.id.as_str());
        if is_other || seq.is_some_and(|seq| seq != number) {
            let (told, seq) = (told.unwrap_or_default(), seq.unwrap_or(0));
            let detail = format!("the item tells another place. id=`{told}`, number=`{seq}`");
            self.findings
                .leave(Problem::Collision, (number, number), (detail, OTHERS));
        }
    }

    fn unreadable(&mut self, number: u64, detail: String) {
        let numbers = (number, number);
        self.findings
            .leave(Problem::Unreadable, numbers, (detail, LOST));
    }

    async fn finish(mut self) -> Result<Vec<Finding>> {
        self.leave_batch();
        let (high, low) = (self.marks.high, self.marks.low);
        if self.next <= high && self.claimed < high {
            self.gap(high);
        }
        let due = hundred(self.last) * PARTITION;
        if due > high {
            let detail = format!("it is {high}, and events go on in the hundred of {due}");
            if self
                .findings
                .repair(Problem::HighMark, (due, self.last), detail)
            {
                self.journal.raise_high(self.id, self.last).await?;
            }
        }
        // Marked as deleted, with nothing behind it and events below it that nobody emptied.
        if low > 1 && self.last == 0 && self.marks.done + 1 == low && low > high + PARTITION {
            let detail = format!("it is {low}, and no event was ever marked as high as that");
            self.findings
                .leave(Problem::LowMark, (low, low), (detail, DELETED));
        }
        // A deletion that was cut off.
        if self.marks.done + 1 < low {
            let (from, to) = (self.marks.done + 1, low - 1);
            let detail = "a deletion was cut off".to_owned();
            if self.findings.repair(Problem::Leftover, (from, to), detail) {
                self.journal.finish_deletion(self.id, self.marks).await?;
            }
        }
        Ok(self.findings.finish())
    }
}
