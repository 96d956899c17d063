//! The journal's stored bytes: golden ones are read and written unchanged, and damage is corrupt.
//!
//! A line of the fixture has a name, the persistence id, the bytes of the commits in hex, the items
//! in DynamoDB JSON and their events. Another program made the bytes from `docs/format.md`.

use std::sync::Arc;
use std::time::Duration;

use annals::items::{Condition, Item, Items, Scan, TableSpec, Value, item_from_json, scan_all};
use annals::journal::{Append, Expected, Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::verify::Verify;
use annals::{
    Codec, Error, ErrorKind, Event, ManualClock, NewEvent, Payload, PersistenceId, SequenceNumber,
    Token,
};
use annals_jvm::AnyLayout;
use futures::TryStreamExt;
use serde_json::Value as Json;

use annals_testkit::journals::{create, number, open_at};

/// Every byte of commits up to this size is replaced with every other byte.
const SHORT: usize = 64;
/// The causation and correlation of the golden commit `whole`.
const CAUSATION: &str = "c-1";
const CORRELATION: &str = "d-1";

struct Golden {
    name: String,
    id: PersistenceId,
    blobs: Vec<Vec<u8>>,
    items: Vec<Item>,
    events: Vec<Event>,
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn token(text: &str) -> Token {
    Token::from_bytes(unhex(text).try_into().unwrap())
}

fn event_of(json: &Json, id: &PersistenceId) -> Event {
    let text = |name: &str| json[name].as_str().unwrap().to_owned();
    let mut data = NewEvent::new(text("codec").parse().unwrap(), unhex(&text("payload")))
        .manifest(text("manifest"))
        .schema(json["schema"].as_u64().unwrap() as u32);
    for tag in json["tags"].as_array().unwrap() {
        data = data.tag(tag.as_str().unwrap());
    }
    for (name, value) in json["metadata"].as_object().unwrap() {
        data = data.metadata(name, value.as_str().unwrap());
    }
    let number = number(json["number"].as_u64().unwrap());
    let mut event = Event::new(id.clone(), number, token(&text("token")), data);
    event.time_ms = json["time_ms"].as_u64().unwrap();
    event
}

fn golden() -> Vec<Golden> {
    let lines = include_str!("../fixtures/v1/commits.txt").lines();
    let parsed = lines.map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, id, blobs, items, events] = columns[..] else {
            panic!("{line}");
        };
        let id: PersistenceId = id.parse().unwrap();
        let items: Vec<Json> = serde_json::from_str(items).unwrap();
        let events: Vec<Json> = serde_json::from_str(events).unwrap();
        let mut events: Vec<Event> = events.iter().map(|e| event_of(e, &id)).collect();
        if name == "whole" {
            for event in &mut events {
                event.causation = Some(CAUSATION.into());
                event.correlation = Some(CORRELATION.into());
            }
        }
        Golden {
            name: name.to_owned(),
            blobs: blobs.split(' ').map(unhex).collect(),
            items: items.iter().map(|i| item_from_json(i).unwrap()).collect(),
            events,
            id,
        }
    });
    parsed.collect()
}

fn table() -> TableSpec {
    let settings = AnyLayout::default();
    settings.tables().unwrap().journal
}

