//! The stateless host: loads, decides, appends, forgets. For functions that live for one request, and
//! for batch work.
//!
//! Promises: the same as a region, at a recovery for each command.

use std::fmt;

use super::host::Host;
use super::hosting::{Asking, Hosting, execute, load};
use super::live::Once;
use super::{AskError, Entity, Handle};

/// Runs commands on entities that are loaded for each: made by
/// [`Annals::executor`](crate::Annals::executor).
///
/// ```
/// # use annals::entity::{Cx, Effect, Entity, EntityEvent, Handle, Stored, persist};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Default, Serialize, Deserialize, Stored)]
/// # struct Account { balance: u64 }
/// # #[derive(Serialize, Deserialize, EntityEvent)]
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
/// #         Ok(persist(Deposited { amount: deposit.0 }).reply(|a: &Self| a.balance))
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
/// // A command with an id is handled once, whoever asks again.
/// assert_eq!(accounts.ask_once("alice", "order-7", Deposit(5)).await?, Once::Done(15));
/// assert_eq!(accounts.ask_once("alice", "order-7", Deposit(5)).await?, Once::Already(2));
/// # Ok(())
/// # }
/// ```
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
        self.run(id, None, &command).await?.reply()
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
        let live = load(&self.host, &Host::<E>::id_of(id)?).await?;
        Ok(view(&live.state))
    }
}

impl<E> fmt::Debug for Executor<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executor")
    }
}
