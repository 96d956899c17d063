//! The feed: what changes of rows and markers mean.
//!
//! The last row of an append is put after all others, so its position is the place of the append. A
//! single event is in that row; the events of a batch are read with a replay of the batch. Every other
//! change of a row belongs to an append, a deletion or a purge that has another place.
//!
//! Guarantees: an append has one place, and is fed only if a replay would deliver it. A deletion is fed
//! when the low marker is raised and again when its rows are deleted, a purge when the item that it
//! removes last is gone.
//! Trusts: that only our writers wrote to the store. No plugin can write to a store that has changes.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;

use super::format::{RowFormat, RowIds, RowTable};
use super::row::Row;
use super::{RowJournal, replay};
use annals::items::{Change, Changed, Item, Key, TableSpec};
use annals::journal::{FeedLayout, Fetched, Meaning, Window};
use annals::{Error, ErrorKind, Event, PersistenceId, Result, SequenceNumber, Token};

/// How often a batch is read again that is deleted while it is read.
const TRIES_MAX: usize = 4;

/// What a changed item is, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FedItem {
    /// A row, with its sequence number if the key shows it.
    Row(Option<u64>),
    /// A marker of deletions.
    LowMarker,
}

/// What a format tells the feed.
pub(crate) trait RowFeed: RowTable {
    /// The id of a change, and what changed; `None` if it is of another journal, or of an item that
    /// says nothing, or if only the value had the id.
    fn fed_item(&self, change: &Change) -> Option<(PersistenceId, FedItem)>;

    /// The first number that is not deleted, according to a marker of deletions.
    ///
    /// # Errors
    /// `Corrupt` if the marker was altered since we wrote it.
    fn low_in(&self, id: &PersistenceId, marker: &Item) -> Result<u64>;

    /// Whether a purge removes this item last.
    fn ends_purge(&self, item: FedItem) -> bool;

    /// Whether a deletion frees keys, so that a row may be put below the low marker. Its writer notices
    /// it and removes the row.
    fn frees_keys(&self) -> bool {
        false
    }

    /// The row under a key that does not have the id.
    fn row_under(
        &self,
        _key: &Key,
    ) -> impl Future<Output = Result<Option<(PersistenceId, Row)>>> + Send {
        std::future::ready(Ok(None))
    }
}

#[async_trait]
impl<F: RowFormat> FeedLayout for RowJournal<F> {
    fn table(&self) -> &Arc<TableSpec> {
        &self.0.base().table
    }

    fn journal_name(&self) -> Option<&str> {
        RowIds::journal_name(&self.0)
    }

    async fn is_listed(&self, id: &PersistenceId) -> Result<bool> {
        RowIds::is_listed(&self.0, id).await
    }

    fn id_of(&self, change: &Change) -> Option<PersistenceId> {
        self.0.fed_item(change).map(|(id, _)| id)
    }

    /// The change was the put of a row. It is reported if it may have been the end of an append.
    async fn look_up(&self, key: &Key) -> Result<Option<(PersistenceId, Meaning)>> {
        let Some((id, row)) = self.0.row_under(key).await? else {
            return Ok(None);
        };
        let number = sequence_number(&id, row.number)?;
        Ok(Some((id, Meaning::Elsewhere(number, None))))
    }

    fn meaning(&self, id: &PersistenceId, change: Change) -> Result<Meaning> {
        let Some((_, item)) = self.0.fed_item(&change) else {
            return Ok(Meaning::Nothing);
        };
        Ok(match (item, change.now) {
            (item, Changed::Deleted) if change.has_replaced && self.0.ends_purge(item) => {
                Meaning::Purged
            }
            (_, Changed::Deleted) => Meaning::Nothing,
            (FedItem::LowMarker, Changed::Put(marker)) => {
                let deleted_to = self.0.low_in(id, &marker)?.saturating_sub(1);
                SequenceNumber::new(deleted_to).map_or(Meaning::Nothing, Meaning::Deleted)
            }
            // The marker was raised again, or removed by a purge: a later change says more.
            (FedItem::LowMarker, Changed::Erased) => Meaning::Nothing,
            // A deletion, or the closing of an abandoned batch. No row is replaced by a live one.
            (FedItem::Row(_), _) if change.has_replaced => Meaning::Nothing,
            (FedItem::Row(number), Changed::Erased) => {
                let number = number.and_then(SequenceNumber::new);
                number.map_or(Meaning::Nothing, |number| Meaning::Elsewhere(number, None))
            }
            (FedItem::Row(_), Changed::Put(item)) => new_row(&self.0, id, item)?,
        })
    }

