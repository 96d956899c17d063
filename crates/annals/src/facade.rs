//! Everything on one store: journal, snapshots, durable state, and the entities on them.

use std::sync::Arc;

use crate::entity::{Entity, EntitySettings, Executor, Host, Region, durable};
use crate::journal::Journal;
use crate::layout::{AnnalsLayout, Layout};
use crate::log::Log;
use crate::settings::LogSettings;
use crate::snapshot::Snapshots;
use crate::state::States;
use crate::store::Store;
use crate::{Error, Result};

/// Everything on one store.
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
}

impl Annals {
    /// In a folder of this machine, which is created if it is missing. One process at a time.
    ///
    /// # Errors
    /// `Invalid` where the folder holds something else, `Unavailable` where another process has it
    /// open.
    #[cfg(feature = "embedded")]
    pub async fn embedded(folder: impl AsRef<std::path::Path>) -> Result<Self> {
        let opened = crate::embedded::Embedded::open(folder.as_ref(), &Default::default())?;
        Self::create(opened, &AnnalsLayout::default()).await
    }

    /// On any store and layout; the tables must exist.
    ///
    /// # Errors
    /// `Invalid` where a table is missing or was created for other settings.
    pub async fn open(store: impl Into<Store>, layout: &dyn Layout) -> Result<Self> {
        let store = store.into();
        let has_states = layout.tables()?.state.is_some();
        let states = has_states.then(|| layout.states(&store)).transpose()?;
        Ok(Self {
            journal: layout.journal(&store).await?,
            snapshots: layout.snapshots(&store)?,
            states,
            store,
        })
    }

    /// On any store and layout; missing tables are created.
    ///
    /// # Errors
    /// `Invalid` where a table was created for other settings; the others as the store fails.
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
    /// `Invalid` where the layout has none.
    pub fn states(&self) -> Result<&States> {
        let none = || Error::invalid("this layout has no durable state; choose annals or j5ik2o");
        self.states.as_ref().ok_or_else(none)
    }

    /// The time-ordered log on the same store, whose tables are there.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub async fn log(&self, settings: &LogSettings) -> Result<Log> {
        Log::open(&self.store, settings).await
    }

    /// The time-ordered log on the same store; tables that are missing are made.
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
        Host {
            journal: self.journal.clone(),
            snapshots: self.snapshots.clone(),
            clock: self.store.clock().clone(),
            recoveries: settings.recoveries(),
            settings: Arc::new(settings),
        }
    }

    /// Entities that stay in memory while they are used. To be called inside a tokio runtime.
    pub fn region<E: Entity>(&self, settings: EntitySettings<E>) -> Region<E> {
        Region::start(self.host(settings))
    }

    /// Entities that are loaded for each command.
    pub fn executor<E: Entity>(&self, settings: EntitySettings<E>) -> Executor<E> {
        Executor::new(self.host(settings))
    }

    fn durable_host<E: durable::Entity>(
        &self,
        settings: EntitySettings<E>,
    ) -> Result<durable::Host<E>> {
        Ok(durable::Host {
            states: self.states()?.clone(),
            clock: self.store.clock().clone(),
            recoveries: settings.recoveries(),
            settings: Arc::new(settings),
        })
    }

    /// Values that stay in memory while they are used. To be called inside a tokio runtime. See
    /// [`durable`] for an example.
    ///
    /// # Errors
    /// `Invalid` where the layout has no durable state.
    pub fn durable_region<E: durable::Entity>(
        &self,
        settings: EntitySettings<E>,
    ) -> Result<durable::Region<E>> {
        Ok(durable::Region::start(self.durable_host(settings)?))
    }

    /// Values that are loaded for each command.
    ///
    /// # Errors
    /// `Invalid` where the layout has no durable state.
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
