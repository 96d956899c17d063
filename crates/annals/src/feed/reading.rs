//! Reading the feed: from a position to its end, or for ever.
//!
//! Memory for two pages: the next one is read while one is used, unless the end is near.

use std::sync::Arc;

use futures::stream::{self, TryStreamExt};
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::{
    BatchStream, ChangesFeed, Entry, Feed, Filter, Lane, LaneBatch, LanePosition, Position, What,
};
use crate::items::{ChangePage, Cost, LastChange, PageBudget};
use crate::journal::Journal;
use crate::{Error, Event, Result, ResultStream};

/// A part of the feed, and the position after it.
///
/// See [`Reading::follow`] for an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Batch {
    /// What the filter accepts, in order.
    pub entries: Vec<Entry>,
    /// The position after this batch. A reader that resumes here misses nothing, and progress over
    /// what the filter does not accept is not lost.
    pub position: Position,
    /// Where the batch ends in its lane, and when that was committed.
    pub upto: LastChange,
    /// The end of the lane.
    pub head: LastChange,
    /// Requests and units.
    pub cost: Cost,
    lane: Lane,
    /// The position before this batch.
    before: Position,
}

impl Batch {
    /// The position before this batch.
    pub(crate) fn start(&self) -> &Position {
        &self.before
    }

    /// The events, without notices, each with the position after it.
    pub fn events(&self) -> impl Iterator<Item = (&Event, Position)> {
        let events = self.entries.iter().flat_map(|entry| match &entry.what {
            What::Appended(events) => events.as_slice(),
            _ => &[],
        });
        events.map(|fed| (&fed.event, self.before.with_lane(self.lane.0, fed.at)))
    }

    /// The events, without notices.
    pub fn into_events(self) -> impl Iterator<Item = Event> {
        let events = self.entries.into_iter().flat_map(|entry| match entry.what {
            What::Appended(events) => events,
            _ => Vec::new(),
        });
        events.map(|fed| fed.event)
    }

    /// The position after an entry.
    pub fn position_after(&self, entry: &Entry) -> Position {
        let at = LanePosition::after(entry.place);
        self.before.with_lane(self.lane.0, at)
    }

    /// How many milliseconds lie between the end of this batch and the end of the feed; 0 at the end.
    pub fn lag_ms(&self) -> u64 {
        match self.upto.position >= self.head.position || self.upto.time_ms == 0 {
            true => 0,
            false => self.head.time_ms.saturating_sub(self.upto.time_ms),
        }
    }
}

/// How the feed is read: which events, from where, how much at once. [`Annals::feed`] returns it.
///
/// [`Annals::feed`]: crate::Annals::feed
///
/// ```
/// use annals::journal::Expected;
/// use annals::{Codec, Event, NewEvent};
/// use futures::TryStreamExt;
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// for id in ["Cart|42", "Order|7", "Cart|43"] {
///     let opened = NewEvent::new(Codec::Text, "opened");
///     annals.journal().append(&id.parse()?, Expected::Empty, opened).await?;
/// }
/// let carts = annals.feed().category("Cart").events();
/// let carts: Vec<Event> = carts.try_collect().await?;
/// let ids: Vec<&str> = carts.iter().map(|event| event.persistence_id.as_str()).collect();
/// assert_eq!(ids, ["Cart|42", "Cart|43"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is read before `events`, `batches` or `follow` is called"]
pub struct Reading {
    journal: Journal,
    filter: Filter,
    after: Option<Position>,
    budget: PageBudget,
}

impl Reading {
    /// Reads the feed of a journal, from its start.
    pub fn new(journal: &Journal) -> Self {
        Self {
            journal: journal.clone(),
            filter: Filter::new(),
            after: None,
            budget: PageBudget::default(),
        }
    }

