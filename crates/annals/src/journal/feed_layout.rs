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

/// What is left of an append that the feed reads from the journal.
///
/// See [`FeedLayout`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fetched {
    /// Its events that are not deleted, in order; at least one.
    Events(Vec<Event>),
    /// All of its events are deleted.
    Deleted,
    /// It is no append: the item was part of one that was never completed, or of one that has its place
    /// elsewhere.
    Nothing,
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

    /// The name of the journal, if several may share its table. By default none may.
    fn journal_name(&self) -> Option<&str> {
        None
    }

    /// Whether [`persistence_ids`](super::JournalLayout::persistence_ids) lists an id, as it is stored
    /// now. An id is only taken off the list by a change that means [`Meaning::Purged`].
    async fn is_listed(&self, id: &PersistenceId) -> Result<bool>;

    /// The id that a change is about; `None` if it is about none, or if only the item has the id and
    /// its value is gone. Called for every change, so it must be cheap.
    fn id_of(&self, change: &Change) -> Option<PersistenceId>;

    /// The id and the meaning of a new item whose value was erased, if its key does not have the id
    /// ([`id_of`](Self::id_of) returned `None`). By default all keys have the id.
    async fn look_up(&self, key: &Key) -> Result<Option<(PersistenceId, Meaning)>> {
        let _ = key;
        Ok(None)
    }

    /// What a change means for its id.
    ///
    /// # Errors
    /// `Corrupt` if the item does not parse.
    fn meaning(&self, id: &PersistenceId, change: Change) -> Result<Meaning>;

    /// What is left of an append. With a token, only of the token's: a number may be used again after
    /// a purge.
    async fn fetch(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
        token: Option<Token>,
    ) -> Result<Fetched>;
}
