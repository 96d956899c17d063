//! Copying journals, snapshots and durable state from one layout or store to another.
//!
//! Resumable: the target itself is the only record of progress, so an interrupted copy is simply
//! started again. Events in the target are compared with the source, and written events are read
//! back: when the copy of an id ends, every event has been compared.
//!
//! Guarantees: the same events under the same sequence numbers, with the same times, manifests, tags,
//! metadata, causes and bytes. Events that are deleted in the source do not come back, and their
//! sequence numbers are not reused. Nothing in the target is overwritten, and nothing is deleted
//! unless deletions are requested: what only the target has is counted as kept. A failure of one id
//! does not stop the others. Memory: one append, the digests of a few hundred events, and the
//! sequence numbers of an id's snapshots.
//!
//! Relies on nobody else writing to the copied ids in the target; a concurrent writer gets a conflict,
//! or the copy does.

mod compare;
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

use self::listing::ListedIds;
use crate::journal::Journal;
use crate::snapshot::Snapshots;
use crate::state::States;
use crate::{Annals, IdStream, PersistenceId, Result, Token};

/// Ids that are copied concurrently by default. The events of an id are written one append at a time,
/// so this is also the number of writes in flight.
pub const DEFAULT_CONCURRENCY: usize = 64;

/// The source or the target of a copy.
///
/// ```
/// use annals::Annals;
/// use annals::copy::CopyEndpoint;
///
/// fn events_and_snapshots(annals: &Annals) -> CopyEndpoint {
///     CopyEndpoint::new(annals.journal().clone()).snapshots(annals.snapshots().clone())
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyEndpoint {
    /// The events.
    pub journal: Journal,
    /// The snapshots, if they are copied.
    pub snapshots: Option<Snapshots>,
    /// The durable state, if it is copied.
    pub states: Option<States>,
}

impl CopyEndpoint {
    /// An endpoint of events only.
    pub fn new(journal: Journal) -> Self {
        Self {
            journal,
            snapshots: None,
            states: None,
        }
    }

    /// Sets the snapshots; copied if both endpoints have them.
    #[must_use]
    pub fn snapshots(mut self, snapshots: impl Into<Option<Snapshots>>) -> Self {
        self.snapshots = snapshots.into();
        self
    }

    /// Sets the durable state; copied if both endpoints have it.
    #[must_use]
    pub fn states(mut self, states: impl Into<Option<States>>) -> Self {
        self.states = states.into();
        self
    }
}

/// Events, snapshots and, if the layout supports it, durable state.
impl From<&Annals> for CopyEndpoint {
    fn from(annals: &Annals) -> Self {
        Self {
            journal: annals.journal().clone(),
            snapshots: Some(annals.snapshots().clone()),
            states: annals.states().ok().cloned(),
        }
    }
}

type OnProgress = Arc<dyn Fn(&Copied) + Send + Sync>;

/// Copies journals, snapshots and durable state.
///
/// ```
/// use annals::copy::{Copier, CopyEndpoint};
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
/// let copier = Copier::new(CopyEndpoint::from(&old), CopyEndpoint::from(&new));
/// let mut outcomes = copier.all("");
/// while let Some(outcome) = outcomes.try_next().await? {
///     assert_eq!((outcome.copied.events, outcome.copied.verified), (1, 1));
///     assert!(outcome.failure.is_none());
/// }
/// let events: Vec<_> = new.journal().replay(&id, Window::ALL).try_collect().await?;
/// assert_eq!(events[0].data.payload, "opened");
///
/// // Nothing is left for a second copy.
/// let outcome = copier.all("").try_next().await?.expect("there is one id");
/// assert_eq!((outcome.copied.events, outcome.copied.present), (0, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Copier {
    source: CopyEndpoint,
    target: CopyEndpoint,
    concurrency: usize,
    deletions: bool,
    on_progress: OnProgress,
}

impl fmt::Debug for Copier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Copier");
        debug.field("source", &self.source);
        debug.field("target", &self.target);
        debug.field("concurrency", &self.concurrency);
        debug
            .field("deletions", &self.deletions)
            .finish_non_exhaustive()
    }
}

