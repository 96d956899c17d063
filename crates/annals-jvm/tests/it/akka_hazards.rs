//! What goes wrong with the JVM plugin's tables under its own algorithms, and does not under ours.
//! Each test shows both sides: the plugin's, in the model of `akka_plugin`, and ours.

use std::sync::Arc;

use annals::items::{Items, Value};
use annals::journal::{AppendError, Expected, Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::{Error, ErrorKind, Event, NewEvent, PersistenceId, Random, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_jvm::settings::{Gaps, ReplayFilterMode, ReplayFilterSettings};
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::store;
use futures::TryStreamExt;

use crate::akka_plugin::{ID, Plugin, Read, Unprocessed, akka};
use annals_testkit::journals::{after, number, open_as, text, window};

fn id() -> PersistenceId {
    ID.parse().unwrap()
}

/// A store with the tables, and the plugin on it.
async fn table(shards: u64) -> (Arc<dyn Items>, Plugin) {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let settings = akka();
    for table in settings.tables().unwrap().all() {
        let created = items.create_table(table, Default::default());
        created.await.unwrap();
    }
    let plugin = Plugin::new(&items, shards);
    (items, plugin)
}

fn with_shards(shards: u32) -> AnyLayout {
    AnyLayout {
        sequence_shards: shards,
        ..akka()
    }
}

fn skipping() -> AnyLayout {
    AnyLayout {
        gaps: Gaps::Skip,
        ..akka()
    }
}

async fn replay(journal: &Journal, window: Window) -> Result<Vec<Read>, Error> {
    let events: Vec<Event> = journal.replay(&id(), window).try_collect().await?;
    let read = events.into_iter().map(|event| {
        let text = String::from_utf8(event.data.payload.to_vec()).unwrap();
        (event.sequence_number.get(), text)
    });
    Ok(read.collect())
}

async fn all(items: &Arc<dyn Items>) -> Vec<u64> {
    let journal = open_as(items, &akka()).await;
    numbers(&replay(&journal, Window::ALL).await.unwrap())
}

fn numbers(read: &[Read]) -> Vec<u64> {
    read.iter().map(|(number, _)| *number).collect()
}

async fn highest(journal: &Journal) -> u64 {
    let highest = journal.highest(&id()).await.unwrap();
    highest.map_or(0, SequenceNumber::get)
}

async fn append(journal: &Journal, last: u64, count: u64) {
    let events: Vec<NewEvent> = (1..=count).map(|n| text((last + n).to_string())).collect();
    let appended = journal.append(&id(), after(last), events).await.unwrap();
    assert_eq!(appended.first.get(), last + 1);
}

#[tokio::test]
async fn h1_a_zombie_overwrites_nothing() {
    let (_, plugin) = table(10).await;
    plugin.write_all(1..=3).await;
    // The old incarnation's put hangs; the new one writes, and is acknowledged.
    plugin.write(4, "new").await;
    plugin.write(4, "zombie").await;
    let read = plugin.recover().await;
    assert_eq!(read[3].1, "zombie", "the acknowledged one is lost");

    let (items, _) = table(10).await;
    let (new, zombie) = (
        open_as(&items, &akka()).await,
        open_as(&items, &akka()).await,
    );
    append(&new, 0, 3).await;
    assert_eq!(replay(&zombie, Window::ALL).await.unwrap().len(), 3);
    new.append(&id(), after(3), text("new")).await.unwrap();
    let refused = zombie.append(&id(), after(3), text("zombie")).await;
    assert!(matches!(refused, Err(AppendError::Conflict(_))));
    let read = replay(&open_as(&items, &akka()).await, Window::ALL).await;
    assert_eq!(read.unwrap()[3].1, "new");
}

#[tokio::test]
async fn h1_a_zombie_does_not_write_where_events_were_deleted() {
    let (_, plugin) = table(10).await;
    plugin.write_all(1..=5).await;
    plugin.delete_to(5, |_| false).await;
    // Its put is stored and acknowledged.
    plugin.write(4, "zombie").await;
    assert_eq!(plugin.recover().await, [], "what was acknowledged is lost");

    let (items, _) = table(10).await;
    let (new, zombie) = (
        open_as(&items, &akka()).await,
        open_as(&items, &akka()).await,
    );
    append(&new, 0, 3).await;
    assert_eq!(replay(&zombie, Window::ALL).await.unwrap().len(), 3);
    append(&new, 3, 2).await;
    new.delete_to(&id(), number(5)).await.unwrap();
    let refused = zombie.append(&id(), after(3), text("zombie")).await;
    assert!(matches!(refused, Err(AppendError::Conflict(_))));
    // And the plugin, which never reads below its low marker, replays the same.
    let plugin = Plugin::new(&items, 10);
    assert_eq!(
        (plugin.highest().await, plugin.recover().await),
        (5, vec![])
    );
}

#[tokio::test]
async fn h2_an_unprocessed_event_is_an_error() {
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=99).await;
    plugin.write_but(100, "100", Unprocessed::Event).await;
    plugin.write_all(101..=103).await;
    let read = numbers(&plugin.recover().await);
    assert_eq!((read.len(), read.contains(&100)), (102, false), "silently");
    let journal = open_as(&items, &akka()).await;
    let told = replay(&journal, Window::ALL).await.unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Corrupt);
    assert!(told.to_string().contains("from=`100`, to=`100`"), "{told}");
}

