//! What a layout tells the feed about the changes of its journal.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::items::{Change, Key, TableSpec};
use crate::{Event, PersistenceId, Result, SequenceNumber, Token};

/// What a change of an item of a journal means.
///
/// See [`FeedLayout`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meaning {
    /// Nothing: the item is a chunk, a marker or a record, or the change is part of another one.
    Nothing,
    /// These events were appended.
    Appended(Vec<Event>),
    /// The events of the append that has this number are to be read from the journal
    /// ([`FeedLayout::fetch`]): the item does not have all of them.
    Elsewhere(SequenceNumber, Option<Token>),
    /// The events up to this number were deleted.
    Deleted(SequenceNumber),
    /// Everything of the id was removed.
    Purged,
}

/// How a layout's items become entries of the feed. Implemented by layouts; [`JournalLayout::feed`]
/// returns it.
///
/// Relies on a store that has changes, so that an append is complete when its last item is put.
///
/// [`JournalLayout::feed`]: super::JournalLayout::feed
///
/// See [`Journal`](super::Journal) for an example.
#[async_trait]
pub trait FeedLayout: fmt::Debug + Send + Sync {
    /// The journal's table.
    fn table(&self) -> &Arc<TableSpec>;

    /// The id whose events an item with this key may have; `None` if it has none.
    fn id_of(&self, key: &Key) -> Option<PersistenceId>;

    /// What a change means for its id.
    ///
    /// # Errors
    /// `Corrupt` if the item does not parse.
    fn meaning(&self, id: &PersistenceId, change: Change) -> Result<Meaning>;

    /// The events of an append that are not deleted, in order. Empty if none is left, or if they
    /// are of another append than the token's.
    async fn fetch(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
        token: Option<Token>,
    ) -> Result<Vec<Event>>;
}
