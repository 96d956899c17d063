//! Verification on the `akka` layout: markers in shards, emptied items, and rows that were stored
//! while others were read.
//!
//! Never lowers a marker that can be read.

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use super::format::AkkaRows;
use super::keys::{Marker, PARTITION, hundred};
use super::markers::Damaged;
use super::row::{moved_from, other_place};
use crate::rows::{Checker, FoundMarkers, LeftBatch, Markers, Row, RowTable, RowVerify, VerifyRow};
use annals::items::Item;
use annals::layout::support::{Damage, NO_OTHER_COPY, error_chain};
use annals::verify::Problem;
use annals::{PersistenceId, Result};

const DEAD: &str =
    "its writer was interrupted or got a conflict; replay skips it, and its numbers are not reused";
const DELETED: &str = "lowering it would bring deleted events back";
const UNKNOWN: &str = "how far events are deleted is not stored anywhere else; put the right number into the marker, without its checksum";

/// After this many empty hundreds, continue at the marker's hundred: a wrong marker may be too far
/// away to read every hundred up to it.
const EMPTY_MAX: u64 = 10_000;
/// How many missing numbers are read again, in case they were stored meanwhile.
const LATE_MAX: u64 = 10_000;

impl RowVerify for AkkaRows {
    type Damaged = Damaged;

    async fn find_markers(&self, id: &PersistenceId) -> Result<FoundMarkers<Damaged>> {
        self.read_markers(id).await
    }

    fn verify_rows(
        &self,
        id: &PersistenceId,
        markers: Markers,
    ) -> BoxStream<'static, Result<VerifyRow>> {
        let (format, id) = (self.clone(), id.clone());
        let hundreds = stream::try_unfold((0, 0), move |(at, empty)| {
            let (format, id) = (format.clone(), id.clone());
            async move { format.verify_hundred(&id, markers, (at, empty)).await }
        });
        let rows = hundreds.map_ok(|rows| stream::iter(rows.into_iter().map(Ok)));
        rows.try_flatten().boxed()
    }

    fn misplaced(&self, id: &PersistenceId, row: &Row) -> Option<String> {
        let error = other_place(id, row).ok().flatten()?;
        Some(error.to_string())
    }

    /// An emptied item proves that everything up to it was deleted: by a concurrent deletion, or
    /// before the marker was lost.
    async fn check_deleted(&self, checker: &mut Checker<'_, Self>, row: &Row) -> Result<()> {
        let (id, number) = (checker.id, row.number);
        let now = self.read_markers(id).await?.markers;
        // Deletions start at the first event, so everything before it is deleted too.
        if checker.last == 0 {
            checker.markers.done = number;
        }
        let is_damaged = |one: &Damaged| one.marker == Marker::Low;
        if now.low <= number && !checker.damaged.iter().any(is_damaged) {
            let detail = "an emptied event is not below the low marker".to_owned();
            let numbers = number..=number;
            if checker
                .findings
                .repair(Damage::new(Problem::LowMark, numbers, detail))
            {
                let done = checker.markers.done;
                self.put_low(id, number + 1, done).await?;
            }
        }
        checker.restart_after(number);
        Ok(())
    }

    async fn check_batch(&self, checker: &mut Checker<'_, Self>, batch: LeftBatch) -> Result<()> {
        let LeftBatch {
            begin, end, met, ..
        } = batch;
        let low = checker.markers.low;
        let is_inside = |number: &&u64| (begin..=end).contains(*number);
        let unread = checker.unread.iter().filter(is_inside).count() as u64;
        let count = end - begin + 1;
        // The plugin skips a batch of one as well.
        let is_alone = begin == end;
        let is_short = is_alone || met + low.saturating_sub(begin) + unread < count;
        if is_short && (is_alone || !self.has_all(checker.id, begin.max(low), end).await?) {
            let detail = format!("{met} of {count} events are stored");
            let damage = Damage::new(Problem::IncompleteBatch, begin..=end, detail);
            checker.findings.leave(damage, DEAD);
        }
        Ok(())
    }

    async fn check_gap(
        &self,
        checker: &mut Checker<'_, Self>,
        (from, to): (u64, u64),
    ) -> Result<()> {
        let id = checker.id;
        let low = self.read_markers(id).await?.markers.low;
        if low > to || self.has_all(id, from, to).await? {
            return Ok(());
        }
        self.check_shards(id).await?;
        let damage = Damage::new(Problem::Gap, from..=to, "no event has these numbers");
        checker.findings.leave(damage, NO_OTHER_COPY);
        Ok(())
    }

    async fn check_markers(&self, checker: &mut Checker<'_, Self>, is_last: bool) -> Result<()> {
        if !is_last {
            return Ok(());
        }
        let Markers { high, low, .. } = checker.markers;
        if checker.next <= high && checker.claimed < high {
            self.check_gap(checker, (checker.next, high)).await?;
        }
        let is_repaired = checker.damaged.iter().any(|one| one.marker == Marker::High);
        self.check_damaged(checker).await?;
        let (last, due) = (checker.last, hundred(checker.last) * PARTITION);
        if due > high && !is_repaired {
            let detail = format!("it is {high}, and there are events in the hundred of {due}");
            let findings = &mut checker.findings;
            if findings.repair(Damage::new(Problem::HighMark, due..=last, detail)) {
                self.raise_high(checker.id, last).await?;
            }
        }
        // The low marker is after the high one.
        let is_unknown = !checker.is_proven && checker.hidden.is_empty() && last == 0;
        if is_unknown && low > high + PARTITION {
            let detail = format!("it is {low}, which is above the high marker");
            let findings = &mut checker.findings;
            findings.leave(Damage::new(Problem::LowMark, low..=low, detail), DELETED);
        }
        Ok(())
    }
}

