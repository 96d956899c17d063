//! Appending: a put for each event, on the condition that its key is free.
//!
//! The events of a batch are put the first one first, the last one last and the others between
//! them at once.
//!
//! Promises: of writers that believe the same event last one wins; what is acknowledged is whole.
//! A refusal by our own earlier success is told from one by somebody else, and one by another id,
//! whose key is the same, from both.
//! Never: overwrites a key.

use super::closing::refused_for_nothing;
use super::journal::{Head, J5ik2oJournal};
use super::proof::Proof;
use super::row::{NewRow, Place, Row};
use crate::putting::put_in_order;
use annals::items::{Condition, Item, WriteError, check_item};
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
}

/// A row to be put, by its number and place.
struct Placed {
    number: u64,
    batch: Option<Place>,
    item: Item,
}

impl J5ik2oJournal {
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
        match put {
            Put::Landed(appended) => Ok(appended),
            Put::Taken(found) => Err(AppendError::Conflict(Box::new(Conflict {
                id: id.clone(),
                expected,
                found,
            }))),
        }
    }

    /// Behind whatever is last.
    async fn put_behind_any(&self, id: &PersistenceId, stamped: &Stamped) -> Result<Put> {
        let known = self.heads.get(id).map(|head| head.last);
        let mut last = match known {
            Some(known) => known,
            None => self.tail(id).await?.settled(),
        };
        for _ in 0..TRIES_MAX {
            match self.put_behind(id, last, stamped).await? {
                Put::Landed(appended) => return Ok(Put::Landed(appended)),
                Put::Taken(found) => {
                    let end = found.last().map(|event| event.sequence_number.get());
                    last = match end.filter(|_| last == known.unwrap_or(0)) {
                        Some(end) => end,
                        None => self.tail(id).await?.settled(),
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
                },
            };
            let row = match self.put_rows(id, head, stamped).await? {
                Ok(appended) => return Ok(Put::Landed(appended)),
                Err(row) => row,
            };
            // An event of its own right behind: the writer lags by one, which the refusal repairs.
            let is_next = row.number == head.next && head.next == last + 1;
            if is_next
                && row.batch.is_none()
                && row.is_live()
                && let Some((event, _)) = row.event(id, self.section())?
            {
                let head = Head {
                    last: head.next,
                    next: head.next + 1,
                };
                self.learn(id, head);
                return Ok(Put::Taken(vec![event]));
            }
        }
        Err(Error::unavailable(
            "other writers keep being quicker; try again",
        ))
    }

    /// Puts the rows of an append; answers what stood in the way of one.
    async fn put_rows(
        &self,
        id: &PersistenceId,
        head: Head,
        stamped: &Stamped,
    ) -> Result<Result<Appended, Box<Row>>> {
        let rows = self.rows(id, head.next, stamped)?;
        let time_ms = match put_in_order(rows, |row| self.put_row(id, row, stamped)).await? {
            Ok(time_ms) => time_ms,
            Err(row) => return Ok(Err(row)),
        };
        let end = head.next + (stamped.append.events.len() as u64 - 1);
        let landed = Head {
            last: end,
            next: end + 1,
        };
        self.learn(id, landed);
        Ok(Ok(Appended {
            first: number(id, head.next)?,
            last: number(id, end)?,
            time_ms,
            has_snapshot: false,
        }))
    }

    /// Puts a row; answers when it was appended, or what is there instead.
    async fn put_row(
        &self,
        id: &PersistenceId,
        row: Placed,
        stamped: &Stamped,
    ) -> Result<Result<u64, Box<Row>>> {
        let put = self.store.put(&self.table, row.item, Condition::Absent);
        let existing = match put.await {
            Ok(_) => return Ok(Ok(stamped.time_ms)),
            Err(WriteError::Failed(error)) => return Err(error),
            Err(WriteError::Refused { existing, .. }) => existing,
        };
        let existing = existing.ok_or_else(refused_for_nothing)?;
        self.check_owner(id, row.number, &existing)?;
        let found = self.row(*existing)?;
        // Also where it was deleted meanwhile.
        let is_ours = found.batch == row.batch && found.token(self.columns())? == stamped.token;
        match is_ours && !found.is_closed() {
            true => Ok(Ok(found.time_ms(self.columns()))),
            false => Ok(Err(Box::new(found))),
        }
    }

    /// The rows of an append whose first event gets this number.
    fn rows(&self, id: &PersistenceId, first: u64, stamped: &Stamped) -> Result<Vec<Placed>> {
        let events = &stamped.append.events;
        if events.len() > EVENTS_MAX {
            return Err(Error::invalid(format!(
                "an append on this layout has at most {EVENTS_MAX} events; split it. id=`{id}`, events=`{}`",
                events.len()
            )));
        }
        let last = events.len() as u64 - 1;
        let rows = events.iter().zip(0..).map(|(event, index)| {
            let number = number(id, first.saturating_add(index))?;
            let batch = (last > 0).then_some(Place { index, last });
            let key = self.keys.key(id, number.get())?;
            let mut item = self.table.key().item_of(&key);
            let row = NewRow {
                id,
                number,
                batch,
                token: stamped.token,
                time_ms: stamped.time_ms,
                causation: stamped.append.causation.as_deref(),
                correlation: stamped.append.correlation.as_deref(),
                event,
            };
            row.fill(&mut item, self.section())?;
            check_item(&self.table, &item).map_err(|cause| {
                let message = format!(
                    "an event does not fit an item of this layout. id=`{id}`, event=`{}`",
                    index + 1
                );
                Error::new(cause.kind(), message).because(cause)
            })?;
            Ok(Placed {
                number: number.get(),
                batch,
                item,
            })
        });
        rows.collect()
    }
}

fn number(id: &PersistenceId, number: u64) -> Result<SequenceNumber> {
    SequenceNumber::new(number)
        .ok_or_else(|| Error::invalid(format!("sequence numbers are used up. id=`{id}`")))
}
