//! Verification of an id, row by row.
//!
//! Guarantees: rows that were stored while others were read are not findings. Every write of a
//! repair is one that an append or a deletion would make next, or is conditional on the item being
//! unchanged, so concurrent appends lose nothing.
//!
//! A low marker that is too high hides events, and "finishing" its deletion would lose them. So
//! events below it are deleted only if the marker's checksum, or a deleted event after them, proves
//! that they should be.

use futures::TryStreamExt;

use super::format::RowVerify;
use super::row::{Markers, Row};
use crate::{checksum, serialization};
use annals::layout::support::{Damage, Findings, NO_OTHER_COPY, error_chain};
use annals::verify::StoredKind;
use annals::verify::{Finding, Problem, Repairs};
use annals::{PersistenceId, Result};

const HIDDEN: &str = "either the marker is wrong or a deletion was interrupted, and nothing here proves which; to delete the events remove their items, to restore them put the right number into the marker, without its checksum";
const OTHER_SETTINGS: &str = "it was written with other settings; with those it can be read";
const OTHERS: &str = "an operator must decide which of the two is right";
const CHANGED: &str = "another process changed it meanwhile; verify again";

/// The markers of an id as they are stored.
#[derive(Debug)]
pub(crate) struct FoundMarkers<D> {
    /// The values of the readable ones.
    pub(crate) markers: Markers,
    /// Whether the low marker has a valid checksum.
    pub(crate) is_proven: bool,
    pub(crate) damaged: Vec<D>,
}

/// An item under the key of a sequence number.
pub(crate) enum VerifyRow {
    Row(Row),
    /// An unreadable one: of another key (`Collision`), or damaged (`Unreadable`).
    Damaged {
        number: u64,
        problem: Problem,
        detail: String,
    },
}

impl VerifyRow {
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Row(row) => row.number,
            Self::Damaged { number, .. } => *number,
        }
    }
}

/// A batch whose rows were all read.
pub(crate) struct LeftBatch {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// How many members were read.
    pub(crate) met: u64,
    /// Numbers without a row before a member that was read.
    pub(crate) holes: Vec<(u64, u64)>,
    /// The last member that was read.
    pub(crate) member: Row,
    /// The next row; `None` at the end of the history.
    pub(crate) next: Option<u64>,
}

impl LeftBatch {
    fn of(row: &Row) -> Self {
        Self {
            begin: row.begin(),
            end: row.end(),
            met: 0,
            holes: Vec::new(),
            member: row.clone(),
            next: None,
        }
    }

    /// Whether its last member was read.
    pub(crate) fn has_end(&self) -> bool {
        self.member.is_end() && !self.member.is_closing()
    }
}

/// Checks the rows of an id.
pub(crate) struct Checker<'a, F: RowVerify> {
    pub(crate) format: &'a F,
    pub(crate) id: &'a PersistenceId,
    pub(crate) markers: Markers,
    /// Whether more than its number proves the low marker.
    pub(crate) is_proven: bool,
    pub(crate) damaged: Vec<F::Damaged>,
    pub(crate) findings: Findings,
    /// The next expected number.
    pub(crate) next: u64,
    /// Every number up to here belongs to a batch that was read.
    pub(crate) claimed: u64,
    /// The last event; 0: none.
    pub(crate) last: u64,
    /// The first event, until a deleted row after it was reported.
    pub(crate) first_live: Option<u64>,
    /// Whether an event was read that counts, or may.
    pub(crate) has_begun: bool,
    /// Rows that cannot be read.
    pub(crate) unread: Vec<u64>,
    batch: Option<LeftBatch>,
    /// Events below the low marker.
    pub(crate) hidden: Vec<Row>,
    /// The last number below the low marker that is known to be deleted.
    trace: u64,
    /// The next number below the low marker.
    below: u64,
}

pub(super) async fn verify<F: RowVerify>(
    format: &F,
    id: &PersistenceId,
    repairs: &Repairs,
) -> Result<Vec<Finding>> {
    let mut findings = Findings::new(StoredKind::Event, id, repairs);
    if let Err(error) = format.check_id(id) {
        let damage = Damage::new(Problem::Unreadable, 1..=1, error.to_string());
        findings.leave(damage, OTHER_SETTINGS);
        return Ok(findings.finish());
    }
    let found = format.find_markers(id).await?;
    let mut checker = Checker {
        format,
        id,
        markers: found.markers,
        is_proven: found.is_proven,
        damaged: found.damaged,
        findings,
        next: 0,
        claimed: 0,
        last: 0,
        first_live: None,
        has_begun: false,
        unread: Vec::new(),
        batch: None,
        hidden: Vec::new(),
        trace: 0,
        below: 1,
    };
    format.check_markers(&mut checker, false).await?;
    checker.next = checker.markers.low.max(1);
    let mut rows = format.verify_rows(id, checker.markers);
    while let Some(row) = rows.try_next().await? {
        checker.check(row).await?;
    }
    checker.leave_batch(None).await?;
    if checker.below < checker.markers.low {
        checker.trace = checker.markers.low - 1;
    }
    format.check_markers(&mut checker, true).await?;
    checker.check_hidden().await?;
    Ok(checker.findings.finish())
}

