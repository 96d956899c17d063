//! The facade: journal, snapshots, durable state, entities and log on one store.

use std::sync::Arc;

use crate::consumers::FeedConsumers;
use crate::entity::{Entity, EntitySettings, Executor, HeldBack, Host, Region, Shared, durable};
use crate::feed::Reading;
use crate::group::Groups;
use crate::items::{TableName, missing_table};
use crate::journal::Journal;
use crate::layout::{AnnalsLayout, Layout};
use crate::log::Log;
use crate::projection::Projections;
use crate::settings::LogSettings;
use crate::snapshot::{Criteria, Snapshots};
use crate::state::States;
use crate::store::Store;
use crate::{Error, PersistenceId, Result};

/// Journal, snapshots, durable state, entities and log on one store.
///
/// Clones share the store. To close an embedded store, drop every clone, every [`Region`] and
/// [`Executor`], every [`Journal`] and stream: the last one that is dropped frees the folder, and it can be
/// opened again, also in this process. Nothing has to be flushed: what was acknowledged is on disk. Call
/// [`Region::passivate_all`] before, so that no command is in flight.
///
/// ```
/// use annals::{Annals, Codec, NewEvent, journal::Expected};
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// let annals = Annals::embedded(folder).await?;
/// let id = "Cart|42".parse()?;
/// let opened = NewEvent::new(Codec::Text, "opened");
/// annals.journal().append(&id, Expected::Empty, opened).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Annals {
    store: Store,
    journal: Journal,
    snapshots: Snapshots,
    states: Option<States>,
    groups: Groups,
}

/// What [`Annals::purge`] removed. See there for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// Whether there were events, or tombstones of deleted ones.
    pub has_events: bool,
    /// The number of snapshots.
    pub snapshots: u64,
}

impl Purged {
    /// Whether there was nothing to remove.
    pub fn is_empty(&self) -> bool {
        !self.has_events && self.snapshots == 0
    }
}

/// Whether a store failed because a table does not exist.
fn is_missing_table(error: &Error) -> bool {
    let table = error.fact_value("table").and_then(|name| name.parse().ok());
    table.is_some_and(|table: TableName| missing_table(&table).message() == error.message())
}

impl Annals {
    /// Opens a folder of this machine, creating it if it is missing. One process at a time, and one at a
    /// time in a process. The folder is free again when this, its clones and all that was made of them are
    /// dropped.
    ///
    /// # Errors
    /// `Invalid` if the folder is not a store, `Unavailable` if it is open already, in another process or in
    /// this one.
    #[cfg(feature = "embedded")]
    pub async fn embedded(folder: impl AsRef<std::path::Path>) -> Result<Self> {
        let opened = crate::embedded::Embedded::open(folder.as_ref(), &Default::default())?;
        Self::create(opened, &AnnalsLayout::default()).await
    }

    /// Opens any store and layout; the tables must exist.
    ///
    /// # Errors
    /// `Invalid` if a table is missing or was created with other settings.
    pub async fn open(store: impl Into<Store>, layout: &dyn Layout) -> Result<Self> {
        let store = store.into();
        let has_states = layout.tables()?.state.is_some();
        let states = has_states.then(|| layout.states(&store)).transpose()?;
        let journal = layout.journal(&store).await?;
        Ok(Self {
            groups: Groups::of(&journal)?,
            journal,
            snapshots: layout.snapshots(&store)?,
            states,
            store,
        })
    }

    /// Opens any store and layout, creating missing tables.
    ///
    /// # Errors
    /// `Invalid` if a table was created with other settings; otherwise those of the store.
    pub async fn create(store: impl Into<Store>, layout: &dyn Layout) -> Result<Self> {
        let store = store.into();
        layout.tables()?.create_missing(&store).await?;
        Self::open(store, layout).await
    }

    /// The journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The snapshots.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// The durable state.
    ///
    /// # Errors
    /// `Invalid` if the layout does not support it.
    pub fn states(&self) -> Result<&States> {
        let none = || Error::invalid("this layout has no durable state; use annals or j5ik2o");
        self.states.as_ref().ok_or_else(none)
    }

    /// Removes everything of an id, snapshots and events, so that it starts over at 1. Stop all users of
    /// the id first: a region keeps its state, and a write in flight may leave items. Repeatable. A
    /// durable state of the same id stays.
    ///
    /// Snapshots are deleted before events: an interrupted purge leaves no snapshot of events that are
    /// gone, from which an entity would recover. That costs as much as [`Snapshots::delete`]; for an id
    /// without snapshots one query that finds nothing, and on `j5ik2o` up to two. If the table
    /// of snapshots does not exist, there are none.
    ///
    /// ```
    /// use annals::journal::Expected;
    /// use annals::{Codec, NewEvent, Payload, Purged, SequenceNumber};
    ///
    /// # use annals::Annals;
    /// # use annals::memory::Memory;
    /// # use annals::layout::AnnalsLayout;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
    /// let id = "Cart|42".parse()?;
    /// annals.journal().append(&id, Expected::Empty, NewEvent::new(Codec::Text, "opened")).await?;
    /// let state = Payload::new(Codec::Text, "open");
    /// annals.snapshots().save(&id, SequenceNumber::FIRST, state).await?;
    ///
    /// let purged: Purged = annals.purge(&id).await?;
    /// assert_eq!((purged.has_events, purged.snapshots), (true, 1));
    /// assert!(annals.purge(&id).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the store fails; some of it may be removed.
    pub async fn purge(&self, id: &PersistenceId) -> Result<Purged> {
        let snapshots = match self.snapshots.delete(id, Criteria::ALL).await {
            Err(error) if is_missing_table(&error) => 0,
            deleted => deleted?,
        };
        let has_events = self.journal.purge(id).await?;
        Ok(Purged {
            has_events,
            snapshots,
        })
    }

