//! The traits that a format implements for the engine, and code that both share.

use std::fmt;
use std::sync::Arc;

use futures::stream::BoxStream;
use quick_cache::sync::Cache;

use super::feed::RowFeed;
use super::last_event::{After, Wanted};
use super::replay::Replay;
use super::row::{Head, Markers, NewRow, Row, Tail};
use super::verify::{Checker, FoundMarkers, LeftBatch, VerifyRow};
use crate::settings::AnyLayout;
use annals::IdStream;
use annals::items::{Condition, Item, TableSpec, Write, WriteError};
use annals::journal::{Skip, Window};
use annals::layout::support::ScannedEntry;
use annals::store::Store;
use annals::{Error, Event, PersistenceId, Result, Token};

/// Rows in the order of their numbers.
pub(crate) type RowStream = BoxStream<'static, Result<Row>>;

/// How many ids have their end in memory.
const HEADS_MAX: usize = 100_000;

/// How a conditional put ended.
#[derive(Debug)]
pub(crate) enum Put {
    Stored,
    /// The condition did not hold for this item.
    Refused(Option<Item>),
}

/// The table, and a cache of the ends of histories.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) store: Store,
    pub(crate) table: Arc<TableSpec>,
    pub(crate) settings: Arc<AnyLayout>,
    /// The ends of histories that this process has written or read. One that is out of date is
    /// harmless: the put is refused.
    heads: Arc<Cache<PersistenceId, Head>>,
}

impl Base {
    pub(crate) fn new(store: &Store, table: TableSpec, settings: &AnyLayout) -> Self {
        Self {
            store: store.clone(),
            table: Arc::new(table),
            settings: Arc::new(settings.clone()),
            heads: Arc::new(Cache::new(HEADS_MAX)),
        }
    }

    /// Caches the end of an id's history. It never decreases.
    pub(crate) fn learn(&self, id: &PersistenceId, head: Head) {
        let head = match self.head(id) {
            Some(known) if known.next > head.next => return,
            Some(known) => Head {
                high: head.high.max(known.high),
                ..head
            },
            None => head,
        };
        self.heads.insert(id.clone(), head);
    }

    /// Where an id's history ends, as far as this process knows.
    pub(crate) fn head(&self, id: &PersistenceId) -> Option<Head> {
        self.heads.get(id)
    }

    pub(crate) fn forget(&self, id: &PersistenceId) {
        self.heads.remove(id);
    }

    pub(crate) fn forget_all(&self) {
        self.heads.clear();
    }

    pub(crate) async fn put(&self, item: Item, condition: Condition) -> Result<Put> {
        match self.store.put(&self.table, item, condition).await {
            Ok(_) => Ok(Put::Stored),
            Err(WriteError::Refused { existing, .. }) => {
                Ok(Put::Refused(existing.map(|item| *item)))
            }
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// Puts an item under a free key; returns the item that has the key already.
    pub(crate) async fn put_new(&self, item: Item) -> Result<Option<Item>> {
        match self.put(item, Condition::Absent).await? {
            Put::Stored => Ok(None),
            Put::Refused(Some(existing)) => Ok(Some(existing)),
            Put::Refused(None) => Err(Error::unavailable(
                "the store refused a put under a free key; try again",
            )),
        }
    }

    /// Makes a write if a condition holds; returns whether it did.
    pub(crate) async fn write_if(&self, write: Write, condition: Condition) -> Result<bool> {
        let written = match write {
            Write::Put(item) => self.store.put(&self.table, item, condition).await,
            Write::Delete(key) => self.store.delete(&self.table, key, condition).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(WriteError::Refused { .. }) => Ok(false),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// Puts a marker unless a higher one is stored. `next` makes the marker and the condition from
    /// the one that was found, or stops.
    pub(crate) async fn raise<T>(
        &self,
        mut marker: (Item, Condition),
        raised: T,
        mut next: impl FnMut(Item, T) -> Result<Raise<T>> + Send,
    ) -> Result<T>
    where
        T: Copy + Send,
    {
        let mut value = raised;
        for _ in 0..RAISES_MAX {
            let existing = match self.put(marker.0.clone(), marker.1).await? {
                Put::Stored => return Ok(value),
                Put::Refused(existing) => existing,
            };
            marker = match existing {
                None => (marker.0, Condition::Absent),
                Some(existing) => match next(existing, value)? {
                    Raise::Done(value) => return Ok(value),
                    Raise::Again(again, marker) => {
                        value = again;
                        marker
                    }
                },
            };
        }
        Err(Error::unavailable(
            "other writers keep raising the same marker; try again",
        ))
    }
}

/// The number of attempts to raise a marker while others do the same.
const RAISES_MAX: usize = 16;

/// What to do about the stored marker.
pub(crate) enum Raise<T> {
    /// It is high enough.
    Done(T),
    /// Put this one, under this condition.
    Again(T, (Item, Condition)),
}

/// Decodes rows. Without I/O.
pub(crate) trait RowCodec: Clone + fmt::Debug + Send + Sync + 'static {
    /// Whether a batch counts only if all its members were read. Not needed if all batches are ours,
    /// since we put the last member after all others.
    const COUNTS_MEMBERS: bool;
    /// Whether a deleted row proves that everything before it is deleted.
    const DELETES_FROM_START: bool;

    /// The event and its writer; `None` if the JVM flagged it as deleted in its bytes.
    fn event(&self, id: &PersistenceId, row: &Row) -> Result<Option<(Event, String)>>;

    /// The token of its append; `None` if it was deleted too.
    fn token(&self, row: &Row) -> Result<Option<Token>>;

    /// Whether we wrote it.
    fn is_ours(&self, row: &Row) -> bool;

    /// When it was appended, if the row has the time.
    fn time_ms(&self, row: &Row) -> u64;
}

/// The progress of a replay, for a reader that reads ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// How many more events are wanted.
    pub(crate) left: u64,
    /// The end of the batch whose members are being collected.
    pub(crate) awaited: Option<u64>,
}

/// Reads the rows of a window in order.
pub(crate) trait RowReader: Send + Sized {
    /// The markers when the read began.
    fn markers(&self) -> Markers;

    /// The next row; `None` at the end of the window or of the history.
    fn next(&mut self, progress: Progress) -> impl Future<Output = Result<Option<Row>>> + Send;

    /// Whether the next row needs no request.
    fn is_buffered(&self) -> bool;

    /// Whether the end that was reached is the end of the history.
    fn is_at_end(&self) -> bool;
}

/// Why numbers are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explained {
    /// They are deleted, and nothing was delivered before them.
    Deleted,
    /// They were deleted during the replay.
    Overtaken,
    Unknown,
}

/// How a replay continues after a deleted row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The row is skipped.
    Skip,
    /// Everything up to it is deleted: the history begins after it.
    Restart,
}

