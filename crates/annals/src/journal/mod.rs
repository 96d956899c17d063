//! The journal: events by persistence id and sequence number. The truth.
//!
//! Promises: an append is durable when it is acknowledged, is replayed whole or not at all, and
//! takes numbers that no other append ever had or will have; of two writers that believe the same
//! number last, one wins and the other is told. Replay is complete, in order and gap-checked, or
//! it fails.
//! Trusts: a [`JournalLayout`] to turn appends into items and items into events.
//! Never: retries a conflict, or stamps an event twice.

mod append;
mod follow;
mod idempotency;
mod recovery;
mod repeat;
pub(crate) mod scanned;
pub(crate) mod signature;
mod skip;

pub use append::{Append, AppendError, Appended, Conflict, Expected};
pub use idempotency::IdempotencyKey;
pub use recovery::Recovered;
pub use signature::Signature;
pub use skip::Skip;

use std::fmt;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, Stream, TryStreamExt};

use self::repeat::PendingAppends;
use self::scanned::EventVerifier;
use crate::IdStream;
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::verify::{Finding, FindingStream, Repairs, Verify, confirm_all, confirm_one};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber, Token};

/// Events as they come. An error ends it.
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
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event>> + Send>>;
/// Which of an id's events are wanted: a window of numbers, and how many at most.
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
    /// From this number on.
    pub from: SequenceNumber,
    /// Up to this number.
    pub to: SequenceNumber,
    /// No more than so many.
    pub max: u64,
}

impl Window {
    /// Everything.
    pub const ALL: Self = Self {
        from: SequenceNumber::FIRST,
        to: SequenceNumber::LAST,
        max: u64::MAX,
    };

    /// Everything from a number on.
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

/// An append as a layout gets it: stamped, and with a token.
///
/// Made by [`Journal::append`]; see [`Journal`] for an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stamped {
    /// What is appended.
    pub append: Append,
    /// What tells it from every other append.
    pub token: Token,
    /// When, in milliseconds since the Unix epoch.
    pub time_ms: u64,
}

