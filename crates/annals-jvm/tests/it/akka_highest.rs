//! The highest number on the `akka` layout with lost markers, missing numbers and batches in flight.
//! Appends are never stored before existing events.

use std::sync::Arc;

use annals::items::{Condition, Items, Key};
use annals::journal::{AppendError, Expected, Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::{ErrorKind, Event, NewEvent, PersistenceId, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_jvm::settings::Gaps;
use futures::TryStreamExt;

use crate::akka_plugin::{ID, Plugin, akka};
use annals_testkit::gate::{Gate, Hold, turns};
use annals_testkit::journals::{after, number, open_as, text};

fn id() -> PersistenceId {
    ID.parse().unwrap()
}

async fn table() -> (Arc<dyn Items>, Plugin) {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let settings = akka();
    for table in settings.tables().unwrap().all() {
        let created = items.create_table(table, Default::default());
        created.await.unwrap();
    }
    let plugin = Plugin::new(&items, 10);
    (items, plugin)
}

fn skipping() -> AnyLayout {
    AnyLayout {
        gaps: Gaps::Skip,
        ..akka()
    }
}

async fn highest_with(items: &Arc<dyn Items>, settings: &AnyLayout) -> u64 {
    let journal = open_as(items, settings).await;
    let highest = journal.highest(&id()).await.unwrap();
    highest.map_or(0, SequenceNumber::get)
}

async fn highest(items: &Arc<dyn Items>) -> u64 {
    highest_with(items, &akka()).await
}

async fn append(
    journal: &Journal,
    expected: Expected,
    count: u64,
) -> Result<(u64, u64), AppendError> {
    let events: Vec<NewEvent> = (0..count).map(|n| text(format!("{n}"))).collect();
    let appended = journal.append(&id(), expected, events).await?;
    Ok((appended.first.get(), appended.last.get()))
}

/// Events up to this number, one per append.
async fn fill_singly(items: &Arc<dyn Items>, to: u64) {
    let journal = open_as(items, &akka()).await;
    for last in 0..to {
        append(&journal, after(last), 1).await.unwrap();
    }
}

/// A batch of ours, up to this number.
async fn fill(items: &Arc<dyn Items>, to: u64) {
    let journal = open_as(items, &akka()).await;
    append(&journal, after(0), to).await.unwrap();
}

async fn replayed(items: &Arc<dyn Items>, settings: &AnyLayout) -> Vec<u64> {
    let all = open_as(items, settings).await.replay(&id(), Window::ALL);
    let all: Vec<Event> = all.try_collect().await.unwrap();
    all.iter().map(|e| e.sequence_number.get()).collect()
}

async fn lose_high_marker(items: &Arc<dyn Items>, plugin: &Plugin, shard: u64) {
    let key = Key::new(format!("journal-SH-{ID}-{shard}")).sorted(0u64);
    let lost = items.delete(&plugin.table, key, Condition::Always).await;
    lost.unwrap();
}

#[tokio::test]
async fn a_lost_marker_hides_nothing() {
    for last in [100, 101, 150, 199] {
        let (items, plugin) = table().await;
        fill_singly(&items, last).await;
        lose_high_marker(&items, &plugin, 1).await;
        assert_eq!(plugin.highest().await, 99, "the plugin is wrong about it");
        assert_eq!(highest(&items).await, last);
        let (items, plugin) = table().await;
        fill(&items, last).await;
        lose_high_marker(&items, &plugin, 1).await;
        assert_eq!(highest(&items).await, last, "a batch");
    }
    // Several lost markers.
    let (items, plugin) = table().await;
    fill_singly(&items, 350).await;
    for shard in 1..=3 {
        lose_high_marker(&items, &plugin, shard).await;
    }
    assert_eq!(highest(&items).await, 350);
}

#[tokio::test]
async fn a_gap_at_the_end_of_a_hundred_and_a_lost_marker_hide_nothing_the_jvm_wrote() {
    // A classic actor whose events 99 and 100 were too large.
    let (items, plugin) = table().await;
    plugin.write_all(1..=98).await;
    plugin.write_all(101..=105).await;
    assert_eq!(plugin.highest().await, 98, "101 to 105 will be overwritten");
    assert_eq!(highest(&items).await, 105);
    let journal = open_as(&items, &skipping()).await;
    let appended = append(&journal, Expected::Any, 1).await;
    assert_eq!(appended.unwrap(), (106, 106));
}

/// The price of reading two more units instead of thirteen.
#[tokio::test]
async fn after_such_a_gap_right_after_our_events_an_append_is_a_conflict() {
    for count in [1, 2, 5] {
        let (items, plugin) = table().await;
        fill(&items, 98).await;
        plugin.write_all(101..=105).await;
        assert_eq!(highest(&items).await, 98, "too little");
        // A conflict, possibly with the stored events; nothing is stored before them.
        let journal = open_as(&items, &akka()).await;
        let told = append(&journal, after(98), count).await.unwrap_err();
        assert_eq!(annals::Error::from(told).kind(), ErrorKind::Corrupt);
        let journal = open_as(&items, &skipping()).await;
        let told = append(&journal, after(98), count).await.unwrap_err();
        let AppendError::Conflict(conflict) = told else {
            panic!("{told:?}");
        };
        assert_eq!(conflict.found[0].sequence_number, number(101));
        let appended = append(&journal, Expected::Any, count).await;
        assert_eq!(appended.unwrap().0, 106);
        assert_eq!(highest(&items).await, 105 + count);
        let want: Vec<u64> = (1..=98).chain(101..=105 + count).collect();
        assert_eq!(replayed(&items, &skipping()).await, want);
    }
}

#[tokio::test]
async fn a_batch_in_flight_across_hundreds_is_seen_to_its_last_row() {
    let (items, _) = table().await;
    fill(&items, 94).await;
    let gate = Gate::new(&items);
    let gated: Arc<dyn Items> = gate.clone();
    let journal = open_as(&gated, &akka()).await;
    gate.hold(Hold::Put(99));
    let running = tokio::spawn(async move { append(&journal, after(94), 11).await });
    turns().await;
    assert_eq!(highest(&items).await, 104, "after 98, which is open");
    // An event with its last number is found before the marker is raised.
    let other = Gate::new(&items);
    let gated: Arc<dyn Items> = other.clone();
    let journal = open_as(&gated, &akka()).await;
    other.hold(Hold::Answer(105));
    append(&journal, after(94), 1).await.unwrap_err();
    assert_eq!(highest(&items).await, 105);
    gate.lift();
    let refused = running.await.unwrap();
    assert!(
        matches!(refused, Err(AppendError::Conflict(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn members_of_an_unacknowledged_first_batch_are_found_by_writers() {
    let (items, plugin) = table().await;
    plugin.write_batch(1..=150).await;
    for n in (1..=99).chain(121..=150) {
        plugin.remove(n).await;
    }
    lose_high_marker(&items, &plugin, 1).await;
    assert_eq!((plugin.highest().await, highest(&items).await), (0, 0));
    // Two writers, one that has read and one that has not, agree on the next number.
    let (reader, other) = (
        open_as(&items, &akka()).await,
        open_as(&items, &akka()).await,
    );
    let read: Vec<Event> = reader
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(read, []);
    assert_eq!(append(&reader, after(0), 1).await.unwrap(), (150, 150));
    let refused = append(&other, after(0), 1).await;
    assert!(
        matches!(refused, Err(AppendError::Conflict(_))),
        "{refused:?}"
    );
    assert_eq!(highest(&items).await, 150);
}

/// The low marker is read from the shards where it can be: next to the event that was left.
#[tokio::test]
async fn a_jvm_event_that_the_jvm_failed_to_delete_does_not_lower_the_highest() {
    for last in [50, 99, 100, 150, 198, 199, 200, 1_099, 1_100] {
        for shards in [1, 2, 10] {
            let (items, _) = table().await;
            let plugin = Plugin::new(&items, shards);
            plugin.write_all(1..=last).await;
            // One is left in the last hundred, if that has others.
            let left = (last / 100 * 100).max(1);
            plugin.delete_to(last, |n| n == left).await;
            let settings = AnyLayout {
                sequence_shards: u32::try_from(shards).unwrap(),
                ..akka()
            };
            assert_eq!(plugin.highest().await, left, "the plugin is wrong");
            assert_eq!(highest_with(&items, &settings).await, last);
        }
    }
    // With the last high marker lost as well, the low marker is a hundred further.
    let (items, plugin) = table().await;
    plugin.write_all(1..=250).await;
    plugin.delete_to(250, |n| n == 150).await;
    lose_high_marker(&items, &plugin, 2).await;
    assert_eq!(plugin.highest().await, 150);
    assert_eq!(highest(&items).await, 250);
    // With two of them lost, and no rows between that marker and the stored events.
    let (items, plugin) = table().await;
    plugin.write_all(1..=298).await;
    plugin.write_all(300..=310).await;
    plugin.delete_to(298, |n| n == 150).await;
    for shard in [2, 3] {
        lose_high_marker(&items, &plugin, shard).await;
    }
    assert_eq!(plugin.highest().await, 150);
    assert_eq!(highest(&items).await, 310);
}

/// Another reason for `jvm-deletes`.
#[tokio::test]
async fn our_event_that_the_jvm_failed_to_delete_lowers_the_highest_without_jvm_deletes() {
    let (items, plugin) = table().await;
    fill_singly(&items, 150).await;
    plugin.delete_to(150, |n| n == 120).await;
    assert_eq!(plugin.highest().await, 120);
    let deleting = AnyLayout {
        jvm_deletes: true,
        ..akka()
    };
    assert_eq!(highest_with(&items, &deleting).await, 150);
    assert_eq!(highest(&items).await, 120, "as the plugin has it");
    // An append finds the right end with either setting, and repairs it.
    for settings in [deleting, akka()] {
        let journal = open_as(&items, &settings).await;
        let refused = append(&journal, after(120), 1).await;
        assert!(
            matches!(refused, Err(AppendError::Conflict(_))),
            "{refused:?}"
        );
    }
    assert_eq!((highest(&items).await, plugin.highest().await), (150, 150));
    let journal = open_as(&items, &akka()).await;
    let appended = append(&journal, Expected::Any, 1).await;
    assert_eq!(appended.unwrap(), (151, 151));
    assert_eq!(highest(&items).await, 151);
}

#[tokio::test]
async fn after_an_emptied_event_the_low_markers_count() {
    let (items, plugin) = table().await;
    fill_singly(&items, 5).await;
    let journal = open_as(&items, &akka()).await;
    journal.delete_to(&id(), number(5)).await.unwrap();
    assert_eq!(highest(&items).await, 5);
    // The JVM continues, and removes its events.
    plugin.write_all(6..=8).await;
    plugin.delete_to(8, |_| false).await;
    assert_eq!(plugin.highest().await, 5, "6 to 8 are used again");
    assert_eq!(highest(&items).await, 8);
}
