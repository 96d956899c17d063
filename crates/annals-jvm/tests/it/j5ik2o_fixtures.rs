//! Every golden event of j5ik2o's plugin is read as the plugin reads it.
//!
//! Every difference is named here with its reason.

use std::collections::BTreeSet;
use std::sync::Arc;

use annals::items::{Item, Value};
use annals::journal::{Expected, Journal, Window};
use annals::memory::Memory;
use annals::verify::{Problem, Verify};
use annals::{ErrorKind, Event, Payload, PersistenceId, Result, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_jvm::settings::Gaps;
use futures::TryStreamExt;
use serde_json::Value as Json;

use crate::j5ik2o_chapters::{Chapter, chapters, holding, id_of, open_at};
use crate::jvm_lines;
use annals_testkit::journals::{number, text};

/// After all golden times.
const NOW_MS: u64 = 1_900_000_000_000;

/// Ids of the chapter `collisions` with the events that another id overwrote. The plugin replays the
/// rest silently; we report missing events.
const OVERWRITTEN: [(&str, u64, u64); 2] = [("a", 1, 2), ("order-2021-0001", 1, 1)];

fn is_overwritten(chapter: &Chapter, id: &PersistenceId) -> bool {
    let known = OVERWRITTEN.iter().any(|(name, ..)| *name == id.as_str());
    chapter.name == "collisions" && known
}

async fn holding_all(chapter: &Chapter) -> Arc<Memory> {
    holding(&chapter.journal_table(), chapter.items("journal")).await
}

async fn open(memory: &Arc<Memory>, chapter: &Chapter) -> Journal {
    open_at(memory, &chapter.settings, NOW_MS).await
}

async fn replay(journal: &Journal, id: &PersistenceId) -> Result<Vec<Event>> {
    journal.replay(id, Window::ALL).try_collect().await
}

async fn highest(journal: &Journal, id: &PersistenceId) -> u64 {
    let highest = journal.highest(id).await.unwrap();
    highest.map_or(0, SequenceNumber::get)
}

#[tokio::test]
async fn every_golden_event_is_replayed_as_the_plugin_replays_it() {
    let (mut ids, mut all) = (0, 0);
    for chapter in chapters() {
        let (memory, items) = (holding_all(&chapter).await, chapter.items("journal"));
        // Overwritten events are missing, which the plugin ignores.
        let settings = AnyLayout {
            gaps: match chapter.name.as_str() {
                "collisions" => Gaps::Skip,
                _ => Gaps::Fail,
            },
            ..chapter.settings.clone()
        };
        for entity in chapter.lines("entity") {
            let (id, about) = (id_of(entity), format!("{} {entity}", chapter.name));
            if chapter.failed("append", &id) {
                continue;
            }
            let journal = open_at(&memory, &settings, NOW_MS).await;
            let found = replay(&journal, &id).await.unwrap();
            let want = chapter.lines_of("event", &id);
            assert_eq!(want.len() as u64, entity["events"].as_u64().unwrap());
            assert_eq!(found.len(), want.len(), "{about}");
            let rows = chapter.rows_of(&items, &id);
            for (event, line) in found.iter().zip(&want) {
                check_event(event, line);
                check_attributes(&chapter, event, &rows);
            }
            let highest = highest(&journal, &id).await;
            assert_eq!(highest, entity["highest"].as_u64().unwrap(), "{about}");
            (ids, all) = (ids + 1, all + want.len());
        }
    }
    assert_eq!((ids, all), (261, 999));
}

#[track_caller]
fn check_event(event: &Event, line: &Json) {
    assert_eq!(event.sequence_number.get(), line["sequenceNr"]);
    let adapter = event.data.metadata.get("adapter-manifest");
    let is_adapted = line["type"] == "versioned";
    let want = is_adapted.then_some("adapted");
    assert_eq!(adapter.map(String::as_str), want, "{line}");
    jvm_lines::check(line, &Payload::from(event.data.clone()));
}

/// The plugin stores time and tags with the event, but never returns them.
#[track_caller]
fn check_attributes(chapter: &Chapter, event: &Event, rows: &[Item]) {
    let section = &chapter.settings.j5ik2o.dynamo_db_journal;
    let (columns, number) = (
        &section.columns_def,
        Value::from(event.sequence_number.get()),
    );
    let row = rows
        .iter()
        .find(|row| row.get(&columns.sequence_nr_column_name) == Some(&number))
        .unwrap();
    let time = row.get(&columns.ordering_column_name);
    assert_eq!(time.and_then(Value::as_u64), Some(event.time_ms));
    let tags = row.get(&columns.tags_column_name).and_then(Value::as_str);
    let tags = tags.map(|tags| tags.split(&section.tag_separator).collect());
    assert_eq!(event.data.tags, tags.unwrap_or(Vec::new()));
}

/// The tags of the events of `tags-1`, in any order. A tag that contains the separator cannot be
/// distinguished from two.
fn tags(separator: &str) -> [BTreeSet<&'static str>; 7] {
    let torn: &[&str] = match separator {
        "," => &["a", "b", "c;d"],
        _ => &["a,b", "c", "d"],
    };
    let each: [&[&'static str]; 7] = [
        &[],
        &["red"],
        &["blue", "red"],
        &["blue", "green", "red", "ünïcödé 😀"],
        &["a", "b", "c", "d", "e", "f"],
        torn,
        &[],
    ];
    each.map(|tags| tags.iter().copied().collect())
}

#[tokio::test]
async fn tags_are_read() {
    let id: PersistenceId = "tags-1".parse().unwrap();
    let mut compared = 0;
    for chapter in chapters() {
        if chapter.lines_of("entity", &id).is_empty() {
            continue;
        }
        let journal = open(&holding_all(&chapter).await, &chapter).await;
        let found = replay(&journal, &id).await.unwrap();
        let found = found.iter().map(|event| {
            let tags = event.data.tags.iter().map(String::as_str);
            tags.collect::<BTreeSet<_>>()
        });
        let separator = &chapter.settings.j5ik2o.dynamo_db_journal.tag_separator;
        assert_eq!(Vec::from_iter(found), tags(separator), "{}", chapter.name);
        compared += 1;
    }
    assert_eq!(compared, 6);
}

/// An id for which the plugin cannot make a key. It finds no events; we return an error.
#[tokio::test]
async fn ids_that_the_plugin_cannot_store_are_rejected() {
    let mut refused = 0;
    for chapter in chapters() {
        let memory = holding_all(&chapter).await;
        for entity in chapter.lines("entity") {
            let id = id_of(entity);
            if !chapter.failed("append", &id) {
                continue;
            }
            assert_eq!(entity["highest"], 0);
            let journal = open(&memory, &chapter).await;
            let appended = journal.append(&id, Expected::Any, text("never")).await;
            let error = annals::Error::from(appended.unwrap_err());
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            let error = replay(&journal, &id).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            refused += 1;
        }
    }
    assert_eq!(refused, 6);
}

#[tokio::test]
async fn histories_continue_after_the_plugins_events() {
    let mut refused = Vec::new();
    for chapter in chapters() {
        let memory = holding_all(&chapter).await;
        for entity in chapter.lines("entity") {
            let (id, last) = (id_of(entity), entity["highest"].as_u64().unwrap());
            if chapter.failed("append", &id) || is_overwritten(&chapter, &id) {
                continue;
            }
            let (journal, about) = (
                open(&memory, &chapter).await,
                format!("{} {id}", chapter.name),
            );
            let before = replay(&journal, &id).await.unwrap();
            let appended = match journal.append(&id, Expected::Any, text("ours")).await {
                Ok(appended) => appended,
                Err(error) => {
                    let error = annals::Error::from(error);
                    assert_eq!(error.kind(), ErrorKind::Invalid, "{about}: {error:?}");
                    refused.push(id.to_string());
                    continue;
                }
            };
            assert_eq!(appended.first.get(), last + 1, "{about}");
            let journal = open(&memory, &chapter).await;
            let mut after = replay(&journal, &id).await.unwrap();
            assert_eq!(after.pop().unwrap().data.payload, "ours", "{about}");
            assert_eq!(after, before, "{about}");
        }
    }
    // Another id's event has the next key, which the plugin would overwrite.
    assert_eq!(refused, ["n", "order-2021-0012"]);
}

/// Events that another id overwrote are missing from the start of a history.
#[tokio::test]
async fn overwritten_events_fail_a_replay() {
    let chapters = chapters();
    let chapter = chapters.iter().find(|one| one.name == "collisions");
    let chapter = chapter.unwrap();
    let memory = holding_all(chapter).await;
    for (name, from, to) in OVERWRITTEN {
        let (id, journal) = (name.parse().unwrap(), open(&memory, chapter).await);
        let error = replay(&journal, &id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        let (from, to) = (format!("from=`{from}`"), format!("to=`{to}`"));
        let message = error.to_string();
        assert!(
            message.contains(&from) && message.contains(&to),
            "{message}"
        );
    }
}

#[tokio::test]
async fn verify_finds_only_overwritten_events() {
    let mut found = Vec::new();
    for chapter in chapters() {
        let memory = holding_all(&chapter).await;
        for entity in chapter.lines("entity") {
            let id = id_of(entity);
            if chapter.failed("append", &id) {
                continue;
            }
            let journal = open(&memory, &chapter).await;
            for finding in journal.verify(&id, Verify::Check).await.unwrap() {
                assert_eq!(finding.problem, Problem::Collision, "{finding:?}");
                let (from, to) = finding.numbers.unwrap();
                found.push((chapter.name.clone(), id.to_string(), from.get()..=to.get()));
            }
        }
    }
    let want = OVERWRITTEN.iter().flat_map(|(name, from, to)| {
        let each = (*from..=*to).map(|number| number..=number);
        each.map(|numbers| ("collisions".to_owned(), (*name).to_owned(), numbers))
    });
    assert_eq!(found, Vec::from_iter(want));
}

#[tokio::test]
async fn every_id_with_rows_is_listed() {
    for chapter in chapters() {
        let used = chapter.lines("entity").into_iter();
        // The plugin's hard deletion does not even leave the id.
        let used = used.filter(|entity| entity["highest"] != 0);
        let want: BTreeSet<PersistenceId> = used.map(id_of).collect();
        let journal = open(&holding_all(&chapter).await, &chapter).await;
        let found = journal.persistence_ids("").try_collect::<Vec<_>>();
        let found = found.await.unwrap();
        assert_eq!(found.len(), want.len(), "{}", chapter.name);
        assert_eq!(BTreeSet::from_iter(found), want, "{}", chapter.name);
    }
}

/// The plugin fails to hard-delete one event, or none; we do not.
#[tokio::test]
async fn hard_deletions_that_fail_in_the_plugin_succeed() {
    let mut deleted = 0;
    for chapter in chapters() {
        let memory = holding_all(&chapter).await;
        for line in chapter.lines("failure") {
            let id = id_of(line);
            if !chapter.failed("delete", &id) {
                continue;
            }
            let journal = open(&memory, &chapter).await;
            let (before, last) = (
                replay(&journal, &id).await.unwrap(),
                highest(&journal, &id).await,
            );
            journal.delete_to(&id, number(1)).await.unwrap();
            let journal = open(&memory, &chapter).await;
            let after = replay(&journal, &id).await.unwrap();
            assert_eq!(after.as_slice(), before.get(1..).unwrap_or_default());
            assert_eq!(highest(&journal, &id).await, last);
            deleted += 1;
        }
    }
    assert_eq!(deleted, 2);
}
