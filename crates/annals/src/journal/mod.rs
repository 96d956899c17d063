//! The journal: events by persistence id and sequence number. The source of truth.
//!
//! - An append is atomic, and durable once it is acknowledged.
//! - A sequence number is used once. Of two writers that expect the same last event, one gets a
//!   conflict.
//! - A replay is complete, in order and without gaps, or it fails.
//! - Conflicts are never retried, and an event gets its timestamp once.

mod append;
mod beyond;
mod bulk;
mod feed_layout;
mod follow;
mod idempotency;
mod in_order;
mod recovery;
mod repeat;
pub(crate) mod scanned;
pub(crate) mod signature;
mod skip;

pub(crate) use append::CAUSE_BYTES_MAX;
pub use append::{Append, AppendError, Appended, Conflict, Expected};
pub use bulk::BulkAppend;
pub use feed_layout::{FeedLayout, Fetched, Meaning};
pub use idempotency::IdempotencyKey;
#[doc(hidden)]
pub use in_order::in_order;
pub use recovery::Recovered;
pub use signature::Signature;
pub use skip::Skip;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, TryStreamExt};

use self::repeat::PendingAppends;
use self::scanned::EventVerifier;
use crate::IdStream;
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::verify::{Finding, FindingStream, Repairs, Verify, confirm_all, confirm_one};
use crate::{Error, Event, PersistenceId, Result, ResultStream, SequenceNumber, Token};

/// A stream of events. It ends after an error.
///
/// ```
/// use annals::journal::{Append, EventStream, Expected, Window};
/// use annals::{Codec, NewEvent};
/// use futures::TryStreamExt;
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let journal = annals.journal();
/// # let id = "Cart|42".parse()?;
/// # let one = NewEvent::new(Codec::Text, "one");
/// # journal.append(&id, Expected::Empty, Append::of(vec![one; 3])).await?;
/// let mut events: EventStream = journal.replay(&id, Window::ALL);
/// let mut last = 0;
/// while let Some(event) = events.try_next().await? {
///     last = event.sequence_number.get();
/// }
/// assert_eq!(last, 3);
/// # Ok(())
/// # }
/// ```
pub type EventStream = ResultStream<Event>;
/// A range of sequence numbers, and the maximum number of events to read.
///
/// ```
/// use annals::journal::{Append, Expected, Window};
/// use annals::{Codec, Event, NewEvent, SequenceNumber};
/// use futures::TryStreamExt;
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let journal = annals.journal();
/// let id = "Cart|42".parse()?;
/// let events = vec![NewEvent::new(Codec::Text, "something"); 10];
/// journal.append(&id, Expected::Empty, Append::of(events)).await?;
///
/// let from = SequenceNumber::new(4).expect("numbers begin at 1");
/// let window = Window::from(from).limit(3);
/// let some: Vec<Event> = journal.replay(&id, window).try_collect().await?;
/// let numbers: Vec<u64> = some.iter().map(|event| event.sequence_number.get()).collect();
/// assert_eq!(numbers, [4, 5, 6]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The first sequence number.
    pub from: SequenceNumber,
    /// The last sequence number.
    pub to: SequenceNumber,
    /// The maximum number of events.
    pub max: u64,
}

impl Window {
    /// All events.
    pub const ALL: Self = Self {
        from: SequenceNumber::FIRST,
        to: SequenceNumber::LAST,
        max: u64::MAX,
    };

    /// All events from a sequence number on.
    pub fn from(number: SequenceNumber) -> Self {
        Self {
            from: number,
            ..Self::ALL
        }
    }

    /// Up to a number.
    #[must_use]
    pub fn to(mut self, number: SequenceNumber) -> Self {
        self.to = number;
        self
    }

    /// At most so many events.
    #[must_use]
    pub fn limit(mut self, events: u64) -> Self {
        self.max = events;
        self
    }

    /// Whether nothing can be in it.
    pub fn is_empty(&self) -> bool {
        self.from > self.to || self.max == 0
    }
}

/// An append with its token and time, as a layout receives it.
///
/// Made by [`Journal::append`]; see [`Journal`] for an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stamped {
    /// The events and their context.
    pub append: Append,
    /// Distinguishes this append from every other.
    pub token: Token,
    /// The time of the append, in milliseconds since the Unix epoch.
    pub time_ms: u64,
}

