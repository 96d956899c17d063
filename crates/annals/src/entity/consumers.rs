//! The consumers of the feed that retention waits for, and the events that wait for them.
//!
//! What waits is in memory only. If it is lost, or too much waits, the next snapshot of an entity starts
//! over: its events are deleted later, never too early.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;

use super::EntitySettings;
use crate::feed::Position;
use crate::{PersistenceId, Result, SequenceNumber};

/// A consumer of the feed, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Consumer {
    Projection(Arc<str>),
    Group(Arc<str>),
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Projection(name) => write!(f, "projection {name}"),
            Self::Group(name) => write!(f, "group {name}"),
        }
    }
}

/// How far consumers have come.
#[async_trait]
pub(crate) trait Consumers: fmt::Debug + Send + Sync {
    /// Checks the name, without a request.
    ///
    /// # Errors
    /// `Invalid` if no consumer can have this name, or the store has no feed.
    fn check(&self, consumer: &Consumer) -> Result<()>;

    /// The positions up to which the events of an id are handled. The consumer needs no event that all of
    /// them include. `None`: there is no such consumer.
    async fn handled_to(
        &self,
        consumer: &Consumer,
        id: &PersistenceId,
    ) -> Result<Option<Vec<Position>>>;
}

/// Events that may be deleted when consumers have handled them.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// The last one.
    pub(super) to: SequenceNumber,
    /// A position after it.
    pub(super) until: Position,
}

/// How often a consumer is warned about.
const WARN_EVERY: Duration = Duration::from_secs(600);

/// The events of the entities of a host that wait for consumers.
#[derive(Debug)]
pub(crate) struct HeldBack {
    pub(super) consumers: Arc<dyn Consumers>,
    state: Mutex<State>,
    /// The most entities that are remembered.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// The entities since `older` was replaced.
    newer: HashMap<PersistenceId, Vec<Waiting>>,
    older: HashMap<PersistenceId, Vec<Waiting>>,
    /// When consumers were last warned about.
    warned: HashMap<Consumer, Duration>,
}

impl HeldBack {
    pub(crate) fn new<E>(consumers: Arc<dyn Consumers>, settings: &EntitySettings<E>) -> Self {
        Self {
            consumers,
            state: Mutex::default(),
            most: settings.residency.max_resident,
        }
    }

    /// Takes what waits of an entity, the oldest first.
    pub(super) fn take(&self, id: &PersistenceId) -> Vec<Waiting> {
        let mut state = self.lock();
        let found = state.newer.remove(id);
        let found = found.or_else(|| state.older.remove(id));
        found.unwrap_or_default()
    }

    /// Remembers what waits of an entity. If too many are remembered, those that were taken least
    /// recently are forgotten.
    pub(super) fn put(&self, id: &PersistenceId, waiting: Vec<Waiting>) {
        let mut state = self.lock();
        if state.newer.len() >= self.most.div_ceil(2) {
            state.older = std::mem::take(&mut state.newer);
        }
        state.newer.insert(id.clone(), waiting);
    }

    /// Whether to warn about a consumer: not for every entity, and not all the time.
    pub(super) fn should_warn(&self, consumer: &Consumer, now: Duration) -> bool {
        let mut state = self.lock();
        let last = state.warned.get(consumer);
        let is_due = last.is_none_or(|last| now.saturating_sub(*last) >= WARN_EVERY);
        if is_due {
            state.warned.insert(consumer.clone(), now);
        }
        is_due
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock();
        state.unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