/// How events become items and back: what a layout does for the journal.
///
/// Implemented by layouts, used through [`Journal`]. See [`Journal`] for an example.
#[async_trait]
pub trait JournalLayout: fmt::Debug + Send + Sync + 'static {
    /// Does what has to be done once before the first append to a new table.
    async fn prepare(&self) -> Result<()>;

    /// Appends, if what is expected to be last is last.
    async fn append(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: Stamped,
    ) -> Result<Appended, AppendError>;

    /// The events in the window, in order.
    fn replay(&self, id: &PersistenceId, window: Window) -> EventStream;

    /// As [`replay`](Self::replay), with a hint: an append is believed to begin at `anchor`, at or
    /// before the window. A layout may use it to check the start of the window in one request. A
    /// wrong hint only costs requests.
    fn replay_anchored(
        &self,
        id: &PersistenceId,
        window: Window,
        anchor: SequenceNumber,
    ) -> EventStream {
        let _ = anchor;
        self.replay(id, window)
    }

    /// The number of the last event ever appended, deleted or not.
    async fn highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>>;

    /// The state that rides in the last append, if one does. A layout whose appends carry none has
    /// none.
    async fn last_snapshot(&self, id: &PersistenceId) -> Result<Option<Snapshot>> {
        let _ = id;
        Ok(None)
    }

    /// Which appends took the numbers from one to another, also those whose events are deleted. A
    /// layout that does not say otherwise knows of those that it replays.
    async fn signatures(
        &self,
        id: &PersistenceId,
        numbers: RangeInclusive<SequenceNumber>,
    ) -> Result<Vec<Signature>> {
        let window = Window::from(*numbers.start()).to(*numbers.end());
        signature::replayed(self.replay(id, window), numbers).await
    }

    /// Deletes every event up to a number. Their numbers stay taken.
    async fn delete_to(&self, id: &PersistenceId, to: SequenceNumber) -> Result<()>;

    /// Up to which number an id's events are deleted, where the layout may leave numbers out; `None`
    /// where it never does, so that a number that is not there is a deleted one.
    async fn deleted_to(&self, id: &PersistenceId) -> Result<Option<u64>> {
        let _ = id;
        Ok(None)
    }

    /// Whether an append whose writer dies is there whole or leaves nothing; otherwise some of its
    /// events may be, which count for nothing and keep their numbers taken.
    fn lands_whole(&self) -> bool {
        false
    }

    /// Takes every number up to one that none has yet, without an event: the next append gets the
    /// number behind it. Safe to repeat and to be cut off. A layout that cannot refuses.
    async fn skip(&self, id: &PersistenceId, skip: Skip) -> Result<()> {
        let to = skip.to;
        Err(Error::invalid(format!(
            "this layout cannot leave numbers out. id=`{id}`, to=`{to}`"
        )))
    }

    /// Removes every trace of an id, whose numbers begin anew.
    async fn purge(&self, id: &PersistenceId) -> Result<()>;

    /// What is wrong with the events of an id, by one look; what is wanted and safe is repaired.
    async fn verify(&self, id: &PersistenceId, repairs: &Repairs) -> Result<Vec<Finding>>;

    /// Every id that has ever had an event and begins so, each once.
    fn persistence_ids(&self, prefix: &str) -> IdStream;

    /// The same ids in an order that never changes, those after one of them or all. A layout that
    /// does not say otherwise reads all of them and orders them by their bytes.
    fn persistence_ids_after(&self, after: Option<&PersistenceId>) -> IdStream {
        let (after, all) = (after.cloned(), self.persistence_ids(""));
        let sorted = async move {
            let mut ids: Vec<PersistenceId> = all.try_collect().await?;
            ids.retain(|id| after.as_ref().is_none_or(|after| id > after));
            ids.sort_unstable();
            Ok::<_, Error>(stream::iter(ids.into_iter().map(Ok)))
        };
        Box::pin(stream::once(sorted).try_flatten())
    }

    /// What is wrong with everything there is, by one look, id by id, also where an id has lost what
    /// it is listed by, and with items that belong to none; nothing is changed. A layout that does
    /// not say otherwise looks at the ids it lists.
    fn verify_all(self: Arc<Self>) -> FindingStream {
        let ids = self.persistence_ids("");
        Box::pin(ids.and_then(move |id| {
            let layout = self.clone();
            async move { layout.verify(&id, &Verify::Check.into()).await }
        }))
    }

    /// Finds what appends that were cut off left behind, and deletes it where that is wanted. A
    /// layout whose appends leave nothing has nothing to do.
    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        let _ = (older_than, verify);
        Ok(Vec::new())
    }
}

