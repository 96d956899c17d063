//! The region and the executor of durable values. They work as those of event-sourced entities do, on
//! the same code.

use std::fmt;
use std::sync::Arc;

use super::{Entity, Handle, Host};
use crate::Result;
use crate::entity::AskError;
use crate::entity::backend::{Backend, CommandIds, Request, execute_once_loaded, load};
use crate::entity::region::Directory;

/// Executes commands on values that are loaded for each command. See
/// [`Annals::durable_executor`](crate::Annals::durable_executor) for an example.
pub struct Executor<E> {
    host: Host<E>,
    correlation: Option<Arc<str>>,
}

impl<E> Clone for Executor<E> {
    fn clone(&self) -> Self {
        Self {
            host: self.host.clone(),
            correlation: self.correlation.clone(),
        }
    }
}

impl<E: Entity> Executor<E> {
    pub(crate) fn new(host: Host<E>) -> Self {
        Self {
            host,
            correlation: None,
        }
    }

    /// The same executor with a correlation id for its commands, which handlers can read. Durable
    /// state has no place to store it.
    #[must_use]
    pub fn with_correlation(&self, id: impl Into<Arc<str>>) -> Self {
        Self {
            host: self.host.clone(),
            correlation: Some(id.into()),
        }
    }

    /// Send a command to an entity and return its reply.
    ///
    /// # Errors
    /// [`AskError::Rejected`] if the entity rejects the command; the others if the store fails.
    pub async fn ask<C>(&self, id: &str, command: C) -> Result<E::Reply, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Sync,
    {
        let request = Request {
            command: &command,
            ids: &CommandIds::new(None, self.correlation.as_ref()),
        };
        execute_once_loaded(&self.host, id, request).await?.reply()
    }

    /// Read the current value.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn view<R>(&self, id: &str, view: impl FnOnce(&E) -> R) -> Result<R> {
        let loaded = load(&self.host, &Host::<E>::persistence_id(id)?).await?;
        Ok(view(Host::state(&loaded)))
    }
}

impl<E> fmt::Debug for Executor<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("correlation", &self.correlation)
            .finish_non_exhaustive()
    }
}

/// Values in memory; clones share them. See the [module](super) for an example.
pub struct Region<E: Entity> {
    directory: Arc<Directory<Host<E>>>,
    correlation: Option<Arc<str>>,
}

impl<E: Entity> Clone for Region<E> {
    fn clone(&self) -> Self {
        Self {
            directory: self.directory.clone(),
            correlation: self.correlation.clone(),
        }
    }
}

impl<E: Entity> Region<E> {
    pub(crate) fn start(host: Host<E>) -> Self {
        Self {
            directory: Directory::start(host),
            correlation: None,
        }
    }

    /// The same region with a correlation id for its commands, which handlers can read. Durable state
    /// has no place to store it.
    #[must_use]
    pub fn with_correlation(&self, id: impl Into<Arc<str>>) -> Self {
        Self {
            directory: self.directory.clone(),
            correlation: Some(id.into()),
        }
    }

    /// Send a command to an entity and return its reply. The entity is loaded if needed.
    ///
    /// # Errors
    /// [`AskError::Rejected`] if the entity rejects the command, [`AskError::Overloaded`] if too many
    /// are queued; the others if the store fails.
    pub async fn ask<C>(&self, id: &str, command: C) -> Result<E::Reply, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Send + Sync + 'static,
    {
        let ids = CommandIds::new(None, self.correlation.as_ref());
        self.directory.ask(id, ids, command).await?.reply()
    }

    /// Read the value, after all queued commands.
    ///
    /// # Errors
    /// `Unavailable` if too many commands are queued; the others if the store fails.
    pub async fn view<R: Send + 'static>(
        &self,
        id: &str,
        view: impl FnOnce(&E) -> R + Send + 'static,
    ) -> Result<R> {
        self.directory.view(id, view).await
    }

    /// The number of entities in memory.
    pub fn resident(&self) -> usize {
        self.directory.len()
    }

    /// Wait until every entity has handled its queue and left memory.
    pub async fn passivate_all(&self) {
        self.directory.passivate_all().await;
    }
}

impl<E: Entity> fmt::Debug for Region<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("resident", &self.resident())
            .finish()
    }
}
