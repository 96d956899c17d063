//! Playback: all events of a span, in order, and none too early.

use std::time::Duration;

use futures::TryStreamExt;
use serde_json::json;

use super::{START, at, ids, numbered, on_stage, played, record, span, sweep, time};
use crate::tck::{Setup, properties};
use annals::items::{Condition, Item, Key, Scan, Value, scan_all};
use annals::log::{Data, LogEvent, Playback, Record, Span, Speed, Time};
use annals::settings::LogSettings;
use annals::{Clock, ErrorKind};

properties! {
    events_are_played_back_by_time_and_then_by_id,
    a_span_is_half_open_at_milliseconds,
    parts_of_slots_are_merged,
    slots_with_another_number_of_parts_are_read_too,
    a_slot_of_many_pages_is_read_to_its_end,
    years_without_events_are_skipped,
    a_table_without_an_index_is_walked_and_then_linked,
    links_are_used_only_if_the_index_is_complete,
    a_follower_does_not_pass_the_horizon,
    a_reader_resumes_after_its_position,
    a_playback_keeps_its_pace,
}

/// Whatever order they were ingested in; with the same data.
pub(crate) async fn events_are_played_back_by_time_and_then_by_id(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let mut want = Vec::new();
        for n in 0..60u64 {
            // Several per millisecond, over slots, hours and days.
            let ms = (n / 4) * 7_211_399;
            want.push((at(ms), format!("e{:02}", (n * 37) % 60)));
        }
        let records = want.iter().map(|(time, id)| {
            Record::json(
                "test",
                id.parse().expect("an id"),
                *time,
                &json!({"id": id}),
            )
        });
        stage.fill(records.rev().collect()).await;
        want.sort();
        let events = played(&stage.log, Span::ALL).await;
        let found = events
            .iter()
            .map(|event| (event.time, event.event_id.to_string()));
        assert_eq!(found.collect::<Vec<_>>(), want);
        for event in &events {
            let data = json!({"id": event.event_id.as_str()});
            assert_eq!(event.data(), Data::Json(data));
        }
        assert_eq!(stage.buffered().await, 0);
    })
    .await;
}

/// The start is included, the end is not, and neither needs to be a boundary of a slot.
pub(crate) async fn a_span_is_half_open_at_milliseconds(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let times = [0, 1, 499, 500, 501, 999, 1_000, 1_001, 5_000];
        let name = |ms: u64| format!("e{ms:05}");
        stage
            .fill(times.map(|ms| numbered(&name(ms), ms)).into())
            .await;
        for start in [0, 1, 2, 500, 999, 1_000, 4_999, 6_000] {
            for end in [0, 1, 499, 500, 1_000, 1_001, 5_000, 5_001] {
                if end < start {
                    continue;
                }
                let want = times
                    .into_iter()
                    .filter(|ms| (start..end).contains(ms))
                    .map(name);
                let found = ids(&stage.log, span(start, end)).await;
                assert_eq!(found, want.collect::<Vec<_>>(), "{start} to {end}");
            }
        }
        let backwards = Playback::since(at(2)).until(at(1));
        let error = stage.log.playback(backwards).try_next().await;
        assert_eq!(error.expect_err("refused").kind(), ErrorKind::Invalid);
    })
    .await;
}

fn spread(parts: u32) -> LogSettings {
    let mut settings = LogSettings::default();
    settings.slot_parts = parts;
    settings
}

fn many(count: u64) -> (Vec<Record>, Vec<String>) {
    let id = |n: u64| format!("e{n:04}");
    let records = (0..count).map(|n| numbered(&id(n), n * 7));
    (records.collect(), (0..count).map(id).collect())
}

/// In one order, whatever part an event is in.
pub(crate) async fn parts_of_slots_are_merged(setup: Setup) {
    on_stage(setup, spread(4), |stage| async move {
        let (records, want) = many(200);
        stage.fill(records).await;
        assert_eq!(ids(&stage.log, Span::ALL).await, want);
        let table = stage.log.tables().event.clone();
        let all: Vec<Item> = scan_all(stage.setup.items.clone(), table, Scan::whole())
            .try_collect()
            .await
            .expect("a scan");
        let in_part = |part: &str| {
            let slot = format!("{START}#{part}");
            let slot = Value::from(slot);
            all.iter()
                .filter(|item| item.get("event_time_slot") == Some(&slot))
                .count()
        };
        for part in ["0", "1", "2", "3"] {
            assert!(in_part(part) > 10, "each part has events: {part}");
        }
    })
    .await;
}

