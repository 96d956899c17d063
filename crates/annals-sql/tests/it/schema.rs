//! Tables that do not fit.

use std::sync::atomic::Ordering;

use crate::databases::Db;
use crate::ledger::{Booked, tables};
use crate::stage::{Stage, caught_up, until, with_dead_letters};

pub(crate) async fn tables_with_other_columns_are_named<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage.append("a", &[Booked::Cents(1)]).await;
    D::run(
        &stage.pool,
        "CREATE TABLE annals_offset (name text, n bigint)",
    )
    .await;
    let running = stage
        .start_with(stage.sink().await, with_dead_letters())
        .await;
    let reason = until("a reason", async || stage.stopped().await).await;
    assert!(
        reason.contains("lacks columns of ours; rename it"),
        "{reason}"
    );
    assert!(reason.contains("annals_offset"), "{reason}");
    assert!(stage.dead_letters().await.is_empty());

    D::run(&stage.pool, "ALTER TABLE annals_offset RENAME TO my_offset").await;
    caught_up(&running).await;
    stage.check().await;
    running.stop().await;
    stage.close().await;
}

pub(crate) async fn a_missing_table_stops_the_share_until_it_is_there<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage.switches.has_no_tables.store(true, Ordering::SeqCst);
    stage.append("a", &[Booked::Cents(1)]).await;
    stage.append("b", &[Booked::Cents(2)]).await;
    let running = stage
        .start_with(stage.sink().await, with_dead_letters())
        .await;
    let reason = until("a reason", async || stage.stopped().await).await;
    assert!(reason.contains("fix the schema"), "{reason}");
    assert!(reason.contains("applied_1"), "{reason}");
    assert!(stage.dead_letters().await.is_empty());

    for create in tables::<D>(1) {
        D::run(&stage.pool, &create).await;
    }
    caught_up(&running).await;
    stage.check().await;
    running.stop().await;
    stage.close().await;
}
