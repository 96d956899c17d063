//! The target: a batch is a transaction.
//!
//! Guarantees: rows and position change together, and only if this runner's lease is in `annals_offset`.
//!
//! Why a runner that lost its share changes nothing. Every transaction begins with
//! `UPDATE annals_offset SET at = … WHERE lease = mine AND at = known`, which locks the row until it ends.
//! - A successor takes the share with an update of the same row. If it came first, our update waits for it,
//!   reads the row again and finds no row of ours (`READ COMMITTED`), or fails to serialize (any stricter
//!   level). Nothing was written by then.
//! - If we came first, the successor's update waits until we are done. It returns the position that we
//!   committed, or the old one after a rollback; also if we committed without hearing of it. SQLite has one
//!   writer at a time: `BEGIN IMMEDIATE` waits in the same way.
//! - So the writes of two owners never overlap. Were the update the last statement instead, both could
//!   write rows at the same time, and a view that reads a row, computes and writes it back would depend on
//!   the isolation level.
//! - A process that is paused in its transaction holds the lock. Postgres ends its session after
//!   `SqlView::IDLE_MAX`; SQLite's successor waits.
//!
//! Why a late runner does not take a share back. It asks whether its lease is still good while it holds the
//! row. If it is, the next owner of the share also updates the row later.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use annals::feed::{Filter, Position};
use annals::projection::{Delivered, Delivery, Failure, Kind, ShareContext, Target};
use annals::{Error, Result, SequenceNumber};
use async_trait::async_trait;
use sqlx::Pool;

use crate::database::{InUse, broken, sealed::Dialect as _};
use crate::offsets::{self, ShareRows};
use crate::steps::{self, Steps};
use crate::verdict::{self, Verdict};
use crate::{Connection, SqlView};

/// A projection target that keeps the rows of a [`SqlView`]. Pass it to
/// [`Projections::target`](annals::projection::Projections::target).
///
/// It uses a connection of the pool for each of the projection's shares that this process owns.
///
/// See the [crate](crate) for an example.
pub struct SqlSink<V: SqlView> {
    pool: Pool<V::Database>,
    view: V,
    is_prepared: AtomicBool,
    /// By build and share.
    held: Mutex<HashMap<(u32, u16), Held>>,
}

/// What this runner knows about a share that it owns.
#[derive(Clone)]
struct Held {
    lease: String,
    /// The position in the row.
    at: Position,
    /// The content of `annals_retried`.
    retried: HashMap<String, u64>,
}

