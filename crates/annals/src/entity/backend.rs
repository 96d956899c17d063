//! What a region and an executor need from a store, whether entities are made of events or are
//! durable values.
//!
//! Regions and executors are written once, on these traits. [`Host`](super::Host) implements them
//! for events in a journal, [`durable::Host`](super::durable::Host) for durable values in states.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::Semaphore;

use super::effect::AfterCommand;
use super::settings::Residency;
use super::{AskError, EntitySettings, Once};
use crate::journal::CAUSE_BYTES_MAX;
use crate::{Clock, Error, PersistenceId, Result};

/// Stores entities of type `E`: a journal their events, states their values.
pub(crate) trait Storage<E> {
    type Backend: Backend<State = E>;
}

/// What the entities of one type share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) residency: Residency,
    /// Limits concurrent recoveries.
    pub(super) recoveries: Semaphore,
}

impl Shared {
    pub(crate) fn new<E>(clock: &Arc<dyn Clock>, settings: &EntitySettings<E>) -> Self {
        let residency = settings.residency.clone();
        let most = residency.max_recoveries.min(Semaphore::MAX_PERMITS);
        Self {
            clock: clock.clone(),
            residency,
            recoveries: Semaphore::new(most),
        }
    }
}

/// Loads and maintains the entities of one type.
pub(crate) trait Backend: Sized + Send + Sync + 'static {
    /// The application's type.
    type State;
    /// An entity in memory.
    type Loaded: Send + 'static;

    /// The name of the entity type.
    const TYPE: &'static str;

    fn shared(&self) -> &Shared;

    fn state(loaded: &Self::Loaded) -> &Self::State;

    /// Recover the entity from the store.
    fn load(&self, id: &PersistenceId) -> impl Future<Output = Result<Self::Loaded>> + Send;

    /// Read what others wrote, if the state in memory may be stale.
    fn refresh(&self, loaded: &mut Self::Loaded) -> impl Future<Output = Result<()>> + Send;

    /// Do what is due after a command, such as a snapshot. Failures are retried after the next one.
    fn maintain(&self, loaded: &mut Self::Loaded) -> impl Future<Output = ()> + Send;

    /// [`maintain`](Self::maintain), with a panic logged instead of passed on: the command is done.
    fn maintain_safely(&self, loaded: &mut Self::Loaded) -> impl Future<Output = ()> + Send {
        async move {
            let maintained = AssertUnwindSafe(self.maintain(loaded)).catch_unwind();
            if maintained.await.is_err() {
                tracing::error!(entity_type = Self::TYPE, "maintaining an entity panicked");
            }
        }
    }

    fn persistence_id(id: &str) -> Result<PersistenceId> {
        if id.is_empty() {
            return Err(Error::invalid("the id of an entity is empty").fact("type", Self::TYPE));
        }
        format!("{}|{id}", Self::TYPE).parse()
    }
}

/// Executes commands of type `C`.
pub(crate) trait Execute<C>: Backend {
    type Reply: Send + 'static;
    type Error: Send + 'static;

    /// Decide, write, and reply.
    fn execute(
        &self,
        loaded: &mut Self::Loaded,
        request: Request<'_, C>,
    ) -> impl Future<Output = Result<Completed<Self::Reply>, AskError<Self::Error>>> + Send;
}

/// The ids that travel with a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandIds {
    /// The command's own id, for `ask_once`.
    pub(super) command: Option<Arc<str>>,
    pub(super) correlation: Option<Arc<str>>,
}

impl CommandIds {
    /// # Errors
    /// `Invalid` if the command's id is empty or too long. An empty one is a mistake of the caller, and
    /// all such commands would be the same one.
    pub(super) fn new(command: Option<&str>, correlation: Option<&Arc<str>>) -> Result<Self> {
        if let Some(id) = command.filter(|id| !(1..=CAUSE_BYTES_MAX).contains(&id.len())) {
            return Err(Error::invalid(format!(
                "a command id has 1 to {CAUSE_BYTES_MAX} bytes; to send a command without one, use `ask`"
            ))
            .fact("bytes", id.len()));
        }
        Ok(Self {
            command: command.map(Arc::from),
            correlation: correlation.cloned(),
        })
    }
}

/// A command and its ids.
#[derive(Debug)]
pub(crate) struct Request<'a, C> {
    pub(super) command: &'a C,
    pub(super) ids: &'a CommandIds,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Completed<R> {
    pub(super) reply: Once<R>,
    pub(super) after: AfterCommand,
}

/// What the caller of a command gets.
pub(super) type Answer<B, C> =
    Result<Once<<B as Execute<C>>::Reply>, AskError<<B as Execute<C>>::Error>>;

/// Load an entity, within the limit of concurrent recoveries.
pub(super) async fn load<B: Backend>(backend: &B, id: &PersistenceId) -> Result<B::Loaded> {
    let _permit = backend.shared().recoveries.acquire().await;
    backend.load(id).await
}