/// And an event that a sweep with another setting stored before it crashed is not duplicated.
pub(crate) async fn slots_with_another_number_of_parts_are_read_too(setup: Setup) {
    on_stage(setup, spread(3), |stage| async move {
        let (records, want) = many(90);
        stage.fill(records[..60].to_vec()).await;
        let whole = stage.reopened(|settings| settings.slot_parts = 1).await;
        let report = whole.ingest(records).await;
        assert_eq!(report.stored(), 90);
        let report = sweep(&whole).await;
        assert_eq!((report.moved, report.repeated), (30, 60));
        for log in [&stage.log, &whole] {
            assert_eq!(ids(log, Span::ALL).await, want);
        }
        stage.forget_index().await;
        let walking = stage.reopened(|settings| settings.slot_parts = 1).await;
        assert_eq!(ids(&walking, span(0, 1_000)).await, want);
    })
    .await;
}

/// A page has a MiB.
pub(crate) async fn a_slot_of_many_pages_is_read_to_its_end(setup: Setup) {
    on_stage(setup, spread(2), |stage| async move {
        let blob = "x".repeat(60_000);
        let records =
            (0..50u64).map(|n| record(&format!("e{n:02}"), (n * 37) % 50 / 2, &json!(blob)));
        stage.fill(records.collect()).await;
        let events = played(&stage.log, Span::ALL).await;
        assert_eq!(events.len(), 50);
        let places: Vec<_> = events.iter().map(LogEvent::position).collect();
        assert!(places.is_sorted(), "{places:?}");
    })
    .await;
}

/// Finding the next event is fast.
pub(crate) async fn years_without_events_are_skipped(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let times = ["1970-01-01T00:00:00Z", START, "2999-12-31T23:59:59.999Z"];
        let records = times.iter().zip(["a", "b", "c"]).map(|(text, id)| {
            Record::json("test", id.parse().expect("an id"), time(text), &json!(1))
        });
        stage.fill(records.collect()).await;
        assert_eq!(ids(&stage.log, Span::ALL).await, ["a", "b", "c"]);
    })
    .await;
}

/// As the original left it: events, but no index.
pub(crate) async fn a_table_without_an_index_is_walked_and_then_linked(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        stage.forget_index().await;
        for (id, ms) in [("a", 10), ("b", 2_500), ("c", 9_000)] {
            let slot = at(ms - ms % 1_000).to_string();
            let item = Item::new()
                .with("event_time_slot", slot)
                .with("event_id", id)
                .with("event_time_stamp", at(ms).to_string())
                .with("record_payload", Value::M(Default::default()));
            let table = &stage.log.tables().event;
            let put = stage.setup.items.put(table, item, Condition::Absent);
            put.await.expect("a put");
        }
        let log = stage.reopened(|_| ()).await;
        assert_eq!(ids(&log, span(0, 10_000)).await, ["a", "b", "c"]);
        assert_eq!(ids(&log, span(11, 9_000)).await, ["b"]);
        let report = log.link(Span::ALL).await.expect("a link");
        assert_eq!((report.slots, report.linked, report.unknown), (3, 2, 0));
        let again = log.link(Span::ALL).await.expect("a link");
        assert_eq!((again.read, again.slots, again.linked), (3, 3, 0));
        // A playback can span all of time now.
        assert_eq!(ids(&log, Span::ALL).await, ["a", "b", "c"]);
        let key = Key::new(at(0).to_string()).sorted("a");
        let got = stage.setup.items.get(&log.tables().event, vec![key]).await;
        let first = got
            .expect("a get")
            .items
            .remove(0)
            .expect("the first event");
        let next = at(2_000).to_string();
        assert_eq!(first.get("next_slot"), Some(&Value::from(next)));
        assert_eq!(first.len(), 5);
    })
    .await;
}

