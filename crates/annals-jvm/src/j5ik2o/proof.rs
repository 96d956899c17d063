//! Proving what is last: before an append whose place this process does not know from its own writes
//! and reads, or was wrong about.
//!
//! Promises: an append is refused only where it can never land any more; one that has landed, its
//! answer lost, is known again, also where it was deleted since; a batch of ours that was cut off is
//! gone on with where it stands; somebody else's is waited for, and then closed.

use std::time::Duration;

use super::batches::{Batches, Verdict};
use super::journal::{Head, J5ik2oJournal};
use super::row::{Fate, Row};
use super::rows::{Range, Rows, Step};
use annals::journal::{Appended, Stamped};
use annals::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How often and how long somebody else's batch is waited for before it is given up for dead.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// How often is looked at all: batches of others that grow, die and are closed.
const ROUNDS_MAX: usize = 64;
/// How many rows are asked for at once: the first append behind what is expected says it all.
const PAGE: u32 = 16;

/// Where an append may be put.
pub(super) enum Proof {
    At(Head),
    /// It has landed before.
    Landed(Appended),
    Taken(Vec<Event>),
}

/// What stands behind a number.
enum Behind {
    /// Nothing that counts; the number that comes next.
    Nothing(u64),
    /// A batch without its end; one of its members.
    Open(Box<Row>),
    /// One whose end somebody took; one of its members that is not closed yet.
    Dead(Box<Row>),
    /// The rows of the first append that counts, or counted.
    Append(Vec<Row>),
    /// The number itself is not there.
    PastTheEnd,
}

impl J5ik2oJournal {
    /// Finds out whether the event of a number is last, and where its successor goes.
    pub(super) async fn prove(
        &self,
        id: &PersistenceId,
        last: u64,
        stamped: &Stamped,
    ) -> Result<Proof> {
        let mut looks = 0;
        let mut seen = None;
        for _ in 0..ROUNDS_MAX {
            let open = match self.behind(id, last).await? {
                Behind::PastTheEnd => return Ok(Proof::Taken(Vec::new())),
                Behind::Nothing(next) => return Ok(Proof::At(Head { last, next })),
                Behind::Append(rows) => return self.judge(id, &rows, stamped),
                Behind::Dead(row) => {
                    self.close(id, &row).await?;
                    continue;
                }
                Behind::Open(row) => row,
            };
            if open.token(self.columns())? == stamped.token {
                // Nobody took its last number, so it can become whole yet, by us or by whoever was
                // given the same append. It must not be put anywhere else, nor be called refused.
                let next = open.begin();
                return Ok(Proof::At(Head { last, next }));
            }
            if looks == LOOKS {
                self.close(id, &open).await?;
                looks = 0;
                continue;
            }
            looks += 1;
            self.store.clock().sleep(PAUSE * looks).await;
            if seen.replace(open.number) != Some(open.number) {
                looks = 1;
            }
        }
        Err(Error::unavailable(
            "other writers' appends keep being under way; try again",
        ))
    }

    /// The first append behind a number is somebody's.
    fn judge(&self, id: &PersistenceId, rows: &[Row], stamped: &Stamped) -> Result<Proof> {
        let Some(end) = rows.last() else {
            return Ok(Proof::Taken(Vec::new()));
        };
        if end.token(self.columns())? == stamped.token {
            let time_ms = end.time_ms(self.columns());
            let head = Head {
                last: end.number,
                next: end.number + 1,
            };
            self.learn(id, head);
            return self.landed(id, (end.number, time_ms), stamped);
        }
        let mut events = Vec::new();
        for row in rows {
            // Events behind the expected one were deleted: they were there, and that is all.
            if !row.is_live() {
                return Ok(Proof::Taken(Vec::new()));
            }
            events.extend(row.event(id, self.section())?.map(|(event, _)| event));
        }
        Ok(Proof::Taken(events))
    }

    /// An append that landed before, its answer lost: it ends with this number, at this time.
    fn landed(
        &self,
        id: &PersistenceId,
        (end, time_ms): (u64, u64),
        stamped: &Stamped,
    ) -> Result<Proof> {
        let count = stamped.append.events.len() as u64;
        let ends = SequenceNumber::new(end.saturating_sub(count - 1)).zip(SequenceNumber::new(end));
        let (first, last) = ends.ok_or_else(|| {
            Error::corrupt(format!(
                "an append stands before the first number. id=`{id}`"
            ))
        })?;
        Ok(Proof::Landed(Appended {
            first,
            last,
            time_ms,
            has_snapshot: false,
        }))
    }

    async fn behind(&self, id: &PersistenceId, last: u64) -> Result<Behind> {
        let range = Range {
            page: Some(PAGE),
            ..Range::between(last + 1, u64::MAX)
        };
        let mut rows = Rows::of(self, id, range);
        let mut batches = Batches::default();
        let (mut open, mut closing) = (None, None);
        let mut next = last + 1;
        while let Some(step) = rows.next().await? {
            let row = match step {
                Step::Row(row) => row,
                Step::Missing(from, to, begin) => {
                    batches.miss(from, to, begin);
                    continue;
                }
            };
            next = row.number + 1;
            if row.fate == Fate::Closed {
                closing = Some(Box::new(row))
                    .filter(|row| row.is_closing())
                    .or(closing);
                continue;
            }
            // A member that was deleted on its own still tells of its batch.
            open = (!row.is_end()).then(|| Box::new(row.clone()));
            match batches.push(row) {
                Verdict::Alone(row) => return Ok(Behind::Append(vec![row])),
                Verdict::Whole(mut whole) => {
                    self.fill(id, &mut whole).await?;
                    return Ok(Behind::Append(whole.rows));
                }
                Verdict::Waits => {}
            }
        }
        let before = match rows.before().cloned() {
            None if last > 0 => self.find(id, last).await?,
            before => before,
        };
        let is_there = last == 0 || before.is_some() || rows.is_anchored();
        // What is expected may be inside a batch that is not whole.
        let around = before.filter(|row| row.is_closing() || (row.is_live() && !row.is_end()));
        let (around, closing) = match around {
            Some(row) if row.is_closing() => (None, closing.or(Some(Box::new(row)))),
            around => (around.map(Box::new), closing),
        };
        let open = open.or(around);
        // Numbers that the mark tells of were used, also where nothing is left of them.
        let used = rows.mark().high;
        if open.is_none() && next <= used {
            return match last < used {
                true => Ok(Behind::Append(Vec::new())),
                false => Ok(Behind::Nothing(used + 1)),
            };
        }
        Ok(match (open, closing) {
            (Some(open), _) if next > open.end() => Behind::Dead(open),
            (Some(open), _) => Behind::Open(open),
            (None, Some(closing)) => Behind::Dead(closing),
            (None, None) if !is_there => Behind::PastTheEnd,
            (None, None) => Behind::Nothing(next),
        })
    }
}
