//! The stateless host: loads an entity, executes one command, and drops the entity. For functions
//! that serve one request, and for batch work.
//!
//! Guarantees: the same as a region's, at the cost of one recovery per command.

use std::fmt;
use std::sync::Arc;

use super::backend::{Backend, CommandIds, Request, execute_once_loaded, load};
use super::{AskError, Entity, Handle, Host, Once};

/// Executes commands on entities that are loaded for each command. Made by
/// [`Annals::executor`](crate::Annals::executor).
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

    /// The same executor with a correlation id for its commands: handlers can read it, and it is
    /// stored with the events. See [`Region::with_correlation`](super::Region::with_correlation)
    /// for an example.
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
        let ids = &CommandIds::new(command_id, self.correlation.as_ref());
        execute_once_loaded(&self.host, id, Request { command, ids }).await
    }

    /// Read the current state.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn view<R>(&self, id: &str, view: impl FnOnce(&E) -> R) -> crate::Result<R> {
        let loaded = load(&self.host, &Host::<E>::persistence_id(id)?).await?;
        Ok(view(&loaded.state))
    }
}

impl<E> fmt::Debug for Executor<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("correlation", &self.correlation)
            .finish_non_exhaustive()
    }
}
