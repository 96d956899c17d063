//! The feed: the events of all persistence ids, in the order in which they were committed.
//!
//! ```text
//! store's changes ─► layout (change ⇄ events) ─► filter ─► batches ─► follow
//! ```
//!
//! Guarantees:
//! - Every committed event has exactly one position. Two readers see the same order, and the events of
//!   an id are in the order of their sequence numbers.
//! - A reader that resumes at a position sees exactly what an uninterrupted reader sees.
//! - Nothing is inserted before a position that was read: a commit gets its place when it becomes
//!   durable, not before, and places are given by the store's only writer. Clocks play no part, so there
//!   is no time window in which events could be missed.
//! - Events that are deleted before they are read are reported as a notice, never silently left out.
//!
//! Catching up and following are the same code: read to the end, wait until it moves, read on.

mod changes_feed;
mod filter;
mod position;
mod purges;
mod reading;
mod touched;

use std::fmt;

use async_trait::async_trait;

use crate::items::{Cost, LastChange, Origin, PageBudget};
use crate::{Error, Event, PersistenceId, Result, ResultStream, SequenceNumber};

pub use filter::{Filter, SLICES, category_of, slice_of};
pub use position::{LanePosition, Position};
pub use reading::{Batch, Reading};
pub(crate) use touched::{Touched, TouchedFeed};

use changes_feed::ChangesFeed;

/// A part of a feed with its own order. The events of an id are in one lane.
///
/// See [`Feed`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u16);

/// A place in a lane.
///
/// See [`Feed`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The lane.
    pub lane: Lane,
    /// The place in it; 0 is before the first.
    pub place: u64,
}

impl Lane {
    /// A place in this lane.
    pub fn at(self, place: u64) -> Place {
        Place { lane: self, place }
    }
}

/// The generation and the lanes of a feed.
///
/// See [`Feed`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// Identifies the feed: positions of another generation are refused, unless that is an origin.
    pub generation: u32,
    /// The number of lanes.
    pub lanes: u16,
    /// Earlier generations that this one continues, the oldest first, as after the restore of a backup.
    pub origins: Vec<Origin>,
}

impl Shape {
    /// The position before the first event.
    pub fn start(&self) -> Position {
        Position::start(self.generation, self.lanes)
    }

    /// The position in this generation. That of an earlier one is the same if the feed has continued from
    /// a later place.
    ///
    /// # Errors
    /// `Invalid` if the feed does not have the events before the position.
    pub fn locate(&self, position: &Position) -> Result<Position> {
        let refused = |message| {
            Err(Error::invalid(message)
                .fact("position", position)
                .fact("generation", self.generation))
        };
        if position.lanes().len() != usize::from(self.lanes) {
            return refused(FOREIGN);
        }
        if position.generation() == self.generation {
            return Ok(position.clone());
        }
        let mut origins = self.origins.iter();
        let Some(origin) = origins.find(|it| it.number == position.generation()) else {
            return refused(FOREIGN);
        };
        // A position within an append needs the whole append.
        let is_shared = |at: &LanePosition| {
            at.place < origin.last || (at.place == origin.last && at.number == 0)
        };
        if !position.lanes().iter().all(is_shared) {
            return refused(RESTORED);
        }
        let lanes = position.lanes().iter().zip(0..);
        Ok(lanes.fold(self.start(), |located, (at, lane)| {
            located.with_lane(lane, *at)
        }))
    }
}

const FOREIGN: &str = "the position is of another store's feed; read from the start";
const RESTORED: &str = "the position is after the point to which this store was restored, so some events before it do not exist any more; read from the start";

/// What the feed has at a place.
///
/// See [`Reading::follow`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The place in the lane. Places grow, but are not dense.
    pub place: u64,
    /// The persistence id.
    pub id: PersistenceId,
    /// What happened to it.
    pub what: What,
}

/// What happened to an id.
///
/// See [`Reading::follow`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// Events were appended: all those of one append that the filter accepts.
    Appended(Vec<FedEvent>),
    /// The events up to this sequence number were deleted.
    Deleted(SequenceNumber),
    /// Everything of the id was removed; its numbering restarts at 1.
    Purged,
    /// The events of an append were deleted before they were read. A notice of the deletion follows.
    /// The number is that of the first event, or of the one that is known.
    Missing(SequenceNumber),
}

/// An event and its position among the events of its append.
///
/// See [`Reading::follow`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FedEvent {
    /// The event.
    pub event: Event,
    /// The position after it.
    pub at: LanePosition,
}

/// A part of a lane.
///
/// See [`Feed`] for an example.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LaneBatch {
    /// What the filter accepts, in order.
    pub entries: Vec<Entry>,
    /// Everything up to here was read, also what the filter does not accept.
    pub upto: LastChange,
    /// The end of the lane.
    pub head: LastChange,
    /// Requests and units.
    pub cost: Cost,
}

/// The events of all ids in one order per lane. Object-safe, so that every store can have its own.
///
/// Use [`Annals::feed`](crate::Annals::feed) to read it.
///
/// ```
/// use annals::feed::{Feed, Filter, Lane};
/// use annals::journal::Expected;
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let opened = NewEvent::new(Codec::Text, "opened");
/// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, opened).await?;
///
/// let feed = annals.feed().lanes()?;
/// assert_eq!(feed.shape().await?.lanes, 1);
/// let batch = feed.read(Lane(0).at(0), &Filter::new(), Default::default()).await?;
/// assert_eq!(batch.entries.len(), 1);
/// assert_eq!(batch.upto, batch.head);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Feed: fmt::Debug + Send + Sync + 'static {
    /// The generation and the lanes.
    async fn shape(&self) -> Result<Shape>;

    /// Reads a lane after a place; 0 is its start.
    ///
    /// # Errors
    /// `Invalid` if the place is after the end of the lane.
    async fn read(&self, after: Place, filter: &Filter, budget: PageBudget) -> Result<LaneBatch>;

    /// Waits until a lane has something after a place. May return early.
    async fn moved(&self, after: Place) -> Result<()>;
}

/// A stream of batches. It ends after an error.
///
/// See [`Reading`] for an example.
pub type BatchStream = ResultStream<Batch>;