/// Stores events as items. Implemented by layouts.
///
/// See [`Journal`] for an example.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not store the journal of a layout",
    label = "`annals::journal::JournalLayout` is not implemented for `{Self}`",
    note = "it is one part of an implementation of `annals::layout::Layout`"
)]
pub trait JournalLayout: fmt::Debug + Send + Sync + 'static {
    /// Prepares a new table for its first append.
    async fn prepare(&self) -> Result<()>;

    /// Appends, if the expected event is the last one.
    async fn append(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: Stamped,
    ) -> Result<Appended, AppendError>;

    /// The events in the window, in order.
    fn replay(&self, id: &PersistenceId, window: Window) -> EventStream;

    /// As [`replay`](Self::replay), with a hint that an append begins at `anchor`, at or before the
    /// window. A layout may use it to check the start of the window in one request. A wrong hint only
    /// costs requests.
    fn replay_anchored(
        &self,
        id: &PersistenceId,
        window: Window,
        anchor: SequenceNumber,
    ) -> EventStream {
        let _ = anchor;
        self.replay(id, window)
    }

    /// The sequence number of the last event ever appended, deleted or not.
    async fn highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>>;

    /// The snapshot stored in the last append, if there is one.
    async fn last_snapshot(&self, id: &PersistenceId) -> Result<Option<Snapshot>> {
        let _ = id;
        Ok(None)
    }

    /// Lists the appends that used a range of sequence numbers, including deleted ones. By default
    /// only those that can be replayed.
    async fn signatures(
        &self,
        id: &PersistenceId,
        numbers: RangeInclusive<SequenceNumber>,
    ) -> Result<Vec<Signature>> {
        let window = Window::from(*numbers.start()).to(*numbers.end());
        signature::replayed(self.replay(id, window), numbers).await
    }

    /// Deletes every event up to a sequence number. Their numbers are never reused. Returns the last
    /// number that it covered, as [`Journal::delete_to`] does.
    async fn delete_to(
        &self,
        id: &PersistenceId,
        to: SequenceNumber,
    ) -> Result<Option<SequenceNumber>>;

    /// The last deleted sequence number, if the layout can have gaps; `None` if it cannot, so that a
    /// missing event is a deleted one.
    async fn deleted_to(&self, id: &PersistenceId) -> Result<Option<u64>> {
        let _ = id;
        Ok(None)
    }

    /// Whether an append of a writer that crashes is stored entirely or not at all. Otherwise some
    /// of its events may remain, which are never replayed and use up their sequence numbers.
    fn is_atomic(&self) -> bool {
        false
    }

    /// Uses up sequence numbers without events; the next append gets the number after them.
    /// Repeatable, and resumable if interrupted. Not supported by every layout.
    async fn skip(&self, id: &PersistenceId, skip: Skip) -> Result<()> {
        let to = skip.to;
        Err(Error::invalid("this layout cannot skip sequence numbers")
            .fact("id", id)
            .fact("to", to))
    }

    /// Removes everything of an id; numbering restarts at 1. Returns whether there was anything.
    async fn purge(&self, id: &PersistenceId) -> Result<bool>;

    /// Forgets what this process remembers about ids. By default nothing is remembered.
    fn forget_cached(&self) {}

    /// Checks the events of an id once, and repairs what is requested and safe.
    async fn verify(&self, id: &PersistenceId, repairs: &Repairs) -> Result<Vec<Finding>>;

    /// Lists the ids that have ever had an event and start with `prefix`, each once.
    fn persistence_ids(&self, prefix: &str) -> IdStream;

    /// How changes of the journal's items become entries of the feed. By default there is no feed.
    fn feed(&self) -> Option<&dyn FeedLayout> {
        None
    }

    /// The names of other journals in the same table whose items the listings of ids have met so far.
    /// By default none: a table has one journal.
    fn other_journals(&self) -> Vec<String> {
        Vec::new()
    }

    /// Lists the same ids in a stable order, starting after one of them or with the first. By
    /// default reads all ids and sorts them by their bytes.
    fn persistence_ids_after(&self, after: Option<&PersistenceId>) -> IdStream {
        let (after, all) = (after.cloned(), self.persistence_ids(""));
        let sorted = async move {
            let mut ids: Vec<PersistenceId> = all.try_collect().await?;
            ids.retain(|id| after.as_ref().is_none_or(|after| id > after));
            ids.sort_unstable();
            Ok::<_, Error>(stream::iter(ids.into_iter().map(Ok)))
        };
        IdStream::new(stream::once(sorted).try_flatten())
    }

    /// Checks the whole table once, including unlisted ids and stray items. Changes nothing. By
    /// default checks the listed ids.
    fn verify_all(self: Arc<Self>) -> FindingStream {
        let ids = self.persistence_ids("");
        FindingStream::new(ids.and_then(move |id| {
            let layout = self.clone();
            async move { layout.verify(&id, &Verify::Check.into()).await }
        }))
    }

    /// Finds orphaned items of incomplete appends, and deletes them if requested. By default there
    /// are none.
    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        let _ = (older_than, verify);
        Ok(Vec::new())
    }
}