impl AkkaRows {
    /// The rows of the next hundred, and its last number; `None` at the end.
    async fn verify_hundred(
        &self,
        id: &PersistenceId,
        markers: Markers,
        (at, empty): (u64, u64),
    ) -> Result<Option<(Vec<VerifyRow>, (u64, u64))>> {
        let first = (at * PARTITION).max(1);
        let items = self.items_between(id, first, u64::MAX).await?;
        // Deleted hundreds are empty. After the markers, an empty one is the end.
        if items.is_empty() && at > hundred(markers.used()) {
            return Ok(None);
        }
        let empty = if items.is_empty() { empty + 1 } else { 0 };
        let mut next = at + 1;
        if empty > EMPTY_MAX {
            let named = [markers.low, markers.high].map(hundred).into_iter();
            next = named.filter(|named| *named > next).min().unwrap_or(next);
        }
        let rows = items.into_iter().map(|item| self.verify_row(item));
        Ok(Some((rows.collect::<Result<_>>()?, (next, empty))))
    }

    fn verify_row(&self, item: Item) -> Result<VerifyRow> {
        let number = self.keys.number_of(&item)?.get();
        Ok(match self.row(item.clone()) {
            Ok(row) => VerifyRow::Row(row),
            Err(error) => match moved_from(&self.keys, &item) {
                Some((id, seq)) => VerifyRow::Damaged {
                    number,
                    problem: Problem::Collision,
                    detail: format!(
                        "it is the event of another id or number. id=`{id}`, number=`{seq}`"
                    ),
                },
                None => VerifyRow::Damaged {
                    number,
                    problem: Problem::Unreadable,
                    detail: error_chain(&error),
                },
            },
        })
    }

    /// Whether all these numbers are stored by now: rows are not read atomically.
    async fn has_all(&self, id: &PersistenceId, from: u64, to: u64) -> Result<bool> {
        if from > to || to - from > LATE_MAX {
            return Ok(false);
        }
        let mut count = 0;
        for (from, to) in super::keys::by_hundreds(from, to) {
            count += self.items_between(id, from, to).await?.len() as u64;
        }
        Ok(count == to + 1 - from)
    }

    /// Checks damaged markers. A high marker can be rebuilt from the events; a low marker only if its
    /// number is stored twice.
    async fn check_damaged(&self, checker: &mut Checker<'_, Self>) -> Result<()> {
        let used = checker.last.max(checker.markers.low.saturating_sub(1));
        let shards = u64::from(self.keys.shards);
        for one in std::mem::take(&mut checker.damaged) {
            let (detail, said) = (error_chain(&one.error), one.value().unwrap_or(0));
            let (problem, right) = match one.marker {
                Marker::Low => (Problem::LowMark, one.stored_twice()),
                // The last hundred of the shard; without one the marker is not needed.
                Marker::High => {
                    let (at, shard) = (hundred(used), u64::from(one.shard));
                    let back = (at + shards - shard % shards) % shards;
                    let right = at.saturating_sub(back) * PARTITION;
                    (Problem::HighMark, Some(right))
                }
            };
            let Some(right) = right else {
                let damage = Damage::new(problem, said..=said, detail);
                checker.findings.leave(damage, UNKNOWN);
                continue;
            };
            let numbers = right.min(said)..=right.max(said);
            if checker
                .findings
                .repair(Damage::new(problem, numbers, detail))
                && !self.repair(checker.id, &one, right).await?
            {
                checker.give_up();
            }
        }
        Ok(())
    }
}