/// The snapshot in one of the golden commits.
fn inline_state() -> Payload {
    Payload::new(Codec::Json, r#"{"items":1}"#)
        .manifest("Cart")
        .schema(2)
}

/// A journal that holds these items.
async fn holding(items: &[Item]) -> (Arc<dyn Items>, Journal) {
    let memory: Arc<dyn Items> = Arc::new(Memory::new());
    create(&*memory).await;
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let journal = open_at(memory.clone(), clock, 1).await;
    for item in items {
        let put = memory.put(&table(), item.clone(), Condition::Absent).await;
        put.unwrap();
    }
    (memory, journal)
}

async fn replay(journal: &Journal, id: &PersistenceId) -> Result<Vec<Event>, Error> {
    journal.replay(id, Window::ALL).try_collect().await
}

#[tokio::test]
async fn golden_commits_are_read() {
    let all = golden();
    assert_eq!(all.len(), 8);
    for golden in all {
        let commits = golden.items.iter().filter_map(|item| item.get("c"));
        let blobs: Vec<_> = commits.map(|blob| blob.as_bytes().unwrap()).collect();
        assert!(blobs.into_iter().eq(&golden.blobs), "{}", golden.name);
        let (_, journal) = holding(&golden.items).await;
        let found = replay(&journal, &golden.id).await.unwrap();
        assert_eq!(found, golden.events, "{}", golden.name);
        let highest = journal.highest(&golden.id).await.unwrap();
        let last = golden.events.last().map(|event| event.sequence_number);
        assert_eq!(highest, last, "{}", golden.name);
        let riding = journal.last_snapshot(&golden.id).await.unwrap();
        let want = Some(inline_state()).filter(|_| golden.name == "riding");
        let found = riding.map(|found| found.payload);
        assert_eq!(found, want, "{}", golden.name);
    }
}

/// The current code writes the golden bytes.
#[tokio::test]
async fn golden_commits_are_written() {
    for golden in golden() {
        let (memory, journal) = holding(&[]).await;
        let mut events: Vec<_> = golden.events.iter().map(|e| e.data.clone()).collect();
        let mut append = Append::default().token(golden.events[0].token);
        match golden.name.as_str() {
            "one" => {}
            "whole" => {
                append.causation = Some(CAUSATION.to_owned());
                append.correlation = Some(CORRELATION.to_owned());
            }
            "riding" => append.snapshot = Some(inline_state()),
            "cut" => events
                .splice(0..0, vec![NewEvent::default(); 2])
                .for_each(drop),
            _ => continue,
        }
        append.events = events;
        let appended = journal.append(&golden.id, Expected::Empty, append).await;
        appended.unwrap();
        if golden.name == "cut" {
            journal.delete_to(&golden.id, number(2)).await.unwrap();
        }
        let table = Arc::new(table());
        let all: Vec<Item> = scan_all(memory, table, Scan::whole())
            .try_filter(|item| std::future::ready(item.get("c").is_some()))
            .try_collect()
            .await
            .unwrap();
        assert_eq!(all, golden.items, "{}", golden.name);
    }
}

#[tokio::test]
async fn golden_tombstones_are_written() {
    let all = golden();
    let golden = all.iter().find(|golden| golden.name == "deleted").unwrap();
    let (memory, journal) = holding(&[]).await;
    let tokens = [token("0102030405060708"), token("1112131415161718")];
    for (last, count, token) in [
        (0, 999, tokens[0]),
        (999, 3, tokens[1]),
        (1002, 1, tokens[1]),
    ] {
        let data = match last {
            1002 => golden.events[0].data.clone(),
            _ => NewEvent::default(),
        };
        let expected = SequenceNumber::new(last).map_or(Expected::Empty, Expected::Last);
        let append = Append::of(vec![data; count]).token(token);
        journal.append(&golden.id, expected, append).await.unwrap();
    }
    journal.delete_to(&golden.id, number(1002)).await.unwrap();
    let all = scan_all(memory, Arc::new(table()), Scan::whole());
    let mut all: Vec<Item> = all.try_collect().await.unwrap();
    all.retain(|item| item.get("c").is_some());
    all.sort_by_key(|item| item.get("n").and_then(Value::as_u64));
    assert_eq!(all, golden.items);
}

/// With any damaged byte, the result is correct or `Corrupt`.
#[tokio::test]
async fn every_damaged_byte_is_corrupt() {
    let mut damaged = 0;
    for golden in golden() {
        for (at, item) in golden.items.iter().enumerate() {
            let attribute = ["c", "b"].into_iter().find(|name| item.get(name).is_some());
            let attribute = attribute.unwrap();
            let bytes = item.get(attribute).unwrap().as_bytes().unwrap().to_vec();
            let others: Vec<u8> = match bytes.len() <= SHORT {
                true => (1..=255).collect(),
                false => vec![0x01, 0x80, 0xFF],
            };
            for place in 0..bytes.len() {
                for flip in &others {
                    let mut bytes = bytes.clone();
                    bytes[place] ^= flip;
                    let mut items = golden.items.clone();
                    items[at].insert(attribute, bytes);
                    check_damaged(&golden, &items).await;
                    damaged += 1;
                }
            }
        }
    }
    assert!(damaged > 50_000, "{damaged}");
}

#[tokio::test]
async fn every_missing_byte_is_corrupt() {
    for golden in golden() {
        for (at, item) in golden.items.iter().enumerate() {
            let Some(bytes) = item.get("c").and_then(Value::as_bytes) else {
                continue;
            };
            for left in 0..bytes.len() {
                let mut items = golden.items.clone();
                items[at].insert("c", bytes[..left].to_vec());
                check_damaged(&golden, &items).await;
            }
        }
    }
}

async fn check_damaged(golden: &Golden, items: &[Item]) {
    let (_, journal) = holding(items).await;
    match replay(&journal, &golden.id).await {
        Ok(events) => assert_eq!(events, golden.events, "{}", golden.name),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}"),
    }
    let last = golden.events.last().map(|event| event.sequence_number);
    match journal.highest(&golden.id).await {
        Ok(highest) => assert_eq!(highest, last),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}"),
    }
    match journal.last_snapshot(&golden.id).await {
        Ok(found) => assert!(found.is_none_or(|found| found.payload == inline_state())),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}"),
    }
}

/// A commit moved under another key is damage too.
#[tokio::test]
async fn a_commit_under_another_key_is_corrupt() {
    let all = golden();
    let stray = all[0].items[0].clone().with("p", "0:Cart|43");
    let (_, journal) = holding(&[stray]).await;
    let error = replay(&journal, &"Cart|43".parse().unwrap()).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_missing_chunk_and_a_missing_commit_are_corrupt() {
    let all = golden();
    let parts = all.iter().find(|golden| golden.name == "parts").unwrap();
    for lost in 1..parts.items.len() {
        let mut items = parts.items.clone();
        items.remove(lost);
        let (_, journal) = holding(&items).await;
        let error = replay(&journal, &parts.id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    let marks = all.iter().find(|golden| golden.name == "deleted").unwrap();
    let (_, journal) = holding(&[marks.items[2].clone()]).await;
    let window = Window::from(number(1001));
    let found: Result<Vec<Event>, Error> = journal.replay(&marks.id, window).try_collect().await;
    assert_eq!(found.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_sweep_keeps_golden_chunks() {
    for golden in golden() {
        let (_, journal) = holding(&golden.items).await;
        let swept = journal.orphans(Duration::from_secs(3_600), Verify::Repair);
        assert_eq!(swept.await.unwrap(), []);
        assert_eq!(replay(&journal, &golden.id).await.unwrap(), golden.events);
    }
}
