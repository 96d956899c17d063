//! Appending: a put for each event, on the condition that its key is free.
//!
//! The events of a batch are put the first one first, the last one last and the others between
//! them at once. Whoever finds a batch that lacks its last member and has no reason to wait for it
//! takes that member's number: the batch can then never become whole, and its writer is refused.
//!
//! Promises: of writers that believe the same event last one wins; what is acknowledged is whole,
//! and the high mark is known to be raised to its hundred. A refusal by our own earlier success is
//! told from one by somebody else.
//! Never: overwrites a key, nor frees one.

use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::journal::{AkkaJournal, Head};
use super::keys::{PARTITION, hundred};
use super::lookup::Tail;
use super::row::{NewRow, Place, Row};
use crate::items::{Condition, Item, WriteError};
use crate::journal::{AppendError, Appended, Conflict, Expected, Stamped, Window};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How often an append is tried while others keep being quicker.
const TRIES_MAX: usize = 32;
/// How many events of a batch are put at once.
const AT_ONCE: usize = 25;
/// How often and how long somebody else's batch is waited for before it is given up for dead.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// The most events of one append: each is a request.
const EVENTS_MAX: usize = 10_000;

/// How an append ended.
enum Put {
    Landed(Appended),
    /// Somebody else's events are there, as far as they were seen.
    Taken(Vec<Event>),
}

/// How the puts of an append ended.
enum Rows {
    Landed(Appended),
    /// Somebody else's row is where one of ours was to be.
    Taken(Box<Row>),
}