#[tokio::test]
async fn h2_an_unprocessed_marker_hides_nothing() {
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=99).await;
    plugin.write_but(100, "100", Unprocessed::Mark).await;
    plugin.write_all(101..=150).await;
    assert_eq!(plugin.highest().await, 99, "51 events will be overwritten");
    let journal = open_as(&items, &akka()).await;
    assert_eq!(highest(&journal).await, 150);
    assert_eq!(all(&items).await, (1..=150).collect::<Vec<_>>());
    append(&open_as(&items, &akka()).await, 150, 1).await;
    assert_eq!(plugin.highest().await, 151, "the mark is mended");
}

#[tokio::test]
async fn h2_our_hundredth_event_is_not_acknowledged_before_its_marker() {
    // Batch failures do not matter: these are single puts.
    let (items, plugin) = table(10).await;
    let lossy = Faults {
        unprocessed: 1_000,
        ..Faults::none()
    };
    let faulty: Arc<dyn Items> = Arc::new(Faulty::new(items.clone(), Random::seeded(1), lossy));
    append(&open_as(&faulty, &akka()).await, 0, 99).await;
    append(&open_as(&faulty, &akka()).await, 99, 1).await;
    assert_eq!(plugin.highest().await, 100);
    // A response lost between event and marker: unavailable, and recognised when repeated.
    for seed in 0..200 {
        let (items, plugin) = table(10).await;
        append(&open_as(&items, &akka()).await, 0, 99).await;
        let failing = Faults {
            error: 300,
            lost_answer: 300,
            ..Faults::none()
        };
        let faulty: Arc<dyn Items> =
            Arc::new(Faulty::new(items.clone(), Random::seeded(seed), failing));
        let clock = Arc::new(annals::ManualClock::at_ms(1));
        let opened = akka()
            .journal(&store(faulty, clock, Random::seeded(seed)))
            .await;
        let Ok(journal) = opened else { continue };
        if journal.append(&id(), after(99), text("100")).await.is_ok() {
            assert_eq!(plugin.highest().await, 100, "seed {seed}");
        }
    }
}

#[tokio::test]
async fn h3_a_rejection_at_a_boundary_truncates_nothing() {
    // A classic actor whose event 100 was too large: the number is used, nothing is stored.
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=99).await;
    plugin.write_all(101..=105).await;
    assert_eq!(plugin.highest().await, 99, "101 to 105 will be overwritten");
    let journal = open_as(&items, &skipping()).await;
    assert_eq!(highest(&journal).await, 105);
    let read = numbers(&replay(&journal, Window::ALL).await.unwrap());
    assert_eq!(read, (1..=99).chain(101..=105).collect::<Vec<_>>());
    let appended = open_as(&items, &akka()).await;
    let appended = appended.append(&id(), Expected::Any, text("106")).await;
    assert_eq!(appended.unwrap().first, number(106));
    assert_eq!(plugin.highest().await, 106, "the mark is mended");
    let told = replay(&open_as(&items, &akka()).await, Window::ALL).await;
    assert_eq!(
        told.unwrap_err().kind(),
        ErrorKind::Corrupt,
        "unless asked to skip"
    );
}

