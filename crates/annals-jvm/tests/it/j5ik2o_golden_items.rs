//! Items of j5ik2o's plugin: for the same events we write the same items, including keys.

use std::sync::Arc;

use annals::items::{Item, Scan, Value, scan_all};
use annals::journal::{Expected, Window};
use annals::{Event, SequenceNumber};
use annals_jvm::settings::JournalColumns;
use futures::TryStreamExt;

use crate::j5ik2o_chapters::{Chapter, chapters, holding, id_of, open_at};

/// The length of a writer's uuid, which differs between appends.
const UUID: usize = 36;
/// The field of an event's bytes with its time: a varint, number 14. The plugin leaves it out; our
/// events have it, so that a replay on the JVM returns the time.
const TIME: u8 = 14 << 3;
/// The one event that Jackson compresses: our library compresses it to other bytes.
const PACKED: (&str, u64) = ("payloads-1", 19);

/// Without the deletion flag: as the plugin first wrote it.
fn undeleted(mut item: Item, columns: &JournalColumns) -> Item {
    item.insert(&columns.deleted_column_name, false);
    item
}

fn is_deleted(item: &Item, columns: &JournalColumns) -> bool {
    item.get(&columns.deleted_column_name) == Some(&Value::Bool(true))
}

/// The chapter's events, including deleted ones, as an id's history from the first one on.
async fn histories(chapter: &Chapter) -> Vec<(Vec<Event>, Vec<Item>)> {
    let columns = &chapter.settings.j5ik2o.dynamo_db_journal.columns_def;
    let golden = chapter.items("journal");
    let items = golden.iter().map(|item| undeleted(item.clone(), columns));
    let memory = holding(&chapter.journal_table(), items.collect()).await;
    let mut histories = Vec::new();
    for entity in chapter.lines("entity") {
        let id = id_of(entity);
        let rows = chapter.rows_of(&golden, &id);
        // In the chapters `hard` and `collisions` some histories have lost their first events.
        if entity["highest"] != rows.len() || rows.is_empty() {
            continue;
        }
        let journal = open_at(&memory, &chapter.settings, 0).await;
        let events = journal.replay(&id, Window::ALL).try_collect::<Vec<_>>();
        histories.push((events.await.unwrap(), rows));
    }
    histories
}

/// The items that we write for a history, each event at its time, with the same deletions.
async fn written(chapter: &Chapter, events: &[Event], deleted: usize) -> Vec<Item> {
    let table = chapter.journal_table();
    let memory = holding(&table, Vec::new()).await;
    let mut last = None;
    for event in events {
        let journal = open_at(&memory, &chapter.settings, event.time_ms).await;
        let (id, data) = (&event.persistence_id, event.data.clone());
        let appended = journal.append(id, Expected::Any, data).await.unwrap();
        assert_eq!(appended.last, event.sequence_number);
        last = Some((journal, id));
    }
    if let (Some(to), Some((journal, id))) = (SequenceNumber::new(deleted as u64), last) {
        journal.delete_to(id, to).await.unwrap();
    }
    let scanned = scan_all(memory, Arc::new(table), Scan::whole());
    scanned.try_collect().await.unwrap()
}

#[tokio::test]
async fn events_are_written_back_as_the_plugin_wrote_them() {
    let (mut ids, mut rows, mut marked) = (0, 0, 0);
    for chapter in chapters() {
        let columns = &chapter.settings.j5ik2o.dynamo_db_journal.columns_def;
        for (events, golden) in histories(&chapter).await {
            let id = &events[0].persistence_id;
            let deleted = golden
                .iter()
                .filter(|item| is_deleted(item, columns))
                .count();
            let written = written(&chapter, &events, deleted).await;
            // Our own marker is not in the golden items.
            assert_eq!(written.len(), golden.len() + usize::from(deleted > 0));
            let found = chapter.rows_of(&written, id);
            assert_eq!(found.len(), golden.len(), "{} {id}", chapter.name);
            for ((found, want), event) in found.into_iter().zip(&golden).zip(&events) {
                let is_packed = (id.as_str(), event.sequence_number.get()) == PACKED;
                let message = check(found, want.clone(), columns);
                assert_eq!(
                    message.is_err(),
                    is_packed,
                    "{} {id}: {message:?}",
                    chapter.name
                );
            }
            (ids, rows, marked) = (ids + 1, rows + golden.len(), marked + deleted);
        }
    }
    assert_eq!((ids, rows, marked), (224, 1_240, 247));
}

/// Checks that every attribute is the same; returns whether the event's bytes are, except for writer
/// and time.
#[track_caller]
fn check(mut found: Item, mut want: Item, columns: &JournalColumns) -> Result<(), String> {
    let time = want.get(&columns.ordering_column_name);
    let time = time.and_then(Value::as_u64).unwrap();
    let name = &columns.message_column_name;
    let (ours, theirs) = (found.remove(name).unwrap(), want.remove(name).unwrap());
    assert!(found.remove("crc").is_some(), "ours have a checksum");
    assert_eq!(found, want);
    let (ours, theirs) = (ours.as_bytes().unwrap(), theirs.as_bytes().unwrap());
    // The writer comes last in theirs, and before the time in ours.
    let behind = [&[TIME][..], &varint(time << 1)].concat();
    let bare = |bytes: &[u8], behind: usize| bytes[..bytes.len() - behind - UUID].to_vec();
    let is_same = ours.ends_with(&behind) && bare(ours, behind.len()) == bare(theirs, 0);
    is_same
        .then_some(())
        .ok_or_else(|| format!("{ours:?} is not {theirs:?}"))
}

/// A varint of protocol buffers; a signed number is doubled first.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number as u8) | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