/// Where an append may be put.
enum Proof {
    At(Head),
    /// It has landed before.
    Landed(Appended),
    Taken(Vec<Event>),
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
        // A try that may have landed is repeated at its place before any other is tried.
        let mut last = match (self.tries.get(id, stamped.token), known) {
            (Some(tried), _) => tried.map_or(0, SequenceNumber::get),
            (None, Some(known)) => known,
            (None, None) => self.tail(id).await?.highest,
        };
        for _ in 0..TRIES_MAX {
            self.tries
                .begin(id, stamped.token, SequenceNumber::new(last));
            match self.put_behind(id, last, stamped).await? {
                Put::Landed(appended) => {
                    self.tries.end(id, stamped.token);
                    return Ok(Put::Landed(appended));
                }
                Put::Taken(found) => {
                    let end = found.last().map(|event| event.sequence_number.get());
                    last = match end.filter(|_| last == known.unwrap_or(0)) {
                        Some(end) => end,
                        None => self.tail(id).await?.highest,
                    };
                }
            }
        }
        self.tries.end(id, stamped.token);
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
                Rows::Landed(appended) => return Ok(Put::Landed(appended)),
                Rows::Taken(row) => row,
            };
            // An event of its own right behind: the writer lags by one, which the refusal repairs.
            if row.batch.is_none() && row.number.get() == head.next && head.next == last + 1 {
                let event = row.event(id)?.map(|(event, _)| event);
                if let Some(event) = event.filter(|_| !row.is_gone()) {
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
        }
        Err(Error::unavailable(
            "other writers keep being quicker; try again",
        ))
    }

    /// Finds out whether the event of a number is last, and where its successor goes.
    async fn prove(&self, id: &PersistenceId, last: u64, stamped: &Stamped) -> Result<Proof> {
        let mut tail = self.tail(id).await?;
        let mut looks = 0;
        loop {
            // Deleted events were there too.
            if last > tail.highest || last + 1 < tail.marks.low {
                return Ok(Proof::Taken(Vec::new()));
            }
            let found = self.found_behind(id, last, &tail).await?;
            match found.first() {
                Some(first) if first.token == stamped.token => {
                    return self.landed(id, &tail, &found).await.map(Proof::Landed);
                }
                Some(_) => return Ok(Proof::Taken(found)),
                None => {}
            }
            let Some(open) = tail.open() else {
                return Ok(Proof::At(head_of(&tail, last)));
            };
            if open.token()? == stamped.token {
                let mut head = head_of(&tail, last);
                head.next = open.number.get() - open.batch.map_or(0, |place| place.index);
                return Ok(Proof::At(head));
            }
            if looks == LOOKS {
                return Ok(Proof::At(head_of(&tail, last)));
            }
            looks += 1;
            self.clock.sleep(PAUSE * looks).await;
            let now = self.tail(id).await?;
            if now.highest != tail.highest {
                looks = 1;
            }
            tail = now;
        }
    }

    /// The first events that count behind a number, of one append.
    async fn found_behind(&self, id: &PersistenceId, last: u64, tail: &Tail) -> Result<Vec<Event>> {
        let from = match SequenceNumber::new(last + 1) {
            Some(from) if last < tail.highest => from,
            _ => return Ok(Vec::new()),
        };
        let mut events = super::replay::start(self.clone(), id.clone(), Window::from(from));
        let mut found: Vec<Event> = Vec::new();
        while let Some(event) = events.try_next().await? {
            let is_next = found.first().is_none_or(|first| first.token == event.token);
            if !is_next || found.len() == EVENTS_MAX {
                break;
            }
            found.push(event);
        }
        Ok(found)
    }

    /// An append that landed before, its answer lost.
    async fn landed(&self, id: &PersistenceId, tail: &Tail, found: &[Event]) -> Result<Appended> {
        let ends = found.first().zip(found.last());
        let (first, last) = ends.ok_or_else(|| Error::unavailable("nothing was found"))?;
        let end = last.sequence_number.get();
        let head = Head {
            last: end,
            next: end + 1,
            high: tail.marks.high,
        };
        self.acknowledge(id, head).await?;
        Ok(Appended {
            first: first.sequence_number,
            last: last.sequence_number,
            time_ms: first.time_ms,
            has_snapshot: false,
        })
    }

    /// Raises the high mark where that is due, and remembers what is last.
    async fn acknowledge(&self, id: &PersistenceId, mut head: Head) -> Result<()> {
        if hundred(head.last) * PARTITION > head.high {
            head.high = self.raise_high(id, head.last).await?;
        }
        self.learn(id, head);
        Ok(())
    }

    async fn put_rows(&self, id: &PersistenceId, head: Head, stamped: &Stamped) -> Result<Rows> {
        let rows = self.rows(id, head.next, stamped)?;
        self.record().await?;
        let count = rows.len();
        let end = head.next + (count as u64 - 1);
        let mut rows = rows.into_iter();
        let first = match rows.next() {
            Some(first) => self.put_row(first, stamped).await?,
            None => return Err(Error::invalid("an append has at least one event")),
        };
        let last = rows.next_back();
        let mut taken = first.as_ref().err().cloned();
        if taken.is_none() {
            let puts = stream::iter(rows).map(|row| self.put_row(row, stamped));
            let mut puts = puts.buffer_unordered(AT_ONCE);
            while let Some(put) = puts.try_next().await? {
                taken = taken.or(put.err());
            }
        }
        if let (None, Some(last)) = (&taken, last) {
            taken = self.put_row(last, stamped).await?.err();
        }
        match (first, taken) {
            (_, Some(row)) | (Err(row), None) => Ok(Rows::Taken(Box::new(row))),
            (Ok(time_ms), None) => {
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
        }
    }

    /// Puts a row; answers when it was appended, or what is there instead.
    async fn put_row(&self, item: Item, stamped: &Stamped) -> Result<Result<u64, Row>> {
        let place = Row::of(&self.keys, item.clone())?.batch;
        match self.items.put(&self.table, item, Condition::Absent).await {
            Ok(_) => Ok(Ok(stamped.time_ms)),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => {
                let existing = existing.ok_or_else(|| {
                    Error::unavailable("the store refused an event for nothing; try again")
                })?;
                let row = Row::of(&self.keys, *existing)?;
                let is_ours = !row.is_gone() && row.batch == place;
                match is_ours && row.token()? == stamped.token {
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
                writer: self.writer(stamped.token),
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

fn head_of(tail: &Tail, last: u64) -> Head {
    Head {
        last,
        next: tail.next,
        high: tail.marks.high,
    }
}

fn number(id: &PersistenceId, number: u64) -> Result<SequenceNumber> {
    SequenceNumber::new(number)
        .ok_or_else(|| Error::invalid(format!("sequence numbers are used up. id=`{id}`")))
}
