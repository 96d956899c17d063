//! Calls that are dropped at any point, and answers that nobody hears.

use std::sync::atomic::Ordering;
use std::time::Duration;

use annals::{Clock, SystemClock};

use crate::databases::Db;
use crate::ledger::Booked;
use crate::stage::{Counter, Stage, caught_up, until};
use crate::tap::{Call, Fault, Tap};

/// How many calls are dropped before they end, at least; and how many are tried for that.
const CUT_LEAST: u32 = 5;
const ROUNDS_MAX: u32 = 200;

pub(crate) async fn nothing_is_lost_or_twice_when_a_call_is_dropped_at_any_await<D: Db>() {
    for of in [Call::Handle, Call::Resume] {
        let mut stage = Stage::<D>::new().await;
        // Drops the first call after it was armed.
        let (armed, dropped) = (Counter::default(), Counter::default());
        let faults = {
            let (armed, dropped) = (armed.clone(), dropped.clone());
            move |call| match armed.get() {
                n if n > 0 && call == of => {
                    armed.set(0);
                    dropped.next();
                    Fault::Drop(n)
                }
                _ => Fault::None,
            }
        };
        let tap = Tap::new(stage.sink().await, faults);
        let mut running = Some(stage.start(tap.clone()).await);
        // On a busy machine the answer may be there before the call waits for it.
        let (mut faster, mut cut, mut n) = (0, 0, 0);
        for _ in 0..ROUNDS_MAX {
            n += 1;
            armed.set(n);
            if of == Call::Resume {
                // A new lease.
                running.take().unwrap().stop().await;
                running = Some(stage.start(tap.clone()).await);
            }
            let cents = u32::try_from(n).unwrap();
            stage
                .append("a", &[Booked::Cents(cents), Booked::Cents(1)])
                .await;
            stage.append("b", &[Booked::Cents(cents)]).await;
            caught_up(running.as_ref().unwrap()).await;
            stage.check().await;
            // How often a call waits differs a little.
            match tap.was_faster.swap(false, Ordering::SeqCst) {
                true => faster += 1,
                false => (faster, cut) = (0, cut + 1),
            }
            match (faster == 4, cut >= CUT_LEAST) {
                (true, true) => break,
                (true, false) => (faster, n) = (0, 0),
                _ => {}
            }
        }
        assert!(dropped.get() > 5, "a call waits more often");
        assert!(cut >= CUT_LEAST, "calls are dropped: {cut}");
        running.unwrap().stop().await;
        stage.close().await;
    }
}

pub(crate) async fn a_commit_that_was_not_heard_of_is_recognised<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    let calls = Counter::default();
    let faults = {
        let calls = calls.clone();
        move |call| match call {
            Call::Handle if calls.next() % 2 == 0 => Fault::LoseAnswer,
            _ => Fault::None,
        }
    };
    let running = stage.start(Tap::new(stage.sink().await, faults)).await;
    for n in 1..10 {
        stage
            .append("a", &[Booked::Cents(n), Booked::Cents(n)])
            .await;
        caught_up(&running).await;
        stage.check().await;
    }
    running.stop().await;
    stage.close().await;
}

const MANY: usize = 60;

/// The pool is the application's own: what it executes later must not be in a transaction of ours.
pub(crate) async fn an_abandoned_connection_is_in_no_transaction<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    let pool = D::pool(&stage.home).await;
    D::run(&stage.pool, "CREATE TABLE others (n bigint)").await;
    let ledger = crate::ledger::Ledger::new(&stage.switches);
    let sink = annals_sql::SqlSink::new(pool.clone(), D::view::<1>(ledger));
    let calls = Counter::default();
    let faults = {
        let calls = calls.clone();
        move |_| match calls.next() {
            n if n < MANY => Fault::Drop(1 + n / 2),
            _ => Fault::None,
        }
    };
    let running = stage.start(Tap::new(sink, faults)).await;
    stage.append("a", &[Booked::Cents(1)]).await;
    let mut inserted = 0;
    while calls.get() < 7 {
        // A busy SQLite refuses it.
        if D::try_run(&pool, "INSERT INTO others (n) VALUES (1)")
            .await
            .is_ok()
        {
            inserted += 1;
        }
        SystemClock::new().sleep(Duration::from_millis(5)).await;
    }
    calls.set(MANY);
    caught_up(&running).await;
    stage.check().await;
    running.stop().await;
    pool.close().await;
    let count = "SELECT CAST(count(*) AS text) FROM others";
    assert_eq!(D::rows(&stage.pool, count).await, [[inserted.to_string()]]);
    until("the end of all transactions", async || {
        let is_free = D::try_run(&stage.pool, "DELETE FROM annals_offset").await;
        is_free.is_ok().then_some(())
    })
    .await;
    stage.close().await;
}
