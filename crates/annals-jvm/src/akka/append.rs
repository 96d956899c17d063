//! Appending: a put for each event, on the condition that its key is free.
//!
//! The events of a batch are put the first one first, the last one last and the others between
//! them at once. Whoever finds a batch that lacks its last member and has no reason to wait for it
//! takes that member's number: the batch can then never become whole, and its writer is refused.
//!
//! Promises: of writers that believe the same event last one wins; what is acknowledged is whole,
//! and the high mark is known to be raised to its hundred. A refusal by our own earlier success is
//! told from one by somebody else.
//! Never: overwrites a key. Frees one only where it found it below the low mark.

use super::journal::{AkkaJournal, Head};
use super::proof::Proof;
use super::row::{NewRow, Place, Row};
use crate::putting::put_in_order;
use annals::items::{Condition, Item, WriteError};
use annals::journal::{AppendError, Appended, Conflict, Expected, Stamped};
use annals::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How often an append is tried while others keep being quicker.
const TRIES_MAX: usize = 32;
/// The most events of one append: each is a request.
pub(super) const EVENTS_MAX: usize = 10_000;

/// How an append ended.
enum Put {
    Landed(Appended),
    /// Somebody else's events are there, as far as they were seen.
    Taken(Vec<Event>),
    /// What is there was deleted, and nobody knows any more whose it was.
    Forgotten,
}

/// How the puts of an append ended.
enum Rows {
    Landed(Appended),
    /// Somebody else's row is where one of ours was to be.
    Taken(Box<Row>),
    /// The place was freed by a deletion, below the low mark. Nothing was left there.
    Below,
}

impl AkkaJournal {
    pub(super) async fn put_expecting(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: &Stamped,
    ) -> Result<Appended, AppendError> {
        let put = match expected {
            Expected::Empty => self.put_behind(id, 0, stamped).await?,
            Expected::Last(number) => self.put_behind(id, number.get(), stamped).await?,
            Expected::Any => self.put_behind_any(id, stamped).await?,
        };
        let found = match put {
            Put::Landed(appended) => return Ok(appended),
            Put::Taken(found) => found,
            Put::Forgotten => Vec::new(),
        };
        Err(AppendError::Conflict(Box::new(Conflict {
            id: id.clone(),
            expected,
            found,
        })))
    }

    /// Behind whatever is last.
    async fn put_behind_any(&self, id: &PersistenceId, stamped: &Stamped) -> Result<Put> {
        let known = self.heads.get(id).map(|head| head.last);
        let mut last = match known {
            Some(known) => known,
            None => self.tail(id).await?.highest,
        };
        for _ in 0..TRIES_MAX {
            match self.put_behind(id, last, stamped).await? {
                Put::Landed(appended) => return Ok(Put::Landed(appended)),
                Put::Forgotten => last = self.tail(id).await?.highest,
                Put::Taken(found) => {
                    let end = found.last().map(|event| event.sequence_number.get());
                    last = match end.filter(|_| last == known.unwrap_or(0)) {
                        Some(end) => end,
                        None => self.tail(id).await?.highest,
                    };
                }
            }
        }
        Ok(Put::Taken(Vec::new()))
    }

    /// Behind the event of a number, 0 for none, if that is last.
    async fn put_behind(&self, id: &PersistenceId, last: u64, stamped: &Stamped) -> Result<Put> {
        let mut known = self.heads.get(id).filter(|head| head.last == last);
        for _ in 0..TRIES_MAX {
            let head = match known.take() {
                Some(head) => head,
                None => match self.prove(id, last, stamped).await? {
                    Proof::At(head) => head,
                    Proof::Landed(appended) => return Ok(Put::Landed(appended)),
                    Proof::Taken(found) => return Ok(Put::Taken(found)),
                    Proof::Forgotten => return Ok(Put::Forgotten),
                },
            };
            let row = match self.put_rows(id, head, stamped).await? {
                Rows::Landed(appended) => return Ok(Put::Landed(appended)),
                Rows::Taken(row) => row,
                Rows::Below => continue,
            };
            // An event of its own right behind: the writer lags by one, which the refusal repairs.
            let is_next = row.number.get() == head.next && head.next == last + 1;
            if is_next
                && row.batch.is_none()
                && !row.is_gone()
                && let Some((event, _)) = row.event(id)?
            {
                self.learn(
                    id,
                    Head {
                        last: head.next,
                        next: head.next + 1,
                        high: head.high,
                    },
                );
                return Ok(Put::Taken(vec![event]));
            }
        }
        Err(Error::unavailable(
            "other writers keep being quicker; try again",
        ))
    }

