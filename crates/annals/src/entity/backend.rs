//! What a region and an executor need from a store, whether entities are made of events or are
//! durable values.
//!
//! Regions and executors are written once, on these traits. [`Host`](super::Host) implements them
//! for events, [`durable::Host`](super::durable::Host) for values.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::Semaphore;

use super::effect::AfterCommand;
use super::settings::Residency;
use super::{AskError, Once};
use crate::{Clock, PersistenceId, Result};

/// Loads and maintains the entities of one type.
pub(crate) trait Backend: Sized + Send + Sync + 'static {
    /// The application's type.
    type State;
    /// An entity in memory.
    type Loaded: Send + 'static;

    /// The name of the entity type.
    const TYPE: &'static str;

    fn clock(&self) -> &Arc<dyn Clock>;

    fn residency(&self) -> &Residency;

    /// Limits concurrent recoveries.
    fn recoveries(&self) -> &Semaphore;

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
    pub(super) fn new(command: Option<&str>, correlation: Option<&Arc<str>>) -> Self {
        Self {
            command: command.map(Arc::from),
            correlation: correlation.cloned(),
        }
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

/// Load an entity, within the limit of concurrent recoveries.
pub(super) async fn load<B: Backend>(backend: &B, id: &PersistenceId) -> Result<B::Loaded> {
    let _permit = backend.recoveries().acquire().await;
    backend.load(id).await
}

/// Load an entity, execute one command, and drop the entity.
pub(super) async fn execute_once_loaded<B: Execute<C>, C>(
    backend: &B,
    id: &str,
    request: Request<'_, C>,
) -> Result<Once<B::Reply>, AskError<B::Error>> {
    let mut loaded = load(backend, &B::persistence_id(id)?).await?;
    let completed = backend.execute(&mut loaded, request).await?;
    backend.maintain_safely(&mut loaded).await;
    // `passivate` and `stop` mean nothing here: the entity leaves memory anyway.
    Ok(completed.reply)
}
