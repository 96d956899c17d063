//! Recovery of event-sourced entities: the newest usable snapshot and the events after it, or all
//! events; and catching up with a journal that has moved on.
//!
//! Guarantees: a recovered state includes every event that existed when it was requested, or recovery
//! fails. If nothing follows the known events but events may have been deleted meanwhile, the highest
//! sequence number proves that nothing is missing. Snapshots that cannot be read are skipped in favour
//! of older ones. A snapshot beyond the last event is an error once a command conflicts because of it; an
//! id with snapshots and no events is legitimate while its layout appends after them. An event that cannot be read, or whose `apply` panics, is named in the error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::{StreamExt, TryStreamExt};

use super::Entity;
use super::host::Host;
use super::loaded::Loaded;
use crate::journal::Window;
use crate::snapshot::Criteria;
use crate::{Error, ErrorKind, Event, PersistenceId, Result, SequenceNumber};

/// How often recovery restarts because another host saved a snapshot and deleted events meanwhile.
const ATTEMPTS: u32 = 4;

const BEYOND_END: &str = "the newest snapshot is beyond the last event, so no command can append; run `annals verify` for this id. if events were lost, restore them; if the snapshot is from before a purge, delete it with `annals snapshot delete`";

/// The result of catching up.
enum CaughtUp {
    /// All events were applied: this many.
    Applied(u64),
    /// Events after the known ones are missing.
    Gap,
}

impl<E: Entity> Host<E> {
    /// Recover the state from the store.
    pub(super) async fn recover(&self, id: &PersistenceId) -> Result<Loaded<E>> {
        for _ in 0..ATTEMPTS {
            if let Some(loaded) = self.try_recover(id).await? {
                return Ok(loaded);
            }
        }
        Err(Error::corrupt(
            "events were deleted and no usable snapshot includes them; restore a snapshot or a backup",
        )
        .fact("id", id))
    }

    /// The state, or `None` if events after the newest usable snapshot are missing.
    async fn try_recover(&self, id: &PersistenceId) -> Result<Option<Loaded<E>>> {
        let (mut loaded, has_skipped_snapshot) = self.newest_snapshot(id).await?;
        self.remember_before(&mut loaded).await?;
        let CaughtUp::Applied(events) = self.catch_up(&mut loaded).await? else {
            return Ok(None);
        };
        // Without events after the snapshot, check that none were deleted.
        let is_proven = events > 0
            || loaded.last > 0
                && !has_skipped_snapshot
                && !self.settings.retention.deletes_events();
        match is_proven || self.is_last(&loaded).await? {
            true => Ok(Some(loaded)),
            false => Ok(None),
        }
    }

    /// The newest usable snapshot, or an empty state; and whether a newer one was skipped.
    async fn newest_snapshot(&self, id: &PersistenceId) -> Result<(Loaded<E>, bool)> {
        let mut snapshots = self.snapshots.find(id, Criteria::ALL);
        let mut has_skipped_snapshot = false;
        while let Some(snapshot) = snapshots.next().await {
            let read = snapshot.and_then(|snapshot| {
                let state = E::from_payload(&snapshot.payload)?;
                Ok(Loaded::from_snapshot(id.clone(), state, &snapshot))
            });
            match read {
                Ok(loaded) => return Ok((loaded, has_skipped_snapshot)),
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => {
                    tracing::warn!(%id, %error, "skipping a snapshot that cannot be read");
                    has_skipped_snapshot = true;
                }
            }
        }
        Ok((Loaded::new(id.clone()), has_skipped_snapshot))
    }

    /// Apply the events after the known ones.
    async fn catch_up(&self, loaded: &mut Loaded<E>) -> Result<CaughtUp> {
        let Some(from) = SequenceNumber::new(loaded.last + 1) else {
            return Ok(CaughtUp::Applied(0));
        };
        let anchor = loaded.snapshot_place.and_then(|place| place.anchor);
        let (journal, window) = (&self.journal, Window::from(from));
        let mut events = journal.replay_anchored(&loaded.id, window, anchor);
        let mut count = 0;
        while let Some(event) = events.next().await {
            let event = event?;
            if count == 0 && !self.follows(loaded, &event).await? {
                return Ok(CaughtUp::Gap);
            }
            self.apply_event(loaded, &event)?;
            count += 1;
        }
        loaded.is_stale = false;
        Ok(CaughtUp::Applied(count))
    }

    /// Whether an event directly follows the state: sequence numbers between them were skipped, not
    /// deleted.
    async fn follows(&self, loaded: &Loaded<E>, event: &Event) -> Result<bool> {
        if event.sequence_number.get() == loaded.last + 1 {
            return Ok(true);
        }
        let deleted = self.journal.deleted_to(&loaded.id).await?;
        Ok(deleted.is_some_and(|deleted| deleted <= loaded.last))
    }

