//! What a format supplies to the engine, and what both share.

use std::fmt;
use std::sync::Arc;

use futures::stream::BoxStream;
use quick_cache::sync::Cache;

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

/// The table, and what this process knows of its ids.
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

    /// Remembers where an id's history ends. Never goes back.
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

    /// Puts a marker unless a higher one is there. `next` makes the marker and the condition for
    /// the one that was found, or ends it.
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

/// How often a marker is tried to be raised while others do the same.
const RAISES_MAX: usize = 16;

/// What to do about a marker that was found in place of the one to be raised.
pub(crate) enum Raise<T> {
    /// It is high enough.
    Done(T),
    /// Put this one, under this condition.
    Again(T, (Item, Condition)),
}

/// A row as bytes. Pure: reads nothing but the row.
pub(crate) trait RowCodec: Clone + fmt::Debug + Send + Sync + 'static {
    /// Whether a batch counts only if all its members were met. Not needed where batches are ours
    /// alone: we put the last member when all others are stored.
    const COUNTS_MEMBERS: bool;
    /// Whether a deleted row proves that everything before it is deleted.
    const DELETES_FROM_START: bool;

    /// The event, and its writer; `None` where the JVM marked it as deleted inside its bytes.
    fn event(&self, id: &PersistenceId, row: &Row) -> Result<Option<(Event, String)>>;

    /// The append that it came with; `None` where a deletion took even that.
    fn token(&self, row: &Row) -> Result<Option<Token>>;

    /// Whether we wrote it.
    fn is_ours(&self, row: &Row) -> bool;

    /// When it was appended, as far as the row says.
    fn time_ms(&self, row: &Row) -> u64;
}

/// How far a replay has got, for a reader that reads ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// How many more events are wanted.
    pub(crate) left: u64,
    /// Where the batch ends whose members are being collected.
    pub(crate) awaited: Option<u64>,
}

/// Reads the rows of a window in order.
pub(crate) trait RowReader: Send + Sized {
    /// The markers as they were when the reading began.
    fn markers(&self) -> Markers;

    /// The next row; `None` at the end of the window or of the history.
    fn next(&mut self, progress: Progress) -> impl Future<Output = Result<Option<Row>>> + Send;

    /// Whether the next row is known to come without a request of its own.
    fn is_buffered(&self) -> bool;

    /// Whether the end that was reached is the end of the history.
    fn is_at_end(&self) -> bool;
}

/// Why numbers are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explained {
    /// They are deleted, and nothing was delivered before them.
    Deleted,
    /// They were deleted while the replay went on.
    Overtaken,
    Unknown,
}

/// How a replay goes on after a deleted row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The row does not count, and that is all.
    Skip,
    /// Everything up to it is deleted: the history begins after it.
    Restart,
}

/// How far a deletion goes.
pub(crate) struct Deletion<R> {
    /// The markers before it.
    pub(crate) was: Markers,
    /// The last number to be deleted: used, and not inside a batch that is in flight.
    pub(crate) to: u64,
    /// The last number that was used, where it is known.
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
    /// `Corrupt` where it was altered since we wrote it, or does not say its number.
    fn row(&self, item: Item) -> Result<Row>;