    /// The feed: the events of all ids, in the order in which they were committed.
    ///
    /// Nothing is read yet; see [`Reading`] for an example. The memory and embedded stores have it.
    pub fn feed(&self) -> Reading {
        Reading::new(&self.journal)
    }

    /// The projections: views and handlers that follow the feed. See [`View`](crate::projection::View)
    /// for an example.
    pub fn projections(&self) -> Projections {
        Projections::of(&self.journal)
    }

    /// The consumer groups: members share the events of the feed, each commit for one of them.
    ///
    /// See [`Group`](crate::group::Group) for an example. The memory and embedded stores have the feed
    /// that groups need.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Opens the time-ordered log on the same store; its tables must exist.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub async fn log(&self, settings: &LogSettings) -> Result<Log> {
        Log::open(&self.store, settings).await
    }

    /// Opens the time-ordered log on the same store, creating missing tables.
    ///
    /// # Errors
    /// As [`Log::create`].
    pub async fn create_log(&self, settings: &LogSettings) -> Result<Log> {
        Log::create(&self.store, settings).await
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    fn host<E: Entity>(&self, settings: EntitySettings<E>) -> Host<E> {
        let consumers = FeedConsumers {
            journal: self.journal.clone(),
            groups: self.groups.clone(),
        };
        Host {
            journal: self.journal.clone(),
            snapshots: self.snapshots.clone(),
            shared: Shared::new(self.store.clock(), &settings),
            held_back: HeldBack::new(Arc::new(consumers), &settings),
            settings,
        }
    }

    /// Starts a region: entities stay in memory while they are used.
    ///
    /// # Panics
    /// Outside a tokio runtime: the region's tasks run on the one of its caller.
    pub fn region<E: Entity>(&self, settings: EntitySettings<E>) -> Region<E> {
        Region::start(self.host(settings))
    }

    /// Creates an executor: entities are loaded for each command.
    pub fn executor<E: Entity>(&self, settings: EntitySettings<E>) -> Executor<E> {
        Executor::new(self.host(settings))
    }

    fn durable_host<E: durable::Entity>(
        &self,
        settings: EntitySettings<E>,
    ) -> Result<durable::Host<E>> {
        Ok(durable::Host {
            states: self.states()?.clone(),
            shared: Shared::new(self.store.clock(), &settings),
            settings,
        })
    }

    /// Starts a region of durable entities. See [`durable`] for an example.
    ///
    /// # Errors
    /// `Invalid` if the layout has no durable state.
    ///
    /// # Panics
    /// Outside a tokio runtime: the region's tasks run on the one of its caller.
    pub fn durable_region<E: durable::Entity>(
        &self,
        settings: EntitySettings<E>,
    ) -> Result<durable::Region<E>> {
        Ok(durable::Region::start(self.durable_host(settings)?))
    }

    /// Creates an executor of durable entities: values are loaded for each command.
    ///
    /// # Errors
    /// `Invalid` if the layout has no durable state.
    ///
    /// ```
    /// # use annals::entity::durable::{Effect, Entity, Handle, update};
    /// # use annals::entity::{Cx, Stored};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Default, Serialize, Deserialize, Stored)]
    /// # struct Position(u64);
    /// # impl Entity for Position {
    /// #     const TYPE: &'static str = "Position";
    /// #     type Error = std::convert::Infallible;
    /// # }
    /// # struct Advance(u64);
    /// # impl Handle<Advance> for Position {
    /// #     type Reply = ();
    /// #     fn handle(&self, by: &Advance, _: &Cx<'_>) -> Result<Effect<Self, ()>, Self::Error> {
    /// #         Ok(update(Self(self.0 + by.0)))
    /// #     }
    /// # }
    /// use annals::Annals;
    /// use annals::entity::EntitySettings;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// let annals = Annals::embedded(folder.path()).await?;
    /// let positions = annals.durable_executor::<Position>(EntitySettings::new())?;
    /// positions.ask("reader", Advance(7)).await?;
    /// assert_eq!(positions.view("reader", |at| at.0).await?, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn durable_executor<E: durable::Entity>(
        &self,
        settings: EntitySettings<E>,
    ) -> Result<durable::Executor<E>> {
        Ok(durable::Executor::new(self.durable_host(settings)?))
    }
}
