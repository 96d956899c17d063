//! The worker of a share: reads the feed, delivers what the target wants, saves the position.
//!
//! Guarantees: the position is saved after the target handled everything before it, never earlier. A
//! batch holds commits whole. While a batch is handled, the lease is renewed; a worker that lost it
//! stops and saves nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::TryFutureExt;
use tokio::sync::watch;

use super::control::{Build, Request};
use super::progress::Progress;
use super::settings::RunSettings;
use super::share::{self, Lease, LeaseCheck, SaveError, Stopped};
use super::target::{Delivered, Delivery, Failure, ShareContext, Target};
use crate::entity::EventReader;
use crate::feed::{Entry, Feed, Filter, Lane, LaneBatch, LanePosition, Position, What};
use crate::items::PageBudget;
use crate::journal::Journal;
use crate::store::Store;
use crate::{Error, Result};

/// What the workers of a runner share.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) store: Store,
    pub(super) journal: Journal,
    pub(super) feed: Arc<dyn Feed>,
    pub(super) target: Arc<dyn Target>,
    pub(super) reader: EventReader,
    pub(super) settings: RunSettings,
    pub(super) progress: Progress,
}

/// What a runner says to its workers.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    /// Stop after the current batch.
    pub(super) stop: watch::Receiver<bool>,
    pub(super) requests: watch::Receiver<Arc<Vec<Request>>>,
}

/// Why a worker ends, or starts over.
#[derive(Debug)]
pub(super) enum Interruption {
    /// The share belongs to another runner.
    Lost,
    /// The runner wants it to stop.
    Stopped,
    /// Something failed that may succeed later.
    Failed(Error),
}

impl From<SaveError> for Interruption {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Lost => Self::Lost,
            SaveError::Failed(error) => Self::Failed(error),
        }
    }
}

impl From<SaveError> for Failure {
    fn from(error: SaveError) -> Self {
        match error {
            SaveError::Lost => Self::Lost,
            SaveError::Failed(error) => Self::Failed(error),
        }
    }
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The worker of a share.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) work: Arc<Work>,
    pub(super) lease: Lease,
    pub(super) context: ShareContext,
    pub(super) filter: Filter,
    pub(super) orders: Orders,
    pub(super) position: Position,
    /// How many changes are read at once: fewer after a failure, so that a store that fails often does
    /// not keep the share from moving at all.
    changes: usize,
}

impl Worker {
    pub(super) fn new(work: Arc<Work>, lease: Lease, of: (&Build, u16), orders: Orders) -> Self {
        let (build, number) = of;
        let position = lease.share.at.clone();
        let position = position.unwrap_or_else(|| build.start.clone());
        let context = ShareContext {
            projection: work.target.name().to_owned(),
            build: build.number,
            share: number,
            lease: lease.id().to_string(),
            at: position.clone(),
            shape: None,
            check: LeaseCheck::of(&lease),
            reader: work.reader.clone(),
        };
        let filter = share::filter(&work.target.source(), number, build.shares);
        Self {
            position,
            changes: work.settings.budget.changes,
            work,
            lease,
            context,
            filter,
            orders,
        }
    }

    /// Works until the share is lost or the runner wants it to stop.
    pub(super) async fn run(mut self) {
        let share = (self.context.build, self.context.share);
        let mut failures = 0;
        let mut has_resumed = false;
        loop {
            let before = self.position.clone();
            let outcome = match has_resumed {
                true => self.follow().await,
                false => self.resume().await,
            };
            let error = match outcome {
                Ok(()) => {
                    has_resumed = true;
                    continue;
                }
                Err(Interruption::Lost) => break,
                Err(Interruption::Stopped) => {
                    return self.give_up().await;
                }
                Err(Interruption::Failed(_)) if *self.orders.stop.borrow() => {
                    return self.give_up().await;
                }
                Err(Interruption::Failed(error)) => error,
            };
            // A target that stores the position itself may have stored more than it could report.
            has_resumed = false;
            failures = if self.position == before {
                failures + 1
            } else {
                1
            };
            match self.wait_after(&error, failures).await {
                Ok(()) => {}
                Err(Interruption::Lost) => break,
                Err(Interruption::Stopped) => {
                    return self.give_up().await;
                }
                // The store is down: the share expires, and is taken again later.
                Err(Interruption::Failed(error)) => {
                    tracing::warn!(%error, projection = self.context.projection, "a share cannot be saved");
                    break;
                }
            }
        }
        self.work.progress.remove(share);
    }

