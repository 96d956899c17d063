//! The resident host: entities stay in memory while they are used, each with a mailbox of its own.
//!
//! An entity has a task while something waits for it, and none while it is idle: then it is its
//! state and a place in the directory, some hundred bytes.
//!
//! Promises: commands of one entity are handled one by one, in the order they were taken in; an
//! entity has at most one task; a command that is taken in is answered, and one that is not is told
//! so. A handler that panics costs its own entity a recovery, and nobody else anything.
//! Trusts: nothing of this for correctness across processes: the store's condition alone decides
//! there.

mod directory;
mod job;
mod slot;
mod work;

use std::fmt;
use std::sync::Arc;

pub(crate) use self::directory::Directory;
use super::host::Host;
use super::live::Once;
use super::{AskError, Entity, Handle};
use crate::Result;

/// Entities in memory: made by [`Annals::region`](crate::Annals::region). Clones are the same region.
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
/// use annals::entity::EntitySettings;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let annals = annals::Annals::embedded(folder.path()).await?;
/// let accounts = annals.region::<Account>(EntitySettings::new());
/// assert_eq!(accounts.ask("alice", Deposit(10)).await?, 10);
/// // A look at the state, behind what waits.
/// assert_eq!(accounts.view("alice", |account| account.balance).await?, 10);
/// assert_eq!(accounts.resident(), 1);
/// // Before the program ends: everybody finishes what was asked.
/// accounts.passivate_all().await;
/// # Ok(())
/// # }
/// ```
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
        C: Send + Sync + 'static,
    {
        self.directory.ask(id, Some(command_id), command).await
    }

    /// What this makes of the state as it is, behind all commands that are waiting.
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
