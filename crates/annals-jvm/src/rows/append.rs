//! Append: a put for each event, on the condition that its key is free.
//!
//! The first event is put first, so that one of two concurrent appends wins. The last event is put
//! last, so that it proves that all others are stored. Those in between are put concurrently.
//!
//! Guarantees: of several writers that expect the same last event, one wins. An acknowledged append
//! is complete. A put that fails because an earlier attempt succeeded is not a conflict. No key is
//! overwritten.

use futures::stream::{self, StreamExt, TryStreamExt};

use super::format::RowAppend;
use super::last_event::{LastEvent, Wanted, prove};
use super::row::{BatchIndex, Head, NewRow, Row, sequence_number};
use annals::items::{Item, Write};
use annals::journal::{AppendError, Appended, Conflict, Expected, Stamped};
use annals::{Error, Event, PersistenceId, Result};

/// The number of attempts while other writers are faster.
const TRIES_MAX: usize = 32;
/// The maximum number of events in an append: each is a request.
pub(crate) const EVENTS_MAX: usize = 10_000;
/// How many events between the first and the last are put concurrently.
const PUTS_AT_ONCE: usize = 25;

/// How an append ended.
enum Ended {
    Stored(Appended),
    /// Another writer's events are stored; those that were read.
    Taken(Vec<Event>),
    /// The events after the expected one are deleted, and so are their tokens.
    Forgotten,
}

/// How the puts of an append ended.
enum Rows {
    Stored(Appended),
    /// Another writer's row has the key of one of ours.
    Taken(Box<Row>),
    /// A deletion freed the key, below the low marker. The rows were removed again.
    Below,
}

/// A row to put.
struct Placed {
    number: u64,
    batch: Option<BatchIndex>,
    item: Item,
}

pub(super) async fn append<F: RowAppend>(
    format: &F,
    id: &PersistenceId,
    expected: Expected,
    stamped: &Stamped,
) -> Result<Appended, AppendError> {
    let after = |last| Wanted { id, last, stamped };
    let ended = match expected {
        Expected::Empty => append_after(format, &after(0)).await?,
        Expected::Last(number) => append_after(format, &after(number.get())).await?,
        Expected::Any => append_anywhere(format, id, stamped).await?,
    };
    let found = match ended {
        Ended::Stored(appended) => return Ok(appended),
        Ended::Taken(found) => found,
        Ended::Forgotten => Vec::new(),
    };
    Err(AppendError::Conflict(Box::new(Conflict::new(
        id.clone(),
        expected,
        found,
    ))))
}

/// Appends after the last event.
async fn append_anywhere<F: RowAppend>(
    format: &F,
    id: &PersistenceId,
    stamped: &Stamped,
) -> Result<Ended> {
    let known = format.base().head(id).map(|head| head.last);
    let mut last = match known {
        Some(known) => known,
        None => format.tail(id).await?.append_after,
    };
    for _ in 0..TRIES_MAX {
        match append_after(format, &Wanted { id, last, stamped }).await? {
            Ended::Stored(appended) => return Ok(Ended::Stored(appended)),
            Ended::Forgotten => last = format.tail(id).await?.append_after,
            Ended::Taken(found) => {
                let end = found.last().map(|event| event.sequence_number.get());
                last = match end.filter(|_| last == known.unwrap_or(0)) {
                    Some(end) => end,
                    None => format.tail(id).await?.append_after,
                };
            }
        }
    }
    Ok(Ended::Taken(Vec::new()))
}

/// Appends after the expected event, if it is last.
async fn append_after<F: RowAppend>(format: &F, wanted: &Wanted<'_>) -> Result<Ended> {
    let Wanted { id, last, stamped } = *wanted;
    let known = format.base().head(id);
    let mut known = known.filter(|head| head.last == last);
    for _ in 0..TRIES_MAX {
        let head = match known.take() {
            Some(head) => head,
            None => match prove(format, wanted).await? {
                LastEvent::At(head) => head,
                LastEvent::Stored(appended) => return Ok(Ended::Stored(appended)),
                LastEvent::Taken(found) => return Ok(Ended::Taken(found)),
                LastEvent::Forgotten => return Ok(Ended::Forgotten),
            },
        };
        let row = match put_rows(format, id, head, stamped).await? {
            Rows::Stored(appended) => return Ok(Ended::Stored(appended)),
            Rows::Taken(row) => row,
            Rows::Below => continue,
        };
        // A single event right after the expected one: the conflicting row is all there is.
        let is_next = row.number == head.next && head.next == last + 1;
        if is_next
            && row.batch.is_none()
            && row.is_live()
            && let Some((event, _)) = format.event(id, &row)?
        {
            format.base().learn(id, Head::after(head.next, head.high));
            return Ok(Ended::Taken(vec![event]));
        }
    }
    Err(Error::unavailable(
        "other writers keep appending first; try again",
    ))
}