impl Copier {
    /// Copies from a source to a target.
    pub fn new(source: CopyEndpoint, target: CopyEndpoint) -> Self {
        Self {
            source,
            target,
            concurrency: DEFAULT_CONCURRENCY,
            deletions: false,
            on_progress: Arc::new(|_| {}),
        }
    }

    /// Sets how many ids are copied concurrently, at least one.
    #[must_use]
    pub fn concurrency(mut self, ids: usize) -> Self {
        self.concurrency = ids.max(1);
        self
    }

    /// Deletes from the target what the source does not have: events and snapshots that were deleted
    /// after they were copied, and ids that were purged, whatever their origin. Without it the target
    /// keeps them, and they are counted. Snapshots after the source's last event always stay.
    #[must_use]
    pub fn with_deletions(mut self) -> Self {
        self.deletions = true;
        self
    }

    /// Calls a function with every step of progress.
    #[must_use]
    pub fn on_progress(mut self, report: impl Fn(&Copied) + Send + Sync + 'static) -> Self {
        self.on_progress = Arc::new(report);
        self
    }

    /// Copies every id that begins with `prefix`: events and snapshots, then ids that only the target
    /// has (kept, or [deleted](Self::with_deletions)), then durable state.
    pub fn all(&self, prefix: &str) -> OutcomeStream {
        let listed = ListedIds::default();
        let journals = self.each(listed.list(&self.source, prefix), Scope::Journal);
        let target_only = match self.deletions {
            true => listed.list_for_deletion(&self.target, prefix),
            false => listed.list(&self.target, prefix),
        };
        let target_only = self.each(target_only, Scope::TargetOnly);
        let values: IdStream = match (&self.source.states, &self.target.states) {
            (Some(states), Some(_)) => states.ids(prefix),
            _ => IdStream::empty(),
        };
        let values = self.each(values, Scope::State);
        OutcomeStream::new(journals.chain(target_only).chain(values))
    }

    /// Copies the events, snapshots and values of these ids.
    pub fn ids(&self, ids: Vec<PersistenceId>) -> OutcomeStream {
        let ids = stream::iter(ids.into_iter().map(Ok));
        self.each(IdStream::new(ids), Scope::All)
    }

    fn each(&self, ids: IdStream, scope: Scope) -> OutcomeStream {
        let copier = self.clone();
        let copying = ids.map_ok(move |id| {
            let copier = copier.clone();
            async move { Ok(copier.copy(id, scope).await) }
        });
        OutcomeStream::new(copying.try_buffer_unordered(self.concurrency))
    }

    async fn copy(&self, id: PersistenceId, scope: Scope) -> Outcome {
        let mut copy = IdCopy {
            copier: self,
            id: &id,
            copied: Copied::default(),
            is_found: false,
            has_events: false,
            has_snapshots: false,
            last_token: None,
        };
        let failure = copy.run(scope).await.err();
        let failure = failure.map(|error| error.fact("id", &id));
        let (copied, is_found) = (copy.copied, copy.is_found);
        let (has_events, has_snapshots) = (copy.has_events, copy.has_snapshots);
        Outcome {
            persistence_id: id,
            copied,
            is_found: is_found || failure.is_some(),
            has_events,
            has_snapshots,
            failure,
        }
    }
}

/// What to copy of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Events and snapshots.
    Journal,
    /// Events and snapshots of an id that only the target has.
    TargetOnly,
    /// Durable state.
    State,
    All,
}

/// The copy of one id.
struct IdCopy<'a> {
    copier: &'a Copier,
    id: &'a PersistenceId,
    copied: Copied,
    /// Whether the source has data of it, or it was listed by the target.
    is_found: bool,
    has_events: bool,
    has_snapshots: bool,
    /// The source's token of the last event in the target.
    last_token: Option<Token>,
}

impl IdCopy<'_> {
    async fn run(&mut self, scope: Scope) -> Result<()> {
        self.is_found = scope == Scope::TargetOnly;
        if scope != Scope::State {
            let highest = self.copy_events().await?;
            self.copy_snapshots(highest).await?;
        }
        if matches!(scope, Scope::State | Scope::All) {
            self.copy_state().await?;
        }
        Ok(())
    }

    /// Adds to the counts, and reports the progress.
    fn count(&mut self, more: Copied) {
        self.copied += more;
        (self.copier.on_progress)(&more);
    }
}
