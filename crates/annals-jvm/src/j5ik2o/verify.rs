//! Verifying an id of the `j5ik2o` layout, row by row.
//!
//! Promises: every write of a repair is one that an append or a deletion would make next: it takes a
//! free number, marks rows of a batch whose last number is taken so that it never becomes whole, or
//! finishes a deletion below the mark. So appends beside it lose nothing.
//!
//! A mark that is too high hides events, and to "finish" its deletion would lose them. So events
//! below it are taken away only where something besides the number in the mark tells that they were
//! deleted: the mark's checksum, or an event behind them that is deleted.
//! Never: closes a batch behind which there are others. It was whole then, and has lost its last
//! event since.

use futures::TryStreamExt;

use super::batches::{Batches, Verdict};
use super::journal::J5ik2oJournal;
use super::keys::on_index;
use super::mark::{Mark, MarkFound};
use super::row::{Fate, Row, owner};
use super::rows::{Range, Rows, Step};
use crate::{checksum, serialization};
use annals::items::Item;
use annals::layout::support::{Damage, Findings, NO_OTHER_COPY, error_chain};
use annals::verify::{Finding, Problem, Repairs, StoredKind};
use annals::{Error, PersistenceId, Result};

const HIDDEN: &str = "either the mark is wrong or a deletion was cut off, and nothing here tells which; to delete the events remove their items, to have them back put the right number into the mark, without its checksum";
const UNKNOWN: &str = "how far events are deleted is not told anywhere else; put the right numbers into the mark, without its checksum";
const MARKED: &str = "either a deletion by the plugin was cut off, or an event was marked by mistake, and nothing here tells which";
const UNMARKED: &str = "whether it was to be deleted is for a person to say; its bytes are there";
const CHANGED: &str = "somebody else changed it meanwhile; look again";
const OTHER_SETTINGS: &str = "it was written with other settings; with those it can be read";
const OTHERS: &str = "which of the two is right is for a person to say";
/// How many missing numbers are asked for another id's rows.
const ASKED: u64 = 100;

struct Checker<'a> {
    journal: &'a J5ik2oJournal,
    id: &'a PersistenceId,
    mark: Mark,
    is_proven: bool,
    findings: Findings,
    batches: Batches,
    /// A member of the batch that has not ended.
    member: Option<Row>,
    /// Events below the mark, from and to.
    hidden: Option<(u64, u64)>,
    /// The last number below the mark that is known to have been deleted.
    trace: u64,
    /// The first event that counts, until one behind it is marked as deleted.
    live: Option<u64>,
    /// Whether an event was met that counts.
    has_begun: bool,
}

pub(super) async fn verify(
    journal: &J5ik2oJournal,
    id: &PersistenceId,
    repairs: &Repairs,
) -> Result<Vec<Finding>> {
    if let Err(error) = journal.keys.key(id, 1) {
        let mut findings = Findings::new(StoredKind::Event, id, repairs);
        let damage = Damage::new(Problem::Unreadable, (1, 1), error.to_string());
        findings.leave(damage, OTHER_SETTINGS);
        return Ok(findings.finish());
    }
    let MarkFound {
        mark,
        is_proven,
        damaged,
    } = journal.find_mark(id).await?;
    let mut checker = Checker {
        journal,
        id,
        mark,
        is_proven,
        findings: Findings::new(StoredKind::Event, id, repairs),
        batches: Batches::default(),
        member: None,
        hidden: None,
        trace: 0,
        live: None,
        has_begun: false,
    };
    if let Some(damaged) = damaged {
        checker.check_mark(damaged).await?;
    }
    let range = Range {
        meets_damaged: true,
        ..Range::between(1, u64::MAX)
    };
    let mut rows = Rows::of(journal, id, range);
    while let Some(step) = rows.next().await? {
        match step {
            Step::Row(row) => checker.check(row).await?,
            Step::Missing(from, to, begin) => checker.missing((from, to), begin).await?,
        }
    }
    checker.leave_batch(None).await?;
    checker.check_twice().await?;
    checker.finish().await
}