#[tokio::test]
async fn h4_the_rest_of_a_partly_deleted_batch_is_replayed() {
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=3).await;
    plugin.write_batch(4..=6).await;
    plugin.write(7, "7").await;
    // After a snapshot at 5.
    assert_eq!(numbers(&plugin.replay(6, 7).await), [7], "6 is lost");
    let journal = open_as(&items, &akka()).await;
    let read = replay(&journal, window(6..=7, u64::MAX)).await.unwrap();
    assert_eq!(numbers(&read), [6, 7]);
    // After a deletion of 4.
    plugin.delete_to(4, |_| false).await;
    assert_eq!(numbers(&plugin.recover().await), [7], "5 and 6 are lost");
    assert_eq!(all(&items).await, [5, 6, 7]);
}

#[tokio::test]
async fn h5_a_batch_across_two_windows_is_in_both() {
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=998).await;
    plugin.write_batch(999..=1_002).await;
    plugin.write_all(1_003..=1_010).await;
    let mut read = numbers(&plugin.replay(1, 1_000).await);
    read.extend(numbers(&plugin.replay(1_001, 1_010).await));
    assert_eq!(read.len(), 1_006, "the batch is lost");
    let journal = open_as(&items, &akka()).await;
    let mut read = Vec::new();
    for range in [1..=1_000, 1_001..=2_000] {
        let window = window(range, u64::MAX);
        read.extend(numbers(&replay(&journal, window).await.unwrap()));
    }
    assert_eq!(read, (1..=1_010).collect::<Vec<_>>());
}

#[tokio::test]
async fn h6_gaps_are_errors_and_partial_batches_are_not_events() {
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=9).await;
    plugin.remove(5).await;
    assert_eq!(plugin.recover().await.len(), 8, "silently");
    let told = replay(&open_as(&items, &akka()).await, Window::ALL).await;
    assert!(told.unwrap_err().to_string().contains("from=`5`, to=`5`"));
    // A batch of which the second group of requests failed: no gap, and no event either.
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=9).await;
    plugin.write_batch(10..=39).await;
    for n in 35..=39 {
        plugin.remove(n).await;
    }
    assert_eq!(plugin.highest().await, 34, "of which 25 are nobody's");
    assert_eq!(all(&items).await, (1..=9).collect::<Vec<_>>());
    // Our append takes the number of its last member, so that it can never be completed.
    let journal = open_as(&items, &akka()).await;
    let appended = journal.append(&id(), after(9), text("39")).await.unwrap();
    assert_eq!(appended.first, number(39));
    plugin.write_batch(35..=35).await;
    assert_eq!(plugin.recover().await.len(), 10);
}

#[tokio::test]
async fn h7_lowered_shards_are_an_error_if_we_recorded_them() {
    let (items, _) = table(10).await;
    append(&open_as(&items, &akka()).await, 0, 350).await;
    let lowered = Plugin::new(&items, 2);
    assert_ne!(lowered.highest().await, 350, "the plugin is wrong about it");
    let clock = Arc::new(annals::ManualClock::at_ms(1));
    for (shards, is_refused) in [(9, true), (1, true), (10, false), (20, false)] {
        let settings = with_shards(shards);
        let (items, clock) = (items.clone(), clock.clone());
        let opened = settings
            .journal(&store(items, clock, Random::seeded(1)))
            .await;
        assert_eq!(opened.is_err(), is_refused, "{shards}");
        if let Err(error) = opened {
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
    }
    // A higher number is recorded by the next append, and cannot be lowered again.
    append(&open_as(&items, &with_shards(20)).await, 350, 1).await;
    let opened = with_shards(10)
        .journal(&store(items, clock, Random::seeded(1)))
        .await;
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Invalid);
}

