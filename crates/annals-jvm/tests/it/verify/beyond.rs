//! Snapshots beyond the last event of their id, on every layout.

use std::sync::Arc;

use annals::items::Items;
use annals::layout::Layout;
use annals::snapshot::{Criteria, Snapshots};
use annals::store::Verb;
use annals::verify::{Finding, Problem, Remedy, StoredKind};
use annals::{Codec, ManualClock, Payload, PersistenceId, Random};
use annals_jvm::LayoutName;
use annals_testkit::faulty::Faulty;
use annals_testkit::store;
use futures::TryStreamExt;

use super::Bed;
use annals_testkit::journals::{id, number};

fn snapshots(bed: &Bed, items: Arc<dyn Items>) -> Snapshots {
    let clock = Arc::new(ManualClock::at_ms(1_000));
    let store = store(items, clock, Random::seeded(1));
    bed.settings.snapshots(&store).unwrap()
}

async fn save(bed: &Bed, id: &PersistenceId, at: u64) {
    let saved = snapshots(bed, bed.items.clone());
    let state = Payload::new(Codec::Text, "a state");
    saved.save(id, number(at), state).await.unwrap();
}

async fn found(bed: &Bed, id: Option<&PersistenceId>) -> Vec<Finding> {
    let (journal, snapshots) = (bed.journal().await, snapshots(bed, bed.items.clone()));
    let found = journal.verify_snapshots(&snapshots, id).try_concat().await;
    found.unwrap()
}

/// The numbers of the only finding about the id.
async fn beyond(bed: &Bed) -> Option<(u64, u64)> {
    let (one, all) = (found(bed, Some(&id())).await, found(bed, None).await);
    assert_eq!(one, all);
    assert!(one.len() <= 1, "{one:?}");
    let finding = one.first()?;
    assert_eq!(finding.persistence_id, Some(id()));
    assert_eq!(finding.kind, StoredKind::Snapshot);
    assert_eq!(finding.problem, Problem::BeyondEnd);
    assert!(matches!(finding.remedy, Remedy::Left(_)), "{finding:?}");
    finding.numbers.map(|(from, to)| (from.get(), to.get()))
}

#[tokio::test]
async fn snapshots_beyond_the_last_event_are_found() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[1, 2]).await;
        assert_eq!(beyond(&bed).await, None, "{layout}");
        for at in [1, 3] {
            save(&bed, &id(), at).await;
        }
        assert_eq!(beyond(&bed).await, None, "{layout}");
        for (at, numbers) in [(4, (4, 4)), (250, (4, 250)), (9, (4, 250))] {
            save(&bed, &id(), at).await;
            assert_eq!(beyond(&bed).await, Some(numbers), "{layout}");
        }
        let details = found(&bed, None).await.remove(0).detail;
        assert!(
            details.contains("snapshots=`3`, last event=`3`"),
            "{details}"
        );
        // Recovery would skip this event.
        bed.fill(&id(), &[1]).await;
        assert_eq!(beyond(&bed).await, Some((9, 250)), "{layout}");
        let all = snapshots(&bed, bed.items.clone());
        let wrong = Criteria::ALL.at_least(number(9));
        assert_eq!(all.delete(&id(), wrong).await.unwrap(), 2);
        assert_eq!(beyond(&bed).await, None, "{layout}");
    }
}

/// Tombstones and markers keep the last number.
#[tokio::test]
async fn deleted_events_count() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[1, 2, 150]).await;
        save(&bed, &id(), 153).await;
        bed.delete_to(153).await;
        assert_eq!(bed.numbers().await.unwrap(), [0u64; 0]);
        assert_eq!(beyond(&bed).await, None, "{layout}");
        save(&bed, &id(), 154).await;
        assert_eq!(beyond(&bed).await, Some((154, 154)), "{layout}");
    }
}

#[tokio::test]
async fn an_id_without_a_trace_of_events_is_not_reported_until_its_first_event() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[5]).await;
        let other: PersistenceId = "Cart|other".parse().unwrap();
        save(&bed, &id(), 5).await;
        save(&bed, &other, 7).await;
        assert!(bed.journal().await.purge(&id()).await.unwrap());
        assert_eq!(found(&bed, None).await, [], "{layout}");
        assert_eq!(found(&bed, Some(&other)).await, [], "{layout}");
        bed.fill(&id(), &[1]).await;
        assert_eq!(beyond(&bed).await, Some((5, 5)), "{layout}");
    }
}

/// An entity appends and saves between the two reads of a check.
#[tokio::test]
async fn a_snapshot_of_an_event_that_was_just_appended_is_not_reported() {
    for layout in LayoutName::ALL {
        let bed = Bed::with(layout, &[3]).await;
        let slow = Arc::new(Faulty::scripted(bed.items.clone()));
        let snapshots = snapshots(&bed, slow.clone());
        let journal = bed.journal().await;
        slow.hold(Verb::Query);
        let check = tokio::spawn(async move {
            let found = journal.verify_snapshots(&snapshots, Some(&id()));
            found.try_concat().await
        });
        slow.until_held(1).await;
        bed.fill(&id(), &[2]).await;
        save(&bed, &id(), 5).await;
        slow.release(Verb::Query);
        assert_eq!(check.await.unwrap().unwrap(), [], "{layout}");
    }
}
