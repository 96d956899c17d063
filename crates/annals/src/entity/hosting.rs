//! What a host does, whatever its entities are made of: events or a durable value.
//!
//! Regions and executors are written once, on this.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::Semaphore;

use super::live::Asked;
use super::settings::Residency;
use super::{AskError, Once};
use crate::{Clock, PersistenceId, Result};

/// Loads entities of a kind and looks after them.
pub(crate) trait Hosting: Sized + Send + Sync + 'static {
    /// What the application sees of an entity.
    type State;
    /// An entity in memory.
    type Live: Send + 'static;

    /// The name of the kind.
    const TYPE: &'static str;

    fn clock(&self) -> &Arc<dyn Clock>;

    fn residency(&self) -> &Residency;

    /// How many more may be loaded at once.
    fn recoveries(&self) -> &Semaphore;

    fn state(live: &Self::Live) -> &Self::State;

    /// The entity as the store has it.
    fn load(&self, id: &PersistenceId) -> impl Future<Output = Result<Self::Live>> + Send;

    /// Makes sure that it is as new as the store's, as far as anybody has reason to doubt it.
    fn settle(&self, live: &mut Self::Live) -> impl Future<Output = Result<()>> + Send;

    /// Does for it what is due behind a command. What fails is done next time.
    fn tend(&self, live: &mut Self::Live) -> impl Future<Output = ()> + Send;

    /// The same, and a panic in it is no more than another failure: the command is done.
    fn tend_safely(&self, live: &mut Self::Live) -> impl Future<Output = ()> + Send {
        async move {
            if AssertUnwindSafe(self.tend(live))
                .catch_unwind()
                .await
                .is_err()
            {
                tracing::error!(kind = Self::TYPE, "looking after an entity panicked");
            }
        }
    }

    /// The persistence id of an entity.
    fn id_of(id: &str) -> Result<PersistenceId> {
        format!("{}|{id}", Self::TYPE).parse()
    }
}

/// Runs commands of a type.
pub(crate) trait Runs<C>: Hosting {
    type Reply: Send + 'static;
    type Error: Send + 'static;

    /// Decides, writes, and replies.
    fn run(
        &self,
        live: &mut Self::Live,
        asking: Asking<'_, C>,
    ) -> impl Future<Output = Result<Asked<Self::Reply>, AskError<Self::Error>>> + Send;
}

/// A command on its way.
#[derive(Debug)]
pub(crate) struct Asking<'a, C> {
    pub(super) command: &'a C,
    pub(super) id: Option<&'a str>,
}

/// The entity as the store has it, when its turn to be loaded comes.
pub(super) async fn load<H: Hosting>(host: &H, id: &PersistenceId) -> Result<H::Live> {
    let _permit = host.recoveries().acquire().await;
    host.load(id).await
}

/// Loads an entity, runs a command, and forgets it.
pub(super) async fn execute<H: Runs<C>, C>(
    host: &H,
    id: &str,
    asking: Asking<'_, C>,
) -> Result<Once<H::Reply>, AskError<H::Error>> {
    let mut live = load(host, &H::id_of(id)?).await?;
    let asked = host.run(&mut live, asking).await?;
    host.tend_safely(&mut live).await;
    // What the entity wants for its place in memory means nothing here: it has none.
    Ok(asked.reply)
}
