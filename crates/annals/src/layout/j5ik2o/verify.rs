//! Verifying an id of the `j5ik2o` layout, row by row.

use futures::TryStreamExt;

use super::batches::{Batches, Verdict};
use super::journal::J5ik2oJournal;
use super::keys::on_index;
use super::mark::Mark;
use super::row::{Fate, Row, owner};
use super::rows::{Range, Rows, Step};
use crate::verify::{Finding, Findings, Problem, Verify};
use crate::{PersistenceId, Result};

const LOST: &str = "what was there is not to be had from anywhere here";
const OTHER_SETTINGS: &str = "it was written with other settings; with those it can be read";
const OTHERS: &str = "which of the two is right is for a person to say";
/// How many missing numbers are asked for another id's rows.
const ASKED: u64 = 100;

struct Checker<'a> {
    journal: &'a J5ik2oJournal,
    id: &'a PersistenceId,
    mark: Mark,
    findings: Findings,
    batches: Batches,
    /// A member of the batch that has not ended.
    member: Option<Row>,
    leftovers: Option<(u64, u64)>,
    /// Whether an event was met that counts.
    has_begun: bool,
}

pub(super) async fn verify(
    journal: &J5ik2oJournal,
    id: &PersistenceId,
    verify: Verify,
) -> Result<Vec<Finding>> {
    if let Err(error) = journal.keys.key(id, 1) {
        let mut findings = Findings::about(id, verify);
        let why = (error.to_string(), OTHER_SETTINGS);
        findings.leave(Problem::Unreadable, (1, 1), why);
        return Ok(findings.finish());
    }
    let mut checker = Checker {
        journal,
        id,
        mark: journal.mark(id).await?,
        findings: Findings::about(id, verify),
        batches: Batches::default(),
        member: None,
        leftovers: None,
        has_begun: false,
    };
    let mut rows = Rows::of(journal, id, Range::between(1, u64::MAX));
    while let Some(step) = rows.next().await? {
        match step {
            Step::Row(row) => checker.check(row).await?,
            Step::Missing(from, to, begin) => checker.missing((from, to), begin).await?,
        }
    }
    checker.leave_batch().await?;
    checker.check_twice().await?;
    checker.finish().await
}

impl Checker<'_> {
    async fn check(&mut self, row: Row) -> Result<()> {
        if row.fate == Fate::Closed {
            self.batches.pass(&row);
            if row.is_closing() && self.member.is_none() {
                self.member = Some(row);
            }
            return Ok(());
        }
        if row.number < self.mark.low {
            self.check_deleted(&row);
            return Ok(());
        }
        if !row.is_live() {
            return Ok(());
        }
        self.check_content(&row);
        let is_member = self.member.as_ref().is_some_and(|member| {
            row.batch.is_some() && (member.begin(), member.end()) == (row.begin(), row.end())
        });
        if !is_member {
            self.leave_batch().await?;
        }
        self.member = (!row.is_end()).then(|| row.clone());
        match self.batches.push(row) {
            Verdict::Whole(whole) => {
                // What is missing of it was not found to be another id's.
                for (from, to) in whole.holes {
                    self.gap(from, to).await?;
                }
            }
            Verdict::Alone(_) => {}
            Verdict::Waits => return Ok(()),
        }
        self.has_begun = true;
        Ok(())
    }

    /// Below the mark every row is marked or emptied.
    fn check_deleted(&mut self, row: &Row) {
        if !row.is_live() || self.mark.done < row.number {
            return;
        }
        let from = self.leftovers.map_or(row.number, |(from, _)| from);
        self.leftovers = Some((from, row.number));
    }

    fn check_content(&mut self, row: &Row) {
        let numbers = (row.number, row.number);
        let Err(error) = row.event(self.id, self.journal.section()) else {
            return;
        };
        let detail = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), |cause| cause.to_string());
        let is_other = row.tells_another(self.id, self.journal.columns());
        let (problem, why) = match is_other {
            true => (Problem::Collision, OTHERS),
            false => (Problem::Unreadable, LOST),
        };
        self.findings.leave(problem, numbers, (detail, why));
    }

    async fn missing(&mut self, (from, to): (u64, u64), begin: u64) -> Result<()> {
        if self.batches.miss(from, to, begin) || to < self.mark.low {
            return Ok(());
        }
        self.gap(from.max(self.mark.low), to).await
    }

    /// Numbers are missing: never written, lost, or overwritten by another id's.
    async fn gap(&mut self, from: u64, to: u64) -> Result<()> {
        let asked = from..=to.min(from + (ASKED - 1));
        let found = self.journal.get(self.id, asked).await?;
        let mut is_other = false;
        for (item, number) in found.into_iter().zip(from..) {
            let other = item.as_ref();
            let other = other.and_then(|item| owner(item, self.journal.columns()));
            if let Some(other) = other.filter(|other| *other != self.id.as_str()) {
                is_other = true;
                let detail = format!("another id has the key of this event. other=`{other}`");
                let numbers = (number, number);
                self.findings
                    .leave(Problem::Collision, numbers, (detail, LOST));
            }
        }
        // The plugin's hard deletion removes the beginning of a history without a trace.
        let may_be_removed = !self.has_begun && !self.journal.section().soft_delete;
        if !is_other && !may_be_removed {
            let detail = "no event has these numbers".to_owned();
            self.findings
                .leave(Problem::Gap, (from, to), (detail, LOST));
        }
        Ok(())
    }

    /// A batch is left that has no end.
    async fn leave_batch(&mut self) -> Result<()> {
        self.batches.give_up();
        let Some(member) = self.member.take() else {
            return Ok(());
        };
        let detail = "its last event is not there; the plugin replays the others".to_owned();
        let numbers = (member.begin(), member.end());
        let is_wanted = self
            .findings
            .repair(Problem::IncompleteBatch, numbers, detail);
        if is_wanted {
            self.journal.close(self.id, &member).await?;
        }
        Ok(())
    }

    /// Numbers that two rows have, under keys of two times.
    async fn check_twice(&mut self) -> Result<()> {
        let index = &self.journal.section().get_journal_rows_index_name;
        let query = on_index(index, self.id, (1, u64::MAX));
        let mut rows = self.journal.query(query);
        let mut last = 0;
        while let Some(item) = rows.try_next().await? {
            let number = self.journal.row(item).map_or(0, |row| row.number);
            if number == last && number > 0 {
                let detail = "two rows have this number, under two keys".to_owned();
                self.findings
                    .leave(Problem::Collision, (number, number), (detail, OTHERS));
            }
            last = number;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Vec<Finding>> {
        if let Some(numbers) = self.leftovers {
            let detail = "events below the mark were not deleted".to_owned();
            if self.findings.repair(Problem::Leftover, numbers, detail) {
                let again = Mark {
                    done: numbers.0 - 1,
                    ..self.mark
                };
                self.journal.finish_deletion(self.id, again).await?;
            }
        }
        if self.mark.done + 1 < self.mark.low {
            let numbers = (self.mark.done + 1, self.mark.low - 1);
            let detail = "a deletion was cut off".to_owned();
            if self.findings.repair(Problem::Leftover, numbers, detail) {
                self.journal.finish_deletion(self.id, self.mark).await?;
            }
        }
        Ok(self.findings.finish())
    }
}