impl<F: RowVerify> Checker<'_, F> {
    async fn check(&mut self, row: VerifyRow) -> Result<()> {
        let row = match row {
            VerifyRow::Row(row) => row,
            VerifyRow::Damaged {
                number,
                problem,
                detail,
            } => {
                self.check_missing(number).await?;
                self.unread.push(number);
                self.next = self.next.max(number + 1);
                self.has_begun = true;
                self.leave(problem, number, detail);
                return Ok(());
            }
        };
        if row.is_closed() {
            self.check_missing(row.begin()).await?;
            self.claimed = self.claimed.max(row.end());
            self.next = self.next.max(row.number + 1);
            if row.is_closing() && self.batch.is_none() {
                self.batch = Some(LeftBatch::of(&row));
            }
        } else if row.number < self.markers.low {
            self.check_below(row);
        } else if row.is_deleted() {
            if !F::DELETES_FROM_START {
                self.check_missing(row.begin()).await?;
                self.next = row.number + 1;
            }
            self.format.check_deleted(self, &row).await?;
        } else {
            self.check_live(row).await?;
        }
        Ok(())
    }

    /// Below the low marker every row is deleted.
    fn check_below(&mut self, row: Row) {
        if row.number > self.below {
            self.trace = row.number - 1;
        }
        self.below = row.number + 1;
        match row.is_deleted() {
            true => self.trace = row.number,
            false => self.hidden.push(row),
        }
    }

    async fn check_live(&mut self, row: Row) -> Result<()> {
        let is_member = |batch: &LeftBatch| batch.member.is_same_batch(&row);
        if !self.batch.as_ref().is_some_and(is_member) {
            self.leave_batch(Some(row.number)).await?;
        }
        self.check_missing(row.begin()).await?;
        if row.batch.is_some() {
            self.claimed = self.claimed.max(row.end());
            let batch = self.batch.get_or_insert_with(|| LeftBatch::of(&row));
            batch.met += 1;
            let first = self.next.max(batch.begin);
            if first < row.number {
                batch.holes.push((first, row.number - 1));
            }
            batch.member = row.clone();
        }
        self.next = row.number + 1;
        self.last = row.number;
        self.first_live = self.first_live.or(Some(row.number));
        self.check_content(&row);
        // Missing members of a batch with later rows are a gap inside the history.
        self.has_begun |= row.is_end() && row.batch.is_none();
        Ok(())
    }

    fn check_content(&mut self, row: &Row) {
        if let Some(place) = self.format.misplaced(self.id, row) {
            return self.leave(Problem::Collision, row.number, place);
        }
        match self.format.event(self.id, row) {
            Err(error) => self.leave(Problem::Unreadable, row.number, error_chain(&error)),
            Ok(Some((event, _))) if !checksum::is_sealed(&row.item) => {
                let data = &event.data;
                if let Some(fault) = serialization::malformed(&data.codec, &data.payload) {
                    self.leave(Problem::Unreadable, row.number, fault.to_owned());
                }
            }
            Ok(_) => {}
        }
    }

    fn leave(&mut self, problem: Problem, number: u64, detail: String) {
        let why = match problem {
            Problem::Collision => OTHERS,
            _ => NO_OTHER_COPY,
        };
        self.findings
            .leave(Damage::new(problem, number..=number, detail), why);
    }

    /// Checks the numbers before a row or a batch, unless a batch explains that they are missing.
    async fn check_missing(&mut self, begin: u64) -> Result<()> {
        if self.next < begin && self.claimed < begin - 1 {
            self.format.check_gap(self, (self.next, begin - 1)).await?;
        }
        Ok(())
    }

    async fn leave_batch(&mut self, next: Option<u64>) -> Result<()> {
        let Some(batch) = self.batch.take() else {
            return Ok(());
        };
        let batch = LeftBatch { next, ..batch };
        let is_whole = batch.has_end() && batch.holes.is_empty();
        self.format.check_batch(self, batch).await?;
        self.has_begun |= is_whole;
        Ok(())
    }

    /// Restarts after a row up to which everything is deleted.
    pub(crate) fn restart_after(&mut self, number: u64) {
        self.markers.low = number + 1;
        self.next = number + 1;
        self.batch = None;
        self.is_proven = true;
        self.trace = number;
    }

    /// Marks the last finding as changed by another process.
    pub(crate) fn give_up(&mut self) {
        self.findings.give_up(CHANGED);
    }

    /// Events below the low marker.
    async fn check_hidden(&mut self) -> Result<()> {
        let Markers { done, low, .. } = self.markers;
        let (is_proven, trace) = (self.is_proven, self.trace);
        let is_told = |row: &&Row| is_proven || trace > row.number;
        let hidden = std::mem::take(&mut self.hidden);
        let is_interrupted = done + 1 < low;
        let first = hidden.iter().find(|row| !is_told(row));
        if let Some(first) = first {
            let numbers = first.number..=low - 1;
            let detail = format!("it is {low}, and events below it are not deleted");
            self.findings
                .leave(Damage::new(Problem::LowMark, numbers, detail), HIDDEN);
        }
        for row in hidden.iter().filter(is_told) {
            if !is_interrupted || row.number <= done {
                self.delete(row).await?;
            }
        }
        if is_interrupted && first.is_none() {
            let detail = "a deletion was interrupted".to_owned();
            let numbers = done + 1..=low - 1;
            if self
                .findings
                .repair(Damage::new(Problem::Leftover, numbers, detail))
            {
                let format = self.format;
                format.finish_deletion(self.id, self.markers, None).await?;
            }
        }
        Ok(())
    }

    /// Deletes an event that is below the low marker.
    async fn delete(&mut self, row: &Row) -> Result<()> {
        let detail = "an event below the low marker was not deleted".to_owned();
        let numbers = row.number..=row.number;
        if !self
            .findings
            .repair(Damage::new(Problem::Leftover, numbers, detail))
        {
            return Ok(());
        }
        let write = self.format.deleted(self.id, row, self.markers)?;
        let is_deleted = match write.zip(self.format.unchanged(row)) {
            Some((write, condition)) => self.format.base().write_if(write, condition).await?,
            None => false,
        };
        if !is_deleted {
            self.give_up();
        }
        Ok(())
    }
}