async fn put_rows<F: RowAppend>(
    format: &F,
    id: &PersistenceId,
    head: Head,
    stamped: &Stamped,
) -> Result<Rows> {
    let rows = rows(format, id, head.next, stamped)?;
    format.prepare().await?;
    let put = |row| put_row(format, id, row, stamped);
    let time_ms = match put_in_order(rows, put).await? {
        Ok(time_ms) => time_ms,
        Err(row) => return Ok(Rows::Taken(row)),
    };
    if !format.is_above_deleted(id, head).await? {
        take_back(format, self::rows(format, id, head.next, stamped)?).await?;
        return Ok(Rows::Below);
    }
    let end = head.next + (stamped.append.events.len() as u64 - 1);
    let new_head = format.acknowledge(id, Head::after(end, head.high)).await?;
    format.base().learn(id, new_head);
    let (first, last) = (sequence_number(id, head.next)?, sequence_number(id, end)?);
    Ok(Rows::Stored(Appended::new(first, last, time_ms)))
}

/// Removes the rows of an append, unless they were replaced.
async fn take_back<F: RowAppend>(format: &F, rows: Vec<Placed>) -> Result<()> {
    let base = format.base();
    for placed in rows {
        let row = format.row(placed.item)?;
        if let Some(condition) = format.unchanged(&row) {
            let key = base.table.key_of(&row.item)?;
            base.write_if(Write::Delete(key), condition).await?;
        }
    }
    Ok(())
}

/// Puts rows in order; returns the outcome of the first put, or a conflicting row.
async fn put_in_order<Fut>(
    rows: Vec<Placed>,
    put: impl Fn(Placed) -> Fut,
) -> Result<Result<u64, Box<Row>>>
where
    Fut: Future<Output = Result<Result<u64, Box<Row>>>>,
{
    let mut rows = rows.into_iter();
    let Some(first) = rows.next() else {
        return Err(Error::invalid("an append has at least one event"));
    };
    let last = rows.next_back();
    let time_ms = match put(first).await? {
        Ok(time_ms) => time_ms,
        taken => return Ok(taken),
    };
    let mut taken = None;
    let mut between = stream::iter(rows).map(&put).buffer_unordered(PUTS_AT_ONCE);
    while let Some(put) = between.try_next().await? {
        taken = taken.or(put.err());
    }
    if let (None, Some(last)) = (&taken, last) {
        taken = put(last).await?.err();
    }
    Ok(taken.map_or(Ok(time_ms), Err))
}

/// Puts a row; returns when it was appended, or the conflicting row.
async fn put_row<F: RowAppend>(
    format: &F,
    id: &PersistenceId,
    row: Placed,
    stamped: &Stamped,
) -> Result<Result<u64, Box<Row>>> {
    let Some(existing) = format.base().put_new(row.item).await? else {
        return Ok(Ok(stamped.time_ms));
    };
    format.check_owner(id, row.number, &existing)?;
    let found = format.row(existing)?;
    // Also if it was deleted meanwhile.
    let is_ours = found.batch == row.batch && format.token(&found)? == Some(stamped.token);
    match is_ours && !found.is_closed() {
        true => Ok(Ok(format.time_ms(&found))),
        false => Ok(Err(Box::new(found))),
    }
}

/// The rows of an append, starting at this number.
fn rows<F: RowAppend>(
    format: &F,
    id: &PersistenceId,
    first: u64,
    stamped: &Stamped,
) -> Result<Vec<Placed>> {
    let events = &stamped.append.events;
    if events.len() > EVENTS_MAX {
        return Err(Error::invalid(format!(
            "an append on this layout has at most {EVENTS_MAX} events; split it"
        ))
        .fact("id", id)
        .fact("events", events.len()));
    }
    let last = events.len() as u64 - 1;
    let rows = events.iter().zip(0..).map(|(event, index)| {
        let number = sequence_number(id, first.saturating_add(index))?;
        let batch = (last > 0).then_some(BatchIndex { index, last });
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
        Ok(Placed {
            number: number.get(),
            batch,
            item: format.item(&row)?,
        })
    });
    rows.collect()
}
