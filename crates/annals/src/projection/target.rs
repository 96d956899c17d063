//! What a projection feeds: a view, a handler, or a database of the application's own.
//!
//! Guarantees of the runner: the deliveries of an id come in order; a batch holds commits whole; a batch
//! comes again after a crash, a lost lease or a failure, perhaps cut at another commit.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::fed::{self, Fed};
use super::share::LeaseCheck;
use crate::entity::{EntityEvent, EventReader};
use crate::feed::{Filter, Lane, LanePosition, Position, Shape};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// What a projection feeds.
///
/// See [`Target`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// Rows in the same store.
    View,
    /// Anything, at least once.
    Handler,
    /// A transaction of another database.
    Sink,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::View => "view",
            Self::Handler => "handler",
            Self::Sink => "sink",
        })
    }
}

/// Something that happened to an id, as a projection gets it.
///
/// See [`Target`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The persistence id.
    pub id: PersistenceId,
    /// The lane of the feed.
    pub lane: Lane,
    /// The position after it in the lane.
    pub at: LanePosition,
    /// What happened.
    pub what: Delivered,
}

/// What happened to an id.
///
/// See [`Target`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivered {
    /// An event was appended.
    Event(Box<Event>),
    /// The events up to this sequence number were deleted.
    Deleted(SequenceNumber),
    /// Everything of the id was removed; its numbering restarts at 1.
    Purged,
    /// Events were deleted before they were read. The number is that of the first event, or of the one
    /// that is known.
    Missing(SequenceNumber),
}

impl Delivery {
    /// The event, if it is one.
    pub fn event(&self) -> Option<&Event> {
        match &self.what {
            Delivered::Event(event) => Some(event),
            _ => None,
        }
    }

    /// The sequence number of the event, if it is one.
    pub(super) fn number(&self) -> Option<SequenceNumber> {
        self.event().map(|event| event.sequence_number)
    }

    /// Its place in the lane, or that of its commit.
    pub(super) fn place(&self) -> u64 {
        match self.at.number {
            0 => self.at.place,
            // Within the commit at the next place.
            _ => self.at.place + 1,
        }
    }
}

/// Which share of which build is handled, and under which lease.
///
/// See [`Target`] for an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShareContext {
    /// The name of the projection.
    pub projection: String,
    /// The number of the build. A rebuild has another one.
    pub build: u32,
    /// The number of the share.
    pub share: u16,
    /// Unique for every time that a runner takes the share. A database that stores the position itself
    /// compares it, to refuse a runner that lost the share.
    pub lease: String,
    /// Everything up to here was handled or made a dead letter. In [`Target::resume`] it is current: a
    /// target that stores the position itself resumes at the later one of both, lane by lane.
    pub at: Position,
    /// That of the feed; known in [`Target::resume`].
    pub(super) shape: Option<Shape>,
    pub(super) check: LeaseCheck,
    pub(super) reader: EventReader,
}

impl ShareContext {
    /// Reads whether this runner still owns the share. What was read from elsewhere before this call,
    /// and did not change since, was not touched by another owner.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn holds_lease(&self) -> Result<bool> {
        self.check.holds().await
    }

    /// A position that was stored elsewhere, in the current generation of the feed. In
    /// [`Target::resume`], and later.
    ///
    /// # Errors
    /// `Invalid` if the feed does not have the events before it, as after the restore of a backup.
    pub fn locate(&self, position: &Position) -> Result<Position> {
        match &self.shape {
            Some(shape) => shape.locate(position),
            None => Err(Error::invalid("the share has not resumed")),
        }
    }

    /// The typed events of a stored one, with the adapters of
    /// [`Starting::adapters_of`](super::Starting::adapters_of): usually one; none or several after
    /// adapters.
    ///
    /// # Errors
    /// `Invalid` or `Corrupt` if it does not decode.
    pub fn read<E: EntityEvent>(&self, stored: &Event) -> Result<Vec<Fed<E>>> {
        fed::read(&self.reader, stored)
    }
}

/// Why a batch was not handled.
///
/// See [`Target`] for an example.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A delivery of the batch can never be handled, by any runner.
    Poison {
        /// Its index in the batch.
        index: usize,
        /// How many deliveries at the start of the batch were handled for good.
        done: usize,
        /// Why.
        cause: Error,
    },
    /// The share belongs to another runner now.
    Lost,
    /// The batch may succeed later.
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Where a projection's deliveries go. [`View`](super::View) and [`Handler`](super::Handler) are enough
/// for most applications; implement this for a database that stores the position in its own
/// transaction, as the crate `annals-sql` does.
///
/// ```
/// use annals::feed::{Filter, Position};
/// use annals::projection::{Delivery, Failure, Kind, ShareContext, Target};
/// use annals::Result;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// /// Counts what it gets.
/// #[derive(Debug, Default)]
/// struct Counter(AtomicUsize);
///
/// #[async_trait::async_trait]
/// impl Target for Counter {
///     fn name(&self) -> &str {
///         "counter"
///     }
///
///     fn kind(&self) -> Kind {
///         Kind::Handler
///     }
///
///     fn source(&self) -> Filter {
///         Filter::new().category("Cart")
///     }
///
///     async fn handle(&self, _: &ShareContext, batch: &[Delivery]) -> Result<(), Failure> {
///         self.0.fetch_add(batch.len(), Ordering::Relaxed);
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Target: fmt::Debug + Send + Sync + 'static {
    /// The name of the projection.
    fn name(&self) -> &str;

    /// The revision of the code. A higher one is built from the start of the feed, beside the live one.
    fn revision(&self) -> u32 {
        1
    }

    /// What it is.
    fn kind(&self) -> Kind;

    /// Which events it wants.
    fn source(&self) -> Filter;

    /// Called when a runner takes a share, before the first batch, and again after a failure. Returns the
    /// position that the target itself stores, if it does; the runner resumes there.
    async fn resume(&self, share: &ShareContext) -> Result<Option<Position>> {
        let _ = share;
        Ok(None)
    }

    /// Handles a batch: never empty, in order. With `Ok`, everything of it is handled for good.
    async fn handle(&self, share: &ShareContext, batch: &[Delivery]) -> Result<(), Failure>;

    /// Handles a dead letter again. Later deliveries of other ids were handled before it.
    async fn retry(&self, share: &ShareContext, letter: &Delivery) -> Result<(), Failure> {
        self.handle(share, std::slice::from_ref(letter)).await
    }

    /// Removes what a build stored; called when it is retired for good. Repeatable.
    async fn drop_build(&self, build: u32) -> Result<()> {
        let _ = build;
        Ok(())
    }
}
