//! Verification on the `j5ik2o` layout: keys of two ids, rows under keys of older settings, and
//! batches that are closed.
//!
//! Never closes a batch that others follow: it was complete then, and has lost its last event since.

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use super::format::J5ik2oRows;
use super::keys::on_index;
use super::marker::{Damaged, low_in, stored_twice};
use super::reader::{Range, Rows};
use super::row::{is_deleted_by_us, other_place, owner};
use crate::rows::{Checker, FoundMarkers, LeftBatch, Markers, Row, RowTable, RowVerify, VerifyRow};
use annals::layout::support::{Damage, NO_OTHER_COPY, error_chain};
use annals::verify::Problem;
use annals::{PersistenceId, Result};

const UNKNOWN: &str = "how far events are deleted is not stored anywhere else; put the right numbers into the marker, without its checksum";
const FLAGGED: &str = "either a deletion by the plugin was interrupted, or an event was flagged by mistake, and nothing here proves which";
const UNMARKED: &str =
    "an operator must decide whether it should be deleted; its bytes are still stored";
const OTHERS: &str = "an operator must decide which of the two is right";
/// How many keys of missing numbers are checked for another id's rows.
const CHECKED_MAX: u64 = 100;

impl RowVerify for J5ik2oRows {
    type Damaged = Damaged;

    fn check_id(&self, id: &PersistenceId) -> Result<()> {
        self.keys.key(id, 1).map(|_| ())
    }

    async fn find_markers(&self, id: &PersistenceId) -> Result<FoundMarkers<Damaged>> {
        self.read_marker(id).await
    }

    fn verify_rows(&self, id: &PersistenceId, _: Markers) -> BoxStream<'static, Result<VerifyRow>> {
        let range = Range {
            allows_damaged: true,
            ..Range::between(1, u64::MAX)
        };
        let rows = Rows::new(self, id, range);
        let rows = stream::try_unfold(rows, |mut rows| async move {
            Ok(rows.next_found().await?.map(|row| (row, rows)))
        });
        rows.boxed()
    }

    fn misplaced(&self, id: &PersistenceId, row: &Row) -> Option<String> {
        other_place(id, row, self.columns()).map(|error| error.to_string())
    }

    async fn check_deleted(&self, checker: &mut Checker<'_, Self>, row: &Row) -> Result<()> {
        let numbers = row.number..=row.number;
        if is_deleted_by_us(row) && self.is_unmarked(checker.id, row.number).await? {
            let detail = "it is flagged as deleted, and is not below the marker".to_owned();
            // Our deletions start at the first event: after a live event it is not one of them.
            let problem = match checker.first_live {
                None => Problem::LowMark,
                Some(_) => Problem::Unreadable,
            };
            checker
                .findings
                .leave(Damage::new(problem, numbers, detail), UNMARKED);
        } else if let Some(live) = checker.first_live.take() {
            let detail = "an event is deleted, and some before it are not";
            let damage = Damage::new(Problem::Leftover, live..=row.number, detail);
            checker.findings.leave(damage, FLAGGED);
        }
        Ok(())
    }

    async fn check_batch(&self, checker: &mut Checker<'_, Self>, batch: LeftBatch) -> Result<()> {
        let LeftBatch { begin, end, .. } = batch;
        // A row that cannot be read may be the last event.
        if batch.has_end() || checker.unread.contains(&end) {
            for numbers in batch.holes {
                self.check_gap(checker, numbers).await?;
            }
            return Ok(());
        }
        let findings = &mut checker.findings;
        // Writers that append after a batch without its last event close it first.
        if batch.next.is_some_and(|next| next > end) && !batch.member.is_closing() {
            let detail = "its last event is missing; replay skips the others".to_owned();
            findings.leave(
                Damage::new(Problem::IncompleteBatch, begin..=end, detail),
                NO_OTHER_COPY,
            );
            return Ok(());
        }
        let detail = "its last event is missing; the plugin replays the others".to_owned();
        if findings.repair(Damage::new(Problem::IncompleteBatch, begin..=end, detail))
            && !self.close_batch(checker.id, &batch.member).await?
        {
            let findings = &mut checker.findings;
            findings.give_up("it was completed meanwhile");
        }
        Ok(())
    }

    /// Checks for numbers that were never written, lost, or overwritten by another id.
    async fn check_gap(
        &self,
        checker: &mut Checker<'_, Self>,
        (from, to): (u64, u64),
    ) -> Result<()> {
        let id = checker.id;
        let checked = from..=to.min(from + (CHECKED_MAX - 1));
        let found = self.get(id, checked).await?;
        let mut has_other = false;
        for (item, number) in found.into_iter().zip(from..) {
            let other = item.as_ref().and_then(|item| owner(item, self.columns()));
            if let Some(other) = other.filter(|other| *other != id.as_str()) {
                has_other = true;
                let detail = format!("another id has the key of this event. other=`{other}`");
                let findings = &mut checker.findings;
                findings.leave(
                    Damage::new(Problem::Collision, number..=number, detail),
                    NO_OTHER_COPY,
                );
            }
        }
        // The plugin's hard deletion removes the start of a history without a trace.
        let may_be_removed = !checker.has_begun && !self.section().soft_delete;
        if !has_other && !may_be_removed {
            let damage = Damage::new(Problem::Gap, from..=to, "no event has these numbers");
            checker.findings.leave(damage, NO_OTHER_COPY);
        }
        Ok(())
    }

    async fn check_markers(&self, checker: &mut Checker<'_, Self>, is_last: bool) -> Result<()> {
        if is_last {
            return self.check_twice(checker).await;
        }
        for (item, error) in std::mem::take(&mut checker.damaged) {
            let detail = error_chain(&error);
            let Some(right) = stored_twice(&item) else {
                let low = low_in(&item);
                let damage = Damage::new(Problem::LowMark, low..=low, detail);
                checker.findings.leave(damage, UNKNOWN);
                continue;
            };
            let numbers = right.low..=right.low;
            if checker
                .findings
                .repair(Damage::new(Problem::LowMark, numbers, detail))
                && !self.repair(checker.id, (&item, right)).await?
            {
                checker.give_up();
            }
            (checker.markers, checker.is_proven) = (right, true);
        }
        Ok(())
    }
}

impl J5ik2oRows {
    /// Whether the marker is now at or below a number.
    async fn is_unmarked(&self, id: &PersistenceId, number: u64) -> Result<bool> {
        let now = self.read_marker(id).await?;
        Ok(now.damaged.is_empty() && now.markers.low <= number)
    }

    /// Checks for numbers with two rows, under keys of two settings.
    async fn check_twice(&self, checker: &mut Checker<'_, Self>) -> Result<()> {
        let index = &self.section().get_journal_rows_index_name;
        let mut rows = self.query(on_index(index, checker.id, (1, u64::MAX)));
        let mut last = 0;
        while let Some(item) = rows.try_next().await? {
            // One that cannot be read was reported already, and may not be of this number.
            let Ok(number) = self.row(item).map(|row| row.number) else {
                continue;
            };
            if number == last && number > 0 {
                let detail = "two rows have this number, under two keys";
                let damage = Damage::new(Problem::Collision, number..=number, detail);
                checker.findings.leave(damage, OTHERS);
            }
            last = number;
        }
        Ok(())
    }
}