    /// Releases the share, so that another runner need not wait.
    async fn give_up(self) {
        let share = (self.context.build, self.context.share);
        self.work.progress.remove(share);
        self.lease.release().await;
    }

    /// Finds out where to go on.
    async fn resume(&mut self) -> Result<(), Interruption> {
        let shape = self.work.feed.shape().await?;
        self.position = shape.locate(&self.position).map_err(|cause| {
            Error::invalid(
                "the feed has other events than this build has handled; rebuild the view, or raise the revision of a handler or sink",
            )
            .because(cause)
        })?;
        self.context.at = self.position.clone();
        self.context.shape = Some(shape);
        let work = self.work.clone();
        let resuming = work
            .target
            .resume(&self.context)
            .map_err(Interruption::from);
        if let Some(own) = renewing(&work, &mut self.lease, resuming).await? {
            self.position = own;
        }
        self.advance();
        Ok(())
    }

    /// Reads to the end of the feed and on, until something interrupts it.
    async fn follow(&mut self) -> Result<(), Interruption> {
        loop {
            let mut has_moved = false;
            for lane in 0..self.position.lanes().len() {
                let lane = Lane(u16::try_from(lane).unwrap_or(u16::MAX));
                has_moved |= self.read_lane(lane).await?;
                if *self.orders.stop.borrow() {
                    return Err(Interruption::Stopped);
                }
            }
            // Nothing failed.
            self.lease.share.stopped = None;
            if !has_moved {
                // After everything that was committed before the request, such as a purge.
                self.carry_out_requests().await?;
                self.wait_for_more().await?;
            }
        }
    }

    /// Reads and handles a part of a lane. Returns whether there was anything.
    async fn read_lane(&mut self, lane: Lane) -> Result<bool, Interruption> {
        let at = self.position.lane(lane.0);
        let most = self.work.settings.budget;
        let budget = PageBudget {
            changes: self.changes,
            ..most
        };
        self.changes = (self.changes / 4).max(1);
        let read = self.work.feed.read(lane.at(at.place), &self.filter, budget);
        let batch = read.await?;
        self.changes = budget.changes.saturating_mul(2).min(most.changes);
        if batch.upto.position <= at.place {
            return Ok(false);
        }
        let upto = self
            .position
            .with_lane(lane.0, LanePosition::after(batch.upto.position));
        let time_ms = batch.upto.time_ms;
        let deliveries = deliveries(lane, at, batch);
        let is_empty = deliveries.is_empty();
        self.deliver(deliveries).await?;
        self.position = upto;
        self.lease.share.time_ms = time_ms;
        self.advance();
        if !is_empty || self.lease.age() >= self.work.settings.tick() {
            self.lease.save().await?;
        }
        self.work.progress.set(
            (self.context.build, self.context.share),
            self.position.clone(),
        );
        Ok(true)
    }

    /// Notes in the share, which is saved later, that everything up to the position is handled.
    pub(super) fn advance(&mut self) {
        self.lease.share.at = Some(self.position.clone());
    }

    /// Waits for changes, and renews the lease meanwhile.
    async fn wait_for_more(&mut self) -> Result<(), Interruption> {
        let tick = self.work.settings.tick();
        loop {
            if self.lease.age() >= tick {
                self.lease.save().await?;
            }
            // A save that takes as long as a tick does not keep the share from reading.
            let left = tick.saturating_sub(self.lease.age());
            let left = left.max(Duration::from_millis(1));
            let clock = self.work.store.clock().clone();
            let moved = any_moved(&*self.work.feed, &self.position);
            tokio::select! {
                moved = moved => return Ok(moved?),
                () = clock.passes(left) => {}
                changed = self.orders.requests.changed() => return ordered(changed),
                _ = self.orders.stop.changed() => return Err(Interruption::Stopped),
            }
        }
    }

