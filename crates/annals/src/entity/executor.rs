//! The stateless host: loads, decides, appends, forgets. For functions that live for one request, and
//! for batch work.
//!
//! Promises: the same as a region, at a recovery for each command.

use std::fmt;

use super::host::Host;
use super::hosting::{Asking, Hosting, execute};
use super::live::Once;
use super::{AskError, Entity, Handle};

/// Runs commands on entities that are loaded for each.
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
        match self.run(id, None, &command).await? {
            Once::Done(reply) => Ok(reply),
            Once::Already(_) => Err(AskError::Conflict),
        }
    }

    /// Asks an entity once: where a command of this id is known to have been handled, it is not
    /// handled again. How far back is a setting
    /// ([`remember_commands`](super::EntitySettings::remember_commands)).
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn ask_once<C>(
        &self,
        id: &str,
        command_id: &str,
        command: C,
    ) -> Result<Once<E::Reply>, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Sync,
    {
        self.run(id, Some(command_id), &command).await
    }

    async fn run<C>(
        &self,
        id: &str,
        command_id: Option<&str>,
        command: &C,
    ) -> Result<Once<E::Reply>, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Sync,
    {
        let asking = Asking {
            command,
            id: command_id,
        };
        execute(&self.host, id, asking).await
    }

    /// What this makes of the state as it is.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn view<R>(&self, id: &str, view: impl FnOnce(&E) -> R) -> crate::Result<R> {
        let live = self.host.load(&Host::<E>::id_of(id)?).await?;
        Ok(view(&live.state))
    }
}

impl<E> fmt::Debug for Executor<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executor")
    }
}
