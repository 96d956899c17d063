//! The database goes away and comes back.

use std::process::Command;
use std::time::Duration;

use annals::{Clock, SystemClock};
use annals_sql::sqlx::{Postgres, Sqlite};

use crate::ledger::Booked;
use crate::stage::{Stage, caught_up, until, with_dead_letters};

pub(crate) async fn a_locked_file_loses_nothing() {
    let mut stage = Stage::<Sqlite>::new().await;
    stage.append("a", &[Booked::Cents(1)]).await;
    let running = stage
        .start_with(stage.sink().await, with_dead_letters())
        .await;
    caught_up(&running).await;

    let mut other = stage.pool.acquire().await.unwrap();
    let lock = annals_sql::sqlx::Connection::begin_with(&mut *other, "BEGIN EXCLUSIVE");
    let lock = lock.await.unwrap();
    stage.append("a", &[Booked::Cents(2)]).await;
    stage.append("b", &[Booked::Cents(3)]).await;
    let reason = until("a reason", async || stage.stopped().await).await;
    assert!(reason.contains("cannot do this now"), "{reason}");
    assert!(reason.contains("database is locked"), "{reason}");
    lock.rollback().await.unwrap();
    drop(other);
    caught_up(&running).await;
    stage.check().await;
    assert!(stage.dead_letters().await.is_empty());
    running.stop().await;
    stage.close().await;
}

fn control(command: &str) {
    let program = std::env::var_os("ANNALS_POSTGRES_CTL").unwrap();
    let status = Command::new(program).arg(command).status().unwrap();
    assert!(status.success(), "{command}: {status}");
}

pub(crate) async fn a_server_that_restarts_loses_nothing() {
    let mut stage = Stage::<Postgres>::new().await;
    stage.append("a", &[Booked::Cents(1)]).await;
    let running = stage
        .start_with(stage.sink().await, with_dead_letters())
        .await;
    caught_up(&running).await;

    control("stop");
    for n in 0..20 {
        stage.append("a", &[Booked::Cents(n)]).await;
        stage.append("b", &[Booked::Cents(n)]).await;
    }
    let reason = until("a reason", async || stage.stopped().await).await;
    assert!(reason.contains("cannot do this now"), "{reason}");
    control("start");
    caught_up(&running).await;
    stage.check().await;

    // In the middle of work.
    for round in 0..3 {
        let appending = async {
            for n in 0..40 {
                stage.append("a", &[Booked::Cents(n)]).await;
                SystemClock::new().sleep(Duration::from_millis(5)).await;
            }
        };
        let restarting = tokio::task::spawn_blocking(move || {
            control(if round == 1 { "kill" } else { "stop" });
            control("start");
        });
        let ((), restarted) = tokio::join!(appending, restarting);
        restarted.unwrap();
        caught_up(&running).await;
        stage.check().await;
    }
    assert!(stage.dead_letters().await.is_empty());
    running.stop().await;
    stage.close().await;
}
