//! The region and the executor of durable values: those of event-sourced entities, with commands that
//! [`durable::Handle`](super::Handle) handles.

use super::{Entity, Handle};
use crate::Result;
use crate::entity::{self, AskError};
use crate::state::States;

/// Executes commands on values that are loaded for each command. It works as the [executor of
/// entities](entity::Executor) does, without `ask_once`, and stores no correlation ids. See
/// [`Annals::durable_executor`](crate::Annals::durable_executor) for an example.
pub type Executor<E> = entity::Executor<E, States>;

/// Values in memory; clones share them. It works as the [region of entities](entity::Region) does,
/// without `ask_once`, and stores no correlation ids. See the [module](super) for an example.
pub type Region<E> = entity::Region<E, States>;

/// Commands of durable values.
impl<E: Entity> Executor<E> {
    /// Send a command to a value and return its reply.
    ///
    /// # Errors
    /// [`AskError::Rejected`] if the value rejects the command; the others if the store fails.
    pub async fn ask<C>(&self, id: &str, command: C) -> Result<E::Reply, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Sync,
    {
        self.run(id, None, &command).await?.reply()
    }
}

/// Commands of durable values.
impl<E: Entity> Region<E> {
    /// Send a command to a value and return its reply. The value is loaded if needed.
    ///
    /// # Errors
    /// [`AskError::Rejected`] if the value rejects the command, [`AskError::Overloaded`] if too many
    /// are queued; the others if the store fails.
    pub async fn ask<C>(&self, id: &str, command: C) -> Result<E::Reply, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Send + Sync + 'static,
    {
        self.run(id, None, command).await?.reply()
    }
}