/// Adds the operation and the id to errors.
fn annotate(operation: &'static str, id: &PersistenceId) -> impl Fn(Error) -> Error + Send + use<> {
    let id = id.clone();
    move |error| error.during(operation, &id)
}

/// The events of entities.
///
/// ```
/// use annals::journal::{Append, Expected, Journal, Window};
/// use annals::layout::AnnalsLayout;
/// use annals::memory::Memory;
/// use annals::{Annals, Codec, Event, NewEvent, PersistenceId};
/// use futures::TryStreamExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let journal: &Journal = annals.journal();
///
/// let id: PersistenceId = "Cart|42".parse()?;
/// let events = vec![NewEvent::new(Codec::Text, "opened"), NewEvent::new(Codec::Text, "paid")];
/// let appended = journal.append(&id, Expected::Empty, Append::of(events)).await?;
/// assert_eq!(appended.last.get(), 2);
///
/// let again = journal.append(&id, Expected::Empty, NewEvent::new(Codec::Text, "opened"));
/// assert!(again.await.is_err());
///
/// let events: Vec<Event> = journal.replay(&id, Window::ALL).try_collect().await?;
/// assert_eq!(events.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Journal {
    layout: Arc<dyn JournalLayout>,
    store: Store,
    pending: Arc<PendingAppends>,
}

impl Journal {
    /// The journal on a layout; called by [`Layout::journal`](crate::layout::Layout::journal).
    pub fn new(layout: Arc<dyn JournalLayout>, store: &Store) -> Self {
        Self {
            layout,
            store: store.clone(),
            pending: Arc::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// How the layout stores it.
    pub(crate) fn layout(&self) -> &dyn JournalLayout {
        &*self.layout
    }

    /// Prepares a new table for its first append; free if already done. Appends do this themselves,
    /// so calling it first only makes the first append as cheap as the others.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn prepare(&self) -> Result<()> {
        self.layout.prepare().await
    }

    /// Reads the events in the window, in order.
    pub fn replay(&self, id: &PersistenceId, window: Window) -> EventStream {
        self.replay_anchored(id, window, None)
    }

    /// As [`replay`](Self::replay), with a hint that an append begins at `anchor`.
    pub(crate) fn replay_anchored(
        &self,
        id: &PersistenceId,
        window: Window,
        anchor: Option<SequenceNumber>,
    ) -> EventStream {
        if window.is_empty() {
            return EventStream::empty();
        }
        let events = match anchor {
            Some(anchor) => self.layout.replay_anchored(id, window, anchor),
            None => self.layout.replay(id, window),
        };
        events.annotated(annotate("replay", id))
    }

    /// The sequence number of the last event ever appended, deleted or not; `None` if there is none.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>> {
        let outcome = self.layout.highest(id).await;
        outcome.map_err(annotate("highest", id))
    }

    /// Deletes every event up to a sequence number. Their numbers are never reused.
    ///
    /// Returns `to`, or the last sequence number of the id if that is lower: nothing after the last
    /// event is deleted. `None` if the id never had an event. Repeatable with the same result, and
    /// resumable if interrupted. Deletes from the first event on.
    ///
    /// ```
    /// use annals::journal::Expected;
    /// use annals::{Codec, NewEvent, SequenceNumber};
    ///
    /// # use annals::Annals;
    /// # use annals::memory::Memory;
    /// # use annals::layout::AnnalsLayout;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
    /// # let journal = annals.journal();
    /// let id = "Cart|42".parse()?;
    /// assert_eq!(journal.delete_to(&id, SequenceNumber::LAST).await?, None);
    ///
    /// journal.append(&id, Expected::Empty, NewEvent::new(Codec::Text, "opened")).await?;
    /// let deleted = journal.delete_to(&id, SequenceNumber::LAST).await?;
    /// assert_eq!(deleted, Some(SequenceNumber::FIRST));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the store fails.
    pub async fn delete_to(
        &self,
        id: &PersistenceId,
        to: SequenceNumber,
    ) -> Result<Option<SequenceNumber>> {
        let outcome = self.layout.delete_to(id, to).await;
        outcome.map_err(annotate("delete", id))
    }