    async fn put_rows(&self, id: &PersistenceId, head: Head, stamped: &Stamped) -> Result<Rows> {
        let rows = self.rows(id, head.next, stamped)?;
        self.record().await?;
        let count = rows.len();
        let end = head.next + (count as u64 - 1);
        let put = put_in_order(rows, |row| self.put_row(row, stamped)).await?;
        let time_ms = match put {
            Ok(time_ms) => time_ms,
            Err(row) => return Ok(Rows::Taken(Box::new(row))),
        };
        if self.settings.jvm_deletes && !self.is_above(id, head).await? {
            self.take_back(id, head.next, stamped).await?;
            return Ok(Rows::Below);
        }
        let landed = Head {
            last: end,
            next: end + 1,
            high: head.high,
        };
        self.acknowledge(id, landed).await?;
        Ok(Rows::Landed(Appended {
            first: number(id, head.next)?,
            last: number(id, end)?,
            time_ms,
            has_snapshot: false,
        }))
    }

    /// Whether what was put behind a head is above the low mark. What is removed frees its key, so
    /// that a put alone does not prove it. Nearly always the last event before it is still there.
    async fn is_above(&self, id: &PersistenceId, head: Head) -> Result<bool> {
        if head.last > 0 {
            let key = self.keys.event(id, head.last);
            let found = self.store.get(&self.table, vec![key]).await?.items;
            if let Some(item) = found.into_iter().flatten().next()
                && !Row::of(&self.keys, item)?.is_gone()
            {
                return Ok(true);
            }
        }
        Ok(self.marks(id).await?.low <= head.next)
    }

    /// Removes what an append has just put, unless something else is there by now.
    async fn take_back(&self, id: &PersistenceId, first: u64, stamped: &Stamped) -> Result<()> {
        for item in self.rows(id, first, stamped)? {
            let content = ["event", "pay"].into_iter();
            let mut content = content.filter_map(|name| Some((name, item.get(name)?.clone())));
            let Some((name, value)) = content.next() else {
                continue;
            };
            let condition = Condition::Equals(name.to_owned(), value);
            let key = self.table.key_of(&item)?;
            match self.store.delete(&self.table, key, condition).await {
                Ok(_) | Err(WriteError::Refused { .. }) => {}
                Err(WriteError::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Puts a row; answers when it was appended, or what is there instead.
    async fn put_row(&self, item: Item, stamped: &Stamped) -> Result<Result<u64, Row>> {
        let place = Row::of(&self.keys, item.clone())?.batch;
        match self.store.put(&self.table, item, Condition::Absent).await {
            Ok(_) => Ok(Ok(stamped.time_ms)),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => {
                let existing = existing.ok_or_else(|| {
                    Error::unavailable("the store refused an event for nothing; try again")
                })?;
                let row = Row::of(&self.keys, *existing)?;
                // Also where it was deleted meanwhile.
                match row.batch == place && row.token()? == Some(stamped.token) {
                    true => Ok(Ok(row.time_ms())),
                    false => Ok(Err(row)),
                }
            }
        }
    }

    /// The items of an append whose first event gets this number.
    fn rows(&self, id: &PersistenceId, first: u64, stamped: &Stamped) -> Result<Vec<Item>> {
        let events = &stamped.append.events;
        if events.len() > EVENTS_MAX {
            return Err(Error::invalid(format!(
                "an append on this layout has at most {EVENTS_MAX} events; split it. id=`{id}`, events=`{}`",
                events.len()
            )));
        }
        let last = events.len() as u64 - 1;
        let settings = &self.settings;
        let rows = events.iter().zip(0..).map(|(event, index)| {
            let row = NewRow {
                id,
                number: number(id, first.saturating_add(index))?,
                batch: (last > 0).then_some(Place { index, last }),
                token: stamped.token,
                time_ms: stamped.time_ms,
                causation: stamped.append.causation.as_deref(),
                correlation: stamped.append.correlation.as_deref(),
                event,
            };
            let (item, bytes) = row.to_item(&self.keys, settings.format)?;
            let most = settings.aws_api_limits.max_item_size;
            match bytes > most {
                false => Ok(item),
                true => Err(Error::invalid(format!(
                    "an event on this layout has at most {most} bytes with its key (max-item-size). id=`{id}`, event=`{}`, bytes=`{bytes}`",
                    index + 1
                ))),
            }
        });
        rows.collect()
    }
}

fn number(id: &PersistenceId, number: u64) -> Result<SequenceNumber> {
    SequenceNumber::new(number)
        .ok_or_else(|| Error::invalid(format!("sequence numbers are used up. id=`{id}`")))
}