/// A link that a later event made wrong would skip it.
pub(crate) async fn links_are_used_only_if_the_index_is_complete(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        stage
            .fill(vec![numbered("a", 0), numbered("c", 8_000)])
            .await;
        stage.log.link(Span::ALL).await.expect("a link");
        stage.fill(vec![numbered("b", 4_000)]).await;
        stage.forget_index().await;
        let careful = stage.reopened(|_| ()).await;
        assert_eq!(ids(&careful, span(0, 10_000)).await, ["a", "b", "c"]);
        let trusting = stage.reopened(|settings| settings.trust_links = true).await;
        assert_eq!(ids(&trusting, span(0, 10_000)).await, ["a", "c"]);
        let beside = stage
            .reopened(|settings| settings.original_writes = true)
            .await;
        assert_eq!(ids(&beside, span(0, 10_000)).await, ["a", "b", "c"]);
    })
    .await;
}

/// It delivers the events before it, in order, and no others until it moves.
pub(crate) async fn a_follower_does_not_pass_the_horizon(setup: Setup) {
    let mut settings = LogSettings::default();
    settings.allowed_lateness_ms = 5_000;
    settings.follow_poll_ms = 1;
    on_stage(setup, settings, |stage| async move {
        let now = stage.log.now();
        let after = |ms: u64| Time::from_ms(now.ms() + ms).expect("a time");
        let record =
            |id: &str, ms| Record::json("test", id.parse().expect("an id"), after(ms), &json!(1));
        stage
            .ingest(vec![
                record("b", 2_000),
                record("z", 60_000),
                record("a", 2_000),
            ])
            .await;
        stage.advance(10);
        let report = sweep(&stage.log).await;
        assert!(report.horizon > Some(after(2_000)) && report.horizon < Some(after(60_000)));
        let mut events = stage.log.follow(Playback::since(now));
        for want in ["a", "b"] {
            let event = events
                .try_next()
                .await
                .expect("no error")
                .expect("an event");
            assert_eq!(event.event_id.as_str(), want);
        }
        // Until the horizon moves there are no more events.
        let waiting = futures::future::poll_immediate(events.try_next()).await;
        assert!(waiting.is_none(), "{waiting:?}");
        stage.ingest(vec![record("c", 20_000)]).await;
        stage.advance(60);
        let _ = sweep(&stage.log).await;
        for want in ["c", "z"] {
            let event = events
                .try_next()
                .await
                .expect("no error")
                .expect("an event");
            assert_eq!(event.event_id.as_str(), want);
        }
        let ended = stage.log.follow(Playback::since(now).until(after(20_001)));
        let ended: Vec<_> = ended.try_collect().await.expect("it ends");
        assert_eq!(ended.len(), 3);
    })
    .await;
}

/// Also among events of one millisecond.
pub(crate) async fn a_reader_resumes_after_its_position(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        let records = [("a", 1), ("b", 1), ("c", 1), ("d", 1_500), ("e", 2_500)];
        stage
            .fill(records.map(|(id, ms)| numbered(id, ms)).into())
            .await;
        let all = played(&stage.log, Span::ALL).await;
        for (n, event) in all.iter().enumerate() {
            let place = event.position().to_string().parse().expect("a place");
            let rest = Playback::since(at(0)).after(place);
            let want: Vec<_> = all
                .iter()
                .skip(n + 1)
                .map(|e| e.event_id.to_string())
                .collect();
            assert_eq!(ids(&stage.log, rest.clone()).await, want);
            let followed = stage.log.follow(rest.until(at(3_000)));
            assert_eq!(
                followed.try_collect::<Vec<_>>().await.expect("all").len(),
                want.len()
            );
        }
    })
    .await;
}

/// By the log's own clock.
pub(crate) async fn a_playback_keeps_its_pace(setup: Setup) {
    on_stage(setup, LogSettings::default(), |stage| async move {
        stage
            .fill(
                [0, 1_000, 60_000]
                    .map(|ms| numbered(&format!("e{ms}"), ms))
                    .into(),
            )
            .await;
        let clock = stage.setup.clock.clone();
        for (speed, want) in [
            (Speed::Max, 0),
            (Speed::REAL_TIME, 60_000),
            (Speed::Times(10.0), 6_000),
        ] {
            let before = clock.monotonic();
            let playback = Playback::from(span(0, 100_000)).at(speed);
            assert_eq!(played(&stage.log, playback).await.len(), 3);
            let took = clock.monotonic() - before;
            assert_eq!(took, Duration::from_millis(want), "{speed:?}");
        }
    })
    .await;
}
