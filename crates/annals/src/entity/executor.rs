//! The stateless host: loads an entity, executes one command, and drops the entity. For functions
//! that serve one request, and for batch work.
//!
//! Guarantees: the same as a region's, at the cost of one recovery per command.

#![expect(
    private_bounds,
    reason = "sealed: entities are stored in a journal or in states"
)]

use std::fmt;
use std::sync::Arc;

use super::backend::{Answer, Backend, CommandIds, Execute, Request, Storage, load};
use super::{AskError, Entity, Handle, Once};
use crate::Result;
use crate::journal::Journal;

/// Executes commands on entities that are loaded for each command. Made by
/// [`Annals::executor`](crate::Annals::executor).
///
/// `S` is where the entities are stored: event-sourced ones in a [`Journal`], durable values in
/// [`States`](crate::state::States), as [`durable::Executor`](super::durable::Executor).
///
/// ```
/// # use annals::entity::{Cx, Effect, Entity, EntityEvent, Handle, Stored, persist};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Default, Serialize, Deserialize, Stored)]
/// # struct Account { balance: u64 }
/// # #[derive(Serialize, Deserialize, EntityEvent)]
/// # #[event(entity = Account)]
/// # struct Deposited { amount: u64 }
/// # impl Entity for Account {
/// #     const TYPE: &'static str = "Account";
/// #     type Event = Deposited;
/// #     type Error = std::convert::Infallible;
/// #     fn apply(&mut self, event: &Deposited) { self.balance += event.amount; }
/// # }
/// # struct Deposit(u64);
/// # impl Handle<Deposit> for Account {
/// #     type Reply = u64;
/// #     fn handle(&self, deposit: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
/// #         Ok(persist(Deposited { amount: deposit.0 }).reply(|account| account.balance))
/// #     }
/// # }
/// use annals::entity::{EntitySettings, Once};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let annals = annals::Annals::embedded(folder.path()).await?;
/// let settings = EntitySettings::new().remember_commands(100);
/// let accounts = annals.executor::<Account>(settings);
/// assert_eq!(accounts.ask("alice", Deposit(10)).await?, 10);
/// // A command with an id is handled once, however often it is asked.
/// assert_eq!(accounts.ask_once("alice", "order-7", Deposit(5)).await?, Once::Done(15));
/// assert_eq!(accounts.ask_once("alice", "order-7", Deposit(5)).await?, Once::Already(2));
/// # Ok(())
/// # }
/// ```
pub struct Executor<E, S: Storage<E> = Journal> {
    backend: Arc<S::Backend>,
    correlation: Option<Arc<str>>,
}

/// Commands of event-sourced entities.
impl<E: Entity> Executor<E> {
    /// Send a command to an entity and return its reply.
    ///
    /// # Errors
    /// [`AskError::Rejected`] if the entity rejects the command; the others if the store fails.
    pub async fn ask<C>(&self, id: &str, command: C) -> Result<E::Reply, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Sync,
    {
        self.run(id, None, &command).await?.reply()
    }

    /// Send a command that is handled at most once: a command id that is still remembered is not
    /// handled again. Set how long with
    /// [`remember_commands`](super::EntitySettings::remember_commands).
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
}

/// Entities and durable values alike.
impl<E, S: Storage<E>> Executor<E, S> {
    pub(crate) fn new(backend: S::Backend) -> Self {
        Self {
            backend: Arc::new(backend),
            correlation: None,
        }
    }

    /// The same executor with a correlation id for its commands: handlers can read it, and it is
    /// stored with the events. Durable values have no place to store it. See
    /// [`Region::with_correlation`](super::Region::with_correlation) for an example.
    #[must_use]
    pub fn with_correlation(&self, id: impl Into<Arc<str>>) -> Self {
        Self {
            correlation: Some(id.into()),
            ..self.clone()
        }
    }

    /// Read the current state.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn view<R>(&self, id: &str, view: impl FnOnce(&E) -> R) -> Result<R> {
        let loaded = load(&*self.backend, &S::Backend::persistence_id(id)?).await?;
        Ok(view(S::Backend::state(&loaded)))
    }

    pub(super) async fn run<C>(
        &self,
        id: &str,
        command_id: Option<&str>,
        command: &C,
    ) -> Answer<S::Backend, C>
    where
        S::Backend: Execute<C>,
    {
        let ids = &CommandIds::new(command_id, self.correlation.as_ref())?;
        let mut loaded = load(&*self.backend, &S::Backend::persistence_id(id)?).await?;
        let request = Request { command, ids };
        let completed = self.backend.execute(&mut loaded, request).await?;
        self.backend.maintain_safely(&mut loaded).await;
        // `passivate` and `stop` mean nothing here: the entity leaves memory anyway.
        Ok(completed.reply)
    }
}

impl<E, S: Storage<E>> Clone for Executor<E, S> {
    fn clone(&self) -> Self {
        Self {
            backend: self.backend.clone(),
            correlation: self.correlation.clone(),
        }
    }
}

impl<E, S: Storage<E>> fmt::Debug for Executor<E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("correlation", &self.correlation)
            .finish_non_exhaustive()
    }
}