    /// Only events of this entity type, or of one of several.
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.filter = self.filter.category(category);
        self
    }

    /// Only events with this tag, or with one of several.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.filter = self.filter.tag(tag);
        self
    }

    /// Only events that this filter accepts.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Only what follows a position. Without one, from the start.
    pub fn after(mut self, position: impl Into<Option<Position>>) -> Self {
        self.after = position.into();
        self
    }

    /// How much one read may return: at least one change.
    pub fn budget(mut self, budget: PageBudget) -> Self {
        self.budget = PageBudget {
            // With none, a reader would never move on.
            changes: budget.changes.max(1),
            ..budget
        };
        self
    }

    /// The lanes, for those who read each on its own.
    ///
    /// # Errors
    /// `Invalid` if the store or the layout has no feed.
    pub fn lanes(&self) -> Result<Arc<dyn Feed>> {
        Ok(Arc::new(ChangesFeed::open(&self.journal)?))
    }

    /// The name of the journal's table.
    pub(crate) fn table(&self) -> Result<String> {
        let feed = self.journal.layout().feed();
        let table = feed.map(|feed| feed.table().name().to_string());
        table.ok_or_else(|| Error::invalid("this layout has no feed; use annals, akka or j5ik2o"))
    }

    /// The position at the end of the feed as it is now, for readers that want only what follows.
    ///
    /// # Errors
    /// If the store fails, or has no feed.
    pub async fn head(&self) -> Result<Position> {
        ChangesFeed::open(&self.journal)?.head().await
    }

    /// The position in the feed's current generation.
    ///
    /// # Errors
    /// `Invalid` if it is of another store's feed, or the store has none.
    pub(crate) async fn locate(&self, position: &Position) -> Result<Position> {
        self.lanes()?.shape().await?.locate(position)
    }

    /// The batches up to the end of the feed as it is now.
    pub fn batches(self) -> BatchStream {
        self.read(false)
    }

    /// The events up to the end of the feed as it is now, without notices.
    pub fn events(self) -> ResultStream<Event> {
        let batches = self.batches();
        let events = batches.map_ok(|batch| stream::iter(batch.into_events().map(Ok)));
        ResultStream::new(events.try_flatten())
    }

    /// The batches up to the end of the feed, and then new ones as events are committed. The stream does
    /// not end; drop it to stop.
    ///
    /// ```
    /// use annals::feed::What;
    /// use annals::journal::Expected;
    /// use annals::{Codec, NewEvent};
    /// use futures::TryStreamExt;
    ///
    /// # use annals::Annals;
    /// # use annals::memory::Memory;
    /// # use annals::layout::AnnalsLayout;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
    /// let mut batches = annals.feed().follow();
    /// let opened = NewEvent::new(Codec::Text, "opened");
    /// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, opened).await?;
    ///
    /// while let Some(batch) = batches.try_next().await? {
    ///     for entry in &batch.entries {
    ///         match &entry.what {
    ///             What::Appended(events) => println!("{}: {} events", entry.id, events.len()),
    ///             notice => println!("{}: {notice:?}", entry.id),
    ///         }
    ///     }
    ///     // Save `batch.position` to resume here with `after`.
    ///     if !batch.entries.is_empty() {
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(self) -> BatchStream {
        self.read(true)
    }

    fn read(self, is_endless: bool) -> BatchStream {
        let batches = stream::once(async move { State::open(&self, is_endless).await });
        let batches = batches.map_ok(|state| {
            stream::try_unfold(state, |mut state| async move {
                let batch = state.next().await?;
                Ok(batch.map(|batch| (batch, state)))
            })
        });
        BatchStream::new(batches.try_flatten())
    }
}

/// Changes that must follow a page so that they are read while the page is used.
const AHEAD_MIN: u64 = 1024;

/// A page that is read by a task of its own, which ends with its owner.
struct Ahead {
    after: u64,
    task: JoinHandle<Result<ChangePage>>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A reader of the feed.
struct State {
    feed: ChangesFeed,
    /// The page after the last one, if it was requested.
    ahead: Option<Ahead>,
    filter: Filter,
    budget: PageBudget,
    position: Position,
    is_endless: bool,
    /// Where to stop, unless it is endless.
    end: Option<u64>,
}

impl State {
    async fn open(reading: &Reading, is_endless: bool) -> Result<Self> {
        let feed = ChangesFeed::open(&reading.journal)?;
        let shape = feed.shape().await?;
        let position = match &reading.after {
            Some(position) => shape.locate(position)?,
            None => shape.start(),
        };
        Ok(Self {
            feed,
            ahead: None,
            filter: reading.filter.clone(),
            budget: reading.budget,
            position,
            is_endless,
            end: None,
        })
    }

    async fn next(&mut self) -> Result<Option<Batch>> {
        let lane = Lane(0);
        let at = self.position.lane(lane.0);
        if self.end.is_some_and(|end| at.place >= end) {
            return Ok(None);
        }
        let mut page = self.page(lane, at.place).await?;
        while self.is_endless && page.upto.position <= at.place {
            self.feed.moved(lane.at(at.place)).await?;
            page = self.page(lane, at.place).await?;
        }
        self.read_ahead(lane, &page);
        let read = self.feed.batch(page, &self.filter).await?;
        if !self.is_endless {
            self.end.get_or_insert(read.head.position);
        }
        Ok(Some(self.advance(lane, at, read)))
    }

    /// The changes after a place.
    async fn page(&mut self, lane: Lane, after: u64) -> Result<ChangePage> {
        match self.ahead.take().filter(|ahead| ahead.after == after) {
            None => self.feed.page(lane.at(after), self.budget).await,
            Some(mut ahead) => (&mut ahead.task)
                .await
                .map_err(|e| Error::unavailable("a read was aborted; try again").because(e))?,
        }
    }

    /// Requests the page after one, if there is much to read.
    fn read_ahead(&mut self, lane: Lane, page: &ChangePage) {
        let after = page.upto.position;
        let is_worth_it = page.last.position.saturating_sub(after) >= AHEAD_MIN
            && self.end.is_none_or(|end| after < end);
        self.ahead = is_worth_it.then(|| {
            let (feed, place, budget) = (self.feed.clone(), lane.at(after), self.budget);
            let read = async move { feed.page(place, budget).await };
            let task = tokio::spawn(read.in_current_span());
            Ahead { after, task }
        });
    }

    /// Moves on by what was read, without the events that were read before.
    fn advance(&mut self, lane: Lane, at: LanePosition, mut read: LaneBatch) -> Batch {
        if let Some(first) = read.entries.first_mut()
            && first.place == at.place + 1
            && let What::Appended(events) = &mut first.what
        {
            events.retain(|fed| fed.at > at);
            if events.is_empty() {
                read.entries.remove(0);
            }
        }
        let upto = LanePosition::after(read.upto.position);
        let before = self.position.clone();
        self.position = before.with_lane(lane.0, upto.max(at));
        Batch {
            entries: read.entries,
            position: self.position.clone(),
            upto: read.upto,
            head: read.head,
            cost: read.cost,
            lane,
            before,
        }
    }
}