    /// `number` is that of the append's last event.
    async fn fetch(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
        token: Option<Token>,
    ) -> Result<Fetched> {
        for _ in 0..TRIES_MAX {
            let row = match now(&self.0, row_of(&self.0, id, number).await?, token)? {
                Now::Live(row) => row,
                Now::Is(fetched) => return Ok(fetched),
            };
            match events_of(&self.0, id, &row).await {
                Ok(events) if events.is_empty() => return without_events(&self.0, id, &row).await,
                Ok(events) => return Ok(Fetched::Events(events)),
                // It was deleted while it was read.
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => return Err(error),
            }
        }
        let what = "events are being deleted while the feed reads them; read again";
        Err(Error::unavailable(what).fact("id", id))
    }
}

/// What a new row means.
fn new_row<F: RowFeed>(format: &F, id: &PersistenceId, item: Item) -> Result<Meaning> {
    let row = format.row(item)?;
    // No reader counts a batch of one.
    let is_lone_batch = row.batch.is_some_and(|batch| batch.last == 0);
    if !row.is_live() || !row.is_end() || is_lone_batch {
        return Ok(Meaning::Nothing);
    }
    if row.batch.is_some() || format.frees_keys() {
        let number = sequence_number(id, row.number)?;
        return Ok(Meaning::Elsewhere(number, format.token(&row)?));
    }
    let event = format.event(id, &row)?;
    Ok(event.map_or(Meaning::Nothing, |(event, _)| {
        Meaning::Appended(vec![event])
    }))
}

/// What is under the key of an append's last row now.
enum Now {
    Live(Row),
    Is(Fetched),
}

/// Without a token, the value of the row that the feed asks for was erased: it was deleted, closed, or
/// removed by a purge.
///
/// - Events are never lost by this: no change replaces a live row by a live one, so an erased row counts
///   for no replay. If it was the last of a batch, the whole batch is deleted, since deletions go in the
///   order of numbers; if it was another member, the batch has the place of its last one.
/// - Events are never fed twice: a live row that is there now was put later under a key that a purge
///   freed, and has a place of its own.
fn now<F: RowFeed>(format: &F, row: Option<Row>, token: Option<Token>) -> Result<Now> {
    let Some(row) = row else {
        return Ok(Now::Is(Fetched::Deleted));
    };
    if row.is_closed() {
        return Ok(Now::Is(Fetched::Nothing));
    }
    if row.is_deleted() {
        // A deleted member of a batch keeps its position, unless it was deleted unread.
        let is_member = token.is_none() && !row.is_end();
        return Ok(Now::Is(match is_member {
            true => Fetched::Nothing,
            false => Fetched::Deleted,
        }));
    }
    // The token of another append, after a purge: the one that was asked for is gone.
    let is_wanted = token.is_some() && format.token(&row)? == token;
    Ok(match is_wanted {
        true => Now::Live(row),
        false => Now::Is(Fetched::Deleted),
    })
}

/// The row of a number as it is stored now.
async fn row_of<F: RowTable>(
    format: &F,
    id: &PersistenceId,
    number: SequenceNumber,
) -> Result<Option<Row>> {
    let numbers = (number.get(), number.get());
    format.rows(id, numbers).try_next().await
}

/// The events of the append that a row ends, as a replay delivers them.
async fn events_of<F: RowFormat>(format: &F, id: &PersistenceId, end: &Row) -> Result<Vec<Event>> {
    let (from, to) = (
        sequence_number(id, end.begin())?,
        sequence_number(id, end.number)?,
    );
    let replay = replay::start(format.clone(), id.clone(), Window::from(from).to(to));
    let mut events: Vec<Event> = replay.try_collect().await?;
    // Unless it was purged and another one is there now.
    let token = format.token(end)?;
    events.retain(|event| Some(event.token) == token);
    Ok(events)
}

/// Why an append has no events although its last row was live.
async fn without_events<F: RowTable>(format: &F, id: &PersistenceId, row: &Row) -> Result<Fetched> {
    let number = sequence_number(id, row.number)?;
    let is_deleted = format.markers(id).await?.low > row.number
        || row_of(format, id, number).await?.as_ref() != Some(row);
    Ok(match is_deleted {
        true => Fetched::Deleted,
        // A batch that is not complete, which replays leave out too.
        false => Fetched::Nothing,
    })
}

fn sequence_number(id: &PersistenceId, number: u64) -> Result<SequenceNumber> {
    SequenceNumber::new(number).ok_or_else(|| {
        Error::corrupt("an item in the journal has no sequence number").fact("id", id)
    })
}
