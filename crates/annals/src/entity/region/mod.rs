//! The region: entities stay in memory while they are used, each with its own mailbox.
//!
//! An entity has a task only while commands are queued. An idle one is its state and an entry in the
//! directory, a few hundred bytes.
//!
//! Guarantees: the commands of one entity are handled one at a time, in the order they were accepted.
//! Every accepted command gets a reply, and every rejected one an error. A handler that panics costs
//! its own entity a recovery and affects no other.
//! Correctness across processes does not depend on this: the store's conditional append decides.

#![expect(
    private_bounds,
    reason = "sealed: entities are stored in a journal or in states"
)]

mod directory;
mod mailbox;
mod worker;

use std::fmt;
use std::sync::Arc;

use self::directory::Directory;
use super::backend::{Answer, CommandIds, Execute, Storage};
use super::{AskError, Entity, Handle, Once};
use crate::Result;
use crate::feed::{Position, Reading};
use crate::journal::Journal;

/// Entities in memory. Made by [`Annals::region`](crate::Annals::region); clones share the entities.
///
/// `S` is where the entities are stored: event-sourced ones in a [`Journal`], durable values in
/// [`States`](crate::state::States), as [`durable::Region`](super::durable::Region).
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
/// use annals::entity::EntitySettings;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let annals = annals::Annals::embedded(folder.path()).await?;
/// let accounts = annals.region::<Account>(EntitySettings::new());
/// assert_eq!(accounts.ask("alice", Deposit(10)).await?, 10);
/// // Read the state, after all queued commands.
/// assert_eq!(accounts.view("alice", |account| account.balance).await?, 10);
/// assert_eq!(accounts.resident(), 1);
/// // Before the program ends, let every entity handle its queue.
/// accounts.passivate_all().await;
/// # Ok(())
/// # }
/// ```
pub struct Region<E, S: Storage<E> = Journal> {
    directory: Arc<Directory<S::Backend>>,
    correlation: Option<Arc<str>>,
}

/// Commands of event-sourced entities.
impl<E: Entity> Region<E> {
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
        self.run(id, None, command).await?.reply()
    }

    /// Send a command, and return its reply with a position of the feed that is after its events. A view
    /// that has reached it includes them:
    /// [`get_after`](crate::projection::Running::get_after) waits for that.
    ///
    /// ```
    /// # use annals::entity::{Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Stored, persist};
    /// # use annals::feed::Filter;
    /// # use annals::projection::{Fed, View};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Default, Serialize, Deserialize, Stored)]
    /// # struct Account { balance: u64 }
    /// # #[derive(Serialize, Deserialize, EntityEvent)]
    /// # #[event(entity = Account)]
    /// # enum AccountEvent { Deposited { amount: u64 } }
    /// # impl Entity for Account {
    /// #     const TYPE: &'static str = "Account";
    /// #     type Event = AccountEvent;
    /// #     type Error = std::convert::Infallible;
    /// #     fn apply(&mut self, AccountEvent::Deposited { amount }: &AccountEvent) { self.balance += amount; }
    /// # }
    /// # struct Deposit(u64);
    /// # impl Handle<Deposit> for Account {
    /// #     type Reply = u64;
    /// #     fn handle(&self, deposit: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, u64>, Self::Error> {
    /// #         Ok(persist(AccountEvent::Deposited { amount: deposit.0 }).reply(|account| account.balance))
    /// #     }
    /// # }
    /// # struct Totals;
    /// # #[derive(Debug, PartialEq, Serialize, Deserialize, Stored)]
    /// # struct Total(u64);
    /// # impl View for Totals {
    /// #     const NAME: &'static str = "totals";
    /// #     type Event = AccountEvent;
    /// #     type Row = Total;
    /// #     fn source() -> Filter { Filter::new().category("Account") }
    /// #     fn key(event: &Fed<AccountEvent>) -> Option<String> { Some(event.entity().to_owned()) }
    /// #     fn apply(row: Option<Total>, event: &Fed<AccountEvent>) -> Option<Total> {
    /// #         let AccountEvent::Deposited { amount } = event.event;
    /// #         Some(Total(row.map_or(0, |total| total.0) + amount))
    /// #     }
    /// # }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let annals = annals::Annals::embedded(folder.path()).await?;
    /// let accounts = annals.region::<Account>(EntitySettings::new());
    /// let totals = annals.projections().view::<Totals>().start().await?;
    ///
    /// let (balance, position) = accounts.ask_at("alice", Deposit(10)).await?;
    /// assert_eq!(totals.get_after(&position, "alice").await?, Some(Total(balance)));
    /// # totals.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ask`](Self::ask); `Invalid` if the store has no feed, before anything is written.
    pub async fn ask_at<C>(
        &self,
        id: &str,
        command: C,
    ) -> Result<(E::Reply, Position), AskError<E::Error>>
    where
        E: Handle<C>,
        C: Send + Sync + 'static,
    {
        let feed = Reading::new(&self.directory.backend.journal);
        feed.lanes()?;
        let reply = self.ask(id, command).await?;
        // The command is done: an error must not look as if nothing was written.
        let position = feed.head().await.map_err(AskError::InDoubt)?;
        Ok((reply, position))
    }

    /// Send a command that is handled at most once: a command id that is still remembered is not
    /// handled again. Set how long with
    /// [`remember_commands`](super::EntitySettings::remember_commands).
    ///
    /// The content is not compared, so an id must be unique among all commands to the entity. If clients
    /// choose it, add the route to it.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); `Invalid` if the id is empty or too long.
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
        self.run(id, Some(command_id), command).await
    }
}