/// Why a transaction was rolled back.
enum Refused {
    /// Neither lease nor position are ours.
    Fenced,
    Failed(Error),
    /// The delivery of this index cannot be applied.
    Poison(usize, Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<V: SqlView> SqlSink<V> {
    /// A sink into the database of a pool.
    pub fn new(pool: Pool<V::Database>, view: V) -> Arc<Self> {
        Arc::new(Self {
            pool,
            view,
            is_prepared: AtomicBool::new(false),
            held: Mutex::default(),
        })
    }

    /// The view.
    pub fn view(&self) -> &V {
        &self.view
    }

    fn all_held(&self) -> MutexGuard<'_, HashMap<(u32, u16), Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known about a share, if this lease took it.
    fn held(&self, share: &ShareContext) -> Result<Held, Refused> {
        let held = self.all_held();
        let held = held.get(&(share.build, share.share)).cloned();
        held.filter(|held| held.lease == share.lease)
            .ok_or(Refused::Fenced)
    }

    /// Changes what is known about a share, unless another lease has taken it meanwhile.
    fn learn(&self, share: &ShareContext, learn: impl FnOnce(&mut Held)) {
        let mut held = self.all_held();
        let held = held.get_mut(&(share.build, share.share));
        if let Some(held) = held.filter(|held| held.lease == share.lease) {
            learn(held);
        }
    }

    /// Creates the tables that are missing, ours and those of the view.
    async fn prepare(&self) -> Result<()> {
        let mut conn = InUse::acquire(&self.pool).await?;
        let mut are_there = offsets::are_there::<V::Database>(conn.get()).await?;
        let mut tx = conn.begin(V::IDLE_MAX).await?;
        if let Some(lock) = V::Database::LOCK_SCHEMA {
            let locked = V::Database::execute(&mut tx, lock, &[]).await;
            locked.map_err(broken::<V::Database>)?;
        }
        if !are_there {
            offsets::create::<V::Database>(&mut tx).await?;
        }
        if let Err(error) = self.view.create(&mut tx).await {
            let message = "the view cannot create its tables; fix its function `create`";
            return Err(match verdict::of_view(error, V::Database::verdict) {
                Ok(error) => Error::invalid(message).because(error),
                Err(Failure::Failed(error)) => error,
                Err(_) => Error::invalid(message),
            });
        }
        tx.commit().await.map_err(broken::<V::Database>)?;
        if !are_there {
            are_there = offsets::are_there::<V::Database>(conn.get()).await?;
        }
        conn.settle();
        match are_there {
            true => Ok(()),
            false => Err(offsets::wrong_columns()),
        }
    }

    /// Takes the share in the database.
    async fn take(&self, share: &ShareContext) -> Result<Held> {
        let mut conn = InUse::acquire(&self.pool).await?;
        let mut tx = conn.begin(V::IDLE_MAX).await?;
        let rows = ShareRows::of(share);
        let stored = rows.take::<V::Database>(&mut tx, V::REVISION).await?;
        let located = share.locate(&stored).map_err(|cause| {
            Error::invalid(
                "the SQL database has rows of this projection that were made from events that the feed does not have: they are of another store, or this one was restored to an earlier point. use another database, or delete the rows in annals_offset and those of the view",
            )
            .fact("projection", &share.projection)
            .fact("stored", &stored)
            .fact("feed", &share.at)
            .because(cause)
        })?;
        let at = steps::later(&located, &share.at);
        if at != stored {
            rows.advance::<V::Database>(&mut tx, &stored, &at).await?;
        }
        let retried = rows.retried::<V::Database>(&mut tx).await?;
        if !share.holds_lease().await? {
            let message = "another runner took the share; this one stops";
            return Err(Error::conflict(message).fact("share", share.share));
        }
        tx.commit().await.map_err(broken::<V::Database>)?;
        conn.settle();
        Ok(Held {
            lease: share.lease.clone(),
            at,
            retried: retried.into_iter().collect(),
        })
    }

    /// Applies deliveries in one transaction.
    async fn apply(
        &self,
        share: &ShareContext,
        batch: &[Delivery],
        steps: Steps<'_, V::Event>,
    ) -> Result<(), Refused> {
        let held = self.held(share)?;
        if !steps::is_after(&held.at, batch) {
            // Some of it is in the rows already: `resume` returns where to go on.
            return Err(Refused::Fenced);
        }
        let to = steps::position_after(&held.at, batch);
        let forgotten = forgotten(&held, batch);
        let mut conn = InUse::acquire(&self.pool).await?;
        let mut tx = conn.begin(V::IDLE_MAX).await?;
        let written = async {
            let rows = ShareRows::of(share);
            if !rows.advance::<V::Database>(&mut tx, &held.at, &to).await? {
                return Err(Refused::Fenced);
            }
            for (index, step) in &steps.calls {
                let called = step.call(&self.view, &mut tx).await;
                called.map_err(|error| refused::<V>(*index, error))?;
            }
            for delivery in &forgotten {
                rows.forget_retries::<V::Database>(&mut tx, &delivery.id)
                    .await?;
            }
            Ok(())
        };
        if let Err(refused) = written.await {
            // Something may be wrong with the connection, such as a plan from before the schema changed.
            let is_good = !matches!(refused, Refused::Failed(_));
            if tx.rollback().await.is_ok() && is_good {
                conn.settle();
            }
            return Err(refused);
        }
        // Of a failed commit nobody knows whether it happened, unless the database refused it.
        if let Err(error) = tx.commit().await {
            let verdict = Verdict::of(&error, V::Database::verdict);
            return Err(match (verdict, &error) {
                (Verdict::Event, sqlx::Error::Database(_)) => {
                    let last = batch.len().saturating_sub(1);
                    Refused::Poison(last, broken::<V::Database>(error))
                }
                _ => Refused::Failed(broken::<V::Database>(error)),
            });
        }
        conn.settle();
        self.learn(share, |held| {
            held.at = to;
            for delivery in forgotten {
                held.retried.remove(delivery.id.as_str());
            }
        });
        Ok(())
    }

    /// Applies deliveries append by append, each in its own transaction and one delivery at a time, to find
    /// the one that cannot be applied.
    async fn apply_one_by_one(
        &self,
        share: &ShareContext,
        batch: &[Delivery],
    ) -> Result<(), Failure> {
        let mut start = 0;
        while start < batch.len() {
            let end = steps::end_of_append(batch, start);
            let append = batch.get(start..end).unwrap_or_default();
            let steps = Steps::read(share, append, true);
            match self.apply(share, append, steps).await {
                Ok(()) => start = end,
                Err(Refused::Poison(index, cause)) => {
                    return Err(Failure::Poison {
                        index: start + index,
                        done: start,
                        cause,
                    });
                }
                Err(Refused::Failed(error)) => return Err(Failure::Failed(error)),
                Err(Refused::Fenced) => return Err(self.fenced(share).await),
            }
        }
        Ok(())
    }

    /// Finds out why the row was not ours.
    async fn fenced(&self, share: &ShareContext) -> Failure {
        let has_lease = async {
            let mut conn = InUse::acquire(&self.pool).await?;
            let rows = ShareRows::of(share);
            let has_lease = rows.has_lease::<V::Database>(conn.get()).await?;
            conn.settle();
            Ok::<_, Error>(has_lease)
        };
        match has_lease.await {
            Ok(false) => Failure::Lost,
            // A commit succeeded whose answer was lost: `resume` returns where to go on.
            Ok(true) => Failure::Failed(Error::unavailable(
                "the rows reflect more than the runner knows; reading the position again",
            )),
            Err(error) => Failure::Failed(error),
        }
    }

    /// Applies a dead letter, unless it was applied before.
    async fn apply_letter(&self, share: &ShareContext, letter: &Delivery) -> Result<(), Refused> {
        let held = self.held(share)?;
        let batch = std::slice::from_ref(letter);
        let steps = Steps::<V::Event>::read(share, batch, true);
        if let Some((index, error)) = steps.unreadable {
            return Err(Refused::Poison(index, error));
        }
        let number = number(letter).map_or(0, SequenceNumber::get);
        let mut conn = InUse::acquire(&self.pool).await?;
        let mut tx = conn.begin(V::IDLE_MAX).await?;
        let written = async {
            let rows = ShareRows::of(share);
            let at = &held.at;
            if !rows.advance::<V::Database>(&mut tx, at, at).await? {
                return Err(Refused::Fenced);
            }
            let noted = rows.note_retry::<V::Database>(&mut tx, &letter.id, number);
            let is_new = noted.await?;
            for (index, step) in steps.calls.iter().filter(|_| is_new) {
                let called = step.call(&self.view, &mut tx).await;
                called.map_err(|error| refused::<V>(*index, error))?;
            }
            Ok(())
        };
        if let Err(refused) = written.await {
            // Something may be wrong with the connection, such as a plan from before the schema changed.
            let is_good = !matches!(refused, Refused::Failed(_));
            if tx.rollback().await.is_ok() && is_good {
                conn.settle();
            }
            return Err(refused);
        }
        tx.commit().await.map_err(broken::<V::Database>)?;
        conn.settle();
        self.learn(share, |held| {
            held.retried.insert(letter.id.to_string(), number);
        });
        Ok(())
    }
}

/// The deliveries after which no dead letter of their id can be retried any more: the id has no dead
/// letters, and its position is past those that were retried.
fn forgotten<'a>(held: &Held, batch: &'a [Delivery]) -> Vec<&'a Delivery> {
    let is_later = |delivery: &&Delivery| {
        let retried = held.retried.get(delivery.id.as_str());
        retried.is_some_and(|retried| match number(delivery) {
            Some(number) => number.get() > *retried,
            None => delivery.what == Delivered::Purged,
        })
    };
    match held.retried.is_empty() {
        true => Vec::new(),
        false => batch.iter().filter(is_later).collect(),
    }
}

