//! What works when nothing fails.

use annals::entity::{Entity, EntityEvent, EntitySettings, Stored};
use annals::journal::Expected;
use annals::{Codec, PersistenceId};
use serde::{Deserialize, Serialize};

use crate::databases::Db;
use crate::ledger::Booked;
use crate::stage::{Stage, caught_up, settings};

pub(crate) async fn rows_follow_the_events<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    for (n, account) in (1..).zip(["a", "b", "c", "a", "d", "b", "e"]) {
        stage
            .append(account, &[Booked::Cents(n), Booked::Cents(10 * n)])
            .await;
    }
    let other: PersistenceId = "Other|x".parse().unwrap();
    let event = Booked::Cents(1).to_event().unwrap();
    let journal = stage.annals.journal();
    journal.append(&other, Expected::Any, event).await.unwrap();

    let starting = stage.annals.projections().target(stage.sink().await);
    let running = starting
        .shares(3)
        .settings(settings())
        .start()
        .await
        .unwrap();
    caught_up(&running).await;
    stage.check().await;
    stage.append("a", &[Booked::Cents(7)]).await;
    caught_up(&running).await;
    stage.check().await;
    let count = "SELECT CAST(count(*) AS text) FROM annals_offset WHERE projection = 'ledger' AND revision = 1";
    assert_eq!(D::rows(&stage.pool, count).await, [["3"]]);
    running.stop().await;

    stage.append("f", &[Booked::Cents(8)]).await;
    let running = stage.start(stage.sink().await).await;
    caught_up(&running).await;
    stage.check().await;
    running.stop().await;
    stage.close().await;
}

#[derive(Default, Serialize, Deserialize, Stored)]
struct Account;

impl Entity for Account {
    const TYPE: &'static str = "Account";
    type Event = Booked;
    type Error = std::convert::Infallible;
    fn apply(&mut self, _: &Booked) {}
}

pub(crate) async fn adapters_read_old_events<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage.append("a", &[Booked::Cents(7)]).await;
    let id: PersistenceId = "Account|a".parse().unwrap();
    let old = annals::NewEvent::new(Codec::Text, &b"3"[..]).manifest("Old");
    let journal = stage.annals.journal();
    journal.append(&id, Expected::Any, old).await.unwrap();
    stage
        .journal
        .get_mut("Account|a")
        .unwrap()
        .push(Booked::Cents(3));

    let of_account = EntitySettings::<Account>::new().adapter(|event| {
        Ok(match event.manifest.as_str() {
            "Old" => vec![Booked::Cents(3).to_event()?],
            _ => vec![event],
        })
    });
    let starting = stage.annals.projections().target(stage.sink().await);
    let starting = starting.adapters_of(&of_account).settings(settings());
    let running = starting.start().await.unwrap();
    caught_up(&running).await;
    stage.check().await;
    running.stop().await;
    stage.close().await;
}

pub(crate) async fn notices_reach_the_view<D: Db>() {
    let mut stage = Stage::<D>::new().await;
    stage
        .append("a", &[Booked::Cents(1), Booked::Cents(2)])
        .await;
    stage.append("b", &[Booked::Cents(3)]).await;
    let running = stage.start(stage.sink().await).await;
    caught_up(&running).await;
    let (a, b): (PersistenceId, PersistenceId) =
        ("Account|a".parse().unwrap(), "Account|b".parse().unwrap());
    let journal = stage.annals.journal();
    journal
        .delete_to(&a, annals::SequenceNumber::FIRST)
        .await
        .unwrap();
    journal.purge(&b).await.unwrap();
    stage.journal.remove("Account|b");
    caught_up(&running).await;
    stage.check().await;
    let calls = stage.switches.calls.lock().unwrap().clone();
    assert_eq!(calls, ["deleted Account|a to 1", "purged Account|b"]);
    stage.append("b", &[Booked::Cents(4)]).await;
    caught_up(&running).await;
    stage.check().await;
    running.stop().await;
    stage.close().await;
}
