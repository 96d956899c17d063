//! Snapshots: an entity's state at a sequence number. Always disposable.
//!
//! Promises: the newest by sequence number among those that meet the criteria; one that does not
//! decode is passed over with a warning, and the next older one is used.
//! Never: is needed. Whoever finds no snapshot replays from the first event.

mod criteria;
mod place;

pub use criteria::Criteria;
pub use place::Place;

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{Stream, TryStreamExt};

use crate::IdStream;
use crate::store::Store;
use crate::verify::{self, Finding, FindingStream, Looks, Repairs, Verify};
use crate::{Payload, PersistenceId, Result, SequenceNumber};

/// Snapshots as they come, newest first. An error ends it.
///
/// ```
/// use annals::snapshot::{Criteria, SnapshotStream};
/// use annals::{Codec, Payload, SequenceNumber};
/// use futures::TryStreamExt;
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let snapshots = annals.snapshots();
/// let id = "Account|1".parse()?;
/// for n in 1..=3 {
///     let at = SequenceNumber::new(n).expect("numbers begin at 1");
///     snapshots.save(&id, at, Payload::new(Codec::Text, "10")).await?;
/// }
/// let mut found: SnapshotStream = snapshots.find(&id, Criteria::ALL);
/// let newest = found.try_next().await?.expect("three are there");
/// assert_eq!(newest.sequence_number.get(), 3);
/// # Ok(())
/// # }
/// ```
pub type SnapshotStream = Pin<Box<dyn Stream<Item = Result<Snapshot>> + Send>>;

/// An entity's state at a sequence number.
///
/// ```
/// use annals::snapshot::{Criteria, Snapshot};
/// use annals::{Codec, Payload, SequenceNumber};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let id = "Account|1".parse()?;
/// let state = Payload::new(Codec::Text, "10");
/// annals.snapshots().save(&id, SequenceNumber::FIRST, state).await?;
///
/// let newest: Option<Snapshot> = annals.snapshots().load(&id, Criteria::ALL).await?;
/// let newest = newest.expect("it was saved");
/// assert_eq!(newest.sequence_number, SequenceNumber::FIRST);
/// assert_eq!(newest.payload.bytes, "10");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Whose state.
    pub persistence_id: PersistenceId,
    /// The last event it knows of.
    pub sequence_number: SequenceNumber,
    /// When it was saved, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// Where the append begins that its number ends, if that was told when it was saved.
    pub anchor: Option<SequenceNumber>,
    /// The state.
    pub payload: Payload,
}

/// How snapshots become items and back: what a layout does for them.
///
/// ```
/// use annals::snapshot::{Criteria, Snapshot, SnapshotLayout, SnapshotStream, Snapshots};
/// use annals::{Codec, Payload, PersistenceId, Result, SequenceNumber, SystemClock};
/// use std::sync::Arc;
///
/// /// Keeps none: every recovery replays all events.
/// #[derive(Debug)]
/// struct Nowhere;
///
/// #[async_trait::async_trait]
/// impl SnapshotLayout for Nowhere {
///     async fn save(&self, _: Snapshot) -> Result<()> {
///         Ok(())
///     }
///
///     fn find(&self, _: &PersistenceId, _: Criteria) -> SnapshotStream {
///         Box::pin(futures::stream::empty())
///     }
///
///     async fn delete(&self, _: &PersistenceId, _: Criteria) -> Result<()> {
///         Ok(())
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let snapshots = Snapshots::of(Arc::new(Nowhere), Arc::new(SystemClock::new()));
/// let id = "Account|1".parse()?;
/// snapshots.save(&id, SequenceNumber::FIRST, Payload::new(Codec::Text, "10")).await?;
/// assert_eq!(snapshots.load(&id, Criteria::ALL).await?, None);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait SnapshotLayout: fmt::Debug + Send + Sync + 'static {
    /// Saves, over one of the same number.
    async fn save(&self, snapshot: Snapshot) -> Result<()>;

    /// Those that meet the criteria, newest first.
    fn find(&self, id: &PersistenceId, criteria: Criteria) -> SnapshotStream;

    /// Deletes those that meet the criteria.
    async fn delete(&self, id: &PersistenceId, criteria: Criteria) -> Result<()>;

    /// Every id that has a snapshot and begins so, each once. A layout that cannot list them lists
    /// none, and a copy leaves out the snapshots of ids without events then.
    fn ids(&self, prefix: &str) -> IdStream {
        let _ = prefix;
        Box::pin(futures::stream::empty())
    }

    /// Finds what large snapshots left behind, and deletes it where that is wanted. A layout whose
    /// snapshots leave nothing has nothing to do.
    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        let _ = (older_than, verify);
        Ok(Vec::new())
    }

    /// What is wrong with every snapshot of an id, or of all, and with items that are nobody's; nothing
    /// is changed. A layout that does not look finds nothing.
    fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        let _ = whose;
        Box::pin(futures::stream::empty())
    }
}

