//! Proving what is last: before an append whose place this process does not know from its own writes
//! and reads, or was wrong about.
//!
//! Promises: an append is refused only where it can never land any more; one that has landed, its
//! answer lost, is known again, also where it was deleted since, unless so much was deleted with it
//! that only its number is left (`deletion.rs`); a batch of ours that was cut off is gone on with
//! where it stands.
//! Trusts: that the number behind the last row never becomes smaller.

use std::time::Duration;

use super::journal::{AkkaJournal, Head};
use super::keys::{PARTITION, by_hundreds, hundred};
use super::lookup::Tail;
use super::replay::first_append;
use super::row::{Row, forgotten};
use annals::items::{Condition, WriteError};
use annals::journal::{Appended, Stamped};
use annals::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How often and how long somebody else's batch is waited for before it is given up for dead.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);

/// Where an append may be put.
pub(super) enum Proof {
    At(Head),
    /// It has landed before.
    Landed(Appended),
    Taken(Vec<Event>),
    /// Behind the expected event others were deleted of which nobody knows any more whose they were.
    Forgotten,
}

/// An append, and behind which number it is wanted.
struct Wanted<'a> {
    id: &'a PersistenceId,
    last: u64,
    stamped: &'a Stamped,
}

impl AkkaJournal {
    /// Finds out whether the event of a number is last, and where its successor goes.
    pub(super) async fn prove(
        &self,
        id: &PersistenceId,
        last: u64,
        stamped: &Stamped,
    ) -> Result<Proof> {
        let wanted = Wanted { id, last, stamped };
        let mut tail = self.marked_tail(id).await?;
        let mut looks = 0;
        loop {
            if let Some(proof) = self.judge(&wanted, &tail).await? {
                return Ok(proof);
            }
            if looks == LOOKS {
                return Ok(Proof::At(head_of(&tail, last)));
            }
            looks += 1;
            self.store.clock().sleep(PAUSE * looks).await;
            let now = self.marked_tail(id).await?;
            if now.highest != tail.highest {
                looks = 1;
            }
            tail = now;
        }
    }

    /// The end of an id's history, mended where it misleads others. The high mark is raised to it: a replay that begins behind a batch
    /// which died does not know where that was to end, and goes as far as the mark says.
    async fn marked_tail(&self, id: &PersistenceId) -> Result<Tail> {
        let mut tail = self.tail(id).await?;
        let last = tail.last.as_ref().map_or(0, |row| row.number.get());
        if hundred(last) * PARTITION > tail.marks.high {
            tail.marks.high = self.raise_high(id, last).await?;
        }
        // Whoever asks for the highest would believe this row.
        let is_told = tail.last.as_ref().is_some_and(|row| self.is_told(row));
        if is_told && last + 1 < tail.marks.low {
            self.take_number(id, tail.marks.low - 1).await?;
        }
        Ok(tail)
    }

    /// Puts an emptied item where the JVM removed the last event and failed to remove one of ours
    /// before it: as a deletion of ours would have left it.
    async fn take_number(&self, id: &PersistenceId, number: u64) -> Result<()> {
        let item = self.table.key().item_of(&self.keys.event(id, number));
        let put = self
            .store
            .put(&self.table, forgotten(item), Condition::Absent);
        match put.await {
            Ok(_) | Err(WriteError::Refused { .. }) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// `None` where somebody else's batch is under way, or was.
    async fn judge(&self, wanted: &Wanted<'_>, tail: &Tail) -> Result<Option<Proof>> {
        let Wanted { id, last, stamped } = *wanted;
        if last > tail.highest {
            return Ok(Some(Proof::Taken(Vec::new())));
        }
        let open = tail.open();
        if let Some(open) = open.filter(|open| open.begin() > last)
            && open.token()? == Some(stamped.token)
        {
            // Nobody took its last number, so it can become whole yet, by us or by whoever was
            // given the same append. It must not be put anywhere else, nor be called refused.
            let mut head = head_of(tail, last);
            head.next = open.begin();
            return Ok(Some(Proof::At(head)));
        }
        let from = SequenceNumber::new(last + 1).filter(|_| last < tail.highest);
        let is_cut = last + 1 < tail.marks.low;
        let found = match from.filter(|_| !is_cut) {
            Some(from) => first_append(self, id, from).await?,
            None => Some(Vec::new()).filter(|_| !is_cut),
        };
        // Events behind the expected one were deleted: they were there.
        let Some(found) = found else {
            return self.judge_deleted(wanted, tail).await.map(Some);
        };
        match (found.first().zip(found.last()), open) {
            (Some((first, end)), _) if first.token == stamped.token => {
                let end = end.sequence_number.get();
                let landed = self.landed(wanted, tail, (end, first.time_ms));
                landed.await.map(Some)
            }
            (Some(_), _) => Ok(Some(Proof::Taken(found))),
            (None, Some(_)) => Ok(None),
            (None, None) => Ok(Some(Proof::At(head_of(tail, last)))),
        }
    }

    /// Whether the append is the first one that counts behind what it expected, deleted by now in
    /// whole or in part. Where that was forgotten of its first events, its last may still tell.
    async fn judge_deleted(&self, wanted: &Wanted<'_>, tail: &Tail) -> Result<Proof> {
        let mut is_forgotten = false;
        let expected_end = wanted.last + wanted.stamped.append.events.len() as u64;
        'rows: for (from, to) in by_hundreds(wanted.last + 1, tail.highest) {
            for item in self.items_between(wanted.id, from, to).await? {
                let row = Row::of(&self.keys, item)?;
                if is_forgotten && row.number.get() > expected_end {
                    break 'rows;
                }
                if row.is_forgotten() {
                    is_forgotten = true;
                    continue;
                }
                // A last member is put when all others are there.
                let is_end = row.batch.is_none_or(|place| place.index == place.last);
                if is_end && row.token()? == Some(wanted.stamped.token) {
                    let end = (row.number.get(), row.time_ms());
                    return self.landed(wanted, tail, end).await;
                }
                if is_end {
                    break 'rows;
                }
            }
        }
        Ok(match is_forgotten {
            true => Proof::Forgotten,
            false => Proof::Taken(Vec::new()),
        })
    }

    /// An append that landed before, its answer lost: it ends with this number, at this time.
    async fn landed(
        &self,
        wanted: &Wanted<'_>,
        tail: &Tail,
        (end, time_ms): (u64, u64),
    ) -> Result<Proof> {
        let head = Head {
            last: end,
            next: end + 1,
            high: tail.marks.high,
        };
        self.acknowledge(wanted.id, head).await?;
        let count = wanted.stamped.append.events.len() as u64;
        let ends = SequenceNumber::new(end.saturating_sub(count - 1)).zip(SequenceNumber::new(end));
        let (first, last) = ends.ok_or_else(|| {
            let id = wanted.id;
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

    /// Raises the high mark where that is due, and remembers what is last.
    pub(super) async fn acknowledge(&self, id: &PersistenceId, mut head: Head) -> Result<()> {
        if hundred(head.last) * PARTITION > head.high {
            head.high = self.raise_high(id, head.last).await?;
        }
        self.learn(id, head);
        Ok(())
    }
}

fn head_of(tail: &Tail, last: u64) -> Head {
    Head {
        last,
        next: tail.next,
        high: tail.marks.high,
    }
}
