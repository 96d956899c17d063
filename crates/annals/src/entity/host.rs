//! The backend of event-sourced entities: executes commands, appends their events, saves snapshots.
//!
//! Guarantees: events are appended only after the state they were decided on; on a conflict the
//! command is decided again. An append whose response was lost is repeated with the same token before
//! anything else. If it is unknown whether an append succeeded, the state is read again before the
//! next command. If commands conflict because the newest snapshot is beyond the last event, they fail
//! with `Corrupt`. A failing snapshot or deletion is logged and retried later; no command fails because
//! of it. Events are deleted only up to a snapshot that was saved and is kept (`deletion.rs`).

use std::error::Error as _;

use futures::StreamExt;

use super::backend::{Backend, CommandIds, Completed, Execute, Request, Shared, Storage};
use super::effect::{Labelled, Write};
use super::loaded::Loaded;
use super::{AskError, Cx, Entity, EntitySettings, Handle, HeldBack};
use crate::journal::{Append, AppendError, Expected, Journal};
use crate::snapshot::{Criteria, SnapshotPosition, Snapshots};
use crate::{Error, ErrorKind, PersistenceId, Result, SequenceNumber};

/// How often an append is repeated after its response was lost.
const APPEND_RETRIES: u32 = 3;

/// The journal and snapshots of one entity type.
pub(crate) struct Host<E> {
    pub(crate) journal: Journal,
    pub(crate) snapshots: Snapshots,
    pub(crate) shared: Shared,
    pub(crate) settings: EntitySettings<E>,
    pub(crate) held_back: HeldBack,
}

/// The events of a command, ready to be appended.
struct Encoded<'a, V> {
    append: Append,
    write: &'a Write<V>,
    ids: &'a CommandIds,
}

impl<E: Entity> Storage<E> for Journal {
    type Backend = Host<E>;
}

impl<E: Entity> Backend for Host<E> {
    type State = E;
    type Loaded = Loaded<E>;

    const TYPE: &'static str = E::TYPE;

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn state(loaded: &Loaded<E>) -> &E {
        &loaded.state
    }

    async fn load(&self, id: &PersistenceId) -> Result<Loaded<E>> {
        self.check_retention()?;
        self.recover(id).await
    }

    async fn refresh(&self, loaded: &mut Loaded<E>) -> Result<()> {
        self.refresh_if_stale(loaded).await
    }

    async fn maintain(&self, loaded: &mut Loaded<E>) {
        if self.is_snapshot_due(loaded) {
            self.save_snapshot(loaded).await;
        }
    }
}

impl<E: Handle<C>, C: Sync> Execute<C> for Host<E> {
    type Reply = E::Reply;
    type Error = E::Error;

    async fn execute(
        &self,
        loaded: &mut Loaded<E>,
        request: Request<'_, C>,
    ) -> Result<Completed<E::Reply>, AskError<E::Error>> {
        let ids = request.ids;
        if ids.command.is_some() && self.settings.remembered == 0 {
            return Err(AskError::Store(Error::invalid(
                "`ask_once` needs remembered commands; set `remember_commands`",
            )));
        }
        for attempt in 0..self.settings.attempts {
            self.refresh_if_stale(loaded).await?;
            if let Some(completed) = loaded.find_completed(ids) {
                return Ok(completed);
            }
            let cx = Cx {
                id: &loaded.id,
                last: loaded.last,
                is_new: loaded.last == 0,
                now_ms: self.shared.clock.now_ms(),
                command_id: ids.command.as_deref(),
                correlation_id: ids.correlation.as_deref(),
            };
            let effect = loaded.state.handle(request.command, &cx);
            let effect = effect.map_err(AskError::Rejected)?;
            if effect.write.events.is_empty() {
                return Ok(loaded.complete(effect));
            }
            let encoded = self.encode(&effect.write, ids);
            match self
                .append(loaded, encoded.map_err(AskError::Encode)?)
                .await
            {
                Ok(()) => return Ok(loaded.complete(effect)),
                Err(AppendError::Conflict(conflict)) => {
                    loaded.is_stale = true;
                    // If only one append was missed, continue from it. If more were, replay all of
                    // them: following a busy id one append at a time would never reach its end.
                    if attempt == 0 {
                        self.apply_found(loaded, &conflict.found)?;
                    }
                    // Checked once, and not for the first conflict unless there is no second one.
                    let is_checked = attempt == 1 || self.settings.attempts == 1;
                    if is_checked && conflict.found.is_empty() {
                        self.check_end(loaded).await?;
                    }
                }
                Err(AppendError::Store(error)) if error.kind() == ErrorKind::Unavailable => {
                    loaded.is_stale = true;
                    return Err(AskError::InDoubt(error));
                }
                Err(AppendError::Store(error)) => return Err(AskError::Store(error)),
            }
        }
        Err(AskError::Conflict)
    }
}