    /// Saves why the share does not go on, and waits before the next attempt.
    async fn wait_after(&mut self, error: &Error, failures: u32) -> Result<(), Interruption> {
        let name = &self.context.projection;
        tracing::warn!(%error, projection = name, share = self.context.share, "a share does not go on; retrying");
        let now_ms = self.work.store.clock().now_ms();
        let stopped = self.lease.share.stopped.as_ref();
        let since_ms = stopped.map_or(now_ms, |stopped| stopped.since_ms);
        let stopped = Stopped::new(error, since_ms);
        self.lease.share.stopped = Some(stopped);
        self.lease.save().await?;
        let delay = super::settings::backoff(failures);
        self.pause(delay).await
    }

    /// Waits, and renews the lease meanwhile.
    pub(super) async fn pause(&mut self, delay: Duration) -> Result<(), Interruption> {
        let clock = self.work.store.clock().clone();
        let until = clock.monotonic() + delay;
        loop {
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return Ok(());
            }
            if self.lease.age() >= self.work.settings.tick() {
                self.lease.save().await?;
            }
            tokio::select! {
                () = clock.passes(left.min(self.work.settings.tick())) => {}
                changed = self.orders.requests.changed() => return ordered(changed),
                _ = self.orders.stop.changed() => return Err(Interruption::Stopped),
            }
        }
    }

    /// Lets the target handle a batch, and renews the lease meanwhile. A batch that takes longer than a
    /// lease after the runner wants the share to stop is given up; the next owner gets it again.
    pub(super) async fn handle(&mut self, batch: &[Delivery]) -> Result<(), Failure> {
        let work = self.work.clone();
        let handling = work.target.handle(&self.context, batch);
        let mut stop = self.orders.stop.clone();
        let patience = async {
            // An error means that nobody is left to give orders.
            let _ = stop.wait_for(|stop| *stop).await;
            work.store.clock().passes(work.settings.lease).await;
        };
        tokio::select! {
            handled = renewing(&work, &mut self.lease, handling) => handled,
            () = patience => Err(Failure::Failed(Error::unavailable(
                "the share was given up before its batch was handled",
            ))),
        }
    }
}

/// Waits for the target, and renews the lease meanwhile.
pub(super) async fn renewing<T, E: From<SaveError>>(
    work: &Work,
    lease: &mut Lease,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let tick = work.settings.tick();
    let mut call = std::pin::pin!(call);
    loop {
        let left = tick.saturating_sub(lease.age());
        tokio::select! {
            done = &mut call => return done,
            () = work.store.clock().passes(left.max(Duration::from_millis(1))) => lease.save().await?,
        }
    }
}

/// There are new orders; or nobody is left to give any.
fn ordered(changed: Result<(), watch::error::RecvError>) -> Result<(), Interruption> {
    changed.map_err(|_| Interruption::Stopped)
}

/// What a target gets of a part of a lane: what follows a position.
fn deliveries(lane: Lane, after: LanePosition, batch: LaneBatch) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    for Entry { place, id, what } in batch.entries {
        let delivery = |at, what| Delivery {
            id: id.clone(),
            lane,
            at,
            what,
        };
        let end = LanePosition::after(place);
        match what {
            What::Deleted(to) => deliveries.push(delivery(end, Delivered::Deleted(to))),
            What::Purged => deliveries.push(delivery(end, Delivered::Purged)),
            What::Missing(number) => deliveries.push(delivery(end, Delivered::Missing(number))),
            What::Appended(events) => {
                let events = events.into_iter().filter(|fed| fed.at > after);
                deliveries.extend(
                    events.map(|fed| delivery(fed.at, Delivered::Event(Box::new(fed.event)))),
                );
            }
        }
    }
    deliveries
}

/// Waits until a lane has something after a position.
async fn any_moved(feed: &dyn Feed, position: &Position) -> Result<()> {
    let lanes = position.lanes().iter().zip(0..);
    let moved = lanes.map(|(at, lane)| feed.moved(Lane(lane).at(at.place)));
    let (moved, ..) = futures::future::select_all(moved).await;
    moved
}