/// The range of a deletion.
pub(crate) struct Deletion<R> {
    /// The markers before it.
    pub(crate) was: Markers,
    /// The last number to delete: used, and not inside a batch in flight.
    pub(crate) to: u64,
    /// The last number that was used, if known.
    pub(crate) highest: u64,
    /// Rows that were read on the way.
    pub(crate) read: R,
}

/// The table: rows as items, and reading them.
pub(crate) trait RowTable: RowCodec {
    fn base(&self) -> &Base;

    /// The row in an item under an event's key.
    ///
    /// # Errors
    /// `Corrupt` if it was altered since we wrote it, or has no sequence number.
    fn row(&self, item: Item) -> Result<Row>;

    /// The item of a new event, with its key.
    ///
    /// # Errors
    /// `Invalid` if it is too large for the format.
    fn item(&self, row: &NewRow<'_>) -> Result<Item>;

    /// # Errors
    /// `Invalid` if an item under an id's key is another id's.
    fn check_owner(&self, _id: &PersistenceId, _number: u64, _item: &Item) -> Result<()> {
        Ok(())
    }

    /// The condition that a row is unchanged, by one attribute.
    fn unchanged(&self, row: &Row) -> Option<Condition>;

    /// Prepares the table for the first append.
    fn prepare(&self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// The rows of a range as they are stored now, deleted or not.
    fn rows(&self, id: &PersistenceId, numbers: (u64, u64)) -> RowStream;

    fn markers(&self, id: &PersistenceId) -> impl Future<Output = Result<Markers>> + Send;
}

/// The tail: the last event, and the number of the next.
pub(crate) trait RowAppend: RowTable {
    /// Whether an abandoned batch is closed, row by row, before an append after it. Otherwise the
    /// next append takes the number of its last member.
    const CLOSES_BATCHES: bool;

    /// The end of an id's history, for writers.
    fn tail(&self, id: &PersistenceId) -> impl Future<Output = Result<Tail>> + Send;

    /// The highest sequence number that was ever used; 0: none.
    fn highest(&self, id: &PersistenceId) -> impl Future<Output = Result<u64>> + Send;

    /// What follows the event that an append expects to be last.
    fn after(&self, wanted: &Wanted<'_>) -> impl Future<Output = Result<After>> + Send;

    /// Closes the batch of a row; returns `false` if it was completed meanwhile.
    fn close(
        &self,
        _id: &PersistenceId,
        _member: &Row,
    ) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(true))
    }

    /// Called after an append is stored, before it is acknowledged.
    fn acknowledge(
        &self,
        _id: &PersistenceId,
        head: Head,
    ) -> impl Future<Output = Result<Head>> + Send {
        std::future::ready(Ok(head))
    }

    /// Whether rows that were just put are above the low marker. Only in doubt if deletions free
    /// keys.
    fn is_above_deleted(
        &self,
        _id: &PersistenceId,
        _head: Head,
    ) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(true))
    }
}

/// Replay: the rows of a window in order, and the reasons for missing ones.
pub(crate) trait RowReplay: RowTable {
    type Reader: RowReader;

