//! The backend of durable values: executes commands and writes the new values.
//!
//! Guarantees: a new value is written only over the revision it was decided on; on a conflict the
//! command is decided again. If it is unknown whether a write succeeded, the caller gets
//! [`AskError::InDoubt`] and the value is read again before the next command.

use super::model::Change;
use super::{Entity, Handle};
use crate::entity::backend::{Backend, Completed, Execute, Request, Shared, Storage};
use crate::entity::{AskError, Cx, EntitySettings};
use crate::state::{NewState, Revision, StateError, States};
use crate::{Error, ErrorKind, Payload, PersistenceId, Result};

/// The state store of one entity type.
pub(crate) struct Host<E> {
    pub(crate) states: States,
    pub(crate) shared: Shared,
    pub(crate) settings: EntitySettings<E>,
}

impl<E: Entity> Storage<E> for States {
    type Backend = Host<E>;
}

/// A value in memory, and its revision.
#[derive(Debug)]
pub(crate) struct Loaded<E> {
    id: PersistenceId,
    value: E,
    /// Whether the value is stored; otherwise it is the default.
    is_stored: bool,
    /// The last revision, also of a deletion; 0: never written.
    revision: Revision,
    /// There may be a newer value.
    is_stale: bool,
}

impl<E: Entity> Backend for Host<E> {
    type State = E;
    type Loaded = Loaded<E>;

    const TYPE: &'static str = E::TYPE;

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn state(loaded: &Loaded<E>) -> &E {
        &loaded.value
    }

    async fn load(&self, id: &PersistenceId) -> Result<Loaded<E>> {
        let last = self.states.last(id).await?;
        let revision = last.as_ref().map_or(0, |state| state.revision);
        let value = last.and_then(|state| state.value);
        let read = value.as_ref().map(E::from_payload).transpose();
        let value = read.map_err(|cause| {
            let advice = "a value cannot be read; let its type accept what earlier releases wrote";
            let error = Error::new(cause.kind(), advice).fact("id", id);
            error.fact("revision", revision).because(cause)
        })?;
        Ok(Loaded {
            id: id.clone(),
            is_stored: value.is_some(),
            value: value.unwrap_or_default(),
            revision,
            is_stale: false,
        })
    }

    async fn refresh(&self, loaded: &mut Loaded<E>) -> Result<()> {
        if loaded.is_stale {
            let _permit = self.shared.recoveries.acquire().await;
            *loaded = self.load(&loaded.id).await?;
        }
        Ok(())
    }

    async fn maintain(&self, _: &mut Loaded<E>) {}
}

impl<E: Handle<C>, C: Sync> Execute<C> for Host<E> {
    type Reply = E::Reply;
    type Error = E::Error;

    async fn execute(
        &self,
        loaded: &mut Loaded<E>,
        request: Request<'_, C>,
    ) -> Result<Completed<E::Reply>, AskError<E::Error>> {
        for _ in 0..self.settings.attempts {
            self.refresh(loaded).await?;
            let cx = Cx {
                id: &loaded.id,
                last: loaded.revision,
                is_new: !loaded.is_stored,
                now_ms: self.shared.clock.now_ms(),
                command_id: request.ids.command.as_deref(),
                correlation_id: request.ids.correlation.as_deref(),
            };
            let effect = loaded.value.handle(request.command, &cx);
            let effect = effect.map_err(AskError::Rejected)?;
            let written = encode(&effect.change).map_err(AskError::Encode)?;
            match self.write(loaded, effect.change, written).await {
                Ok(()) => return Ok(effect.completion.run(&loaded.value)),
                Err(StateError::Conflict { .. }) => loaded.is_stale = true,
                Err(StateError::Store(error)) if error.kind() == ErrorKind::Unavailable => {
                    loaded.is_stale = true;
                    return Err(AskError::InDoubt(error));
                }
                Err(StateError::Store(error)) => return Err(AskError::Store(error)),
            }
        }
        Err(AskError::Conflict)
    }
}

impl<E: Entity> Host<E> {
    /// Write a change, then apply it in memory.
    async fn write(
        &self,
        loaded: &mut Loaded<E>,
        change: Change<E>,
        written: NewState,
    ) -> Result<(), StateError> {
        let revision = loaded.revision + 1;
        let value = match change {
            Change::Keep => return Ok(()),
            // There is nothing to delete.
            Change::Delete if !loaded.is_stored => return Ok(()),
            Change::Delete => {
                self.states.delete(&loaded.id, Some(revision)).await?;
                None
            }
            Change::Update(value) => {
                self.states.upsert(&loaded.id, revision, written).await?;
                Some(value)
            }
        };
        loaded.is_stored = value.is_some();
        loaded.value = value.unwrap_or_default();
        loaded.revision = revision;
        Ok(())
    }
}

/// A new value as it is written; an empty one if nothing is.
fn encode<E: Entity>(change: &Change<E>) -> Result<NewState> {
    Ok(match change {
        Change::Update(value) => NewState::from(value.to_payload()?).tag(value.tag()),
        Change::Keep | Change::Delete => NewState::from(Payload::default()),
    })
}