/// With ten shards on the JVM: the events of an id, its deletion, and the number of shards with which
/// the plugin is wrong about it.
async fn check_hidden(last: u64, deleted: u64, shards: u32) {
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=last).await;
    if deleted > 0 {
        plugin.delete_to(deleted, |_| false).await;
    }
    let what = format!("{last} events, {deleted} deleted, {shards} shards");
    let lowered = Plugin::new(&items, u64::from(shards));
    let is_wrong = (lowered.highest().await, lowered.recover().await)
        != (plugin.highest().await, plugin.recover().await);
    assert!(is_wrong, "{what}: the plugin is wrong about it");
    let refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
        assert!(error.to_string().contains("sequence-shards"), "{error}");
    };
    let settings = with_shards(shards);
    let journal = open_as(&items, &settings).await;
    refused(journal.highest(&id()).await.expect_err(&what));
    let journal = open_as(&items, &settings).await;
    refused(replay(&journal, Window::ALL).await.expect_err(&what));
    let journal = open_as(&items, &settings).await;
    for expected in [Expected::Any, Expected::Empty] {
        let appended = journal.append(&id(), expected, text("x")).await;
        refused(Error::from(appended.expect_err(&what)));
    }
    // With the original number there are no errors.
    let journal = open_as(&items, &with_shards(10)).await;
    assert_eq!(highest(&journal).await, last, "{what}");
}

#[tokio::test]
async fn h7_lowered_shards_are_an_error_if_only_the_jvm_wrote() {
    for (last, deleted, shards) in [
        (350, 0, 1),
        (350, 0, 2),
        (350, 120, 1),
        (350, 250, 1),
        (350, 350, 1),
        (350, 350, 2),
        (350, 350, 3),
        (450, 350, 2),
        (950, 700, 5),
        (950, 950, 5),
        (950, 950, 9),
        (1_250, 1_250, 2),
    ] {
        check_hidden(last, deleted, shards).await;
    }
}

#[tokio::test]
async fn h8_a_failed_read_of_markers_is_an_error_with_any_number_of_shards() {
    let (items, plugin) = table(150).await;
    // Hundreds 1 to 120: the last markers are in shards that the second request reads.
    for hundred in 0..120 {
        plugin
            .write_batch((hundred * 100).max(1)..=hundred * 100 + 99)
            .await;
    }
    plugin.write_all(12_000..=12_010).await;
    assert_eq!(plugin.highest().await, 12_010);
    let stale = plugin.highest_but(Some(1)).await;
    assert!(stale < 10_000, "the second request failed: {stale}");
    let settings = with_shards(150);
    let journal = open_as(&items, &settings).await;
    assert_eq!(highest(&journal).await, 12_010);
    let failing = Faults {
        error: 400,
        ..Faults::none()
    };
    let mut told = 0;
    for seed in 0..60 {
        let faulty: Arc<dyn Items> =
            Arc::new(Faulty::new(items.clone(), Random::seeded(seed), failing));
        let clock = Arc::new(annals::ManualClock::at_ms(1));
        let opened = settings
            .journal(&store(faulty, clock, Random::seeded(seed)))
            .await;
        let Ok(journal) = opened else { continue };
        match journal.highest(&id()).await {
            Ok(highest) => assert_eq!(highest, Some(number(12_010))),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable);
                told += 1;
            }
        }
    }
    assert!(told > 5, "{told}");
}

#[tokio::test]
async fn h9_deletions_that_fail_are_errors_and_resumable() {
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=250).await;
    plugin.delete_to(200, |n| n.is_multiple_of(7)).await;
    plugin.delete_to(240, |_| false).await;
    let key = vec![Plugin::key(7)];
    let orphan = items.get(&plugin.table, key).await.unwrap();
    assert!(orphan.items[0].is_some(), "nobody comes back for it");
    assert_eq!(
        all(&items).await,
        (241..=250).collect::<Vec<_>>(),
        "nor reads it"
    );

    let (items, plugin) = table(10).await;
    append(&open_as(&items, &akka()).await, 0, 250).await;
    let lossy = Faults {
        unprocessed: 1_000,
        ..Faults::none()
    };
    let faulty: Arc<dyn Items> = Arc::new(Faulty::new(items.clone(), Random::seeded(1), lossy));
    let journal = open_as(&faulty, &akka()).await;
    let told = journal.delete_to(&id(), number(200)).await.unwrap_err();
    assert_eq!(told.kind(), ErrorKind::Unavailable);
    assert_eq!(all(&items).await, (201..=250).collect::<Vec<_>>());
    // The next deletion, even a smaller one, finishes it.
    let journal = open_as(&items, &akka()).await;
    journal.delete_to(&id(), number(1)).await.unwrap();
    let keys = (1..=200).map(Plugin::key).collect();
    let rows = items.get(&plugin.table, keys).await.unwrap().items;
    let is_empty = |item: &annals::items::Item| item.get("event").is_none();
    assert!(rows.iter().flatten().all(is_empty));
    assert_eq!(all(&items).await, (201..=250).collect::<Vec<_>>());
}

