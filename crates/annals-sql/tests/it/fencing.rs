//! Two runners that both believe that they own a share.

use std::time::Duration;

use annals::embedded::{RestorePoint, backup, restore};
use annals::projection::{Delivery, Failure, ShareContext, Target};
use annals::{Annals, ErrorKind, SystemClock};
use std::sync::Arc;

use crate::databases::Db;
use crate::ledger::Booked;
use crate::stage::{Stage, caught_up, until};
use crate::tap::{Call, Fault, Tap, Waits};

/// A runner that took the share and read a batch, and stopped there.
struct Late {
    sink: Arc<dyn Target>,
    share: ShareContext,
    batch: Vec<Delivery>,
}

impl Late {
    async fn new<D: Db>(stage: &Stage<D>) -> Self {
        let sink = stage.sink().await;
        let faults = |call| match call {
            Call::Handle => Fault::Refuse,
            _ => Fault::None,
        };
        let tap = Tap::new(sink.clone(), faults);
        let running = stage.start(tap.clone()).await;
        let seen = until("a batch", async || tap.seen.lock().unwrap().clone()).await;
        running.stop().await;
        let (share, batch) = seen;
        Self { sink, share, batch }
    }

    fn handle(&self) -> Waits<Result<(), Failure>> {
        let (sink, share, batch) = (self.sink.clone(), self.share.clone(), self.batch.clone());
        Waits::of(async move { sink.handle(&share, &batch).await })
    }
}

pub(crate) async fn a_runner_that_is_paused_at_any_await_changes_nothing_twice<D: Db>() {
    for n in 1.. {
        let mut stage = Stage::<D>::new().await;
        stage
            .append("a", &[Booked::Cents(1), Booked::Cents(2)])
            .await;
        stage.append("b", &[Booked::Cents(3)]).await;
        let late = Late::new(&stage).await;
        let paused = match late.handle().at_most(n).await {
            Ok(done) => {
                done.unwrap();
                stage.check().await;
                stage.close().await;
                assert!(n > 3, "a call waits more often");
                return;
            }
            Err(paused) => paused,
        };
        let running = stage.start(stage.sink().await).await;
        stage.append("a", &[Booked::Cents(4)]).await;
        // Postgres ends the transaction of the one that is paused. SQLite's successor waits for it.
        let is_postgres = D::NAME == "PostgreSQL";
        let limit = Duration::from_millis(if is_postgres { 30_000 } else { 400 });
        let went_on = SystemClock::within(limit, running.caught_up()).await;
        assert!(went_on.is_some() || !is_postgres, "its successor goes on");
        drop(paused.await);
        caught_up(&running).await;
        stage.check().await;
        running.stop().await;
        stage.close().await;
    }
}

/// The successor has taken the share and has done nothing yet: only the lease tells them apart.
pub(crate) async fn a_runner_that_lost_its_share_is_refused<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage.append("a", &[Booked::Cents(1)]).await;
    let late = Late::new(&stage).await;
    let successor = Late::new(&stage).await;
    assert_ne!(late.share.lease, successor.share.lease);
    let refused = late.handle().await;
    assert!(matches!(refused, Err(Failure::Lost)), "{refused:?}");
    let refused = late.sink.retry(&late.share, &late.batch[0]).await;
    assert!(matches!(refused, Err(Failure::Lost)), "{refused:?}");
    assert_eq!(stage.applied("a").await, [""; 0]);

    successor.handle().await.unwrap();
    stage.check().await;
    // Its own batch again, as after a commit of which it did not hear.
    let refused = successor.handle().await;
    assert!(refused.is_err(), "{refused:?}");
    stage.close().await;
}

pub(crate) async fn a_late_runner_does_not_take_the_share_back<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage.append("a", &[Booked::Cents(1)]).await;
    let late = Late::new(&stage).await;
    let successor = Late::new(&stage).await;
    let error = late.sink.resume(&late.share).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let lease = "SELECT lease FROM annals_offset";
    assert_eq!(
        D::rows(&stage.pool, lease).await,
        [[successor.share.lease.clone()]]
    );
    successor.handle().await.unwrap();
    stage.check().await;
    stage.close().await;
}

pub(crate) async fn rows_of_another_store_are_refused<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage.append("a", &[Booked::Cents(1)]).await;
    let running = stage.start(stage.sink().await).await;
    caught_up(&running).await;
    running.stop().await;

    let other = Stage::<D>::new().await;
    let running = other.start(stage.sink().await).await;
    let reason = until("a reason", async || other.stopped().await).await;
    assert!(reason.contains("of another store"), "{reason}");
    running.stop().await;
    stage.check().await;
    other.close().await;
    stage.close().await;
}

/// The database may be ahead of a store that was restored.
pub(crate) async fn rows_after_the_point_of_a_restore_are_refused<D: Db>() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut stage = Stage::<D>::new().await;
    stage.annals = Annals::embedded(path("original")).await.unwrap();
    stage.append("a", &[Booked::Cents(1)]).await;
    let running = stage.start(stage.sink().await).await;
    caught_up(&running).await;
    running.stop().await;
    backup(&path("original"), &path("backup"), false).unwrap();

    // What is in the database is what the restored store has.
    restore(&path("backup"), &path("restored"), RestorePoint::End).unwrap();
    stage.annals = Annals::embedded(path("restored")).await.unwrap();
    stage.append("a", &[Booked::Cents(2)]).await;
    let running = stage.start(stage.sink().await).await;
    caught_up(&running).await;
    stage.check().await;
    running.stop().await;

    // The database has an event that this one never had.
    restore(&path("backup"), &path("again"), RestorePoint::End).unwrap();
    stage.annals = Annals::embedded(path("again")).await.unwrap();
    stage.append("b", &[Booked::Cents(3)]).await;
    stage.append("b", &[Booked::Cents(4)]).await;
    let running = stage.start(stage.sink().await).await;
    let reason = until("a reason", async || stage.stopped().await).await;
    assert!(reason.contains("restored to an earlier point"), "{reason}");
    running.stop().await;
    assert_eq!(stage.applied("a").await, ["1", "2"]);
    assert_eq!(stage.applied("b").await, [""; 0]);
    stage.close().await;
}
