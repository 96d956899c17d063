//! The row engine: a journal in tables that store one item ("row") per event.
//!
//! Append, last event, batches, replay, skip, deletion and verification are implemented once, here.
//! A [`RowFormat`] has what differs between plugins: keys, bytes, how the rows of a range are read,
//! how the tail is found, and the markers of deletions.
//!
//! Guarantees, on every format:
//! - Each event is put on the condition that its key is free, and a deletion frees no key that one
//!   of our writers may still use. Of two concurrent writers of ours one gets a conflict.
//! - The events of one append are replayed together or not at all.
//! - An append whose response was lost is recognised.
//!
//! The JVM must not append to the same id at the same time: the plugins overwrite without a
//! condition.
//!
//! ```text
//! row         a row, its batch, and the markers of an id
//! format      what a format supplies
//! append      one conditional put per event
//! last_event  is the expected event last, and where does its successor go
//! assembly    which rows count: pure, without I/O
//! replay      the I/O around an assembly
//! delete, skip, verify, feed
//! ```

mod append;
mod assembly;
mod delete;
mod feed;
mod format;
mod last_event;
mod replay;
mod row;
mod skip;
mod verify;

pub(crate) use append::EVENTS_MAX;
pub(crate) use delete::{WRITES_AT_ONCE, rewrite};
pub(crate) use feed::{FedItem, RowFeed};
pub(crate) use format::{
    Base, Deletion, Explained, Passed, Progress, Put, Raise, RowAppend, RowCodec, RowDelete,
    RowFormat, RowIds, RowReader, RowReplay, RowStream, RowTable, RowVerify,
};
pub(crate) use last_event::{After, Wanted};
pub(crate) use replay::Replay;
pub(crate) use row::{BatchIndex, Head, Markers, NewRow, Row, RowState, Tail, improper_batch};
pub(crate) use skip::{in_use, put_placeholder};
pub(crate) use verify::{Checker, FoundMarkers, LeftBatch, VerifyRow};

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;

use annals::IdStream;
use annals::journal::{
    AppendError, Appended, EventStream, Expected, FeedLayout, JournalLayout, Signature, Skip,
    Stamped, Window,
};
use annals::layout::support::{Signatures, verify_scanned};
use annals::verify::{Finding, FindingStream, Repairs};
use annals::{PersistenceId, Result, SequenceNumber};

/// A journal of one item per event, in a format. See
/// [`J5ik2oJournal`](crate::j5ik2o::J5ik2oJournal) for an example.
#[derive(Clone, Debug)]
pub struct RowJournal<F>(pub(crate) F);

/// The appends of a range of sequence numbers. Deleted rows have their token as long as the format
/// keeps it; numbers without a row, always the first ones, have none.
async fn signatures<F: RowTable>(
    format: &F,
    id: &PersistenceId,
    numbers: RangeInclusive<SequenceNumber>,
) -> Result<Vec<Signature>> {
    let (from, to) = numbers.into_inner();
    let mut signatures = Signatures::from(from);
    let mut rows = format.rows(id, (from.get(), to.get()));
    while let Some(row) = rows.try_next().await? {
        if signatures.has_met_none() {
            signatures.forget_before(row.number);
        }
        // The last member is put after all others: it represents its append.
        let number = SequenceNumber::new(row.number).filter(|_| !row.is_closed());
        match (number, format.token(&row)?) {
            (Some(number), None) => signatures.meet(number, None),
            (Some(number), token) if row.is_end() => signatures.meet(number, token),
            _ => signatures.pass(row.number),
        }
    }
    Ok(signatures.until(to))
}

#[async_trait]
impl<F: RowFormat> JournalLayout for RowJournal<F> {
    async fn prepare(&self) -> Result<()> {
        self.0.prepare().await
    }

    async fn append(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: Stamped,
    ) -> Result<Appended, AppendError> {
        append::append(&self.0, id, expected, &stamped).await
    }

    fn replay(&self, id: &PersistenceId, window: Window) -> EventStream {
        replay::start(self.0.clone(), id.clone(), window)
    }

    async fn highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>> {
        Ok(SequenceNumber::new(self.0.highest(id).await?))
    }

    async fn signatures(
        &self,
        id: &PersistenceId,
        numbers: RangeInclusive<SequenceNumber>,
    ) -> Result<Vec<Signature>> {
        signatures(&self.0, id, numbers).await
    }

    async fn delete_to(
        &self,
        id: &PersistenceId,
        to: SequenceNumber,
    ) -> Result<Option<SequenceNumber>> {
        let deleted = delete::delete_to(&self.0, id, to.get()).await?;
        Ok(SequenceNumber::new(deleted))
    }

    async fn deleted_to(&self, id: &PersistenceId) -> Result<Option<u64>> {
        Ok(Some(self.0.markers(id).await?.low.saturating_sub(1)))
    }

    async fn skip(&self, id: &PersistenceId, skip: Skip) -> Result<()> {
        skip::skip(&self.0, id, skip).await
    }

    fn forget_cached(&self) {
        self.0.base().forget_all();
    }

    async fn purge(&self, id: &PersistenceId) -> Result<bool> {
        let is_found = self.0.purge(id).await?;
        self.0.base().forget(id);
        Ok(is_found)
    }

    async fn verify(&self, id: &PersistenceId, repairs: &Repairs) -> Result<Vec<Finding>> {
        verify::verify(&self.0, id, repairs).await
    }

    fn verify_all(self: Arc<Self>) -> FindingStream {
        let entries = self.0.scan_entries();
        verify_scanned((*self).clone(), entries)
    }

    fn persistence_ids(&self, prefix: &str) -> IdStream {
        self.0.ids(prefix)
    }

    fn feed(&self) -> Option<&dyn FeedLayout> {
        Some(self)
    }

    fn other_journals(&self) -> Vec<String> {
        self.0.other_journals()
    }
}
