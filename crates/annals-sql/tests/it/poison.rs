//! Events that cannot be applied.

use std::sync::atomic::Ordering;

use crate::databases::Db;
use crate::ledger::Booked;
use crate::stage::{Counter, Stage, caught_up, settings, until, with_dead_letters};
use crate::tap::{Call, Fault, Tap};

const NOBODY: [&str; 0] = [];

pub(crate) async fn a_share_stops_before_the_append_that_fails<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage.append("a", &[Booked::Cents(1)]).await;
    stage
        .append("b", &[Booked::Cents(1), Booked::Cents(2)])
        .await;
    stage
        .append(
            "a",
            &[Booked::Cents(2), Booked::Broken(3), Booked::Cents(4)],
        )
        .await;
    stage.append("b", &[Booked::Cents(5)]).await;
    let running = stage
        .start_with(stage.sink().await, settings().attempts(1))
        .await;
    let reason = until("a reason", async || stage.stopped().await).await;
    assert!(reason.contains("number=`3`"), "{reason}");
    assert!(reason.contains("this account is closed"), "{reason}");
    assert_eq!(stage.applied("a").await, ["1"]);
    assert_eq!(stage.applied("b").await, ["1", "2"]);
    assert_eq!(stage.dead_letters().await, NOBODY);

    stage.switches.is_fixed.store(true, Ordering::SeqCst);
    caught_up(&running).await;
    stage.check().await;
    running.stop().await;
    stage.close().await;
}

pub(crate) async fn dead_letters_are_retried_once<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage
        .append(
            "a",
            &[Booked::Cents(1), Booked::Broken(2), Booked::Cents(3)],
        )
        .await;
    stage.append("b", &[Booked::Cents(1)]).await;
    stage.append("a", &[Booked::Cents(4)]).await;
    stage.append("b", &[Booked::Cents(2)]).await;
    // Of every retry that succeeds, nobody hears the first time.
    let retries = Counter::default();
    let faults = {
        let retries = retries.clone();
        move |call| match call {
            Call::Retry if retries.next() % 2 == 0 => Fault::LoseAnswer,
            _ => Fault::None,
        }
    };
    let tap = Tap::new(stage.sink().await, faults);
    let running = stage.start_with(tap, with_dead_letters()).await;
    caught_up(&running).await;
    assert_eq!(stage.applied("a").await, ["1"]);
    assert_eq!(stage.applied("b").await, ["1", "2"]);
    assert_eq!(stage.dead_letters().await, ["Account|a 2..4 (3)"]);

    stage.switches.is_fixed.store(true, Ordering::SeqCst);
    until("the end of the dead letters", async || {
        stage
            .annals
            .projections()
            .retry("ledger", None)
            .await
            .unwrap();
        stage.dead_letters().await.is_empty().then_some(())
    })
    .await;
    stage.check().await;
    let retried = "SELECT persistence_id, CAST(number AS text) FROM annals_retried";
    assert_eq!(D::rows(&stage.pool, retried).await, [["Account|a", "4"]]);

    // The note goes with the next event of the id.
    stage.append("b", &[Booked::Cents(5)]).await;
    caught_up(&running).await;
    assert_eq!(D::rows(&stage.pool, retried).await.len(), 1);
    stage.append("a", &[Booked::Cents(6)]).await;
    caught_up(&running).await;
    stage.check().await;
    assert_eq!(D::rows(&stage.pool, retried).await.len(), 0);
    running.stop().await;
    stage.close().await;
}

pub(crate) async fn a_panic_is_the_events_fault<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage.append("a", &[Booked::Cents(1)]).await;
    stage.append("b", &[Booked::Panics(1)]).await;
    stage.append("a", &[Booked::Cents(2)]).await;
    let running = stage
        .start_with(stage.sink().await, with_dead_letters())
        .await;
    caught_up(&running).await;
    assert_eq!(stage.applied("a").await, ["1", "2"]);
    assert_eq!(stage.dead_letters().await, ["Account|b 1..1 (1)"]);
    let letters = stage
        .annals
        .projections()
        .dead_letters("ledger")
        .await
        .unwrap()
        .unwrap();
    assert!(
        letters[0].reason.contains("no such account"),
        "{}",
        letters[0].reason
    );
    running.stop().await;
    stage.close().await;
}

pub(crate) async fn a_constraint_that_is_checked_at_the_commit_finds_its_event<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage.append("a", &[Booked::Cents(1)]).await;
    stage.append("b", &[Booked::Orphan(1)]).await;
    stage.append("c", &[Booked::Cents(2)]).await;
    let running = stage
        .start_with(stage.sink().await, with_dead_letters())
        .await;
    caught_up(&running).await;
    assert_eq!(stage.applied("a").await, ["1"]);
    assert_eq!(stage.applied("c").await, ["1"]);
    assert_eq!(stage.dead_letters().await, ["Account|b 1..1 (1)"]);
    running.stop().await;
    stage.close().await;
}

/// Every answer is lost: what follows a dead letter in the same batch is committed, and then the runner
/// fails. The dead letter is saved nevertheless.
pub(crate) async fn dead_letters_survive_a_crash_after_the_commit<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    let calls = Counter::default();
    let faults = {
        let calls = calls.clone();
        move |call| match call {
            Call::Handle if calls.next() < 8 => Fault::LoseAnswer,
            _ => Fault::None,
        }
    };
    for n in 0..4 {
        stage
            .append("a", &[Booked::Broken(n), Booked::Cents(1)])
            .await;
        stage.append("b", &[Booked::Cents(n)]).await;
        stage.append("c", &[Booked::Broken(n)]).await;
        stage
            .append("d", &[Booked::Cents(n), Booked::Cents(n)])
            .await;
    }
    let tap = Tap::new(stage.sink().await, faults);
    let running = stage.start_with(tap, with_dead_letters()).await;
    caught_up(&running).await;
    assert_eq!(
        stage.dead_letters().await,
        ["Account|a 1..8 (8)", "Account|c 1..4 (4)"]
    );
    assert_eq!(stage.applied("b").await.len(), 4);
    assert_eq!(stage.applied("d").await.len(), 8);

    stage.switches.is_fixed.store(true, Ordering::SeqCst);
    stage
        .annals
        .projections()
        .retry("ledger", None)
        .await
        .unwrap();
    until("the end of the dead letters", async || {
        stage.dead_letters().await.is_empty().then_some(())
    })
    .await;
    stage.check().await;
    running.stop().await;
    stage.close().await;
}