impl<E: Entity> Host<E> {
    /// The events of an effect as they are appended.
    fn encode<'a>(
        &self,
        write: &'a Write<E::Event>,
        ids: &'a CommandIds,
    ) -> Result<Encoded<'a, E::Event>> {
        let events = write.events.iter().map(Labelled::to_event);
        let events: Vec<_> = events.collect::<Result<_>>()?;
        let mut append = Append::of(events).token(self.journal.token());
        // The command's id comes first: it is what recognises a repeated command.
        let causation = ids.command.as_deref().or(write.causation.as_deref());
        append.causation = causation.map(str::to_owned);
        let correlation = write.correlation.as_deref().or(ids.correlation.as_deref());
        append.correlation = correlation.map(str::to_owned);
        Ok(Encoded { append, write, ids })
    }

    /// Append the events of an effect and apply them.
    async fn append(
        &self,
        loaded: &mut Loaded<E>,
        encoded: Encoded<'_, E::Event>,
    ) -> Result<(), AppendError> {
        let Encoded { append, write, ids } = encoded;
        let bytes: usize = append.events.iter().map(|event| event.payload.len()).sum();
        let expected = SequenceNumber::new(loaded.last).map_or(Expected::Empty, Expected::Last);
        if expected == Expected::Empty {
            // After a purge, numbering restarts: what waited is gone.
            self.held_back.take(&loaded.id);
        }
        let mut retries = 0;
        let appended = loop {
            let appended = self.journal.append(&loaded.id, expected, append.clone());
            match appended.await {
                Err(AppendError::Store(error))
                    if error.kind() == ErrorKind::Unavailable && retries < APPEND_RETRIES =>
                {
                    retries += 1;
                }
                other => break other?,
            }
        };
        for labelled in &write.events {
            loaded.state.apply(&labelled.event);
        }
        let (first, last) = (appended.first.get(), appended.last.get());
        if let Some(id) = &ids.command {
            loaded.recent.insert(id, first, last);
        }
        loaded.recent.forget(last, self.settings.remembered);
        loaded.appended(appended, bytes as u64);
        Ok(())
    }

    fn is_snapshot_due(&self, loaded: &Loaded<E>) -> bool {
        // A state that lacks skipped events gets no snapshot, and their events are not deleted.
        if loaded.has_skipped {
            return false;
        }
        let (events, bytes) = (loaded.events_since_snapshot, loaded.bytes_since_snapshot);
        let retention = &self.settings.retention;
        loaded.wants_snapshot || retention.is_due(&loaded.state, events, bytes)
    }

    /// Save a snapshot, and delete the snapshots and events that it replaces.
    async fn save_snapshot(&self, loaded: &mut Loaded<E>) {
        let Some(place) = loaded.snapshot_place else {
            loaded.wants_snapshot = false;
            return;
        };
        if let Err(error) = self.try_save_snapshot(loaded, place).await {
            let id = &loaded.id;
            let cause = error.source().map(tracing::field::display);
            tracing::warn!(%id, %error, cause, "saving a snapshot failed; it is retried after the next command");
        }
    }

    async fn try_save_snapshot(
        &self,
        loaded: &mut Loaded<E>,
        place: SnapshotPosition,
    ) -> Result<()> {
        let payload = loaded.state.to_payload()?;
        self.snapshots.save(&loaded.id, place, payload).await?;
        loaded.events_since_snapshot = 0;
        loaded.bytes_since_snapshot = 0;
        loaded.wants_snapshot = false;
        let retention = &self.settings.retention;
        let Some(oldest) = self.oldest_kept(&loaded.id, place.number).await else {
            return Ok(());
        };
        if let Some(before) = SequenceNumber::new(oldest.get() - 1) {
            let older = Criteria {
                max_number: before,
                ..Criteria::ALL
            };
            self.snapshots.delete(&loaded.id, older).await?;
        }
        // Remembered commands are recognised by their events, so these stay.
        let to = oldest.get().saturating_sub(self.settings.remembered);
        if let Some(to) = SequenceNumber::new(to).filter(|_| retention.deletes_events()) {
            self.delete_events(&loaded.id, to).await?;
        }
        Ok(())
    }

    /// The sequence number of the oldest snapshot to keep; `None` if there are too few to delete any.
    async fn oldest_kept(
        &self,
        id: &PersistenceId,
        last: SequenceNumber,
    ) -> Option<SequenceNumber> {
        // Only snapshots that recovery can use count. One that this release cannot read must not
        // replace one that it can.
        let usable = self.snapshots.find(id, Criteria::ALL).filter_map(|found| {
            let found = found.ok().filter(|found| {
                found.sequence_number <= last && E::from_payload(&found.payload).is_ok()
            });
            std::future::ready(found.map(|found| found.sequence_number))
        });
        let usable = usable.skip(self.settings.retention.kept_snapshots() - 1);
        std::pin::pin!(usable).next().await
    }
}
