//! Copying: journals, their snapshots and durable state from one layout or store to another.
//!
//! What is in the target tells how far a copy has come: there is no other record of it, so whoever
//! was cut off just copies again. Everything that is there is compared with the source as it is
//! passed, everything that is written is read back, and so every event of an id has been compared
//! when its copy ends.
//!
//! Promises: the same events under the same numbers, with the same times, manifests, tags, metadata,
//! causes and bytes; what is deleted in the source does not come back, and its numbers stay taken.
//! Nothing that is in the target is overwritten, and nothing is deleted there unless that is asked
//! for: what it has and the source has not is counted as kept. What ends the copy of one id does not
//! end that of others.
//! Trusts: nobody to write the ids in the target meanwhile. Whoever does is told, or tells the copy.
//! Never: keeps more of an id in memory than one append, the digests of a few, and the numbers of
//! its snapshots.

mod difference;
mod events;
mod groups;
mod listing;
mod outcome;
mod snapshots;
mod states;

pub use outcome::{Copied, Outcome, OutcomeStream};

use std::fmt;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use self::listing::Listed;
use crate::journal::{IdStream, Journal};
use crate::snapshot::Snapshots;
use crate::state::States;
use crate::{Annals, PersistenceId, Result, Token};

/// How many ids are copied at once unless it is said otherwise: an id's events go one after the
/// other, so this many writes wait for the store at a time.
pub const AT_ONCE: usize = 64;

/// One of the two sides of a copy.
///
/// See [`Copier`] for an example.
#[derive(Clone, Debug)]
pub struct Side {
    /// The events.
    pub journal: Journal,
    /// The snapshots, if they are to be copied.
    pub snapshots: Option<Snapshots>,
    /// The durable state, if there is any and it is to be copied.
    pub states: Option<States>,
}

impl From<&Annals> for Side {
    fn from(annals: &Annals) -> Self {
        Self {
            journal: annals.journal().clone(),
            snapshots: Some(annals.snapshots().clone()),
            states: annals.states().ok().cloned(),
        }
    }
}

type Tell = Arc<dyn Fn(&Copied) + Send + Sync>;

/// Copies journals from one side to another.
///
/// ```
/// use annals::copy::{Copier, Side};
/// use annals::journal::{Expected, Window};
/// use annals::layout::AnnalsLayout;
/// use annals::{Annals, Codec, NewEvent};
/// use futures::TryStreamExt;
///
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let old = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let new = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let id = "Cart|42".parse()?;
/// old.journal().append(&id, Expected::Empty, NewEvent::new(Codec::Text, "opened")).await?;
///
/// let copier = Copier::new(Side::from(&old), Side::from(&new));
/// let mut outcomes = copier.all("");
/// while let Some(outcome) = outcomes.try_next().await? {
///     assert_eq!((outcome.copied.events, outcome.copied.verified), (1, 1));
///     assert!(outcome.failure.is_none());
/// }
/// let events: Vec<_> = new.journal().replay(&id, Window::ALL).try_collect().await?;
/// assert_eq!(events[0].data.payload, "opened");
///
/// // Again: nothing is left to do.
/// let outcome = copier.all("").try_next().await?.expect("there is one id");
/// assert_eq!((outcome.copied.events, outcome.copied.present), (0, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Copier {
    from: Side,
    to: Side,
    at_once: usize,
    deletions: bool,
    tell: Tell,
}

impl fmt::Debug for Copier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Copier");
        debug.field("from", &self.from).field("to", &self.to);
        debug.field("at_once", &self.at_once);
        debug
            .field("deletions", &self.deletions)
            .finish_non_exhaustive()
    }
}

impl Copier {
    /// From one side to another.
    pub fn new(from: Side, to: Side) -> Self {
        Self {
            from,
            to,
            at_once: AT_ONCE,
            deletions: false,
            tell: Arc::new(|_| {}),
        }
    }

    /// With so many ids at once, at least one.
    #[must_use]
    pub fn at_once(mut self, ids: usize) -> Self {
        self.at_once = ids.max(1);
        self
    }

    /// Deletes in the target what the source has not: events and snapshots that were deleted since
    /// they were copied, and ids that were purged, wherever they came from. Without it the target
    /// keeps what it has, which is counted. Snapshots behind the source's last event stay.
    #[must_use]
    pub fn with_deletions(mut self) -> Self {
        self.deletions = true;
        self
    }

    /// Calls this with every bit of work that is done, for a progress bar.
    #[must_use]
    pub fn telling(mut self, tell: impl Fn(&Copied) + Send + Sync + 'static) -> Self {
        self.tell = Arc::new(tell);
        self
    }

    /// Copies every id of the source that begins with `prefix`: its events and snapshots, and then
    /// the values of durable state. Ids that only the target has come in between: kept, or
    /// [deleted](Self::with_deletions).
    pub fn all(&self, prefix: &str) -> OutcomeStream {
        let listed = Listed::default();
        let journals = self.each(listed.of(&self.from, prefix), What::Journal);
        let lacking = match self.deletions {
            true => listed.of_lacking(&self.to, prefix),
            false => listed.of(&self.to, prefix),
        };
        let lacking = self.each(lacking, What::Lacking);
        let values: IdStream = match (&self.from.states, &self.to.states) {
            (Some(states), Some(_)) => states.ids(prefix),
            _ => Box::pin(stream::empty()),
        };
        let values = self.each(values, What::State);
        Box::pin(journals.chain(lacking).chain(values))
    }

    /// Copies these ids: their events, snapshots and values.
    pub fn ids(&self, ids: Vec<PersistenceId>) -> OutcomeStream {
        let ids = stream::iter(ids.into_iter().map(Ok));
        self.each(Box::pin(ids), What::Both)
    }

    fn each(&self, ids: IdStream, what: What) -> OutcomeStream {
        let copier = self.clone();
        let copying = ids.map_ok(move |id| {
            let copier = copier.clone();
            async move { Ok(copier.copy(id, what).await) }
        });
        Box::pin(copying.try_buffer_unordered(self.at_once))
    }

    async fn copy(&self, id: PersistenceId, what: What) -> Outcome {
        let mut work = Work {
            copier: self,
            id: &id,
            copied: Copied::default(),
            is_found: false,
            last: None,
        };
        let failure = work.run(what).await.err();
        let failure = failure.map(|error| error.fact("id", &id));
        let (copied, is_found) = (work.copied, work.is_found);
        Outcome {
            persistence_id: id,
            copied,
            is_found: is_found || failure.is_some(),
            failure,
        }
    }
}

/// What of an id is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Journal,
    /// The same of an id that only the target has.
    Lacking,
    State,
    Both,
}

/// The copy of one id.
struct Work<'a> {
    copier: &'a Copier,
    id: &'a PersistenceId,
    copied: Copied,
    /// Whether the source has anything of it, or it was met in the target.
    is_found: bool,
    /// The source's token of the last event that the target has.
    last: Option<Token>,
}

impl Work<'_> {
    async fn run(&mut self, what: What) -> Result<()> {
        self.is_found = what == What::Lacking;
        if what != What::State {
            let highest = self.events().await?;
            self.snapshots(highest).await?;
        }
        if matches!(what, What::State | What::Both) {
            self.state().await?;
        }
        Ok(())
    }

    /// Adds to what was done, and tells of it.
    fn done(&mut self, more: Copied) {
        self.copied += more;
        (self.copier.tell)(&more);
    }
}
