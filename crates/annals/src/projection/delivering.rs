//! Delivering a batch: what is handled, what becomes a dead letter, where the share stops.
//!
//! Guarantees: an event that cannot be handled is never passed: the share stops before its commit, or it
//! and all later events of its id become dead letters in the same save that moves the position. A dead
//! letter that is retried is handled once by a view, and at least once by a handler.

use std::collections::BTreeMap;

use futures::TryStreamExt;

use super::control::{Action, Request};
use super::handler::is_passing;
use super::settings::{OnPoison, backoff};
use super::share::{self, DEAD_IDS_MAX, DeadLetters};
use super::target::{Delivered, Delivery, Failure, Kind};
use super::worker::{Interruption, Worker, renewing};
use crate::feed::{Lane, LanePosition};
use crate::journal::Window;
use crate::{Error, PersistenceId, Result, SequenceNumber};

/// The dead letters of a share, by id.
type Dead = BTreeMap<String, DeadLetters>;

/// An event that cannot be handled.
struct Poison {
    lane: Lane,
    at: LanePosition,
    cause: Error,
}

/// The most deliveries that a handler gets before its position is saved.
const HANDLED_AT_ONCE: usize = 100;

/// What is left of a batch.
struct Remaining<'a> {
    deliveries: &'a [Delivery],
    poison: Vec<Poison>,
    attempts: u32,
    /// Only so many are delivered now: what follows cannot be handled, for this reason.
    stop: Option<(usize, Error)>,
}

impl Worker {
    /// Delivers a batch.
    pub(super) async fn deliver(&mut self, batch: Vec<Delivery>) -> Result<(), Interruption> {
        let mut rest = Remaining {
            deliveries: &batch,
            poison: Vec::new(),
            attempts: 0,
            stop: None,
        };
        loop {
            let stop = rest.stop.as_ref();
            let end = stop.map_or(rest.deliveries.len(), |(end, _)| *end);
            let now = rest.deliveries.get(..end).unwrap_or_default();
            let now = now.get(..self.together(now, &rest.poison)?);
            let now = now.unwrap_or_default();
            let (live, dead) = self.without_dead(now, &rest.poison)?;
            let failure = match live.is_empty() {
                true => None,
                false => self.handle(&live).await.err(),
            };
            if failure.is_none()
                && now.len() < end
                && let Some(last) = now.last()
            {
                self.commit_prefix(&mut rest, last).await?;
                rest.attempts = 0;
                continue;
            }
            let Some(failure) = failure else {
                self.count(now, &live);
                self.lease.share.dead = dead;
                return match rest.stop {
                    None => Ok(()),
                    Some((_, error)) => {
                        self.reach(now);
                        self.lease.save().await?;
                        Err(error.into())
                    }
                };
            };
            self.after_failure(&mut rest, &live, failure).await?;
        }
    }

    /// How many of the next deliveries are delivered at once.
    ///
    /// A sink saves its position before the share is saved. So it gets deliveries up to the next dead
    /// letter only, and goes on when that is saved: whatever crashes, neither position passes a dead
    /// letter that is not saved.
    fn together(&self, all: &[Delivery], poison: &[Poison]) -> Result<usize> {
        match self.work.target.kind() {
            Kind::Sink => {}
            // So that little comes again if the share is given up.
            Kind::Handler => return Ok(all.len().min(HANDLED_AT_ONCE)),
            Kind::View => return Ok(all.len()),
        }
        let (live, _) = self.without_dead(all, poison)?;
        let same = |one: &Delivery, other: &Delivery| (one.lane, one.at) == (other.lane, other.at);
        let pairs = live.iter().zip(all);
        Ok(
            match pairs.take_while(|(one, other)| same(one, other)).count() {
                0 => {
                    let next = live.first();
                    let next = next.and_then(|live| all.iter().position(|one| same(one, live)));
                    next.unwrap_or(all.len())
                }
                leading => leading,
            },
        )
    }

