//! What both hosts of entities stand on: the journal, the snapshots, and how a command is run.
//!
//! Promises: a command's events follow the state that it was decided on, or it is decided again; a
//! lost answer is asked for again with the same token before anything else is done. Where nobody
//! knows whether an append landed, the state is read again before the next command.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};

use super::hosting::{Asking, Hosting, Runs};
use super::live::{Asked, Live};
use super::settings::{Residency, Shared};
use super::{AskError, Cx, Entity, EntityEvent, Handle};
use crate::journal::{Append, AppendError, Expected, Journal, Window};
use crate::snapshot::{Criteria, Snapshots};
use crate::{Clock, Error, ErrorKind, Event, PersistenceId, Result, SequenceNumber};

/// How often an append whose answer was lost is repeated.
const REPEATS: u32 = 3;

/// What entities of a kind are kept in.
pub(crate) struct Host<E> {
    pub(crate) journal: Journal,
    pub(crate) snapshots: Snapshots,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Shared<E>,
}

impl<E> Clone for Host<E> {
    fn clone(&self) -> Self {
        Self {
            journal: self.journal.clone(),
            snapshots: self.snapshots.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
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
    /// The state as the store has it.
    async fn recover(&self, id: &PersistenceId) -> Result<Live<E>> {
        let found = self.snapshots.load(id, Criteria::ALL).await?;
        if let Some(snapshot) = &found {
            match E::from_payload(&snapshot.payload) {
                Ok(state) => {
                    let mut live = Live::at(id.clone(), state, snapshot);
                    self.remember_before(&mut live).await?;
                    let is_whole = self.catch_up(&mut live).await?;
                    if is_whole {
                        return Ok(live);
                    }
                }
                Err(error) => {
                    tracing::warn!(%id, %error, "a snapshot is of no use; the events are replayed");
                }
            }
        }
        self.load_from_events(id).await
    }

    /// The state as all events make it.
    async fn load_from_events(&self, id: &PersistenceId) -> Result<Live<E>> {
        let mut live = Live::new(id.clone());
        let is_whole = self.catch_up(&mut live).await?;
        match is_whole {
            true => Ok(live),
            false => Err(Error::corrupt(format!(
                "the first events are deleted, and no snapshot that is of use knows of them; an operator must look. id=`{id}`"
            ))),
        }
    }

    /// Takes in what came since; answers whether nothing is missing at the beginning.
    async fn catch_up(&self, live: &mut Live<E>) -> Result<bool> {
        let Some(from) = SequenceNumber::new(live.last + 1) else {
            return Ok(true);
        };
        let window = Window {
            anchor: live.place.and_then(|place| place.anchor),
            ..Window::from(from)
        };
        let mut events = self.journal.replay(&live.id, window);
        let mut is_first = true;
        while let Some(event) = events.next().await {
            let event = event?;
            if std::mem::take(&mut is_first) && !self.follows(live, &event).await? {
                return Ok(false);
            }
            self.take_in(live, &event)?;
        }
        live.is_doubtful = false;
        Ok(true)
    }

    /// Whether an event follows the state: numbers between them were never used, not deleted.
    async fn follows(&self, live: &Live<E>, event: &Event) -> Result<bool> {
        if event.sequence_number.get() == live.last + 1 {
            return Ok(true);
        }
        let deleted = self.journal.deleted_to(&live.id).await?;
        Ok(deleted.is_some_and(|deleted| deleted <= live.last))
    }

    fn take_in(&self, live: &mut Live<E>, event: &Event) -> Result<()> {
        for domain in self.settings.reading.read::<E::Event>(event)? {
            live.state.apply(&domain);
        }
        live.passed(event, self.settings.remembered);
        Ok(())
    }

    /// The commands of the last events before a snapshot.
    async fn remember_before(&self, live: &mut Live<E>) -> Result<()> {
        let remembered = self.settings.remembered;
        let to = SequenceNumber::new(live.last).filter(|_| remembered > 0);
        let Some(to) = to else { return Ok(()) };
        let from = to.get().saturating_sub(remembered - 1).max(1);
        let window = Window {
            from: SequenceNumber::new(from).unwrap_or(SequenceNumber::FIRST),
            to,
            ..Window::ALL
        };
        let mut events = self.journal.replay(&live.id, window);
        while let Some(event) = events.try_next().await? {
            live.recent.passed(&event, remembered);
        }
        Ok(())
    }

    /// Runs a command: decides, appends, applies.
    async fn decide<C>(
        &self,
        live: &mut Live<E>,
        asking: Asking<'_, C>,
    ) -> Result<Asked<E::Reply>, AskError<E::Error>>
    where
        E: Handle<C>,
    {
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
                Err(AppendError::Store(error)) => {
                    live.is_doubtful = error.kind() == ErrorKind::Unavailable;
                    return Err(AskError::Store(error));
                }
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
            live.recent.insert(id, appended.first.get());
        }
        live.recent
            .forget(appended.last.get(), self.settings.remembered);
        live.appended(appended.into(), bytes as u64, numbers);
        Ok(())
    }

    /// Takes in what a refusal showed, if that is what comes next.
    fn take_found(&self, live: &mut Live<E>, found: &[Event]) -> Result<()> {
        let follows = found
            .first()
            .is_some_and(|first| first.sequence_number.get() == live.last + 1);
        if follows {
            for event in found {
                self.take_in(live, event)?;
            }
            live.is_doubtful = false;
        }
        Ok(())
    }

    /// Reads what came since; all of it where that does not follow any more.
    async fn refresh(&self, live: &mut Live<E>) -> Result<()> {
        let follows = match self.catch_up(live).await {
            Ok(follows) => follows,
            // The state may have taken in a part.
            Err(error) => {
                live.is_doubtful = true;
                return Err(error);
            }
        };
        if !follows {
            *live = self.recover(&live.id).await?;
        }
        Ok(())
    }

    /// Makes sure that a state is as new as the store's, as far as anybody has reason to doubt it.
    async fn refresh_doubtful(&self, live: &mut Live<E>) -> Result<()> {
        match live.is_doubtful {
            true => self.refresh(live).await,
            false => Ok(()),
        }
    }

    /// Whether a snapshot is due.
    fn is_due(&self, live: &Live<E>) -> bool {
        let retention = &self.settings.retention;
        live.saves || retention.is_due(&live.state, live.since, live.bytes)
    }
}
