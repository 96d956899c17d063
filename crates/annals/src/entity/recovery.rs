//! How a state comes from the store: a snapshot and the events behind it, or all events; and how one
//! that is behind catches up.
//!
//! Promises: a state that is answered has taken in every event there was when it was asked for, or
//! the answer is an error. Where nothing was found behind what is known, and events may have been
//! deleted meanwhile, the highest number proves that there is nothing. The newest snapshot that is
//! understood is used, and older ones where newer ones are not. An event that is not understood, or
//! whose taking in panics, is named.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::{StreamExt, TryStreamExt};

use super::Entity;
use super::host::Host;
use super::live::Live;
use crate::journal::Window;
use crate::snapshot::Criteria;
use crate::{Error, ErrorKind, Event, PersistenceId, Result, SequenceNumber};

/// How often it is begun anew where another host saves a snapshot and deletes events meanwhile.
const TRIES: u32 = 4;

/// What catching up came to.
enum Caught {
    /// Everything that was there is taken in: so many events.
    Up(u64),
    /// Events are missing behind what was known.
    Gap,
}

impl<E: Entity> Host<E> {
    /// The state as the store has it.
    pub(super) async fn recover(&self, id: &PersistenceId) -> Result<Live<E>> {
        for _ in 0..TRIES {
            if let Some(live) = self.try_recover(id).await? {
                return Ok(live);
            }
        }
        Err(Error::corrupt(format!(
            "events are deleted, and no snapshot that is of use knows of them; an operator must look. id=`{id}`"
        )))
    }

    /// The state, where no events are missing behind the newest snapshot that is of use.
    async fn try_recover(&self, id: &PersistenceId) -> Result<Option<Live<E>>> {
        let (mut live, has_passed_over) = self.newest_snapshot(id).await?;
        self.remember_before(&mut live).await?;
        let Caught::Up(events) = self.catch_up(&mut live).await? else {
            return Ok(None);
        };
        // A new id is asked once more; so is whatever may have lost its events.
        let is_proven = events > 0
            || live.last > 0 && !has_passed_over && !self.settings.retention.deletes_events();
        match is_proven || self.is_last(&live).await? {
            true => Ok(Some(live)),
            false => Ok(None),
        }
    }

    /// The newest snapshot that is understood, or the beginning; and whether one was passed over.
    async fn newest_snapshot(&self, id: &PersistenceId) -> Result<(Live<E>, bool)> {
        let mut snapshots = self.snapshots.find(id, Criteria::ALL);
        let mut has_passed_over = false;
        while let Some(snapshot) = snapshots.next().await {
            let read = snapshot.and_then(|snapshot| {
                let state = E::from_payload(&snapshot.payload)?;
                Ok(Live::at(id.clone(), state, &snapshot))
            });
            match read {
                Ok(live) => return Ok((live, has_passed_over)),
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => {
                    tracing::warn!(%id, %error, "a snapshot is of no use; an older one or the events are");
                    has_passed_over = true;
                }
            }
        }
        Ok((Live::new(id.clone()), has_passed_over))
    }

    /// Takes in what came since.
    async fn catch_up(&self, live: &mut Live<E>) -> Result<Caught> {
        let Some(from) = SequenceNumber::new(live.last + 1) else {
            return Ok(Caught::Up(0));
        };
        let window = Window {
            anchor: live.place.and_then(|place| place.anchor),
            ..Window::from(from)
        };
        let mut events = self.journal.replay(&live.id, window);
        let mut count = 0;
        while let Some(event) = events.next().await {
            let event = event?;
            if count == 0 && !self.follows(live, &event).await? {
                return Ok(Caught::Gap);
            }
            self.take_in(live, &event)?;
            count += 1;
        }
        live.is_doubtful = false;
        Ok(Caught::Up(count))
    }

    /// Whether an event follows the state: numbers between them were never used, not deleted.
    async fn follows(&self, live: &Live<E>, event: &Event) -> Result<bool> {
        if event.sequence_number.get() == live.last + 1 {
            return Ok(true);
        }
        let deleted = self.journal.deleted_to(&live.id).await?;
        Ok(deleted.is_some_and(|deleted| deleted <= live.last))
    }

    /// Whether nothing was ever appended behind what the state knows.
    async fn is_last(&self, live: &Live<E>) -> Result<bool> {
        let highest = self.journal.highest(&live.id).await?;
        Ok(highest.map_or(0, SequenceNumber::get) <= live.last)
    }

    fn take_in(&self, live: &mut Live<E>, event: &Event) -> Result<()> {
        let read = self.settings.reading.read::<E::Event>(event)?;
        let state = &mut live.state;
        let applied = catch_unwind(AssertUnwindSafe(|| {
            read.events.iter().for_each(|event| state.apply(event));
        }));
        if applied.is_err() {
            live.is_spoiled = true;
            let (id, number) = (&live.id, event.sequence_number);
            let manifest = &event.data.manifest;
            return Err(Error::corrupt(format!(
                "taking in an event panicked. id=`{id}`, number=`{number}`, manifest=`{manifest}`"
            )));
        }
        live.has_skipped |= read.has_skipped;
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

    /// Takes in what a refusal showed, if that is what comes next.
    pub(super) fn take_found(&self, live: &mut Live<E>, found: &[Event]) -> Result<()> {
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
        let caught = match self.catch_up(live).await {
            Ok(caught) => caught,
            // The state may have taken in a part.
            Err(error) => {
                live.is_doubtful = true;
                return Err(error);
            }
        };
        let is_up = match caught {
            Caught::Gap => false,
            Caught::Up(0) => self.is_last(live).await?,
            Caught::Up(_) => true,
        };
        if !is_up {
            live.is_doubtful = true;
            *live = self.recover(&live.id).await?;
        }
        Ok(())
    }

    /// Makes sure that a state is as new as the store's, as far as anybody has reason to doubt it.
    pub(super) async fn refresh_doubtful(&self, live: &mut Live<E>) -> Result<()> {
        if !live.is_doubtful && !live.is_spoiled {
            return Ok(());
        }
        // As much work for the store as a recovery, and as many at once.
        let _permit = self.recoveries.acquire().await;
        match live.is_spoiled {
            true => *live = self.recover(&live.id).await?,
            false => self.refresh(live).await?,
        }
        Ok(())
    }
}