    /// Decides what to do with a batch that was not handled: deliver it again, without what is done and
    /// what became a dead letter.
    async fn after_failure(
        &mut self,
        rest: &mut Remaining<'_>,
        live: &[Delivery],
        failure: Failure,
    ) -> Result<(), Interruption> {
        let (index, done, cause) = match failure {
            Failure::Lost => return Err(Interruption::Lost),
            Failure::Failed(error) => return Err(error.into()),
            Failure::Poison { index, done, cause } => (index, done, cause),
        };
        let Some(poisoned) = live.get(index) else {
            return Err(cause.into());
        };
        if let Some(last) = done.checked_sub(1).and_then(|last| live.get(last)) {
            self.commit_prefix(rest, last).await?;
            rest.attempts = 0;
        }
        if is_passing(&cause) {
            return Err(cause.into());
        }
        rest.attempts += 1;
        if rest.attempts < self.work.settings.attempts {
            return self.pause(backoff(rest.attempts)).await;
        }
        rest.attempts = 0;
        let cause = self.name(cause, poisoned);
        match (self.work.settings.on_poison, poisoned.number()) {
            (OnPoison::DeadLetter, Some(_)) => {
                tracing::warn!(error = %cause, id = %poisoned.id, "an event becomes a dead letter");
                let (lane, at) = (poisoned.lane, poisoned.at);
                rest.poison.push(Poison { lane, at, cause });
            }
            _ => {
                let place = poisoned.place();
                let before = rest.deliveries.iter().take_while(|one| one.place() < place);
                rest.stop = Some((before.count(), cause));
            }
        }
        Ok(())
    }

    /// Saves that everything up to a delivery is handled, and goes on after it.
    async fn commit_prefix(
        &mut self,
        rest: &mut Remaining<'_>,
        last: &Delivery,
    ) -> Result<(), Interruption> {
        let is_last = |one: &Delivery| one.lane == last.lane && one.at == last.at;
        let end = rest
            .deliveries
            .iter()
            .rposition(is_last)
            .map_or(0, |at| at + 1);
        let (done, left) = rest.deliveries.split_at(end);
        let (live, dead) = self.without_dead(done, &rest.poison)?;
        self.count(done, &live);
        self.lease.share.dead = dead;
        self.reach(done);
        self.lease.save().await?;
        rest.deliveries = left;
        if let Some((end, _)) = &mut rest.stop {
            *end = end.saturating_sub(done.len());
        }
        Ok(())
    }

    /// Moves the position to the end of deliveries that are handled.
    fn reach(&mut self, done: &[Delivery]) {
        if let Some(last) = done.last() {
            let at = last.at.max(self.position.lane(last.lane.0));
            self.position = self.position.with_lane(last.lane.0, at);
            self.advance();
        }
    }

    fn count(&mut self, all: &[Delivery], live: &[Delivery]) {
        let events = live.iter().filter(|one| one.event().is_some());
        self.lease.share.handled += events.count() as u64;
        let missing = all
            .iter()
            .filter(|one| matches!(one.what, Delivered::Missing(_)));
        self.lease.share.missed += missing.count() as u64;
    }

    /// The deliveries without those of ids that have dead letters, and the dead letters with them.
    fn without_dead(&self, all: &[Delivery], poison: &[Poison]) -> Result<(Vec<Delivery>, Dead)> {
        let mut dead = self.lease.share.dead.clone();
        let mut live = Vec::with_capacity(all.len());
        let now_ms = self.work.store.clock().now_ms();
        for delivery in all {
            let id = delivery.id.as_str();
            if delivery.what == Delivered::Purged {
                // Numbering restarts: what was dead is gone.
                dead.remove(id);
            }
            let Some(number) = delivery.number() else {
                live.push(delivery.clone());
                continue;
            };
            let found = poison
                .iter()
                .find(|one| (one.lane, one.at) == (delivery.lane, delivery.at));
            if let Some(Poison { cause, .. }) = found
                && !dead.contains_key(id)
            {
                dead.insert(id.to_owned(), DeadLetters::new(number.get(), cause, now_ms));
            }
            match dead.get_mut(id) {
                None => live.push(delivery.clone()),
                Some(letters) => {
                    letters.to = number.get();
                    letters.events += 1;
                }
            }
        }
        if dead.len() > DEAD_IDS_MAX {
            return Err(Error::invalid(
                "too many ids have dead letters; fix the cause, then retry or discard them",
            )
            .fact("ids", dead.len())
            .fact("projection", &self.context.projection));
        }
        Ok((live, dead))
    }

