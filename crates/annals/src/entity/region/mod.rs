//! The resident host: entities stay in memory, each with a task and a mailbox of its own.
//!
//! Promises: commands of one entity are handled one by one, in the order they were taken in; an
//! entity has at most one task; a command that is taken in is answered, and one that is not is told
//! so. A handler that panics costs its own entity a recovery, and nobody else anything.
//! Trusts: nothing of this for correctness across processes: the journal's condition alone decides
//! there.

mod directory;
mod job;
mod resident;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use self::directory::Directory;
use self::job::{Ask, Look, Message};
use super::host::Host;
use super::live::Once;
use super::{AskError, Entity, Handle};
use crate::{Error, Result};

/// How often in the time after which idle entities leave memory they are looked for.
const LOOKS: u32 = 4;

/// Entities in memory.
pub struct Region<E: Entity> {
    directory: Arc<Directory<E>>,
}

impl<E: Entity> Clone for Region<E> {
    fn clone(&self) -> Self {
        Self {
            directory: self.directory.clone(),
        }
    }
}

impl<E: Entity> Region<E> {
    /// Starts with none. To be called inside a tokio runtime.
    pub(crate) fn start(host: Host<E>) -> Self {
        let every = host.settings.passivate_after / LOOKS;
        let clock = host.clock.clone();
        let directory = Arc::new(Directory::new(host));
        let watched = Arc::downgrade(&directory);
        tokio::spawn(async move {
            loop {
                clock.sleep(every.max(Duration::from_millis(1))).await;
                match watched.upgrade() {
                    Some(directory) => directory.passivate_idle(),
                    None => return,
                }
            }
        });
        Self { directory }
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
        match self.send(id, None, command).await? {
            Once::Done(reply) => Ok(reply),
            // A command without an id is never known again.
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
        C: Send + Sync + 'static,
    {
        self.send(id, Some(command_id.into()), command).await
    }

    async fn send<C>(
        &self,
        id: &str,
        command_id: Option<Box<str>>,
        command: C,
    ) -> Result<Once<E::Reply>, AskError<E::Error>>
    where
        E: Handle<C>,
        C: Send + Sync + 'static,
    {
        let id = Host::<E>::id_of(id)?;
        let (answer, answered) = oneshot::channel();
        let ask = Ask {
            command,
            command_id,
            answer,
        };
        let sent = self.directory.send(id, Message::Job(Box::new(ask))).await;
        sent.map_err(|_| AskError::Overloaded)?;
        answered.await.unwrap_or(Err(AskError::Stopped))
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
        let id = Host::<E>::id_of(id)?;
        let (answer, answered) = oneshot::channel();
        let look = Look { view, answer };
        let sent = self.directory.send(id, Message::Job(Box::new(look))).await;
        sent.map_err(|_| Error::unavailable("too much is waiting; ask again later"))?;
        let stopped = || Error::unavailable("the entity stopped before it answered; ask again");
        answered.await.unwrap_or_else(|_| Err(stopped()))
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
