//! What both hosts of entities stand on: the journal, the snapshots, and how a command is run.
//!
//! Promises: a command's events follow the state that it was decided on, or it is decided again; a
//! lost answer is asked for again with the same token before anything else is done. Where nobody
//! knows whether an append landed, the state is read again before the next command.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::hosting::{Asking, Hosting, Runs};
use super::live::{Asked, Live};
use super::settings::{Residency, Shared};
use super::{AskError, Cx, Entity, EntityEvent, Handle};
use crate::journal::{Append, AppendError, Expected, Journal};
use crate::snapshot::Snapshots;
use crate::{Clock, Error, ErrorKind, PersistenceId, Result, SequenceNumber};

/// How often an append whose answer was lost is repeated.
const REPEATS: u32 = 3;

/// What entities of a kind are kept in.
pub(crate) struct Host<E> {
    pub(crate) journal: Journal,
    pub(crate) snapshots: Snapshots,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Shared<E>,
    pub(crate) recoveries: Arc<Semaphore>,
}

impl<E> Clone for Host<E> {
    fn clone(&self) -> Self {
        Self {
            journal: self.journal.clone(),
            snapshots: self.snapshots.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            recoveries: self.recoveries.clone(),
        }
    }
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

    fn state(live: &Live<E>) -> &E {
        &live.state
    }

    fn recoveries(&self) -> &Semaphore {
        &self.recoveries
    }

    async fn load(&self, id: &PersistenceId) -> Result<Live<E>> {
        self.recover(id).await
    }

    async fn settle(&self, live: &mut Live<E>) -> Result<()> {
        self.refresh_doubtful(live).await
    }

    async fn tend(&self, live: &mut Live<E>) {
        if self.is_due(live) {
            self.retain(live).await;
        }
    }
}

impl<E: Handle<C>, C: Sync> Runs<C> for Host<E> {
    type Reply = E::Reply;
    type Error = E::Error;

    async fn run(
        &self,
        live: &mut Live<E>,
        asking: Asking<'_, C>,
    ) -> Result<Asked<E::Reply>, AskError<E::Error>> {
        self.decide(live, asking).await
    }
}

impl<E: Entity> Host<E> {
    /// Runs a command: decides, appends, applies.
    async fn decide<C>(
        &self,
        live: &mut Live<E>,
        asking: Asking<'_, C>,
    ) -> Result<Asked<E::Reply>, AskError<E::Error>>
    where
        E: Handle<C>,
    {
        if asking.id.is_some() && self.settings.remembered == 0 {
            return Err(AskError::Store(Error::invalid(
                "commands are not remembered, so none can be known again; set remember_commands",
            )));
        }
        for tries in 0..self.settings.tries {
            self.refresh_doubtful(live).await?;
            if let Some(number) = asking.id.and_then(|id| live.recent.get(id)) {
                return Ok(Asked::already(number));
            }
            let cx = Cx {
                id: &live.id,
                last: live.last,
                is_new: live.last == 0,
                now_ms: self.clock.now_ms(),
                command_id: asking.id,
            };
            let effect = live.state.handle(asking.command, &cx);
            let effect = effect.map_err(AskError::Rejected)?;
            if effect.events.is_empty() {
                return Ok(live.finish(effect));
            }
            match self
                .append(live, (&effect.events, &effect.tags), asking.id)
                .await
            {
                Ok(()) => return Ok(live.finish(effect)),
                Err(AppendError::Conflict(conflict)) => {
                    live.is_doubtful = true;
                    // Who lags by one append goes on from it. Who lags by more reads all of it, or
                    // would follow a busy id one append at a time and never reach its end.
                    if tries == 0 {
                        self.take_found(live, &conflict.found)?;
                    }
                }
                Err(AppendError::Store(error)) if error.kind() == ErrorKind::Unavailable => {
                    live.is_doubtful = true;
                    return Err(AskError::InDoubt(error));
                }
                Err(AppendError::Store(error)) => return Err(AskError::Store(error)),
            }
        }
        Err(AskError::Conflict)
    }

    /// Appends the events of an effect and takes them in.
    async fn append(
        &self,
        live: &mut Live<E>,
        (events, tags): (&[E::Event], &[String]),
        command_id: Option<&str>,
    ) -> Result<(), AppendError> {
        let stored = events.iter().map(EntityEvent::to_event);
        let mut stored: Vec<_> = stored.collect::<Result<_>>()?;
        for event in &mut stored {
            event.tags.extend(tags.iter().cloned());
        }
        let bytes: usize = stored.iter().map(|event| event.payload.len()).sum();
        let mut append = Append::of(stored).token(self.journal.token());
        append.causation = command_id.map(str::to_owned);
        let expected = SequenceNumber::new(live.last).map_or(Expected::Empty, Expected::Last);
        let mut repeats = 0;
        let appended = loop {
            let appended = self.journal.append(&live.id, expected, append.clone());
            match appended.await {
                Err(AppendError::Store(error))
                    if error.kind() == ErrorKind::Unavailable && repeats < REPEATS =>
                {
                    repeats += 1;
                }
                other => break other?,
            }
        };
        for event in events {
            live.state.apply(event);
        }
        let numbers = (appended.first, appended.last);
        if let Some(id) = command_id {
            live.recent
                .insert(id, appended.first.get(), appended.last.get());
        }
        live.recent
            .forget(appended.last.get(), self.settings.remembered);
        live.appended(appended.into(), bytes as u64, numbers);
        Ok(())
    }

    /// Whether a snapshot is due.
    fn is_due(&self, live: &Live<E>) -> bool {
        // Of a state that lacks events no snapshot is saved, and behind none are events deleted.
        if live.has_skipped {
            return false;
        }
        let retention = &self.settings.retention;
        live.saves || retention.is_due(&live.state, live.since, live.bytes)
    }
}
