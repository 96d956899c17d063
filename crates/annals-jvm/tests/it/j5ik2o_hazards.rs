//! What goes wrong with j5ik2o's journal table under the plugin's own algorithms, and does not under
//! ours. Each test shows both sides: the plugin's, in the model of `j5ik2o_plugin`, and ours.

use std::sync::Arc;

use annals::items::{Condition, Item, Items, Value, Write};
use annals::journal::{AppendError, Expected, Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::verify::{Problem, Verify};
use annals::{Error, ErrorKind, Event, PersistenceId, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_jvm::settings::PartitionKeyKind::{self, PersistenceIdBased, SequenceNumberBased};
use annals_jvm::settings::ReplayFilterMode;
use annals_testkit::lagging::{Lag, Lagging};
use futures::TryStreamExt;

use crate::j5ik2o_plugin::{ID, Plugin, Read, j5ik2o};
use annals_testkit::journals::{after, number, open_as, text};

const KINDS: [PartitionKeyKind; 2] = [PersistenceIdBased, SequenceNumberBased];

fn id_of(text: &str) -> PersistenceId {
    text.parse().unwrap()
}

fn id() -> PersistenceId {
    id_of(ID)
}

/// Tables with an index of configurable lag, and the plugin on them.
async fn late(kind: PartitionKeyKind) -> (Arc<Lagging>, Arc<dyn Items>, Plugin) {
    let lagging = Arc::new(Lagging::new(Arc::new(Memory::new()), Lag::Held));
    let items: Arc<dyn Items> = lagging.clone();
    let plugin = create(&items, kind).await;
    (lagging, items, plugin)
}

async fn table(kind: PartitionKeyKind) -> (Arc<dyn Items>, Plugin) {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let plugin = create(&items, kind).await;
    (items, plugin)
}

async fn create(items: &Arc<dyn Items>, kind: PartitionKeyKind) -> Plugin {
    let plugin = Plugin::new(items, kind);
    let created = items.create_table(&plugin.table, Default::default());
    created.await.unwrap();
    plugin
}

fn hard(kind: PartitionKeyKind) -> AnyLayout {
    let mut settings = j5ik2o(kind);
    settings.j5ik2o.dynamo_db_journal.soft_delete = false;
    settings
}

async fn replay(journal: &Journal, id: &PersistenceId) -> Result<Vec<Read>, Error> {
    let events: Vec<Event> = journal.replay(id, Window::ALL).try_collect().await?;
    let read = events.into_iter().map(|event| {
        let text = String::from_utf8(event.data.payload.to_vec()).unwrap();
        (event.sequence_number.get(), text)
    });
    Ok(read.collect())
}

async fn numbers(journal: &Journal) -> Vec<u64> {
    let read = replay(journal, &id()).await.unwrap();
    read.iter().map(|(number, _)| *number).collect()
}

async fn highest(journal: &Journal) -> u64 {
    let highest = journal.highest(&id()).await.unwrap();
    highest.map_or(0, SequenceNumber::get)
}

fn up_to(last: u64) -> Vec<u64> {
    (1..=last).collect()
}

/// With a lagging index the plugin recovers too few events and overwrites acknowledged ones.
#[tokio::test]
async fn a_lagging_index_loses_nothing() {
    for kind in KINDS {
        let (lagging, items, plugin) = late(kind).await;
        plugin.persist_each(ID, 1..=10).await;
        lagging.catch_up().await.unwrap();
        plugin.persist(ID, 11, "acknowledged").await;
        // Another node recovers before the index has it, and continues.
        assert_eq!(plugin.highest(ID).await, 10);
        let n = plugin.highest(ID).await + 1;
        plugin.persist(ID, n, "over it").await;
        lagging.catch_up().await.unwrap();
        assert_eq!(plugin.replay(ID).await[10].1, "over it");

        let (lagging, items_of_ours, plugin) = late(kind).await;
        drop(items);
        plugin.persist_each(ID, 1..=10).await;
        lagging.catch_up().await.unwrap();
        plugin.persist(ID, 11, "acknowledged").await;
        let journal = open_as(&items_of_ours, &j5ik2o(kind)).await;
        assert_eq!(highest(&journal).await, 11, "{kind}");
        assert_eq!(
            replay(&journal, &id()).await.unwrap()[10].1,
            "acknowledged",
            "{kind}"
        );
        let late = journal.append(&id(), after(10), text("over it")).await;
        assert!(matches!(late, Err(AppendError::Conflict(_))), "{kind}");
        assert_eq!(plugin.replay(ID).await.len(), 10, "the index is still late");
    }
}

/// The plugin replays a batch that the index has in part, with a gap and without an error.
#[tokio::test]
async fn a_hole_in_the_index_is_filled_or_an_error() {
    for kind in KINDS {
        let (lagging, items, plugin) = late(kind).await;
        plugin.persist_each(ID, 1..=2).await;
        plugin.persist_each(ID, 4..=5).await;
        lagging.catch_up().await.unwrap();
        plugin.persist(ID, 3, "3").await;
        let read: Vec<u64> = plugin.replay(ID).await.iter().map(|(n, _)| *n).collect();
        assert_eq!(read, [1, 2, 4, 5], "the plugin leaves 3 out");
        let journal = open_as(&items, &j5ik2o(kind)).await;
        assert_eq!(numbers(&journal).await, up_to(5), "{kind}");

        // A lost event is an error, not a shorter history.
        let (items, plugin) = table(kind).await;
        plugin.persist_each(ID, 1..=2).await;
        plugin.persist_each(ID, 4..=5).await;
        assert_eq!(plugin.replay(ID).await.len(), 4);
        let journal = open_as(&items, &j5ik2o(kind)).await;
        let error = replay(&journal, &id()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{kind}");
        assert!(error.to_string().contains("from=`3`, to=`3`"), "{error}");
    }
}

/// With two live writers the plugin overwrites an acknowledged event.
#[tokio::test]
async fn a_zombie_overwrites_nothing() {
    for kind in KINDS {
        let (items, plugin) = table(kind).await;
        plugin.persist_each(ID, 1..=3).await;
        plugin.persist(ID, 4, "new").await;
        plugin.persist(ID, 4, "zombie").await;
        assert_eq!(plugin.replay(ID).await[3].1, "zombie");

        let (items_of_ours, plugin) = table(kind).await;
        drop(items);
        plugin.persist_each(ID, 1..=3).await;
        let (new, zombie) = (
            open_as(&items_of_ours, &j5ik2o(kind)).await,
            open_as(&items_of_ours, &j5ik2o(kind)).await,
        );
        assert_eq!(numbers(&new).await, numbers(&zombie).await);
        new.append(&id(), after(3), text("new")).await.unwrap();
        let refused = zombie.append(&id(), after(3), text("zombie")).await;
        let Err(AppendError::Conflict(conflict)) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(conflict.found[0].data.payload, "new");
        assert_eq!(plugin.replay(ID).await[3].1, "new");
    }
}

/// `persistAll` stops half way: the plugin replays the half.
#[tokio::test]
async fn an_incomplete_batch_is_not_replayed() {
    for kind in KINDS {
        let (items, plugin) = table(kind).await;
        plugin.persist(ID, 1, "1").await;
        plugin.persist_each(ID, 2..=4).await;
        assert_eq!(plugin.replay(ID).await.len(), 4, "1, and three of 2 to 6");

        let (items_of_ours, plugin) = table(kind).await;
        drop(items);
        let journal = open_as(&items_of_ours, &j5ik2o(kind)).await;
        journal.append(&id(), after(0), text("1")).await.unwrap();
        let batch: Vec<_> = (2..=6).map(|n| text(n.to_string())).collect();
        journal.append(&id(), after(1), batch).await.unwrap();
        // As if it was interrupted before its last two.
        for n in 5..=6 {
            let key = plugin.key(ID, n);
            let deleted = items_of_ours.delete(&plugin.table, key, Condition::Always);
            deleted.await.unwrap();
        }
        let journal = open_as(&items_of_ours, &j5ik2o(kind)).await;
        assert_eq!(numbers(&journal).await, [1], "{kind}");
        assert_eq!(highest(&journal).await, 1);
        let found = journal.verify(&id(), Verify::Check).await.unwrap();
        assert_eq!(found[0].problem, Problem::IncompleteBatch);

        // The next append closes it, and then the plugin replays the same.
        let appended = journal.append(&id(), after(1), text("next")).await.unwrap();
        assert_eq!(appended.first.get(), 7);
        let want = vec![(1, "1".to_owned()), (7, "next".to_owned())];
        assert_eq!(replay(&journal, &id()).await.unwrap(), want);
        assert_eq!(plugin.replay(ID).await, want);
        assert_eq!(plugin.highest(ID).await, 7);
        let found = journal.verify(&id(), Verify::Check).await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}

/// If one event of a batch cannot be stored, the plugin stores the others, with a gap.
#[tokio::test]
async fn an_event_that_cannot_be_stored_leaves_no_gap() {
    let (items, plugin) = table(PersistenceIdBased).await;
    plugin.persist(ID, 1, "1").await;
    plugin.persist(ID, 3, "3").await;
    assert_eq!(plugin.highest(ID).await, 3);

    let (items_of_ours, plugin) = table(PersistenceIdBased).await;
    drop(items);
    let journal = open_as(&items_of_ours, &j5ik2o(PersistenceIdBased)).await;
    journal.append(&id(), after(0), text("1")).await.unwrap();
    let bad = text("2").tag("a,b");
    let both = vec![bad, text("3")];
    let refused = Error::from(journal.append(&id(), after(1), both).await.unwrap_err());
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("tag-separator"), "{refused}");
    journal.append(&id(), after(1), text("2")).await.unwrap();
    assert_eq!(plugin.replay(ID).await.len(), 2);
}

/// Ids whose keys are the same overwrite each other's events.
#[tokio::test]
async fn ids_with_colliding_keys_are_an_error_that_names_both() {
    for (one, other) in [("a", "n"), ("order-2021-0001", "order-2021-0012")] {
        let (items, plugin) = table(PersistenceIdBased).await;
        plugin.persist(one, 1, "mine").await;
        plugin.persist(other, 1, "over it").await;
        assert!(plugin.replay(one).await.is_empty(), "gone without a word");
        let journal = open_as(&items, &j5ik2o(PersistenceIdBased)).await;
        plugin.persist(one, 2, "2").await;
        let found = journal.verify(&id_of(one), Verify::Repair).await.unwrap();
        assert_eq!(found[0].problem, Problem::Collision, "{found:?}");
        assert!(found[0].detail.contains(other), "{found:?}");

        let (items_of_ours, _) = table(PersistenceIdBased).await;
        let journal = open_as(&items_of_ours, &j5ik2o(PersistenceIdBased)).await;
        let mine = journal.append(&id_of(one), after(0), text("mine")).await;
        mine.unwrap();
        for expected in [after(0), Expected::Any] {
            let over = journal
                .append(&id_of(other), expected, text("over it"))
                .await;
            let refused = Error::from(over.unwrap_err());
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            let said = refused.to_string();
            assert!(said.contains(&format!("id=`{other}`")), "{said}");
            assert!(said.contains(&format!("other=`{one}`")), "{said}");
        }
        let kept = replay(&journal, &id_of(one)).await.unwrap();
        assert_eq!(kept, [(1, "mine".to_owned())]);
        assert!(replay(&journal, &id_of(other)).await.unwrap().is_empty());

        // With the id in the partition key they do not collide.
        let (items, _) = table(SequenceNumberBased).await;
        let journal = open_as(&items, &j5ik2o(SequenceNumberBased)).await;
        for id in [one, other] {
            let own = journal.append(&id_of(id), after(0), text(id)).await;
            own.unwrap();
        }
    }
}

/// After a change of settings, the plugin's deletion flags copies, and the rows stay.
#[tokio::test]
async fn rows_of_older_settings_are_replayed_and_deleted_under_their_keys() {
    // Until v1.11 keys were spread by number; since then by id.
    let (items, before) = table(SequenceNumberBased).await;
    before.persist_each(ID, 1..=6).await;
    let after_upgrade = Plugin {
        kind: PersistenceIdBased,
        ..before.clone()
    };
    after_upgrade.persist_each(ID, 7..=9).await;
    assert_eq!(after_upgrade.replay(ID).await.len(), 9);
    after_upgrade.delete_to(ID, 4).await.unwrap();
    let left: Vec<u64> = after_upgrade.replay(ID).await.iter().map(|r| r.0).collect();
    assert_eq!(left, up_to(9), "still there");
    let journal = open_as(&items, &j5ik2o(PersistenceIdBased)).await;
    let found = journal.verify(&id(), Verify::Check).await.unwrap();
    let is_twice = |n: u64| {
        found
            .iter()
            .any(|f| f.problem == Problem::Collision && f.numbers.unwrap().0.get() == n)
    };
    assert!((1..=4).all(is_twice), "{found:?}");

    for (from, to) in [
        (SequenceNumberBased, PersistenceIdBased),
        (PersistenceIdBased, SequenceNumberBased),
    ] {
        for settings in [j5ik2o(to), hard(to)] {
            let (items, before) = table(from).await;
            before.persist_each(ID, 1..=6).await;
            let since = Plugin {
                kind: to,
                ..before.clone()
            };
            since.persist_each(ID, 7..=9).await;
            let journal = open_as(&items, &settings).await;
            assert_eq!(numbers(&journal).await, up_to(9));
            assert_eq!(highest(&journal).await, 9);
            journal.delete_to(&id(), number(4)).await.unwrap();
            assert_eq!(numbers(&journal).await, [5, 6, 7, 8, 9]);
            let left: Vec<u64> = since.replay(ID).await.iter().map(|r| r.0).collect();
            assert_eq!(left, [5, 6, 7, 8, 9], "nor does the plugin see them");
            let appended = journal.append(&id(), after(9), text("10")).await.unwrap();
            assert_eq!(appended.first.get(), 10);
        }
    }
}

/// Only rows of older settings: none has the current keys.
#[tokio::test]
async fn an_id_with_only_rows_of_older_settings_continues() {
    let (items, before) = table(SequenceNumberBased).await;
    before.persist_each(ID, 1..=3).await;
    for _ in 0..2 {
        let journal = open_as(&items, &j5ik2o(PersistenceIdBased)).await;
        assert_eq!(highest(&journal).await, 3);
        let early = journal
            .append(&id(), Expected::Empty, text("over it"))
            .await;
        assert!(matches!(early, Err(AppendError::Conflict(_))));
    }
    let journal = open_as(&items, &j5ik2o(PersistenceIdBased)).await;
    let appended = journal
        .append(&id(), Expected::Any, text("4"))
        .await
        .unwrap();
    assert_eq!(appended.first.get(), 4);
    assert_eq!(numbers(&journal).await, up_to(4));
}

/// In the plugin, removing all rows makes the highest 0, so that numbers are reused; removing one row
/// or none fails.
#[tokio::test]
async fn a_hard_deletion_keeps_the_numbers() {
    for kind in KINDS {
        let (_, mut plugin) = table(kind).await;
        plugin.soft = false;
        plugin.persist_each(ID, 1..=5).await;
        assert!(plugin.delete_to(ID, 1).await.is_err(), "one row");
        plugin.delete_to(ID, 5).await.unwrap();
        assert!(plugin.delete_to(ID, 5).await.is_err(), "no row");
        assert_eq!(plugin.highest(ID).await, 0);

        let (items, mut plugin) = table(kind).await;
        plugin.soft = false;
        plugin.persist_each(ID, 1..=5).await;
        let zombie = open_as(&items, &hard(kind)).await;
        assert_eq!(numbers(&zombie).await, up_to(5));
        let journal = open_as(&items, &hard(kind)).await;
        for to in [1, 1, 5, 5] {
            journal.delete_to(&id(), number(to)).await.unwrap();
        }
        assert!(plugin.replay(ID).await.is_empty());
        for journal in [&journal, &open_as(&items, &hard(kind)).await] {
            assert_eq!(highest(journal).await, 5, "{kind}");
            assert!(numbers(journal).await.is_empty());
        }
        // A writer that stalled before the deletion gets a conflict.
        journal.append(&id(), after(5), text("6")).await.unwrap();
        journal.delete_to(&id(), number(6)).await.unwrap();
        let late = zombie.append(&id(), after(5), text("late")).await;
        assert!(matches!(late, Err(AppendError::Conflict(_))), "{late:?}");
    }
}

/// The plugin's hard deletion leaves no trace except for the rows after it.
#[tokio::test]
async fn rows_removed_by_the_plugin_are_no_gap_with_hard_deletion() {
    for kind in KINDS {
        let (items, mut plugin) = table(kind).await;
        plugin.soft = false;
        plugin.persist_each(ID, 1..=8).await;
        plugin.delete_to(ID, 5).await.unwrap();
        let journal = open_as(&items, &hard(kind)).await;
        assert_eq!(numbers(&journal).await, [6, 7, 8], "{kind}");
        // With soft deletion, the default, they are missing.
        let journal = open_as(&items, &j5ik2o(kind)).await;
        let error = replay(&journal, &id()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}

/// Rows that the plugin flagged are deleted, even if the deletion was interrupted.
#[tokio::test]
async fn rows_that_the_plugin_flagged_are_skipped() {
    for kind in KINDS {
        let (items, plugin) = table(kind).await;
        plugin.persist_each(ID, 1..=8).await;
        plugin.delete_to(ID, 5).await.unwrap();
        let journal = open_as(&items, &j5ik2o(kind)).await;
        assert_eq!(numbers(&journal).await, [6, 7, 8], "{kind}");
        assert_eq!(highest(&journal).await, 8);
        // An interrupted deletion: 6 is still stored, 7 is not.
        let marked = plugin.item(ID, 7, "7").with("deleted", true);
        let written = items.write(&plugin.table, vec![Write::Put(marked)]);
        written.await.unwrap();
        assert_eq!(numbers(&journal).await, [6, 8]);
    }
}

/// An incomplete or damaged item is an error.
#[tokio::test]
async fn items_that_do_not_parse_are_errors() {
    for kind in KINDS {
        let damage: [fn(Item) -> Item; 6] = [
            |item| item.with("message", vec![1, 2, 3]),
            |item| item.with("message", "text"),
            |item| item.with("deleted", "no"),
            |item| item.with("idx", "1"),
            |item| item.with("cnt", 3u64),
            |item| {
                let other = crate::j5ik2o_plugin::message("another-1", 2, "2");
                item.with("message", other)
            },
        ];
        for damage in damage {
            let (items, plugin) = table(kind).await;
            plugin.persist_each(ID, 1..=3).await;
            let damaged = damage(plugin.item(ID, 2, "2"));
            let put = items.put(&plugin.table, damaged, Condition::Always);
            put.await.unwrap();
            let journal = open_as(&items, &j5ik2o(kind)).await;
            let error = replay(&journal, &id()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
    }
}

/// Tags are read from any of the plugin's tables.
#[tokio::test]
async fn tags_that_the_plugin_stored_are_read() {
    let (items, plugin) = table(PersistenceIdBased).await;
    let tagged = plugin
        .item(ID, 1, "1")
        .with("tags", Value::from("red,blue"));
    let put = items.put(&plugin.table, tagged, Condition::Always);
    put.await.unwrap();
    let journal = open_as(&items, &j5ik2o(PersistenceIdBased)).await;
    let events: Vec<Event> = journal
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(events[0].data.tags, ["red", "blue"]);
}

/// After an upgrade the plugin flags copies under the current keys, before rows of older settings.
#[tokio::test]
async fn rows_of_older_settings_after_current_ones_are_found() {
    let (items, before) = table(SequenceNumberBased).await;
    before.persist_each(ID, 1..=10).await;
    let since = Plugin {
        kind: PersistenceIdBased,
        ..before.clone()
    };
    since.delete_to(ID, 5).await.unwrap();
    // The model's events have no writer, so the replay filter treats them as one writer's.
    let mut settings = j5ik2o(PersistenceIdBased);
    settings.replay_filter.mode = ReplayFilterMode::Off;
    let journal = open_as(&items, &settings).await;
    assert_eq!(highest(&journal).await, 10);
    assert_eq!(numbers(&journal).await, [6, 7, 8, 9, 10]);
    let appended = journal.append(&id(), Expected::Any, text("11")).await;
    assert_eq!(appended.unwrap().first.get(), 11);
    // And back again: a writer with the older settings.
    before.persist_each(ID, 12..=13).await;
    let journal = open_as(&items, &settings).await;
    assert_eq!(highest(&journal).await, 13);
    assert_eq!(numbers(&journal).await.last(), Some(&13));
    let late = journal.append(&id(), after(11), text("over it")).await;
    assert!(matches!(late, Err(AppendError::Conflict(_))));
}

/// Deleted events stay deleted when settings change, and their numbers are not reused.
#[tokio::test]
async fn a_deletion_survives_a_change_of_settings() {
    let with_shards = |shards| {
        let mut settings = hard(PersistenceIdBased);
        settings.j5ik2o.dynamo_db_journal.shard_count = shards;
        settings
    };
    for (before, since) in [
        (hard(SequenceNumberBased), hard(PersistenceIdBased)),
        (hard(PersistenceIdBased), hard(SequenceNumberBased)),
        (with_shards(64), with_shards(128)),
    ] {
        let (items, _) = table(PersistenceIdBased).await;
        let journal = open_as(&items, &before).await;
        for n in 0..3 {
            journal.append(&id(), after(n), text("x")).await.unwrap();
        }
        // Some with the older settings, the rest with the current ones.
        journal.delete_to(&id(), number(1)).await.unwrap();
        let journal = open_as(&items, &since).await;
        journal.delete_to(&id(), number(3)).await.unwrap();
        for _ in 0..2 {
            let journal = open_as(&items, &since).await;
            assert_eq!(highest(&journal).await, 3);
            assert!(numbers(&journal).await.is_empty());
            for stale in [0, 2] {
                let stale = journal.append(&id(), after(stale), text("lost")).await;
                assert!(matches!(stale, Err(AppendError::Conflict(_))), "{stale:?}");
            }
        }
        let journal = open_as(&items, &since).await;
        let appended = journal.append(&id(), after(3), text("4")).await.unwrap();
        assert_eq!(appended.first.get(), 4);
        let found = journal.verify(&id(), Verify::Check).await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}

/// Deleting events of one id does not affect another with the same keys.
#[tokio::test]
async fn ids_that_share_keys_have_separate_markers() {
    let (items, before) = table(SequenceNumberBased).await;
    before.persist_each("a", 1..=5).await;
    before.persist_each("n", 1..=5).await;
    let journal = open_as(&items, &j5ik2o(PersistenceIdBased)).await;
    journal.delete_to(&id_of("a"), number(4)).await.unwrap();
    assert_eq!(replay(&journal, &id_of("n")).await.unwrap().len(), 5);
    journal.delete_to(&id_of("n"), number(2)).await.unwrap();
    assert_eq!(replay(&journal, &id_of("a")).await.unwrap().len(), 1);
    assert_eq!(replay(&journal, &id_of("n")).await.unwrap().len(), 3);
    journal.purge(&id_of("n")).await.unwrap();
    assert_eq!(replay(&journal, &id_of("a")).await.unwrap().len(), 1);
}

/// A window that starts inside a batch under keys of older settings.
#[tokio::test]
async fn a_window_starts_inside_a_batch_of_older_settings() {
    let (items, _) = table(SequenceNumberBased).await;
    let journal = open_as(&items, &j5ik2o(SequenceNumberBased)).await;
    let batch: Vec<_> = (1..=5).map(|n| text(n.to_string())).collect();
    journal.append(&id(), after(0), batch).await.unwrap();
    let journal = open_as(&items, &j5ik2o(PersistenceIdBased)).await;
    let events: Vec<Event> = journal
        .replay(&id(), annals_testkit::journals::window(1..=3, 10))
        .try_collect()
        .await
        .unwrap();
    assert_eq!(events.len(), 3);
}

/// Rows that the plugin removed after ones that we emptied.
#[tokio::test]
async fn numbers_below_the_marker_are_not_reused() {
    for kind in KINDS {
        let (items, mut plugin) = table(kind).await;
        plugin.soft = false;
        let journal = open_as(&items, &hard(kind)).await;
        for n in 0..6 {
            journal.append(&id(), after(n), text("x")).await.unwrap();
        }
        journal.delete_to(&id(), number(3)).await.unwrap();
        plugin.delete_to(ID, 6).await.unwrap();
        let journal = open_as(&items, &hard(kind)).await;
        assert_eq!(highest(&journal).await, 6, "{kind}");
        let appended = journal.append(&id(), Expected::Any, text("7")).await;
        assert_eq!(appended.unwrap().first.get(), 7, "{kind}");
    }
}

/// An id for which the current settings give no key does not stop the verification of others, and a
/// column with the name of one of our attributes is an error.
#[tokio::test]
async fn ids_without_a_key_are_rejected() {
    let (items, _) = table(SequenceNumberBased).await;
    let mut settings = j5ik2o(SequenceNumberBased);
    let journal = &mut settings.j5ik2o.dynamo_db_journal;
    journal.sort_key_resolver_class_name = annals_jvm::settings::SortKeyKind::SeqNr;
    let journal = open_as(&items, &settings).await;
    let bare = id_of("bare-");
    journal.append(&bare, after(0), text("1")).await.unwrap();
    let journal = open_as(&items, &j5ik2o(PersistenceIdBased)).await;
    let found = journal.verify(&bare, Verify::Check).await.unwrap();
    assert_eq!(found[0].problem, Problem::Unreadable);
    let refused = replay(&journal, &bare).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);

    for name in ["number", "annals-id", "deleted"] {
        let mut settings = j5ik2o(PersistenceIdBased);
        let columns = &mut settings.j5ik2o.dynamo_db_journal.columns_def;
        columns.ordering_column_name = name.to_owned();
        let refused = settings.tables().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{name}");
    }
}
