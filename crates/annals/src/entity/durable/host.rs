//! How a command is run on a value.
//!
//! Promises: a new value follows the one that it was decided on, or it is decided again. Where
//! nobody knows whether a write landed, whoever asked is told so, and the value is read again
//! before the next command.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::effect::Change;
use super::{Entity, Handle};
use crate::entity::hosting::{Asking, Hosting, Runs};
use crate::entity::live::Asked;
use crate::entity::settings::{Residency, Shared};
use crate::entity::{AskError, Cx};
use crate::state::{NewState, Revision, StateError, States};
use crate::{Clock, Error, ErrorKind, PersistenceId, Result};

/// What values of a kind are kept in.
pub(crate) struct Host<E> {
    pub(crate) states: States,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Shared<E>,
    pub(crate) recoveries: Arc<Semaphore>,
}

impl<E> Clone for Host<E> {
    fn clone(&self) -> Self {
        Self {
            states: self.states.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            recoveries: self.recoveries.clone(),
        }
    }
}

/// A value in memory, and which write it came with.
#[derive(Debug)]
pub(crate) struct Live<E> {
    id: PersistenceId,
    value: E,
    /// Whether the value is kept: it is the default otherwise.
    is_there: bool,
    /// The last write, of a deletion too; 0: none.
    revision: Revision,
    /// Whether there may be a newer one.
    is_doubtful: bool,
}

impl<E: Entity> Hosting for Host<E> {
    type State = E;
    type Live = Live<E>;

    const TYPE: &'static str = E::TYPE;

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn residency(&self) -> &Residency {
        &self.settings.residency
    }

    fn recoveries(&self) -> &Semaphore {
        &self.recoveries
    }

    fn state(live: &Live<E>) -> &E {
        &live.value
    }

    async fn load(&self, id: &PersistenceId) -> Result<Live<E>> {
        let last = self.states.last(id).await?;
        let revision = last.as_ref().map_or(0, |state| state.revision);
        let value = last.and_then(|state| state.value);
        let read = value.as_ref().map(E::from_payload).transpose();
        let value = read.map_err(|cause| {
            let unread = "a value is not understood; its type must read what was written before";
            let message = format!("{unread}. id=`{id}`, revision=`{revision}`");
            Error::new(cause.kind(), message).because(cause)
        })?;
        Ok(Live {
            id: id.clone(),
            is_there: value.is_some(),
            value: value.unwrap_or_default(),
            revision,
            is_doubtful: false,
        })
    }

    async fn settle(&self, live: &mut Live<E>) -> Result<()> {
        if live.is_doubtful {
            let _permit = self.recoveries.acquire().await;
            *live = self.load(&live.id).await?;
        }
        Ok(())
    }

    async fn tend(&self, _: &mut Live<E>) {}
}

impl<E: Handle<C>, C: Sync> Runs<C> for Host<E> {
    type Reply = E::Reply;
    type Error = E::Error;

    async fn run(
        &self,
        live: &mut Live<E>,
        asking: Asking<'_, C>,
    ) -> Result<Asked<E::Reply>, AskError<E::Error>> {
        for _ in 0..self.settings.tries {
            self.settle(live).await?;
            let cx = Cx {
                id: &live.id,
                last: live.revision,
                is_new: !live.is_there,
                now_ms: self.clock.now_ms(),
                command_id: asking.id,
            };
            let effect = live.value.handle(asking.command, &cx);
            let effect = effect.map_err(AskError::Rejected)?;
            match self.change(live, effect.change).await {
                Ok(()) => return Ok(effect.ending.finish(&live.value)),
                Err(StateError::Conflict { .. }) => live.is_doubtful = true,
                Err(StateError::Store(error)) if error.kind() == ErrorKind::Unavailable => {
                    live.is_doubtful = true;
                    return Err(AskError::InDoubt(error));
                }
                Err(StateError::Store(error)) => return Err(AskError::Store(error)),
            }
        }
        Err(AskError::Conflict)
    }
}

impl<E: Entity> Host<E> {
    /// Writes a change and takes it in.
    async fn change(&self, live: &mut Live<E>, change: Change<E>) -> Result<(), StateError> {
        let revision = live.revision + 1;
        let value = match change {
            Change::Keep => return Ok(()),
            // What is not there needs no deletion.
            Change::Delete if !live.is_there => return Ok(()),
            Change::Delete => {
                self.states.delete(&live.id, Some(revision)).await?;
                None
            }
            Change::Update(value) => {
                let written = NewState::from(value.to_payload()?).tag(value.tag());
                self.states.upsert(&live.id, revision, written).await?;
                Some(value)
            }
        };
        live.is_there = value.is_some();
        live.value = value.unwrap_or_default();
        live.revision = revision;
        Ok(())
    }
}
