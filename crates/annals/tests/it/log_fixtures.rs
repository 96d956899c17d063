//! Tables shared with the original: we sweep and play back what it wrote, and it finds what we wrote.
//!
//! `buffer.jsonl` and `events.jsonl` are handmade items in its format: two shards in one slot, a record
//! that is in both tables because its scan died in between, data that is not JSON, and a link that a
//! later record made wrong. `swept.jsonl` is the event table after a sweep, `expected.jsonl` the
//! playback.

use std::path::Path;
use std::sync::Arc;

use annals::ManualClock;
use annals::items::{Condition, Item, Items, Scan, Value, item_from_json, scan_all};
use annals::log::{Data, Log, LogTables, Record, Span, Time};
use annals::memory::Memory;
use annals::settings::LogSettings;
use annals::store::Store;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::TryStreamExt;
use serde_json::{Value as Json, json};

use crate::log_original::{Original, line};

fn lines(name: &str) -> Vec<Json> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/log");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn items(name: &str) -> Vec<Item> {
    let lines = lines(name).into_iter();
    lines
        .map(|line| item_from_json(&line["Item"]).unwrap())
        .collect()
}

/// The original's tables, filled.
async fn original(buffer: Vec<Item>, events: Vec<Item>) -> Original {
    let tables = LogTables::new(&LogSettings::default()).unwrap();
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    for (table, filled) in [(&tables.buffer, buffer), (&tables.event, events)] {
        items.create_table(table, Default::default()).await.unwrap();
        for item in filled {
            items.put(table, item, Condition::Absent).await.unwrap();
        }
    }
    Original { items, tables }
}

async fn open(original: &Original, alter: impl FnOnce(&mut LogSettings)) -> Log {
    let mut settings = LogSettings::default();
    alter(&mut settings);
    let clock = Arc::new(ManualClock::at_ms(1_521_500_000_000));
    Log::open(
        Store::from(original.items.clone()).with_clock(clock),
        &settings,
    )
    .await
    .unwrap()
}

fn days() -> Span {
    let time = |text: &str| text.parse::<Time>().unwrap();
    Span::new(time("2018-03-16T19:56:00Z"), time("2018-03-16T19:57:00Z")).unwrap()
}

async fn played(log: &Log, span: Span) -> Vec<Json> {
    let events: Vec<_> = log.playback(span).try_collect().await.unwrap();
    let events = events.iter().map(|event| {
        let (time, id) = (event.time.to_string(), event.event_id.as_str());
        match event.data() {
            Data::Json(payload) => json!({"time": time, "event_id": id, "payload": payload}),
            Data::Bytes(bytes) => {
                json!({"time": time, "event_id": id, "payload_base64": BASE64.encode(&bytes)})
            }
        }
    });
    events.collect()
}

/// The events of the event table, without system items.
async fn slots(original: &Original) -> Vec<String> {
    let table = original.tables.event.clone();
    let all = scan_all(original.items.clone(), table, Scan::whole());
    let all: Vec<Item> = all.try_collect().await.unwrap();
    let is_slot = |item: &&Item| {
        let slot = item.get("event_time_slot").and_then(Value::as_str).unwrap();
        !slot.starts_with("annals#")
    };
    let mut lines: Vec<String> = all.iter().filter(is_slot).map(line).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn records_of_the_original_are_swept_and_played_back() {
    let original = original(items("buffer.jsonl"), items("events.jsonl")).await;
    let log = open(&original, |_| ()).await;
    let report = log.sweep().await;
    assert!(
        report.failure.is_none() && report.problems.is_empty(),
        "{report:?}"
    );
    assert_eq!((report.moved, report.repeated), (4, 1));
    let mut want: Vec<String> = items("swept.jsonl").iter().map(line).collect();
    want.sort();
    assert_eq!(slots(&original).await, want);

    // Without an index every slot of a short span is read; with it a playback can span all of time.
    let expected = lines("expected.jsonl");
    let in_span = expected
        .iter()
        .filter(|line| line["time"].as_str() < Some("2018-03-17"));
    assert_eq!(
        played(&log, days()).await,
        in_span.cloned().collect::<Vec<_>>()
    );
    log.link(Span::ALL).await.unwrap();
    assert_eq!(played(&log, Span::ALL).await, expected);
}

#[tokio::test]
async fn the_original_finds_our_events() {
    let theirs = original(items("buffer.jsonl"), items("events.jsonl")).await;
    theirs.scan().await;
    let ours = original(items("buffer.jsonl"), items("events.jsonl")).await;
    let _ = open(&ours, |_| ()).await.sweep().await;
    let found = ours.playback(days()).await;
    assert_eq!(found, theirs.playback(days()).await);
    assert_eq!(found, 6);
    // The original overwrites a stored event, and with it the link of a first item; the one record
    // that it finds twice here has no link.
    assert_eq!(slots(&ours).await, slots(&theirs).await);
}

#[tokio::test]
async fn the_original_sweeps_our_records() {
    let original = original(Vec::new(), Vec::new()).await;
    let log = open(&original, |settings| settings.original_writes = true).await;
    let time = "2018-03-16T19:56:03.217Z".parse().unwrap();
    let record = Record::json("web", "clap-1".parse().unwrap(), time, &json!({"clap": 1}));
    let _ = log.ingest(vec![record]).await;
    original.scan().await;
    let want =
        json!({"time": "2018-03-16T19:56:03.217Z", "event_id": "clap-1", "payload": {"clap": 1}});
    assert_eq!(played(&log, days()).await, [want]);
}

/// Both sweep one buffer; the second one finds the events stored.
#[tokio::test]
async fn both_sweep_one_buffer() {
    let original = original(items("buffer.jsonl"), items("events.jsonl")).await;
    let log = open(&original, |settings| settings.original_writes = true).await;
    let before = items("buffer.jsonl");
    original.scan().await;
    original.pump(&before).await;
    let report = log.sweep().await;
    assert_eq!(
        (report.moved, report.repeated, report.dead_letters),
        (0, 5, 0),
        "{report:?}"
    );
    let expected = lines("expected.jsonl");
    assert_eq!(played(&log, days()).await, expected[..6]);
}
