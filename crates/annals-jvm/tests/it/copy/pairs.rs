//! Copies from every layout to every layout, and again.

use annals::journal::Append;
use annals::{Codec, NewEvent, Payload};
use annals_jvm::LayoutName;

use super::stage::{Stage, copier, copy, fill, outcomes};
use annals_testkit::journals::{after, number, text};

#[tokio::test]
async fn everything_is_copied_from_every_layout_to_every_layout() {
    for from in LayoutName::ALL {
        let source = Stage::new(from).await;
        fill(&source).await;
        let wanted = source.seen().await;
        source.check().await;
        for to in LayoutName::ALL {
            let target = Stage::new(to).await;
            let copied = copy(&source, &target).await;
            let mut wanted_there = source.seen().await;
            assert_eq!(
                wanted, wanted_there,
                "{from} changes when it is copied to {to}"
            );
            if !target.has_states() {
                wanted_there.states.clear();
            }
            assert_eq!(target.seen().await, wanted_there, "{from} to {to}");
            target.check().await;
            let events = wanted.events();
            assert_eq!((copied.events, copied.present), (events, 0));
            assert_eq!((copied.verified, copied.kept), (events, 0));
            assert_eq!(copied.snapshots, wanted.snapshots(), "{from} to {to}");
            assert_eq!(copied.states as usize, wanted_there.states.len());

            let again = copy(&source, &target).await;
            assert_eq!((again.events, again.present), (0, events), "{from} to {to}");
            assert_eq!((again.snapshots, again.states), (0, 0), "{from} to {to}");
            assert_eq!(again.verified, events);
            assert_eq!(again.snapshots_present, copied.snapshots);
            assert_eq!(again.states_present, copied.states);
            assert_eq!(target.seen().await, wanted_there, "{from} to {to}");
        }
    }
}

#[tokio::test]
async fn the_next_copy_adds_new_events() {
    for to in LayoutName::ALL {
        let (source, target) = (Stage::new(LayoutName::Akka).await, Stage::new(to).await);
        fill(&source).await;
        copy(&source, &target).await;
        source.append("Plain-1", text("later")).await;
        source.append("Gone-4", vec![text("a"), text("b")]).await;
        source.append("New-9", text("new")).await;
        let copied = copy(&source, &target).await;
        assert_eq!(copied.events, 4);
        assert_eq!(target.numbers("Gone-4").await, [5, 6]);
        assert_eq!(
            target.seen().await.journals,
            source.seen().await.journals,
            "{to}"
        );
    }
}

#[tokio::test]
async fn the_target_continues_after_the_sources_last_event() {
    for to in LayoutName::ALL {
        let (source, target) = (Stage::new(LayoutName::Annals).await, Stage::new(to).await);
        fill(&source).await;
        copy(&source, &target).await;
        for (id, (highest, _, _)) in source.seen().await.journals {
            let journal = target.annals.journal();
            // An append to an empty id is a conflict, one after the last event succeeds.
            let blind = journal.append(&id, after(0), text("blind")).await;
            assert!(blind.is_err(), "{to} {id}");
            let next = journal.append(&id, after(highest), text("next")).await;
            assert_eq!(next.unwrap().first.get(), highest + 1, "{to} {id}");
        }
        target.check().await;
    }
}

#[tokio::test]
async fn a_long_deleted_history_costs_no_more_than_a_short_one() {
    use annals::memory::Memory;
    use annals::store::Store;
    use std::sync::Arc;
    for to in LayoutName::ALL {
        let mut requests = Vec::new();
        for deleted in [40_u64, 40_000] {
            let source = Stage::new(LayoutName::Annals).await;
            for _ in 0..deleted / 20 {
                source.append("Cut-1", vec![text("x"); 20]).await;
            }
            source.append("Cut-1", text("last")).await;
            source.delete("Cut-1", deleted).await;
            let counting = Store::from(Arc::new(Memory::new()));
            let target = Stage::on(counting.items().clone(), to).await;
            counting.take_counts();
            copy(&source, &target).await;
            requests.push(counting.counts().total().cost.requests);
            assert_eq!(target.numbers("Cut-1").await, [deleted + 1]);
        }
        let [short, long] = requests[..] else {
            panic!()
        };
        println!("{to}: {short} and {long} requests");
        assert!(long <= short + 4, "{to}: {short} and {long} requests");
    }
}

#[tokio::test]
async fn a_snapshot_in_the_last_append_is_copied() {
    for to in LayoutName::ALL {
        let (source, target) = (Stage::new(LayoutName::Annals).await, Stage::new(to).await);
        let id = "Ride-1".parse().unwrap();
        let state = Payload::new(Codec::Text, "state");
        source.append("Ride-1", text("first")).await;
        let append = Append::from(text("second")).snapshot(state.clone());
        source.append("Ride-1", append).await;
        let journal = source.annals.journal();
        assert!(journal.last_snapshot(&id).await.unwrap().is_some());
        source.delete("Ride-1", 1).await;
        copy(&source, &target).await;
        let (journal, snapshots) = (target.annals.journal(), target.annals.snapshots());
        let recovered = journal.recover(&id, snapshots).await.unwrap();
        let snapshot = recovered.snapshot.unwrap();
        assert_eq!(
            (snapshot.sequence_number, snapshot.payload),
            (number(2), state)
        );
    }
}

#[tokio::test]
async fn large_appends_are_split_and_oversized_events_are_reported() {
    let source = Stage::new(LayoutName::Annals).await;
    source.append("Many-1", vec![text("x"); 2_500]).await;
    let large = NewEvent::new(Codec::Bytes, vec![7; 900_000]);
    source
        .append("Huge-2", vec![large.clone(), large, text("y")])
        .await;
    let target = Stage::new(LayoutName::Annals).await;
    copy(&source, &target).await;
    assert_eq!(target.seen().await, source.seen().await);

    let target = Stage::new(LayoutName::Akka).await;
    let outcomes = outcomes(&copier(&source, &target)).await;
    for outcome in outcomes {
        match outcome.persistence_id.as_str() {
            "Huge-2" => {
                let failure = outcome.failure.unwrap();
                assert_eq!(failure.kind(), annals::ErrorKind::Invalid);
                assert!(failure.to_string().contains("max-item-size"), "{failure}");
                assert!(failure.to_string().contains("id=`Huge-2`"), "{failure}");
            }
            _ => assert_eq!(outcome.copied.verified, 2_500, "{outcome:?}"),
        }
    }
}

#[tokio::test]
async fn only_named_ids_are_copied() {
    use futures::TryStreamExt;
    let (source, target) = (
        Stage::new(LayoutName::Annals).await,
        Stage::new(LayoutName::J5ik2o).await,
    );
    fill(&source).await;
    let ids = ["Plain-1", "Nobody-1"]
        .map(|id| id.parse().unwrap())
        .to_vec();
    let copied = copier(&source, &target).ids(ids);
    let copied: Vec<_> = copied.try_collect().await.unwrap();
    for outcome in &copied {
        let is_there = outcome.persistence_id.as_str() == "Plain-1";
        assert_eq!(outcome.is_found, is_there, "{outcome:?}");
        assert_eq!(outcome.copied.events, if is_there { 7 } else { 0 });
        assert_eq!(outcome.copied.states, u64::from(is_there));
    }
    assert_eq!(target.seen().await.journals.len(), 1);
}
