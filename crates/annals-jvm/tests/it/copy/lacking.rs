//! Ids and snapshots that only the source or only the target has: the former are copied, the latter
//! are counted, and deleted if requested.

use annals::ErrorKind;
use annals::copy::Copied;
use annals::snapshot::Criteria;
use annals_jvm::LayoutName;
use futures::TryStreamExt;

use super::stage::{Stage, copier, copy, failure, outcomes};
use annals_testkit::journals::text;

/// Copies everything, with deletions.
async fn follow(source: &Stage, target: &Stage) -> Copied {
    let mut all = Copied::default();
    for outcome in outcomes(&copier(source, target).with_deletions()).await {
        assert!(outcome.failure.is_none(), "{outcome:?}");
        assert!(outcome.is_found, "{outcome:?}");
        all += outcome.copied;
    }
    all
}

/// The numbers of an id's snapshots, newest first.
async fn snapshots(side: &Stage, id: &str) -> Vec<u64> {
    let id = id.parse().unwrap();
    let found = side.annals.snapshots().find(&id, Criteria::ALL);
    let numbers = found.map_ok(|snapshot| snapshot.sequence_number.get());
    numbers.try_collect().await.unwrap()
}

/// The ids that have snapshots.
async fn with_snapshots(side: &Stage, prefix: &str) -> Vec<String> {
    let ids = side.annals.snapshots().ids(prefix);
    let ids = ids.map_ok(|id| id.to_string());
    let mut ids: Vec<String> = ids.try_collect().await.unwrap();
    ids.sort();
    ids
}

#[tokio::test]
async fn snapshots_of_ids_without_events_are_copied() {
    for from in LayoutName::ALL {
        for to in LayoutName::ALL {
            let (source, target) = (Stage::new(from).await, Stage::new(to).await);
            source.append("Cart-1", text("one")).await;
            source.save("Cart-1", 1, "one").await;
            for at in [3, 8] {
                source.save("Lost-2", at, "what is left of it").await;
            }
            assert_eq!(with_snapshots(&source, "").await, ["Cart-1", "Lost-2"]);
            assert_eq!(with_snapshots(&source, "Lo").await, ["Lost-2"]);
            let copied = copy(&source, &target).await;
            let case = format!("{from} to {to}: {copied:?}");
            assert_eq!((copied.events, copied.snapshots), (1, 3), "{case}");
            assert_eq!(snapshots(&target, "Lost-2").await, [8, 3], "{case}");
            let again = copy(&source, &target).await;
            assert_eq!((again.snapshots, again.snapshots_present), (0, 3));
            assert_eq!((again.snapshots_kept, again.ids_kept), (0, 0));
        }
    }
}

#[tokio::test]
async fn snapshots_deleted_in_the_source_are_kept_unless_deletions_are_copied() {
    for to in LayoutName::ALL {
        let (source, target) = (Stage::new(LayoutName::Annals).await, Stage::new(to).await);
        for n in 1..=5 {
            source.append("Cart-1", text(format!("event {n}"))).await;
        }
        for at in [2, 3, 4] {
            source.save("Cart-1", at, "state").await;
        }
        copy(&source, &target).await;
        let id = "Cart-1".parse().unwrap();
        let older = Criteria::ALL.up_to(annals_testkit::journals::number(3));
        source.annals.snapshots().delete(&id, older).await.unwrap();
        // A snapshot that only the target ever had.
        target.save("Cart-1", 9, "its own").await;

        let copied = copy(&source, &target).await;
        assert_eq!((copied.snapshots_kept, copied.snapshots_deleted), (3, 0));
        assert_eq!(snapshots(&target, "Cart-1").await, [9, 4, 3, 2], "{to}");
        let copied = follow(&source, &target).await;
        assert_eq!((copied.snapshots_kept, copied.snapshots_deleted), (1, 2));
        assert_eq!(snapshots(&target, "Cart-1").await, [9, 4], "{to}");
    }
}

#[tokio::test]
async fn ids_purged_in_the_source_are_kept_unless_deletions_are_copied() {
    for from in LayoutName::ALL {
        for to in LayoutName::ALL {
            let (source, target) = (Stage::new(from).await, Stage::new(to).await);
            for id in ["Cart-1", "Cart-2", "Cart-3"] {
                source.append(id, text("one")).await;
                source.append(id, text("two")).await;
                source.save(id, 1, "state").await;
            }
            copy(&source, &target).await;
            let id = "Cart-2".parse().unwrap();
            source.annals.journal().purge(&id).await.unwrap();
            let snapshots = source.annals.snapshots();
            snapshots.delete(&id, Criteria::ALL).await.unwrap();
            // This one has only its snapshot left.
            let id = "Cart-3".parse().unwrap();
            source.annals.journal().purge(&id).await.unwrap();

            let copied = copy(&source, &target).await;
            let case = format!("{from} to {to}: {copied:?}");
            assert_eq!((copied.ids_kept, copied.snapshots_kept), (2, 1), "{case}");
            assert_eq!(target.numbers("Cart-2").await, [1, 2], "{case}");
            let copied = follow(&source, &target).await;
            assert_eq!((copied.ids_kept, copied.ids_purged), (0, 2), "{case}");
            assert_eq!(copied.snapshots_deleted, 1, "{case}");
            assert_eq!(target.seen().await, source.seen().await, "{case}");
            assert_eq!(with_snapshots(&target, "").await, ["Cart-1", "Cart-3"]);
            let copied = follow(&source, &target).await;
            assert_eq!((copied.ids_purged, copied.snapshots_deleted), (0, 0));
        }
    }
}

#[tokio::test]
async fn a_prefix_limits_deletions() {
    let (source, target) = (
        Stage::new(LayoutName::Annals).await,
        Stage::new(LayoutName::Annals).await,
    );
    source.append("Cart-1", text("one")).await;
    target.append("Cart-2", text("its own")).await;
    target.append("Order-1", text("its own")).await;
    let copier = copier(&source, &target).with_deletions();
    let outcomes: Vec<_> = copier.all("Cart-").try_collect().await.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()));
    assert!(target.numbers("Cart-2").await.is_empty());
    assert_eq!(target.numbers("Order-1").await, [1]);
}

#[tokio::test]
async fn an_empty_source_deletes_nothing() {
    let (source, target) = (
        Stage::new(LayoutName::Annals).await,
        Stage::new(LayoutName::Akka).await,
    );
    target.append("Cart-1", text("one")).await;
    assert_eq!(copy(&source, &target).await.ids_kept, 1);
    let copier = copier(&source, &target).with_deletions();
    let refused = copier.all("").try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("the source has no ids"));
    assert_eq!(target.numbers("Cart-1").await, [1]);
    // A source that fails is an error too.
    source.append("Cart-1", text("another")).await;
    let (kind, _) = failure(&copier).await;
    assert_eq!(kind, ErrorKind::Conflict);
}
