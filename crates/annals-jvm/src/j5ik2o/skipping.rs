//! Taking numbers that no event has, as what is there anyway: rows of a batch that was given up.
//!
//! Between events every number gets one. Of numbers that count as deleted the first and the last have
//! a row, and the mark tells of all of them: a writer that was frozen since before wants the first,
//! and the plugin goes by the last. The first is taken before the mark is raised, so it is a row that
//! was given up: one of a deleted event that the mark does not tell of would be damage.
//!
//! Promises: safe to repeat and to be cut off.
//! Trusts: whoever calls the numbers deleted to have no event among them.
//! Never: overwrites a key.

use super::append::EVENTS_MAX;
use super::closing::refused_for_nothing;
use super::journal::{Head, J5ik2oJournal};
use super::lookup::Tail;
use super::mark::Mark;
use super::row::{NewRow, Tombstone};
use annals::items::{Condition, Item, WriteError};
use annals::journal::Skip;
use annals::{Error, NewEvent, PersistenceId, Result, SequenceNumber};

pub(super) async fn skip(journal: &J5ik2oJournal, id: &PersistenceId, skip: Skip) -> Result<()> {
    let to = skip.to.get();
    let tail = journal.tail(id).await?;
    if tail.open().is_some() || tail.highest > to {
        return Err(taken(id, to));
    }
    match skip.is_deleted {
        true => journal.skip_deleted(id, skip, &tail).await,
        false => journal.skip_between(id, skip, &tail).await,
    }
}

impl J5ik2oJournal {
    async fn skip_deleted(&self, id: &PersistenceId, skip: Skip, tail: &Tail) -> Result<()> {
        let to = skip.to.get();
        if tail.highest < to {
            let first = tail.highest + 1;
            let row = self.tombstone_at(given_up(id, (first, first), skip), first)?;
            self.take(id, first, row.closed(self.columns())).await?;
        }
        // Before the last row is there: numbers before a row that nothing explains would be missing.
        let mark = Mark {
            low: to + 1,
            done: to,
            high: to,
        };
        self.raise(id, mark, tail.mark).await?;
        self.heads.forget(id);
        self.take_deleted(id, to, skip).await
    }

    async fn skip_between(&self, id: &PersistenceId, skip: Skip, tail: &Tail) -> Result<()> {
        let to = skip.to.get();
        // As many at once as a batch may have.
        for begin in (tail.highest + 1..=to).step_by(EVENTS_MAX) {
            let end = to.min(begin + (EVENTS_MAX as u64 - 1));
            let first = self.tombstone_at(given_up(id, (begin, end), skip), begin)?;
            // Nobody who wants the first number is to be taken for a member.
            let item = first.closed(self.columns());
            self.take(id, begin, item).await?;
            if begin < end {
                self.close(id, &first).await?;
            }
        }
        let head = Head {
            last: to,
            next: to + 1,
        };
        self.learn(id, head);
        Ok(())
    }

    /// Takes a number with a row of an event that was deleted.
    async fn take_deleted(&self, id: &PersistenceId, number: u64, skip: Skip) -> Result<()> {
        let key = self.keys.key(id, number)?;
        let mut item = self.table.key().item_of(&key);
        let row = NewRow {
            id,
            number: SequenceNumber::new(number).unwrap_or(skip.to),
            batch: None,
            token: skip.token,
            time_ms: skip.time_ms,
            causation: None,
            correlation: None,
            event: &NewEvent::default(),
        };
        row.fill(&mut item, self.section())?;
        let item = self.row(item)?.marked(self.columns());
        self.take(id, number, item).await
    }

    /// Puts a row that does not count, unless one is there.
    async fn take(&self, id: &PersistenceId, number: u64, item: Item) -> Result<()> {
        let existing = match self.store.put(&self.table, item, Condition::Absent).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Failed(error)) => return Err(error),
            Err(WriteError::Refused { existing, .. }) => existing,
        };
        let existing = existing.ok_or_else(refused_for_nothing)?;
        self.check_owner(id, number, &existing)?;
        match self.row(*existing)?.is_live() {
            false => Ok(()),
            true => Err(taken(id, number)),
        }
    }
}

/// Rows of a batch that was given up.
fn given_up(id: &PersistenceId, (begin, end): (u64, u64), skip: Skip) -> Tombstone<'_> {
    Tombstone {
        id,
        begin,
        end,
        time_ms: skip.time_ms,
    }
}

fn taken(id: &PersistenceId, number: u64) -> Error {
    Error::conflict(format!(
        "somebody else appends meanwhile; do it again when nobody does. id=`{id}`, number=`{number}`"
    ))
}