fn number(delivery: &Delivery) -> Option<SequenceNumber> {
    delivery.event().map(|event| event.sequence_number)
}

/// What a failed call of the view means.
fn refused<V: SqlView>(index: usize, error: Box<dyn std::error::Error + Send + Sync>) -> Refused {
    match verdict::of_view(error, V::Database::verdict) {
        Ok(cause) => Refused::Poison(index, cause),
        Err(Failure::Failed(error)) => Refused::Failed(error),
        Err(_) => Refused::Fenced,
    }
}

#[async_trait]
impl<V: SqlView> Target for SqlSink<V>
where
    Connection<V>: Send,
{
    fn name(&self) -> &str {
        V::NAME
    }

    fn revision(&self) -> u32 {
        V::REVISION
    }

    fn kind(&self) -> Kind {
        Kind::Sink
    }

    fn source(&self) -> Filter {
        V::source()
    }

    async fn resume(&self, share: &ShareContext) -> Result<Option<Position>> {
        if !self.is_prepared.load(Ordering::Acquire) {
            self.prepare().await?;
            self.is_prepared.store(true, Ordering::Release);
        }
        match self.take(share).await {
            Ok(held) => {
                let at = held.at.clone();
                self.all_held().insert((share.build, share.share), held);
                Ok(Some(at))
            }
            Err(error) => {
                // Perhaps the tables are gone.
                self.is_prepared.store(false, Ordering::Release);
                Err(error)
            }
        }
    }

    async fn handle(&self, share: &ShareContext, batch: &[Delivery]) -> Result<(), Failure> {
        let mut steps = Steps::<V::Event>::read(share, batch, false);
        let unreadable = steps.unreadable.take();
        let end = unreadable.as_ref().map(|(index, _)| *index);
        let end = end.map_or(batch.len(), |index| steps::start_of_append(batch, index));
        let readable = batch.get(..end).unwrap_or_default();
        if end < batch.len() {
            steps = Steps::read(share, readable, false);
        }
        let applied = match readable.is_empty() {
            true => Ok(()),
            false => self.apply(share, readable, steps).await,
        };
        match applied {
            Ok(()) => {}
            Err(Refused::Poison(index, cause)) if readable.len() == 1 => {
                return Err(Failure::Poison {
                    index,
                    done: 0,
                    cause,
                });
            }
            Err(Refused::Poison(..)) => self.apply_one_by_one(share, readable).await?,
            Err(Refused::Failed(error)) => return Err(Failure::Failed(error)),
            Err(Refused::Fenced) => return Err(self.fenced(share).await),
        }
        match unreadable {
            None => Ok(()),
            Some((index, cause)) => Err(Failure::Poison {
                index,
                done: end,
                cause,
            }),
        }
    }

    async fn retry(&self, share: &ShareContext, letter: &Delivery) -> Result<(), Failure> {
        match self.apply_letter(share, letter).await {
            Ok(()) => Ok(()),
            Err(Refused::Poison(index, cause)) => Err(Failure::Poison {
                index,
                done: 0,
                cause,
            }),
            Err(Refused::Failed(error)) => Err(Failure::Failed(error)),
            Err(Refused::Fenced) => Err(self.fenced(share).await),
        }
    }

    async fn drop_build(&self, build: u32) -> Result<()> {
        let mut conn = InUse::acquire(&self.pool).await?;
        if !offsets::are_there::<V::Database>(conn.get()).await? {
            conn.settle();
            return Ok(());
        }
        let mut tx = conn.begin(V::IDLE_MAX).await?;
        let revision = offsets::drop_build::<V::Database>(&mut tx, V::NAME, build).await?;
        if let Some(revision) = revision {
            let dropped = self.view.drop_revision(revision, &mut tx).await;
            dropped.map_err(|error| {
                let message = "the view cannot drop the tables of a revision; fix its function `drop_revision`";
                Error::invalid(message).fact("revision", revision).because(error)
            })?;
        }
        tx.commit().await.map_err(broken::<V::Database>)?;
        conn.settle();
        self.all_held().retain(|(held, _), _| *held != build);
        Ok(())
    }
}

impl<V: SqlView> fmt::Debug for SqlSink<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlSink")
            .field("projection", &V::NAME)
            .finish_non_exhaustive()
    }
}