#[tokio::test]
async fn h9_a_failed_deletion_does_not_lower_the_highest() {
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=150).await;
    plugin.delete_to(150, |n| n == 120).await;
    assert_eq!(
        plugin.highest().await,
        120,
        "121 to 150 are used again, and never read"
    );
    let journal = open_as(&items, &akka()).await;
    assert_eq!(highest(&journal).await, 150);
    append(&journal, 150, 1).await;
    assert_eq!(all(&items).await, [151]);
    assert_eq!(plugin.highest().await, 151);
}

#[tokio::test]
async fn the_replay_filter_has_its_four_modes() {
    // A zombie wrote after its successor: writers one, two, one.
    let (items, plugin) = table(10).await;
    plugin.write_all(1..=5).await;
    for n in [3, 4] {
        let key = vec![Plugin::key(n)];
        let mut item = items
            .get(&plugin.table, key)
            .await
            .unwrap()
            .items
            .remove(0)
            .unwrap();
        item.insert("writer_uuid", "11111111-2222-4333-8444-555555555555");
        plugin.put(item).await;
    }
    let modes = [
        (ReplayFilterMode::RepairByDiscardOld, Some(vec![1, 2, 3, 4])),
        (ReplayFilterMode::Fail, None),
        (ReplayFilterMode::Warn, Some(vec![1, 2, 3, 4, 5])),
        (ReplayFilterMode::Off, Some(vec![1, 2, 3, 4, 5])),
    ];
    for (mode, want) in modes {
        let settings = AnyLayout {
            replay_filter: ReplayFilterSettings {
                mode,
                ..Default::default()
            },
            ..akka()
        };
        let read = replay(&open_as(&items, &settings).await, Window::ALL).await;
        assert_eq!(read.ok().map(|read| numbers(&read)), want, "{mode:?}");
    }
}

#[tokio::test]
async fn h11_time_tags_and_metadata_are_kept() {
    let (items, plugin) = table(10).await;
    let journal = open_as(&items, &akka()).await;
    let event = text("1").tag("red").metadata("by", "alice");
    let appended = journal.append(&id(), Expected::Empty, event.clone()).await;
    let read: Vec<Event> = open_as(&items, &akka())
        .await
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(read[0].data, event);
    assert_eq!(read[0].time_ms, appended.unwrap().time_ms);
    // The plugin reads only these attributes: events that it rewrites lose the others.
    let key = vec![Plugin::key(1)];
    let item = items
        .get(&plugin.table, key)
        .await
        .unwrap()
        .items
        .remove(0)
        .unwrap();
    let asked = [
        "par",
        "num",
        "persistence_id",
        "seq",
        "pay",
        "event",
        "manifest",
        "ev_ser_id",
        "ev_ser_manifest",
        "writer_uuid",
        "cnt",
        "idx",
    ];
    let mut copied = annals::items::Item::new();
    for name in asked {
        if let Some(value) = item.get(name) {
            copied.insert(name, value.clone());
        }
    }
    plugin.put(copied).await;
    assert_eq!(plugin.recover().await, [(1, "1".to_owned())]);
    let read: Vec<Event> = open_as(&items, &akka())
        .await
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .unwrap();
    assert_eq!((read[0].time_ms, read[0].data.tags.len()), (0, 0));
    assert!(item.get("time").and_then(Value::as_u64).is_some());
}