/// The ids that snapshots were found of, each once.
pub fn each_once(
    ids: impl Stream<Item = Result<Option<PersistenceId>>> + Send + 'static,
    prefix: &str,
) -> IdStream {
    let (prefix, mut met) = (prefix.to_owned(), HashSet::new());
    Box::pin(ids.try_filter_map(move |id| {
        let id = id.filter(|id| id.as_str().starts_with(&prefix));
        let id = id.filter(|id| met.insert(Arc::<str>::from(id.as_str())));
        std::future::ready(Ok(id))
    }))
}

/// The snapshots of ids, to be looked at again.
struct Looked(Arc<dyn SnapshotLayout>);

#[async_trait]
impl Looks for Looked {
    async fn look(&self, id: &PersistenceId, _: &Repairs) -> Result<Vec<Finding>> {
        self.0.verify(Some(id)).try_concat().await
    }
}

/// Where snapshots are kept.
///
/// ```
/// use annals::layout::AnnalsLayout;
/// use annals::memory::Memory;
/// use annals::snapshot::{Criteria, Snapshots};
/// use annals::{Annals, Codec, Payload, PersistenceId, SequenceNumber};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// let snapshots: &Snapshots = annals.snapshots();
///
/// let id: PersistenceId = "Account|1".parse()?;
/// let state = Payload::new(Codec::Json, r#"{"balance":10}"#);
/// snapshots.save(&id, SequenceNumber::FIRST, state.clone()).await?;
/// let newest = snapshots.load(&id, Criteria::ALL).await?.expect("it was saved");
/// assert_eq!(newest.payload, state);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Snapshots {
    layout: Arc<dyn SnapshotLayout>,
    store: Store,
}

impl Snapshots {
    /// On a layout; called by [`Layout::snapshots`](crate::layout::Layout::snapshots).
    pub fn new(layout: Arc<dyn SnapshotLayout>, store: &Store) -> Self {
        Self {
            layout,
            store: store.clone(),
        }
    }

    /// Saves the state at a sequence number, or behind an append, over what was saved for that
    /// number before.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn save(
        &self,
        id: &PersistenceId,
        at: impl Into<Place>,
        state: Payload,
    ) -> Result<()> {
        let at = at.into();
        let snapshot = Snapshot {
            persistence_id: id.clone(),
            sequence_number: at.number,
            time_ms: self.store.clock().now_ms(),
            anchor: at.anchor,
            payload: state,
        };
        self.layout.save(snapshot).await
    }

    /// Saves a snapshot that was saved elsewhere, with the time it has.
    pub(crate) async fn save_as(&self, snapshot: Snapshot) -> Result<()> {
        self.layout.save(snapshot).await
    }

    /// The newest, by sequence number, that meets the criteria and decodes.
    ///
    /// # Errors
    /// As the store fails. One that does not decode is no error: the next older one is taken.
    pub async fn load(&self, id: &PersistenceId, criteria: Criteria) -> Result<Option<Snapshot>> {
        let (found, _) = self.load_telling(id, criteria).await?;
        Ok(found)
    }

    /// As [`load`](Self::load), and whether one was passed over that does not decode.
    pub(crate) async fn load_telling(
        &self,
        id: &PersistenceId,
        criteria: Criteria,
    ) -> Result<(Option<Snapshot>, bool)> {
        use futures::StreamExt;
        let mut found = self.find(id, criteria);
        let mut passed_over = false;
        while let Some(snapshot) = found.next().await {
            match snapshot {
                Ok(snapshot) => return Ok((Some(snapshot), passed_over)),
                Err(error) if error.kind() == crate::ErrorKind::Corrupt => {
                    tracing::warn!(%id, %error, "a snapshot does not decode; an older one is used");
                    passed_over = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((None, passed_over))
    }

    /// Those that meet the criteria, newest first. One that does not decode is an error of kind
    /// `Corrupt`, behind which the stream goes on.
    pub fn find(&self, id: &PersistenceId, criteria: Criteria) -> SnapshotStream {
        if criteria.is_empty() {
            return Box::pin(futures::stream::empty());
        }
        self.layout.find(id, criteria)
    }

    /// Deletes those that meet the criteria.
    ///
    /// # Errors
    /// As the store fails; some may be deleted then, and it can be repeated.
    pub async fn delete(&self, id: &PersistenceId, criteria: Criteria) -> Result<()> {
        if criteria.is_empty() {
            return Ok(());
        }
        self.layout.delete(id, criteria).await
    }

    /// Every id that has a snapshot and begins so, each once. Reads the whole table; all ids fit in
    /// memory.
    pub fn ids(&self, prefix: &str) -> IdStream {
        self.layout.ids(prefix)
    }

    /// What is wrong with the snapshots of an id, or with all there are and what is nobody's: a list
    /// for each, empty where nothing is. Reads them all, and changes nothing: a snapshot that does
    /// not open is passed over by whoever recovers.
    pub fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        let (first, looked) = (self.layout.verify(whose), Looked(self.layout.clone()));
        let clock = self.store.clock().clone();
        verify::all(Arc::new(looked), clock, (first, Verify::Look))
    }

    /// Finds what large snapshots left behind that were cut off before they were saved, replaced or
    /// deleted, if it is older than so long, and deletes it where that is wanted. Reads the whole
    /// table.
    ///
    /// # Errors
    /// `Invalid` for less than an hour: what is that young may still be under way.
    pub async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        self.layout.orphans(older_than, verify).await
    }
}
