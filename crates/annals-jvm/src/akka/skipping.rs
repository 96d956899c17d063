//! Taking numbers that no event has, as what is there anyway: a history that was deleted, or a batch
//! that lacks members.
//!
//! Deleted numbers are below the low mark. The first and the last of them have an emptied item: the
//! first shows a batch that ends behind the last, so that whoever looks meanwhile wants the number
//! behind it too; the last is what the plugin takes for the highest.
//! Numbers between events are of a batch whose first and last but one member are there. The event
//! behind them takes the number of its last member, as behind any batch whose writer died.
//!
//! Promises: the number that the next event gets is known from the first put on, so no append that
//! is acknowledged meanwhile comes to stand below the low mark; safe to repeat and to be cut off.
//! Trusts: whoever calls the numbers deleted to have no event among them.
//! Never: overwrites a key.

use super::journal::{AkkaJournal, Head};
use super::keys::{PARTITION, hundred};
use super::lookup::Tail;
use super::row::{NewRow, Place, Row, forgotten};
use annals::items::{Condition, Item, WriteError};
use annals::journal::Skip;
use annals::{Error, NewEvent, PersistenceId, Result, SequenceNumber};

pub(super) async fn skip(journal: &AkkaJournal, id: &PersistenceId, skip: Skip) -> Result<()> {
    journal.record().await?;
    let tail = journal.tail(id).await?;
    match skip.is_deleted {
        true => journal.skip_deleted(id, skip.to.get(), &tail).await,
        false => journal.skip_between(id, skip, &tail).await,
    }
}

impl AkkaJournal {
    async fn skip_deleted(&self, id: &PersistenceId, to: u64, tail: &Tail) -> Result<()> {
        if tail.marks.low > to {
            return Ok(());
        }
        if tail.next > to + 1 {
            return Err(taken(id, to));
        }
        // Where the JVM deletes too, nothing is left of what is deleted.
        if !self.settings.jvm_deletes {
            let key = |number| self.table.key().item_of(&self.keys.event(id, number));
            if tail.next < to {
                let first = forgotten(key(tail.next)).with("idx", 0u64);
                self.take_place(id, first.with("cnt", to + 1 - tail.next))
                    .await?;
            }
            self.take_place(id, forgotten(key(to))).await?;
        }
        if hundred(to) * PARTITION > tail.marks.high {
            self.raise_high(id, to).await?;
        }
        self.raise_low(id, to + 1, to).await?;
        self.heads.forget(id);
        Ok(())
    }

    async fn skip_between(&self, id: &PersistenceId, skip: Skip, tail: &Tail) -> Result<()> {
        let to = skip.to.get();
        let begin = match tail.next <= to {
            true => tail.next,
            // It was begun before.
            false => tail.open().map_or(to + 1, Row::begin),
        };
        if tail.next > to + 1 || begin > to {
            return Err(taken(id, to));
        }
        let last = to + 1 - begin;
        for index in [0, last - 1] {
            let row = NewRow {
                id,
                number: SequenceNumber::new(begin + index).unwrap_or(skip.to),
                batch: Some(Place { index, last }),
                token: skip.token,
                time_ms: skip.time_ms,
                causation: None,
                correlation: None,
                event: &NewEvent::default(),
            };
            let (item, _) = row.to_item(&self.keys, self.settings.format)?;
            self.take_place(id, item).await?;
        }
        let head = Head {
            last: to,
            next: to + 1,
            high: tail.marks.high,
        };
        self.acknowledge(id, head).await
    }

    /// Puts a row for nothing, unless it is there.
    async fn take_place(&self, id: &PersistenceId, item: Item) -> Result<()> {
        let row = Row::of(&self.keys, item.clone())?;
        let existing = match self.store.put(&self.table, item, Condition::Absent).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Failed(error)) => return Err(error),
            Err(WriteError::Refused { existing, .. }) => existing,
        };
        let existing = existing
            .map(|item| Row::of(&self.keys, *item))
            .transpose()?;
        let is_same = |found: Row| match row.is_gone() {
            true => found.is_gone(),
            false => !found.is_gone() && found.batch == row.batch,
        };
        match existing.is_some_and(is_same) {
            true => Ok(()),
            false => Err(taken(id, row.number.get())),
        }
    }
}

fn taken(id: &PersistenceId, number: u64) -> Error {
    Error::conflict(format!(
        "somebody else appends meanwhile; do it again when nobody does. id=`{id}`, number=`{number}`"
    ))
}
