//! Everything on one store: journal, snapshots, durable state, and the entities on them.

use std::sync::Arc;

use crate::entity::{Entity, EntitySettings, Executor, Host, Region, durable};
use crate::items::Items;
use crate::journal::Journal;
use crate::log::Log;
use crate::settings::{LogSettings, Settings};
use crate::snapshot::Snapshots;
use crate::state::States;
use crate::{Clock, Error, ErrorKind, Random, Result, SystemClock};

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
    items: Arc<dyn Items>,
    clock: Arc<dyn Clock>,
    journal: Journal,
    snapshots: Snapshots,
    states: Option<States>,
}

impl Annals {
    /// On a folder of this machine, which is made if it is missing. One process at a time.
    ///
    /// # Errors
    /// `Invalid` where the folder is something else's, `Unavailable` where another process has it.
    #[cfg(feature = "embedded")]
    pub async fn embedded(folder: impl AsRef<std::path::Path>) -> Result<Self> {
        let settings = Settings::default();
        let opened = crate::embedded::Embedded::open(folder.as_ref(), &settings.embedded)?;
        Self::create(Arc::new(opened), &settings).await
    }

    /// On any store whose tables are there.
    ///
    /// # Errors
    /// `Invalid` where a table is missing or was made for other settings.
    pub async fn open(items: Arc<dyn Items>, settings: &Settings) -> Result<Self> {
        let clock = Arc::new(SystemClock::new());
        Self::open_at(items, settings, clock).await
    }

    /// On any store; tables that are missing are made.
    ///
    /// # Errors
    /// `Invalid` where a table was made for other settings; the others as the store fails.
    pub async fn create(items: Arc<dyn Items>, settings: &Settings) -> Result<Self> {
        for table in settings.layout.tables(settings)?.all() {
            if items.describe_table(table.name()).await?.is_none() {
                match items.create_table(table, Default::default()).await {
                    // Another process was faster.
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    other => other?,
                }
            }
        }
        Self::open(items, settings).await
    }

    /// On any store whose tables are there, by a clock of one's own.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_at(
        items: Arc<dyn Items>,
        settings: &Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let random = Random::from_machine();
        let has_states = settings.layout.tables(settings)?.state.is_some();
        let states = has_states
            .then(|| States::open(items.clone(), settings, clock.clone(), random.clone()));
        Ok(Self {
            journal: Journal::open(items.clone(), settings, clock.clone(), random.clone()).await?,
            snapshots: Snapshots::open(items.clone(), settings, clock.clone(), random)?,
            states: states.transpose()?,
            clock,
            items,
        })
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
        Log::open(self.items.clone(), settings, self.clock.clone()).await
    }

    /// The time-ordered log on the same store; tables that are missing are made.
    ///
    /// # Errors
    /// As [`Log::create`].
    pub async fn create_log(&self, settings: &LogSettings) -> Result<Log> {
        Log::create(self.items.clone(), settings, self.clock.clone()).await
    }

    /// The store.
    pub fn items(&self) -> &Arc<dyn Items> {
        &self.items
    }

    fn host<E: Entity>(&self, settings: EntitySettings<E>) -> Host<E> {
        Host {
            journal: self.journal.clone(),
            snapshots: self.snapshots.clone(),
            clock: self.clock.clone(),
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
            clock: self.clock.clone(),
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