impl Checker<'_> {
    /// A mark that is not as it was written.
    async fn check_mark(&mut self, (item, error): (Item, Error)) -> Result<()> {
        let detail = error_chain(&error);
        let Some(right) = Mark::told_twice(&item) else {
            let said = Mark::low_in(&item);
            self.findings
                .leave(Damage::new(Problem::LowMark, (said, said), detail), UNKNOWN);
            return Ok(());
        };
        let numbers = (right.low, right.low);
        if self
            .findings
            .repair(Damage::new(Problem::LowMark, numbers, detail))
            && !self.journal.mend(self.id, (&item, right)).await?
        {
            self.findings.give_up(CHANGED);
        }
        (self.mark, self.is_proven) = (right, true);
        Ok(())
    }

    async fn check(&mut self, row: Row) -> Result<()> {
        if row.fate == Fate::Damaged {
            self.check_damaged(row);
            return Ok(());
        }
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
        if row.is_marked_by_us() && self.is_unmarked(row.number).await? {
            let detail = "it is marked as deleted, and is not below the mark".to_owned();
            // Deletions go from the first event on: behind one that counts it is no deletion's.
            let problem = match self.live {
                None => Problem::LowMark,
                Some(_) => Problem::Unreadable,
            };
            let numbers = (row.number, row.number);
            self.findings
                .leave(Damage::new(problem, numbers, detail), UNMARKED);
            return Ok(());
        }
        if !row.is_live() {
            if let Some(live) = self.live.take() {
                let detail = "an event is deleted, and some before it are not".to_owned();
                self.findings.leave(
                    Damage::new(Problem::Leftover, (live, row.number), detail),
                    MARKED,
                );
            }
            return Ok(());
        }
        self.live = self.live.or(Some(row.number));
        self.check_content(&row);
        let is_member = self.member.as_ref().is_some_and(|member| {
            row.batch.is_some() && (member.begin(), member.end()) == (row.begin(), row.end())
        });
        if !is_member {
            self.leave_batch(Some(row.number)).await?;
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

    /// Whether the mark is known not to reach as far, by now.
    async fn is_unmarked(&self, number: u64) -> Result<bool> {
        let now = self.journal.find_mark(self.id).await?;
        Ok(now.damaged.is_none() && now.mark.low <= number)
    }

    /// A row that does not tell what it is. Where it may be the end of a batch, the batch is left in
    /// peace.
    fn check_damaged(&mut self, row: Row) {
        let number = row.number;
        let why = self.journal.row(row.item).err();
        let detail = why.map_or_else(String::new, |error| error_chain(&error));
        self.findings.leave(
            Damage::new(Problem::Unreadable, (number, number), detail),
            NO_OTHER_COPY,
        );
        if self.member.take_if(|it| it.end() == number).is_some() {
            self.batches.give_up();
        }
        self.has_begun = true;
    }

    /// Below the mark every row is marked or emptied.
    fn check_deleted(&mut self, row: &Row) {
        if !row.is_live() {
            self.trace = row.number;
            return;
        }
        let from = self.hidden.map_or(row.number, |(from, _)| from);
        self.hidden = Some((from, row.number));
    }

    fn check_content(&mut self, row: &Row) {
        let numbers = (row.number, row.number);
        let detail = match row.event(self.id, self.journal.section()) {
            Err(error) => error_chain(&error),
            Ok(Some((event, _))) if !checksum::is_sealed(&row.item) => {
                let data = &event.data;
                match serialization::malformed(&data.codec, &data.payload) {
                    None => return,
                    Some(fault) => fault.to_owned(),
                }
            }
            Ok(_) => return,
        };
        let is_other = row.tells_another(self.id, self.journal.columns());
        let (problem, why) = match is_other {
            true => (Problem::Collision, OTHERS),
            false => (Problem::Unreadable, NO_OTHER_COPY),
        };
        self.findings
            .leave(Damage::new(problem, numbers, detail), why);
    }

    async fn missing(&mut self, (from, to): (u64, u64), begin: u64) -> Result<()> {
        if to < self.mark.low {
            self.trace = to;
            return Ok(());
        }
        if self.batches.miss(from, to, begin) {
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
                self.findings.leave(
                    Damage::new(Problem::Collision, numbers, detail),
                    NO_OTHER_COPY,
                );
            }
        }
        // The plugin's hard deletion removes the beginning of a history without a trace.
        let may_be_removed = !self.has_begun && !self.journal.section().soft_delete;
        if !is_other && !may_be_removed {
            let detail = "no event has these numbers".to_owned();
            self.findings
                .leave(Damage::new(Problem::Gap, (from, to), detail), NO_OTHER_COPY);
        }
        Ok(())
    }

    /// A batch is left that has no end, for a row of this number or because no more comes.
    async fn leave_batch(&mut self, next: Option<u64>) -> Result<()> {
        self.batches.give_up();
        let Some(member) = self.member.take() else {
            return Ok(());
        };
        let numbers = (member.begin(), member.end());
        // Whoever appends behind a batch that lacks its end closes it first.
        if next.is_some_and(|next| next > member.end()) && !member.is_closing() {
            let detail = "its last event is gone; replay passes the others over".to_owned();
            self.findings.leave(
                Damage::new(Problem::IncompleteBatch, numbers, detail),
                NO_OTHER_COPY,
            );
            return Ok(());
        }
        let detail = "its last event is not there; the plugin replays the others".to_owned();
        let is_wanted =
            self.findings
                .repair(Damage::new(Problem::IncompleteBatch, numbers, detail));
        if is_wanted && !self.journal.close(self.id, &member).await? {
            self.findings.give_up("it has become whole meanwhile");
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
            // One that cannot be read has been told already, and may not be of this number.
            let Ok(number) = self.journal.row(item).map(|row| row.number) else {
                continue;
            };
            if number == last && number > 0 {
                let detail = "two rows have this number, under two keys".to_owned();
                self.findings.leave(
                    Damage::new(Problem::Collision, (number, number), detail),
                    OTHERS,
                );
            }
            last = number;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Vec<Finding>> {
        let (done, low) = (self.mark.done, self.mark.low);
        let is_told = |(_, to): &(u64, u64)| self.is_proven || self.trace > *to;
        if let Some((from, _)) = self.hidden.filter(|hidden| !is_told(hidden)) {
            let detail = format!("it is {low}, and events below it are not deleted");
            self.findings.leave(
                Damage::new(Problem::LowMark, (from, low - 1), detail),
                HIDDEN,
            );
            return Ok(self.findings.finish());
        }
        let is_cut_off = done + 1 < low;
        let again = match self.hidden {
            Some(hidden) if hidden.0 <= done => {
                let detail = "events below the mark were not deleted".to_owned();
                Some((hidden, hidden.0 - 1, detail))
            }
            _ if is_cut_off => {
                let detail = "a deletion was cut off".to_owned();
                Some(((done + 1, low - 1), done, detail))
            }
            _ => None,
        };
        if let Some((numbers, done, detail)) = again
            && self
                .findings
                .repair(Damage::new(Problem::Leftover, numbers, detail))
        {
            let again = Mark { done, ..self.mark };
            self.journal.finish_deletion(self.id, again).await?;
        }
        Ok(self.findings.finish())
    }
}