    /// Whether no event was ever appended after the known ones.
    async fn is_last(&self, loaded: &Loaded<E>) -> Result<bool> {
        let highest = self.journal.highest(&loaded.id).await?;
        Ok(highest.map_or(0, SequenceNumber::get) <= loaded.last)
    }

    fn apply_event(&self, loaded: &mut Loaded<E>, event: &Event) -> Result<()> {
        let read = self.settings.event_reader.read::<E::Event>(event)?;
        let state = &mut loaded.state;
        let applied = catch_unwind(AssertUnwindSafe(|| {
            read.events.iter().for_each(|event| state.apply(event));
        }));
        if applied.is_err() {
            loaded.is_poisoned = true;
            let (id, number) = (&loaded.id, event.sequence_number);
            let manifest = &event.data.manifest;
            return Err(
                Error::corrupt("`apply` panicked; fix it or adapt the event")
                    .fact("id", id)
                    .fact("number", number)
                    .fact("manifest", manifest),
            );
        }
        loaded.has_skipped |= read.has_skipped;
        loaded.replayed(event, self.settings.remembered);
        Ok(())
    }

    /// Remember the commands of the last events before the snapshot.
    async fn remember_before(&self, loaded: &mut Loaded<E>) -> Result<()> {
        let remembered = self.settings.remembered;
        let to = SequenceNumber::new(loaded.last).filter(|_| remembered > 0);
        let Some(to) = to else { return Ok(()) };
        let from = to.get().saturating_sub(remembered - 1).max(1);
        let window = Window {
            from: SequenceNumber::new(from).unwrap_or(SequenceNumber::FIRST),
            to,
            ..Window::ALL
        };
        let mut events = self.journal.replay(&loaded.id, window);
        while let Some(event) = events.try_next().await? {
            loaded.recent.replayed(&event, remembered);
        }
        Ok(())
    }

    /// Apply the events that a conflict returned, if they directly follow.
    pub(super) fn apply_found(&self, loaded: &mut Loaded<E>, found: &[Event]) -> Result<()> {
        let follows = found
            .first()
            .is_some_and(|first| first.sequence_number.get() == loaded.last + 1);
        if follows {
            for event in found {
                self.apply_event(loaded, event)?;
            }
            loaded.is_stale = false;
        }
        Ok(())
    }

    /// After conflicts without a known winner: fails if the newest snapshot is beyond the last event, so
    /// that every append would conflict. Recovers the state if only the state in memory is beyond it.
    pub(super) async fn check_end(&self, loaded: &mut Loaded<E>) -> Result<()> {
        if !self.is_beyond_end(loaded).await? {
            return Ok(());
        }
        loaded.is_stale = true;
        let _permit = self.shared.recoveries.acquire().await;
        let mut recovered = self.recover(&loaded.id).await?;
        // Read after the snapshot: other writers may have saved it meanwhile.
        let is_beyond_end = self.is_beyond_end(&recovered).await?;
        let last = recovered.last;
        recovered.is_stale = is_beyond_end;
        *loaded = recovered;
        match is_beyond_end {
            false => Ok(()),
            true => Err(Error::corrupt(BEYOND_END)
                .fact("id", &loaded.id)
                .fact("snapshot", last)),
        }
    }

    /// Whether the state includes events that the journal never had.
    async fn is_beyond_end(&self, loaded: &Loaded<E>) -> Result<bool> {
        let highest = self.journal.highest(&loaded.id).await?;
        Ok(highest.map_or(0, SequenceNumber::get) < loaded.last)
    }

    /// Catch up; recover from the start if the known events are no longer followed by the rest.
    async fn catch_up_or_recover(&self, loaded: &mut Loaded<E>) -> Result<()> {
        let caught = match self.catch_up(loaded).await {
            Ok(caught) => caught,
            // Some of the events may have been applied.
            Err(error) => {
                loaded.is_stale = true;
                return Err(error);
            }
        };
        let is_complete = match caught {
            CaughtUp::Gap => false,
            CaughtUp::Applied(0) => self.is_last(loaded).await?,
            CaughtUp::Applied(_) => true,
        };
        if !is_complete {
            loaded.is_stale = true;
            *loaded = self.recover(&loaded.id).await?;
        }
        Ok(())
    }

    /// Read what others wrote, if the state may be stale.
    pub(super) async fn refresh_if_stale(&self, loaded: &mut Loaded<E>) -> Result<()> {
        if !loaded.is_stale && !loaded.is_poisoned {
            return Ok(());
        }
        // Counts as a recovery: it is as much work for the store.
        let _permit = self.shared.recoveries.acquire().await;
        match loaded.is_poisoned {
            true => *loaded = self.recover(&loaded.id).await?,
            false => self.catch_up_or_recover(loaded).await?,
        }
        Ok(())
    }
}
