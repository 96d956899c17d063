//! Content that only the target has is kept and reported.

use annals::state::NewState;
use annals::{Codec, ErrorKind, Payload};
use annals_jvm::LayoutName;

use super::stage::{Stage, copier, copy, failure, outcomes};
use annals_testkit::journals::text;

/// Two ids of three events each in source and target.
async fn both(from: LayoutName, to: LayoutName) -> (Stage, Stage) {
    let (source, target) = (Stage::new(from).await, Stage::new(to).await);
    for id in ["Cart-1", "Cart-2"] {
        for n in 1..=3 {
            source.append(id, text(format!("event {n}"))).await;
        }
    }
    copy(&source, &target).await;
    (source, target)
}

#[tokio::test]
async fn a_different_event_ends_the_copy_of_its_id_only() {
    for to in LayoutName::ALL {
        let (source, target) = (Stage::new(LayoutName::Annals).await, Stage::new(to).await);
        for id in ["Cart-1", "Cart-2"] {
            source.append(id, text("one")).await;
            source.append(id, text("two")).await;
        }
        // At the same time as the source's.
        target.append("Cart-1", text("another")).await;
        source.append("Cart-2", text("three")).await;
        let before = target.events("Cart-1").await;
        let (kind, message) = failure(&copier(&source, &target)).await;
        assert_eq!(kind, ErrorKind::Conflict);
        for fact in [
            "id=`Cart-1`",
            "number=`1`",
            "differs=`payload`",
            "purge the id",
        ] {
            assert!(message.contains(fact), "{to}: {message}");
        }
        assert_eq!(target.events("Cart-1").await, before);
        assert_eq!(target.numbers("Cart-2").await, [1, 2, 3]);
    }
}

#[tokio::test]
async fn a_target_with_more_events_is_reported() {
    for to in LayoutName::ALL {
        let (source, target) = both(LayoutName::Akka, to).await;
        target.append("Cart-1", text("its own")).await;
        let (kind, message) = failure(&copier(&source, &target)).await;
        assert_eq!(kind, ErrorKind::Conflict);
        assert!(
            message.contains("that the source does not have"),
            "{message}"
        );
        assert!(message.contains("number=`4`"), "{message}");
        assert_eq!(target.numbers("Cart-1").await, [1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn events_deleted_in_the_target_are_not_written_again() {
    for to in LayoutName::ALL {
        let (source, target) = both(LayoutName::Akka, to).await;
        target.delete("Cart-1", 2).await;
        target.delete("Cart-2", 3).await;
        for outcome in outcomes(&copier(&source, &target)).await {
            let failure = outcome.failure.unwrap();
            assert_eq!(failure.kind(), ErrorKind::Conflict);
            assert!(failure.to_string().contains("number=`1`"), "{failure}");
            assert!(failure.to_string().contains("lacks"), "{failure}");
        }
        assert_eq!(target.numbers("Cart-1").await, [3]);
        assert!(target.numbers("Cart-2").await.is_empty());
    }
}

#[tokio::test]
async fn events_deleted_in_the_source_are_kept_unless_deletions_are_copied() {
    for to in LayoutName::ALL {
        let (source, target) = both(LayoutName::Akka, to).await;
        source.delete("Cart-1", 2).await;
        source.delete("Cart-2", 3).await;
        let copied = copy(&source, &target).await;
        assert_eq!((copied.kept, copied.present, copied.verified), (5, 1, 1));
        assert_eq!(target.numbers("Cart-1").await, [1, 2, 3]);

        let mut all = annals::copy::Copied::default();
        for outcome in outcomes(&copier(&source, &target).with_deletions()).await {
            assert!(outcome.failure.is_none(), "{outcome:?}");
            all += outcome.copied;
        }
        assert_eq!((all.kept, all.present), (0, 1));
        assert_eq!(target.seen().await, source.seen().await, "{to}");
    }
}

#[tokio::test]
async fn a_source_with_deletions_past_the_targets_end_needs_deletions_copied() {
    for to in LayoutName::ALL {
        let (source, target) = both(LayoutName::Akka, to).await;
        for n in 4..=9 {
            source.append("Cart-1", text(format!("event {n}"))).await;
        }
        source.delete("Cart-1", 7).await;
        let (kind, message) = failure(&copier(&source, &target)).await;
        assert_eq!(kind, ErrorKind::Conflict);
        assert!(message.contains("copy with deletions"), "{message}");
        assert_eq!(target.numbers("Cart-1").await, [1, 2, 3]);

        for outcome in outcomes(&copier(&source, &target).with_deletions()).await {
            assert!(outcome.failure.is_none(), "{outcome:?}");
        }
        assert_eq!(target.seen().await, source.seen().await, "{to}");
        target.check().await;
    }
}

#[tokio::test]
async fn a_different_snapshot_is_kept_unless_the_sources_is_later() {
    for to in LayoutName::ALL {
        let (source, target) = both(LayoutName::Annals, to).await;
        source.save("Cart-1", 3, "early").await;
        copy(&source, &target).await;
        source.save("Cart-1", 3, "late").await;
        assert_eq!(copy(&source, &target).await.snapshots, 1);
        target.clock.advance(std::time::Duration::from_secs(60));
        target.save("Cart-1", 3, "its own").await;
        let (kind, message) = failure(&copier(&source, &target)).await;
        assert_eq!(kind, ErrorKind::Conflict);
        assert!(message.contains("another snapshot"), "{message}");
        assert_ne!(target.seen().await, source.seen().await);
    }
}

#[tokio::test]
async fn a_value_is_replaced_by_a_later_revision_and_never_by_an_earlier_one() {
    let value = |text: &str| NewState::from(Payload::new(Codec::Text, text.to_owned()));
    for from in [LayoutName::Annals, LayoutName::J5ik2o] {
        for to in [LayoutName::Annals, LayoutName::J5ik2o] {
            let (source, target) = (Stage::new(from).await, Stage::new(to).await);
            source.upsert("Cart-1", 1, value("one")).await;
            source.upsert("Cart-1", 2, value("two")).await;
            assert_eq!(copy(&source, &target).await.states, 1);
            source.upsert("Cart-1", 3, value("three")).await;
            source.upsert("Cart-1", 4, value("four")).await;
            assert_eq!(copy(&source, &target).await.states, 1);
            assert_eq!(target.seen().await, source.seen().await, "{from} to {to}");
            // Deleted since, by two revisions at once.
            source.upsert("Cart-1", 5, value("five")).await;
            let id = "Cart-1".parse().unwrap();
            source
                .annals
                .states()
                .unwrap()
                .delete(&id, None)
                .await
                .unwrap();
            assert_eq!(copy(&source, &target).await.states, 1);
            assert_eq!(target.seen().await, source.seen().await, "{from} to {to}");

            target.upsert("Cart-1", 7, value("its own")).await;
            let (kind, message) = failure(&copier(&source, &target)).await;
            assert_eq!(kind, ErrorKind::Conflict);
            assert!(message.contains("revision=`6`, found=`7`"), "{message}");
        }
    }
}