    /// Names the delivery in an error.
    fn name(&self, cause: Error, delivery: &Delivery) -> Error {
        let number = delivery.number().map_or(0, SequenceNumber::get);
        let error = Error::new(cause.kind(), "an event cannot be handled");
        error
            .fact("projection", &self.context.projection)
            .fact("id", &delivery.id)
            .fact("number", number)
            .because(cause)
    }

    /// Carries out what operators asked for since the last time.
    pub(super) async fn carry_out_requests(&mut self) -> Result<(), Interruption> {
        let requests = self.orders.requests.borrow_and_update().clone();
        let done = self.lease.share.request;
        let new = requests.iter().filter(|request| request.number > done);
        for request in new.clone() {
            for id in self.dead_ids(request) {
                match request.action {
                    Action::Retry => self.retry(&id).await?,
                    Action::Discard => {
                        let letters = self.lease.share.dead.remove(&id);
                        let events = letters.map_or(0, |letters| letters.events);
                        self.lease.share.missed += events;
                    }
                }
            }
            self.lease.share.request = request.number;
        }
        match new.count() {
            0 => Ok(()),
            _ => Ok(self.lease.save().await?),
        }
    }

    fn dead_ids(&self, request: &Request) -> Vec<String> {
        let ids = self.lease.share.dead.keys();
        let wanted = |id: &&String| request.id.as_ref().is_none_or(|only| only == *id);
        ids.filter(wanted).cloned().collect()
    }

    /// Handles the dead letters of an id again, in order, up to the first that fails.
    async fn retry(&mut self, id: &str) -> Result<(), Interruption> {
        let Some(letters) = self.lease.share.dead.get(id).cloned() else {
            return Ok(());
        };
        let parsed: PersistenceId = id.parse()?;
        let window = window(&letters)?;
        let mut events = self.work.journal.replay(&parsed, window);
        let work = self.work.clone();
        loop {
            let next = async { Ok::<_, Interruption>(events.try_next().await?) };
            let Some(event) = renewing(&work, &mut self.lease, next).await? else {
                break;
            };
            if *self.orders.stop.borrow() {
                return Err(Interruption::Stopped);
            }
            if !self.filter.accepts(&event) {
                continue;
            }
            let number = event.sequence_number;
            let letter = Delivery {
                id: parsed.clone(),
                lane: Lane(0),
                at: LanePosition::default(),
                what: Delivered::Event(Box::new(event)),
            };
            let retried = work.target.retry(&self.context, &letter);
            match renewing(&work, &mut self.lease, retried).await {
                Ok(()) => self.has_retried(id, number).await?,
                Err(Failure::Lost) => return Err(Interruption::Lost),
                // Not done yet: the request is carried out again.
                Err(Failure::Failed(cause)) => return Err(cause.into()),
                Err(Failure::Poison { cause, .. }) if is_passing(&cause) => {
                    return Err(cause.into());
                }
                Err(Failure::Poison { cause, .. }) => {
                    let cause = self.name(cause, &letter);
                    if let Some(letters) = self.lease.share.dead.get_mut(id) {
                        letters.reason = share::reason(&cause);
                    }
                    return Ok(self.lease.save().await?);
                }
            }
        }
        let left = self.lease.share.dead.remove(id);
        // What is left was deleted from the journal.
        self.lease.share.missed += left.map_or(0, |letters| letters.events);
        Ok(self.lease.save().await?)
    }

    async fn has_retried(&mut self, id: &str, number: SequenceNumber) -> Result<(), Interruption> {
        if let Some(letters) = self.lease.share.dead.get_mut(id) {
            letters.from = number.get() + 1;
            letters.events = letters.events.saturating_sub(1);
        }
        self.lease.share.handled += 1;
        Ok(self.lease.save().await?)
    }
}

/// The events of dead letters.
fn window(letters: &DeadLetters) -> Result<Window> {
    let number = |n: u64| SequenceNumber::new(n.max(1));
    let (from, to) = number(letters.from)
        .zip(number(letters.to))
        .ok_or_else(|| {
            Error::corrupt(
                "the dead letters of an id have a number out of range; rebuild the projection",
            )
            .fact("from", letters.from)
            .fact("to", letters.to)
        })?;
    Ok(Window::from(from).to(to))
}
