//! A new revision beside the live one.

use std::time::Duration;

use annals::ErrorKind;

use crate::databases::Db;
use crate::ledger::Booked;
use crate::stage::{Stage, caught_up, settings, until};

pub(crate) async fn a_revision_is_built_beside_the_live_one<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage
        .append("a", &[Booked::Cents(1), Booked::Cents(2)])
        .await;
    let first = stage.start(stage.sink().await).await;
    caught_up(&first).await;

    let keep = settings().keep_retired(Duration::from_millis(1));
    let second = stage.start_with(stage.sink_of::<2>().await, keep).await;
    caught_up(&second).await;
    stage.append("b", &[Booked::Cents(3)]).await;
    caught_up(&first).await;
    caught_up(&second).await;
    stage.check_revision(1).await;
    stage.check_revision(2).await;
    let builds =
        "SELECT CAST(build AS text), CAST(revision AS text) FROM annals_offset ORDER BY build";
    assert_eq!(D::rows(&stage.pool, builds).await, [["1", "1"], ["2", "2"]]);

    let projections = stage.annals.projections();
    until("a switch", async || {
        match projections.switch("ledger").await {
            Ok(switched) => switched,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                None
            }
        }
    })
    .await;
    until("the end of the old rows", async || {
        (D::rows(&stage.pool, builds).await == [["2", "2"]]).then_some(())
    })
    .await;
    let calls = stage.switches.calls.lock().unwrap().clone();
    assert_eq!(calls, ["dropped 1"]);
    let gone = D::try_run(&stage.pool, "SELECT 1 FROM applied_1").await;
    assert!(gone.is_err());
    first.stop().await;
    stage.append("b", &[Booked::Cents(4)]).await;
    caught_up(&second).await;
    stage.check_revision(2).await;
    second.stop().await;
    stage.close().await;
}
