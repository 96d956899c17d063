//! What an application can say about a kind of entity.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::evolution::Reading;
use super::{Adapter, Entity, Retention, Unknown};

/// How a kind of entity is kept.
///
/// ```
/// use std::time::Duration;
///
/// use annals::entity::{EntitySettings, Retention};
/// # #[derive(Default, serde::Serialize, serde::Deserialize, annals::entity::Stored)]
/// # struct Account;
/// # #[derive(serde::Serialize, serde::Deserialize, annals::entity::EntityEvent)]
/// # struct Opened;
/// # impl annals::entity::Entity for Account {
/// #     const TYPE: &'static str = "Account";
/// #     type Event = Opened;
/// #     type Error = std::convert::Infallible;
/// #     fn apply(&mut self, _: &Opened) {}
/// # }
/// let settings = EntitySettings::<Account>::new()
///     .retention(Retention::every(100).keep(2).delete_events())
///     .remember_commands(1_000)
///     .max_resident(50_000)
///     .passivate_after(Duration::from_secs(60));
/// # let _ = settings;
/// ```
pub struct EntitySettings<E> {
    pub(super) retention: Retention<E>,
    pub(super) reading: Reading,
    pub(super) tries: u32,
    pub(super) remembered: u64,
    pub(super) residency: Residency,
}

/// How entities stay in memory.
#[derive(Clone, Debug)]
pub(crate) struct Residency {
    pub(super) mailbox: usize,
    pub(super) passivate_after: Duration,
    pub(super) max_resident: usize,
    pub(super) max_recoveries: usize,
}

impl<E> Default for EntitySettings<E> {
    fn default() -> Self {
        Self {
            retention: Retention::never(),
            reading: Reading::default(),
            tries: 8,
            remembered: 0,
            residency: Residency {
                mailbox: 64,
                passivate_after: Duration::from_secs(120),
                max_resident: 100_000,
                max_recoveries: 32,
            },
        }
    }
}

impl<E> EntitySettings<E> {
    /// The defaults: no snapshots, 8 decisions before a conflict is told, 64 commands waiting for
    /// an entity, 2 minutes until an idle one leaves memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often a command is decided while others are faster, at least once. Fewer: askers are told
    /// of conflicts sooner. More: a busy id answers later.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries.max(1);
        self
    }

    /// How many commands may wait for one entity, at least one. Fewer: bursts are refused as
    /// overloaded. More: askers wait longer before they are told.
    #[must_use]
    pub fn mailbox(mut self, commands: usize) -> Self {
        self.residency.mailbox = commands.max(1);
        self
    }

    /// How long an idle entity stays in memory. Shorter: more recoveries. Longer: more memory.
    #[must_use]
    pub fn passivate_after(mut self, idle: Duration) -> Self {
        self.residency.passivate_after = idle;
        self
    }

    /// How many entities are in memory at most, at least one. Where all of them are busy, another
    /// one is refused as overloaded.
    #[must_use]
    pub fn max_resident(mut self, entities: usize) -> Self {
        self.residency.max_resident = entities.max(1);
        self
    }

    /// How many entities recover at once, at least one. Fewer: a restart takes longer to warm up.
    /// More: it takes more of the store from those who are up already.
    #[must_use]
    pub fn max_concurrent_recoveries(mut self, recoveries: usize) -> Self {
        self.residency.max_recoveries = recoveries.max(1);
        self
    }
}

impl<E> EntitySettings<E> {
    /// As many as may be loaded at once.
    pub(crate) fn recoveries(&self) -> Arc<Semaphore> {
        let most = self.residency.max_recoveries.min(Semaphore::MAX_PERMITS);
        Arc::new(Semaphore::new(most))
    }
}

/// What is said of entities that are made of events.
impl<E: Entity> EntitySettings<E> {
    /// When snapshots are saved, and what is kept of them and of the events.
    #[must_use]
    pub fn retention(mut self, retention: Retention<E>) -> Self {
        self.retention = retention;
        self
    }

    /// One more adapter; the first one given sees an event first.
    #[must_use]
    pub fn adapter(mut self, adapter: Adapter) -> Self {
        self.reading.adapters.push(adapter);
        self
    }

    /// What becomes of events that nobody knows.
    #[must_use]
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.reading.unknown = unknown;
        self
    }

    /// How many of the last events are remembered by their command's id; none unless this is said, and
    /// then `ask_once` is refused. Fewer: an old command may
    /// be taken for a new one. More: recovery reads so many events before the snapshot too.
    #[must_use]
    pub fn remember_commands(mut self, events: u64) -> Self {
        self.remembered = events;
        self
    }
}

impl<E> fmt::Debug for EntitySettings<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntitySettings")
            .field("tries", &self.tries)
            .field("residency", &self.residency)
            .finish_non_exhaustive()
    }
}

pub(crate) type Shared<E> = Arc<EntitySettings<E>>;
