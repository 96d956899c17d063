//! Snapshots: an entity's state at a sequence number. Always disposable: without one, recovery
//! replays from the first event.
//!
//! Guarantees: loading returns the matching snapshot with the highest sequence number. One that does
//! not decode is skipped with a warning, and the next older one is used.

mod criteria;
mod position;

pub use criteria::Criteria;
pub use position::SnapshotPosition;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;

use crate::IdStream;
use crate::items::Key;
use crate::store::Store;
use crate::verify::{Finding, FindingStream, Verify, confirm_check};
use crate::{ErrorKind, Payload, PersistenceId, Result, ResultStream, SequenceNumber};

/// A stream of snapshots, newest first.
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
///     let at = SequenceNumber::new(n).expect("at least 1");
///     snapshots.save(&id, at, Payload::new(Codec::Text, "10")).await?;
/// }
/// let mut found: SnapshotStream = snapshots.find(&id, Criteria::ALL);
/// let newest = found.try_next().await?.expect("there are three");
/// assert_eq!(newest.sequence_number.get(), 3);
/// # Ok(())
/// # }
/// ```
pub type SnapshotStream = ResultStream<Snapshot>;

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
#[non_exhaustive]
pub struct Snapshot {
    /// The entity.
    pub persistence_id: PersistenceId,
    /// The last event that it includes.
    pub sequence_number: SequenceNumber,
    /// When it was saved, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// The first sequence number of the append that it was saved after, if known.
    pub anchor: Option<SequenceNumber>,
    /// The state.
    pub payload: Payload,
}

impl Snapshot {
    /// A snapshot without an anchor, for layouts.
    pub fn new(
        persistence_id: PersistenceId,
        sequence_number: SequenceNumber,
        time_ms: u64,
        payload: Payload,
    ) -> Self {
        Self {
            persistence_id,
            sequence_number,
            time_ms,
            anchor: None,
            payload,
        }
    }
}

/// How a layout stores snapshots as items.
///
/// ```
/// use annals::snapshot::{Criteria, Snapshot, SnapshotLayout, SnapshotStream, Snapshots};
/// use annals::memory::Memory;
/// use annals::store::Store;
/// use annals::{Codec, Payload, PersistenceId, Result, SequenceNumber};
/// use std::sync::Arc;
///
/// /// Stores none: every recovery replays all events.
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
///         SnapshotStream::empty()
///     }
///
///     async fn delete(&self, _: &PersistenceId, _: Criteria) -> Result<u64> {
///         Ok(0)
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let snapshots = Snapshots::new(Arc::new(Nowhere), &Store::new(Memory::new()));
/// let id = "Account|1".parse()?;
/// snapshots.save(&id, SequenceNumber::FIRST, Payload::new(Codec::Text, "10")).await?;
/// assert_eq!(snapshots.load(&id, Criteria::ALL).await?, None);
/// # Ok(())
/// # }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not store the snapshots of a layout",
    label = "`annals::snapshot::SnapshotLayout` is not implemented for `{Self}`",
    note = "it is one part of an implementation of `annals::layout::Layout`"
)]
pub trait SnapshotLayout: fmt::Debug + Send + Sync + 'static {
    /// Saves a snapshot, replacing one of the same sequence number.
    async fn save(&self, snapshot: Snapshot) -> Result<()>;

    /// The matching snapshots, newest first.
    fn find(&self, id: &PersistenceId, criteria: Criteria) -> SnapshotStream;

    /// Deletes the matching snapshots; returns how many.
    async fn delete(&self, id: &PersistenceId, criteria: Criteria) -> Result<u64>;

    /// Lists the ids with snapshots that begin with `prefix`, each once. A layout that cannot list
    /// them lists none; a copy then skips the snapshots of ids without events.
    fn ids(&self, prefix: &str) -> IdStream {
        let _ = prefix;
        IdStream::empty()
    }

    /// The id that an item of the table of snapshots belongs to, by its key, and whether the item is a
    /// snapshot and not a chunk of one. A layout that does not know it returns `None`; then a restore
    /// leaves out no snapshots.
    fn owner_of(&self, key: &Key) -> Option<(PersistenceId, bool)> {
        let _ = key;
        None
    }

    /// Finds orphaned chunks of large snapshots, and deletes them with [`Verify::Repair`]. For
    /// layouts without chunks there are none.
    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        let _ = (older_than, verify);
        Ok(Vec::new())
    }

    /// Checks the snapshots of one id, or all snapshots and stray items, without changes. A layout
    /// without checks finds nothing.
    fn verify(&self, id: Option<&PersistenceId>) -> FindingStream {
        let _ = id;
        FindingStream::empty()
    }
}