    /// See [`JournalLayout::deleted_to`].
    pub(crate) async fn deleted_to(&self, id: &PersistenceId) -> Result<Option<u64>> {
        self.layout.deleted_to(id).await
    }

    /// See [`JournalLayout::is_atomic`].
    pub(crate) fn is_atomic(&self) -> bool {
        self.layout.is_atomic()
    }

    /// See [`JournalLayout::skip`].
    pub(crate) async fn skip(&self, id: &PersistenceId, skip: Skip) -> Result<()> {
        let outcome = self.layout.skip(id, skip).await;
        outcome.map_err(annotate("skip", id))
    }

    /// Removes everything of an id, events and tombstones; numbering restarts at 1. Stop all writers
    /// of the id first, or a write in flight may leave items. Repeatable: returns whether there was
    /// anything to remove.
    ///
    /// The journal does not know the snapshots of the id, and an entity would recover from them: delete
    /// them first, or use [`Annals::purge`](crate::Annals::purge), which does both.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn purge(&self, id: &PersistenceId) -> Result<bool> {
        let outcome = self.layout.purge(id).await;
        outcome.map_err(annotate("purge", id))
    }

    /// Forgets what this process remembers about ids, such as their last sequence numbers. Call it after
    /// another process has purged ids or dropped the table: an append would continue after events that
    /// are gone.
    pub fn forget_cached(&self) {
        self.layout.forget_cached();
    }

    /// Lists the ids that have ever had an event and start with `prefix`, each once, in no order.
    /// Reads the whole table.
    pub fn persistence_ids(&self, prefix: &str) -> IdStream {
        self.layout.persistence_ids(prefix)
    }

    /// The names of other journals in the same table whose items the listings of ids have met so far,
    /// at most 16: on the layout `akka`, journals of other names may share a table. Needs no request;
    /// a listing that has not ended may have met only some.
    pub fn other_journals(&self) -> Vec<String> {
        self.layout.other_journals()
    }

    /// Lists the ids after `after`, or all, in a stable order: to read the next page, pass the last
    /// id of the previous one. On the `annals` layout the order is the store's, and ids are read as
    /// the stream is polled. Other layouts read the whole table first, and sort the ids by their
    /// bytes in memory.
    pub fn persistence_ids_after(&self, after: Option<&PersistenceId>) -> IdStream {
        self.layout.persistence_ids_after(after)
    }

    /// Checks all events of an id. Checks each finding again after two seconds and reports it if it
    /// is still there, so that appends and deletions in flight are not reported. With
    /// [`Verify::Repair`], repairs what is safe; do not delete events of the id meanwhile.
    ///
    /// # Errors
    /// If the store fails. A finding is not an error.
    pub async fn verify(&self, id: &PersistenceId, verify: Verify) -> Result<Vec<Finding>> {
        let verifier = EventVerifier(self.layout.clone());
        confirm_one(&verifier, &**self.store.clock(), id, verify).await
    }

    /// Checks the events of every id, and stray items. Returns a list of findings for each, which
    /// may be empty. Reads the whole table, then every id it found. Checks findings again, as
    /// [`verify`](Self::verify) does.
    pub fn verify_all(&self, verify: Verify) -> FindingStream {
        let verifier = Arc::new(EventVerifier(self.layout.clone()));
        let first = self.layout.clone().verify_all();
        confirm_all(verifier, self.store.clock().clone(), first, verify)
    }

    /// Finds chunks of large appends that were interrupted longer than `older_than` ago, and deletes
    /// them if requested. Reads the whole table.
    ///
    /// # Errors
    /// `Invalid` for less than an hour, since such appends may still be in flight.
    pub async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        self.layout.orphans(older_than, verify).await
    }
}