    fn read(
        &self,
        id: &PersistenceId,
        window: &Window,
    ) -> impl Future<Output = Result<Self::Reader>> + Send;

    /// The last row before a number, if its batch may extend to the number.
    fn row_before(
        &self,
        _id: &PersistenceId,
        _number: u64,
    ) -> impl Future<Output = Result<Option<Row>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Why numbers are missing from a replay.
    fn explain(
        &self,
        replay: &mut Replay<Self>,
        numbers: (u64, u64),
    ) -> impl Future<Output = Result<Explained>> + Send;

    /// Decides about a deleted row above the low marker.
    ///
    /// # Errors
    /// `Unavailable` if it was deleted during the replay, `Corrupt` if it was not deleted.
    fn pass_deleted(
        &self,
        replay: &mut Replay<Self>,
        row: &Row,
    ) -> impl Future<Output = Result<Passed>> + Send;

    /// At the end of a replay, the number up to which its rows must be complete.
    fn known_to(&self, replay: &mut Replay<Self>) -> impl Future<Output = Result<u64>> + Send;

    /// The head, after a replay to the end of the history.
    fn head(&self, replay: &Replay<Self>) -> Option<Head>;
}

/// Deletion and skipping.
pub(crate) trait RowDelete: RowAppend {
    /// Rows that a deletion has read before it begins.
    type Read: Send;

    fn plan_deletion(
        &self,
        id: &PersistenceId,
        to: u64,
    ) -> impl Future<Output = Result<Deletion<Self::Read>>> + Send;

    /// Raises the low marker; returns the markers then. Never lowers it.
    fn raise_low(
        &self,
        id: &PersistenceId,
        markers: Markers,
        was: Markers,
    ) -> impl Future<Output = Result<Markers>> + Send;

    /// Deletes the rows below the low marker that are not deleted yet.
    fn finish_deletion(
        &self,
        id: &PersistenceId,
        markers: Markers,
        read: Option<Self::Read>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// The write that deletes a row, if it is not deleted yet.
    fn deleted(&self, id: &PersistenceId, row: &Row, markers: Markers) -> Result<Option<Write>>;

    /// Skips numbers that count as deleted, as everything before them does.
    fn skip_deleted(
        &self,
        id: &PersistenceId,
        skip: Skip,
        tail: &Tail,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Skips numbers between events.
    fn skip_between(
        &self,
        id: &PersistenceId,
        skip: Skip,
        tail: &Tail,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Removes everything of an id; numbering restarts at 1. Only while no writer uses it. Returns
    /// whether there was anything.
    fn purge(&self, id: &PersistenceId) -> impl Future<Output = Result<bool>> + Send;
}

/// Verification.
pub(crate) trait RowVerify: RowDelete {
    /// A marker that cannot be read.
    type Damaged: Send;

    /// # Errors
    /// `Invalid` if an id can have no key.
    fn check_id(&self, _id: &PersistenceId) -> Result<()> {
        Ok(())
    }

    fn find_markers(
        &self,
        id: &PersistenceId,
    ) -> impl Future<Output = Result<FoundMarkers<Self::Damaged>>> + Send;

    /// Every row of an id, also those that cannot be read.
    fn verify_rows(
        &self,
        id: &PersistenceId,
        markers: Markers,
    ) -> BoxStream<'static, Result<VerifyRow>>;

    /// The id and number in a row, if they do not match its key.
    fn misplaced(&self, id: &PersistenceId, row: &Row) -> Option<String>;

    /// Checks a deleted row above the low marker.
    fn check_deleted(
        &self,
        checker: &mut Checker<'_, Self>,
        row: &Row,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Checks a batch whose rows were all read.
    fn check_batch(
        &self,
        checker: &mut Checker<'_, Self>,
        batch: LeftBatch,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Checks numbers without a row.
    fn check_gap(
        &self,
        checker: &mut Checker<'_, Self>,
        numbers: (u64, u64),
    ) -> impl Future<Output = Result<()>> + Send;

    /// Checks the markers, before the first row and after the last.
    fn check_markers(
        &self,
        checker: &mut Checker<'_, Self>,
        is_last: bool,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Listing.
pub(crate) trait RowIds {
    /// Everything in the table: each id once, and stray items.
    fn scan_entries(&self) -> BoxStream<'static, Result<ScannedEntry>>;

    fn ids(&self, prefix: &str) -> IdStream;

    /// Whether [`ids`](Self::ids) lists an id, as it is stored now.
    fn is_listed(&self, id: &PersistenceId) -> impl Future<Output = Result<bool>> + Send;

    /// The name of this journal, if others may share its table.
    fn journal_name(&self) -> Option<&str> {
        None
    }

    /// The names of other journals in the table that listings have met.
    fn other_journals(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A format: all of these.
pub(crate) trait RowFormat: RowReplay + RowVerify + RowIds + RowFeed {}

impl<F: RowReplay + RowVerify + RowIds + RowFeed> RowFormat for F {}