/// The snapshot store.
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

/// What to do about a damaged snapshot.
const DAMAGED: &str = "recovery skips it, so delete it";

impl Snapshots {
    /// Snapshots on a layout; called by [`Layout::snapshots`](crate::layout::Layout::snapshots).
    pub fn new(layout: Arc<dyn SnapshotLayout>, store: &Store) -> Self {
        Self {
            layout,
            store: store.clone(),
        }
    }

    /// Saves the state at a sequence number, or after an append. Replaces a snapshot of the same
    /// number.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn save(
        &self,
        id: &PersistenceId,
        at: impl Into<SnapshotPosition>,
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
        let outcome = self.layout.save(snapshot).await;
        outcome.map_err(|error| error.during("save snapshot", id))
    }

    /// Saves a copy of a snapshot, with its time.
    pub(crate) async fn save_as(&self, snapshot: Snapshot) -> Result<()> {
        self.layout.save(snapshot).await
    }

    /// Loads the matching snapshot with the highest sequence number that decodes.
    ///
    /// # Errors
    /// Those of the store. A snapshot that does not decode is skipped.
    pub async fn load(&self, id: &PersistenceId, criteria: Criteria) -> Result<Option<Snapshot>> {
        let (found, _) = self.load_with_skipped(id, criteria).await?;
        Ok(found)
    }

    /// As [`load`](Self::load), and whether a snapshot was skipped.
    pub(crate) async fn load_with_skipped(
        &self,
        id: &PersistenceId,
        criteria: Criteria,
    ) -> Result<(Option<Snapshot>, bool)> {
        use futures::StreamExt;
        let mut found = self.find(id, criteria);
        let mut has_skipped = false;
        while let Some(snapshot) = found.next().await {
            match snapshot {
                Ok(snapshot) => return Ok((Some(snapshot), has_skipped)),
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    tracing::warn!(%id, %error, "skipping a snapshot that does not decode");
                    has_skipped = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((None, has_skipped))
    }

    /// Finds the matching snapshots, newest first. One that does not decode is an error of kind
    /// `Corrupt`, after which the stream continues.
    pub fn find(&self, id: &PersistenceId, criteria: Criteria) -> SnapshotStream {
        if criteria.is_empty() {
            return SnapshotStream::empty();
        }
        let found = self.layout.find(id, criteria);
        let id = id.clone();
        SnapshotStream::new(found.map_err(move |error| {
            let error = match error.kind() {
                ErrorKind::Corrupt => error.advise(DAMAGED),
                _ => error,
            };
            error.during("find snapshots", &id)
        }))
    }

    /// Deletes the matching snapshots; returns how many. Repeatable.
    ///
    /// # Errors
    /// Those of the store; some snapshots may be deleted.
    pub async fn delete(&self, id: &PersistenceId, criteria: Criteria) -> Result<u64> {
        if criteria.is_empty() {
            return Ok(0);
        }
        let outcome = self.layout.delete(id, criteria).await;
        outcome.map_err(|error| error.during("delete snapshots", id))
    }

    /// Lists the ids with snapshots that begin with `prefix`, each once. Reads the whole table and
    /// holds all ids in memory.
    pub fn ids(&self, prefix: &str) -> IdStream {
        self.layout.ids(prefix)
    }

    /// The id that an item of the table belongs to, and whether it is a snapshot.
    #[cfg(feature = "embedded")]
    pub(crate) fn owner_of(&self, key: &Key) -> Option<(PersistenceId, bool)> {
        self.layout.owner_of(key)
    }

    /// Checks the snapshots of one id, or all snapshots and stray items. Reads all of them and
    /// changes nothing: recovery skips a damaged snapshot.
    pub fn verify(&self, id: Option<&PersistenceId>) -> FindingStream {
        let (layout, clock) = (self.layout.clone(), self.store.clock().clone());
        confirm_check(move |id| layout.verify(id), clock, id)
    }

    /// Finds chunks of large snapshots that an interrupted save or deletion left, if they are older
    /// than `older_than`, and deletes them with [`Verify::Repair`]. Reads the whole table.
    ///
    /// # Errors
    /// `Invalid` for less than an hour: younger chunks may belong to a write in flight.
    pub async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        self.layout.orphans(older_than, verify).await
    }
}