/// Entities and durable values alike.
impl<E, S: Storage<E>> Region<E, S> {
    pub(crate) fn start(backend: S::Backend) -> Self {
        Self {
            directory: Directory::start(backend),
            correlation: None,
        }
    }

    /// The same region with a correlation id for its commands: handlers can read it
    /// ([`Cx::correlation_id`](super::Cx::correlation_id)), and it is stored with the events. Durable
    /// values have no place to store it.
    ///
    /// ```
    /// # use annals::entity::{Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Stored, persist};
    /// # use annals::journal::Window;
    /// # use futures::TryStreamExt;
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
    /// #     type Reply = ();
    /// #     fn handle(&self, deposit: &Deposit, _: &Cx<'_>) -> Result<Effect<Self, ()>, Self::Error> {
    /// #         Ok(persist(Deposited { amount: deposit.0 }))
    /// #     }
    /// # }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let annals = annals::Annals::embedded(folder.path()).await?;
    /// let accounts = annals.region::<Account>(EntitySettings::new());
    /// accounts.with_correlation("request-7").ask("alice", Deposit(10)).await?;
    ///
    /// let mut events = annals.journal().replay(&"Account|alice".parse()?, Window::ALL);
    /// let event = events.try_next().await?.expect("an event");
    /// assert_eq!(event.correlation.as_deref(), Some("request-7"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_correlation(&self, id: impl Into<Arc<str>>) -> Self {
        Self {
            correlation: Some(id.into()),
            ..self.clone()
        }
    }

    /// Read the state, after all queued commands.
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

    pub(super) async fn run<C>(
        &self,
        id: &str,
        command_id: Option<&str>,
        command: C,
    ) -> Answer<S::Backend, C>
    where
        S::Backend: Execute<C>,
        C: Send + Sync + 'static,
    {
        let ids = CommandIds::new(command_id, self.correlation.as_ref())?;
        self.directory.ask(id, ids, command).await
    }
}

impl<E, S: Storage<E>> Clone for Region<E, S> {
    fn clone(&self) -> Self {
        Self {
            directory: self.directory.clone(),
            correlation: self.correlation.clone(),
        }
    }
}

impl<E, S: Storage<E>> fmt::Debug for Region<E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("resident", &self.resident())
            .finish()
    }
}