    /// The item of a new event, with its key.
    ///
    /// # Errors
    /// `Invalid` where it is too large for the format.
    fn item(&self, row: &NewRow<'_>) -> Result<Item>;

    /// # Errors
    /// `Invalid` where an item under an id's key is another id's.
    fn check_owner(&self, _id: &PersistenceId, _number: u64, _item: &Item) -> Result<()> {
        Ok(())
    }

    /// That a row is stored as it was read, as far as one attribute shows.
    fn unchanged(&self, row: &Row) -> Option<Condition>;

    /// Does what has to be done once before the first append.
    fn prepare(&self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// The rows of a range as they are stored now, deleted or not.
    fn rows(&self, id: &PersistenceId, numbers: (u64, u64)) -> RowStream;

    fn markers(&self, id: &PersistenceId) -> impl Future<Output = Result<Markers>> + Send;
}

/// The tail: what is last, and where the next event goes.
pub(crate) trait RowAppend: RowTable {
    /// Whether a batch that was given up is closed, row by row, before anything is appended after
    /// it. Otherwise the next append takes the number of its last member.
    const CLOSES_BATCHES: bool;

    /// The end of an id's history, for writers.
    fn tail(&self, id: &PersistenceId) -> impl Future<Output = Result<Tail>> + Send;

    /// The highest sequence number that was ever used; 0: none.
    fn highest(&self, id: &PersistenceId) -> impl Future<Output = Result<u64>> + Send;

    /// What comes after the event that an append expects to be last.
    fn after(&self, wanted: &Wanted<'_>) -> impl Future<Output = Result<After>> + Send;

    /// Closes the batch of a row; returns whether it is closed: not where it has become whole.
    fn close(
        &self,
        _id: &PersistenceId,
        _member: &Row,
    ) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(true))
    }

    /// Does what must be done before an append that landed is acknowledged.
    fn acknowledge(
        &self,
        _id: &PersistenceId,
        head: Head,
    ) -> impl Future<Output = Result<Head>> + Send {
        std::future::ready(Ok(head))
    }

    /// Whether rows that were just put after a head are above the low marker. Only in doubt where
    /// deletions free keys.
    fn is_above_deleted(
        &self,
        _id: &PersistenceId,
        _head: Head,
    ) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(true))
    }
}

/// Replay: the rows of a window in order, and what explains the missing ones.
pub(crate) trait RowReplay: RowTable {
    type Reader: RowReader;

    fn read(
        &self,
        id: &PersistenceId,
        window: &Window,
    ) -> impl Future<Output = Result<Self::Reader>> + Send;

    /// The last row before a number, as far back as its batch may reach over the number.
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

    /// Decides on a deleted row that a replay meets above the low marker.
    ///
    /// # Errors
    /// `Unavailable` where it was deleted during the replay, `Corrupt` where nobody deleted it.
    fn pass_deleted(
        &self,
        replay: &mut Replay<Self>,
        row: &Row,
    ) -> impl Future<Output = Result<Passed>> + Send;

    /// The last number up to which the rows of a replay must be complete, now that no more come.
    fn known_to(&self, replay: &mut Replay<Self>) -> impl Future<Output = Result<u64>> + Send;

    /// What a replay to the end of the history says about its head.
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

    /// Deletes the rows below the low marker that have not been, as far as it says.
    fn finish_deletion(
        &self,
        id: &PersistenceId,
        markers: Markers,
        read: Option<Self::Read>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// What a deletion does with a row, if anything is left to do.
    fn deleted(&self, id: &PersistenceId, row: &Row, markers: Markers) -> Result<Option<Write>>;

    /// Takes numbers that count as deleted, as everything before them does.
    fn skip_deleted(
        &self,
        id: &PersistenceId,
        skip: Skip,
        tail: &Tail,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Takes numbers between events.
    fn skip_between(
        &self,
        id: &PersistenceId,
        skip: Skip,
        tail: &Tail,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Removes every trace of an id. Only while nobody uses it: numbering restarts at 1.
    fn purge(&self, id: &PersistenceId) -> impl Future<Output = Result<()>> + Send;
}

/// Verification.
pub(crate) trait RowVerify: RowDelete {
    /// A marker that cannot be read.
    type Damaged: Send;

    /// # Errors
    /// `Invalid` where an id can have no key.
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

    /// Where a row says that it belongs, if that is not where it is stored.
    fn misplaced(&self, id: &PersistenceId, row: &Row) -> Option<String>;

    /// Checks a deleted row above the low marker.
    fn check_deleted(
        &self,
        checker: &mut Checker<'_, Self>,
        row: &Row,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Checks a batch of which no more rows come.
    fn check_batch(
        &self,
        checker: &mut Checker<'_, Self>,
        batch: LeftBatch,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Checks numbers that no row has.
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
    /// Everything in the table: each id once, and items that are nobody's.
    fn met(&self) -> BoxStream<'static, Result<ScannedEntry>>;

    fn ids(&self, prefix: &str) -> IdStream;
}

/// A format: all of these.
pub(crate) trait RowFormat: RowReplay + RowVerify + RowIds {}

impl<F: RowReplay + RowVerify + RowIds> RowFormat for F {}
