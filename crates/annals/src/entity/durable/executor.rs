//! The stateless host of values: loads, decides, writes, forgets.

use std::fmt;

use super::{Entity, Handle, Host};
use crate::Result;
use crate::entity::AskError;
use crate::entity::hosting::{Asking, Hosting, execute, load};

/// Runs commands on values that are loaded for each. See
/// [`Annals::durable_executor`](crate::Annals::durable_executor) for an example.
pub struct Executor<E> {
    host: Host<E>,
}

impl<E> Clone for Executor<E> {
    fn clone(&self) -> Self {
        Self {
            host: self.host.clone(),
        }
    }
}

impl<E: Entity> Executor<E> {
    pub(crate) fn new(host: Host<E>) -> Self {
        Self { host }
    }

    /// Asks an entity.
    ///
    /// # Errors
    /// [`AskError::Rejected`] where the entity refuses; the others as the store fails.
    pub async fn ask<C>(&self, id: &str, command: C) -> Result<E::Reply, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Sync,
    {
        let asking = Asking {
            command: &command,
            id: None,
        };
        execute(&self.host, id, asking).await?.reply()
    }

    /// What this makes of the value as it is.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn view<R>(&self, id: &str, view: impl FnOnce(&E) -> R) -> Result<R> {
        let live = load(&self.host, &Host::<E>::id_of(id)?).await?;
        Ok(view(Host::state(&live)))
    }
}

impl<E> fmt::Debug for Executor<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executor")
    }
}