/// Errors with what was asked of the journal, and about whom.
fn told(asked: &'static str, id: &PersistenceId) -> impl Fn(Error) -> Error + Send + use<> {
    let id = id.clone();
    move |error| error.fact("asked", asked).fact("id", &id)
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

    /// Does what has to be done once before the first append to a new table, and costs nothing
    /// where it is done. Appending does it too: whoever calls this first finds every append to
    /// cost the same.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn prepare(&self) -> Result<()> {
        self.layout.prepare().await
    }

    /// The events in the window, in order, as they come.
    pub fn replay(&self, id: &PersistenceId, window: Window) -> EventStream {
        self.replay_anchored(id, window, None)
    }

    /// As [`replay`](Self::replay), with a hint where an append begins, at or before the window.
    pub(crate) fn replay_anchored(
        &self,
        id: &PersistenceId,
        window: Window,
        anchor: Option<SequenceNumber>,
    ) -> EventStream {
        if window.is_empty() {
            return Box::pin(futures::stream::empty());
        }
        let events = match anchor {
            Some(anchor) => self.layout.replay_anchored(id, window, anchor),
            None => self.layout.replay(id, window),
        };
        Box::pin(events.map_err(told("replay", id)))
    }

    /// The number of the last event ever appended, deleted or not; `None` where there is none.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>> {
        let outcome = self.layout.highest(id).await;
        outcome.map_err(told("highest", id))
    }

    /// Deletes every event up to a number, if it has them. Their numbers stay taken for ever.
    ///
    /// Safe to repeat and to be cut off; what is deleted is deleted from the first on.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn delete_to(&self, id: &PersistenceId, to: SequenceNumber) -> Result<()> {
        let outcome = self.layout.delete_to(id, to).await;
        outcome.map_err(told("delete", id))
    }

    /// Up to which number an id's events are deleted, on a layout that may leave numbers out.
    pub(crate) async fn deleted_to(&self, id: &PersistenceId) -> Result<Option<u64>> {
        self.layout.deleted_to(id).await
    }

    /// Whether an append whose writer dies is there whole or leaves nothing.
    pub(crate) fn lands_whole(&self) -> bool {
        self.layout.lands_whole()
    }

    /// Takes every number up to one, without an event.
    pub(crate) async fn skip(&self, id: &PersistenceId, skip: Skip) -> Result<()> {
        let outcome = self.layout.skip(id, skip).await;
        outcome.map_err(told("skip", id))
    }

    /// Removes every trace of an id: events, marks, and that there ever were any. Its numbers begin
    /// anew. To be done only while nobody uses the id: a writer that is under way meanwhile may
    /// leave something behind. Safe to repeat.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn purge(&self, id: &PersistenceId) -> Result<()> {
        let outcome = self.layout.purge(id).await;
        outcome.map_err(told("purge", id))
    }

    /// Every id that has ever had an event and begins with `prefix`, each once, in no order.
    /// Reads the whole table.
    pub fn persistence_ids(&self, prefix: &str) -> IdStream {
        self.layout.persistence_ids(prefix)
    }

    /// The same ids from `after` on, or all: pages of a list, where each begins after the last id
    /// of the page before. The layout decides the order, which stays the same. On `annals` it is the
    /// order of the store, and what is not taken is not read; other layouts read the whole table
    /// first, hold all ids and order them by their bytes.
    pub fn persistence_ids_after(&self, after: Option<&PersistenceId>) -> IdStream {
        self.layout.persistence_ids_after(after)
    }

    /// What is wrong with the events of an id. Reads all of them, also behind one that does not
    /// parse. What it finds it looks at again two seconds later, and tells what still stands then:
    /// an append or a deletion that is under way is nothing wrong. With [`Verify::Repair`] what
    /// stands and is safe is repaired, which wants nobody to delete events of the id meanwhile.
    ///
    /// # Errors
    /// As the store fails. What is wrong is no error.
    pub async fn verify(&self, id: &PersistenceId, verify: Verify) -> Result<Vec<Finding>> {
        let verifier = EventVerifier(self.layout.clone());
        confirm_one(&verifier, &**self.store.clock(), id, verify).await
    }

    /// What is wrong with the events of every id, and with what belongs to none: a list for each of
    /// them, empty where nothing is. Reads the whole table, and then every id that it met; what it
    /// finds it looks at again, as [`verify`](Self::verify) does.
    pub fn verify_all(&self, verify: Verify) -> FindingStream {
        let verifier = Arc::new(EventVerifier(self.layout.clone()));
        let first = self.layout.clone().verify_all();
        confirm_all(verifier, self.store.clock().clone(), first, verify)
    }

    /// Finds what large appends left behind that were cut off before they landed, if it is older
    /// than so long, and deletes it where that is wanted. Reads the whole table.
    ///
    /// # Errors
    /// `Invalid` for less than an hour: appends that young may still be under way.
    pub async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        self.layout.orphans(older_than, verify).await
    }
}
