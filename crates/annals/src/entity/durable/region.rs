//! The resident host of values: they stay in memory while they are used.
//!
//! Promises: what the region of entities made of events does, since it is the same underneath.

use std::fmt;
use std::sync::Arc;

use super::{Entity, Handle, Host};
use crate::Result;
use crate::entity::AskError;
use crate::entity::region::Directory;

/// Values in memory. See the [module](super) for an example.
pub struct Region<E: Entity> {
    directory: Arc<Directory<Host<E>>>,
}

impl<E: Entity> Clone for Region<E> {
    fn clone(&self) -> Self {
        Self {
            directory: self.directory.clone(),
        }
    }
}

impl<E: Entity> Region<E> {
    pub(crate) fn start(host: Host<E>) -> Self {
        Self {
            directory: Directory::start(host),
        }
    }

    /// Asks an entity, which is brought into memory if it is not there.
    ///
    /// # Errors
    /// [`AskError::Rejected`] where the entity refuses, [`AskError::Overloaded`] where too much is
    /// waiting; the others as the store fails.
    pub async fn ask<C>(&self, id: &str, command: C) -> Result<E::Reply, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Send + Sync + 'static,
    {
        self.directory.ask(id, None, command).await?.reply()
    }

    /// What this makes of the value as it is, behind all commands that are waiting.
    ///
    /// # Errors
    /// `Unavailable` where too much is waiting; the others as the store fails.
    pub async fn view<R: Send + 'static>(
        &self,
        id: &str,
        view: impl FnOnce(&E) -> R + Send + 'static,
    ) -> Result<R> {
        self.directory.view(id, view).await
    }

    /// How many entities are in memory.
    pub fn resident(&self) -> usize {
        self.directory.len()
    }

    /// Lets every entity finish what it was asked and leave memory.
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
