//! Tests of Kinesis that any server must pass: on the server in this process, and on the one that
//! `ANNALS_TEST_KINESIS` names.

#[path = "../../it/kinesis/fake.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod fake;
#[path = "../../it/kinesis/place.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod place;

use std::collections::BTreeMap;

use annals::Random;
use annals::log::{Data, Span, Time};
use annals_aws::kinesis::{Begin, StreamName};
use libtest_mimic::Trial;
use serde_json::json;

use self::fake::FIRST_MS;
use self::place::{ENDPOINT, Place, drain, numbered, text_of, texts_of};
use crate::block_on;
use crate::trial::{missing_variable, trial};

/// Each test once in this process, and once on the other server.
pub(crate) fn trials() -> Vec<Trial> {
    macro_rules! trials {
        ($($test:ident),* $(,)?) => {
            vec![$(
                trial(concat!("streams::here::", stringify!($test)), None, || {
                    block_on(async { $test(Place::here().await).await });
                }),
                trial(
                    concat!("streams::server::", stringify!($test)),
                    missing_variable(ENDPOINT),
                    || block_on(async { $test(Place::on_server().await).await }),
                ),
            )*]
        };
    }
    trials![
        pumps_every_record_of_every_shard_once,
        a_restarted_pump_loses_and_repeats_nothing,
        latest_starts_after_the_existing_records,
        a_time_stamp_starts_with_the_records_since_then,
        reports_a_too_large_record_and_keeps_it_without_data,
        loses_and_repeats_nothing_while_shards_split_and_merge,
        latest_skips_closed_shards_and_reads_later_children,
        playback_reproduces_the_pumped_stream,
    ]
}

async fn pumps_every_record_of_every_shard_once(place: Place) {
    place.create(3).await;
    let records = numbered("a", 60);
    place.put(records.clone()).await;
    let mut pump = place.pump(Begin::TrimHorizon).await;
    let done = drain(&mut pump).await;
    assert_eq!((done.records, done.stored, done.present), (60, 60, 0));
    assert!(done.problems.is_empty() && done.dropped.is_empty());
    assert_eq!(place.texts().await, texts_of(&records));
    // Pumped records are not pumped again.
    assert_eq!(drain(&mut pump).await.records, 0);
}

async fn a_restarted_pump_loses_and_repeats_nothing(place: Place) {
    place.create(2).await;
    let first = numbered("first", 40);
    place.put(first.clone()).await;
    let mut pump = place.pump(Begin::TrimHorizon).await;
    let step = pump.step().await;
    assert!(step.records > 0 && step.failure.is_none(), "{step:?}");
    drop(pump);
    let second = numbered("second", 40);
    place.put(second.clone()).await;
    // `Begin` applies only to pumps without checkpoints.
    let mut pump = place.pump(Begin::Latest).await;
    let done = drain(&mut pump).await;
    assert_eq!(step.records + done.records, 80);
    assert_eq!(done.present, 0);
    assert_eq!(place.texts().await, texts_of(&[first, second].concat()));
}

async fn latest_starts_after_the_existing_records(place: Place) {
    place.create(2).await;
    place.put(numbered("before", 20)).await;
    let mut pump = place.pump(Begin::Latest).await;
    let after = numbered("after", 20);
    place.put(after.clone()).await;
    let _ = drain(&mut pump).await;
    assert_eq!(place.texts().await, texts_of(&after));
}

async fn a_time_stamp_starts_with_the_records_since_then(place: Place) {
    place.create(1).await;
    let records = numbered("a", 20);
    place.put(records[..10].to_vec()).await;
    // Wait for the next millisecond of the server's clock.
    let log = place.log().await;
    let before = log.now().ms();
    while place.fake.is_none() && log.now().ms() <= before + 1 {
        tokio::task::yield_now().await;
    }
    let at = match &place.fake {
        // The stream was created at 1, the first ten records at 2 to 11.
        Some(_) => Time::from_ms(FIRST_MS + 12).unwrap(),
        None => log.now(),
    };
    place.put(records[10..].to_vec()).await;
    let _ = drain(&mut place.pump(Begin::At(at)).await).await;
    assert_eq!(place.texts().await, texts_of(&records[10..]));
}

async fn reports_a_too_large_record_and_keeps_it_without_data(place: Place) {
    place.create(1).await;
    let small = json!({"text": "small"}).to_string();
    let records = [
        ("k", small),
        ("k", "x".repeat(400_000)),
        ("k", json!({"text": "z"}).to_string()),
    ];
    let records = records.map(|(key, text)| (key.to_owned(), text));
    place.put(records).await;
    let done = drain(&mut place.pump(Begin::TrimHorizon).await).await;
    assert_eq!((done.records, done.stored, done.without_data), (3, 3, 1));
    assert_eq!(done.problems.len(), 1, "{:?}", done.problems);
    let problem = done.problems[0].to_string();
    assert!(
        problem.contains("event id=`shardId-000000000000:"),
        "{problem}"
    );
    let events = place.events().await;
    assert_eq!(text_of(&events[0]), "small");
    let Data::Json(json) = events[1].data() else {
        panic!("{:?}", events[1]);
    };
    assert_eq!(json["kinesis"]["dataBytes"], 400_000);
}

async fn loses_and_repeats_nothing_while_shards_split_and_merge(place: Place) {
    place.create(2).await;
    let mut all = Vec::new();
    let put = async |label: &str| {
        let records = numbered(label, 40);
        place.put(records.clone()).await;
        records
    };
    all.extend(put("a").await);
    let mut pump = place.pump(Begin::TrimHorizon).await;
    // Steps in between, so that some shards are half read when they close.
    let _ = pump.step().await;
    place.split().await;
    all.extend(put("b").await);
    let _ = pump.step().await;
    place.merge().await;
    all.extend(put("c").await);
    let _ = pump.step().await;
    // And a restart, with all kinds of shards.
    drop(pump);
    let mut pump = place.pump(Begin::TrimHorizon).await;
    let _ = pump.step().await;
    place.split().await;
    place.split().await;
    all.extend(put("d").await);
    let _ = drain(&mut pump).await;
    assert_eq!(place.texts().await, texts_of(&all));
    let done = drain(&mut place.pump(Begin::TrimHorizon).await).await;
    assert_eq!(done.records, 0, "a restart reads nothing again");
}

async fn latest_skips_closed_shards_and_reads_later_children(place: Place) {
    place.create(1).await;
    place.put(numbered("a", 20)).await;
    place.split().await;
    place.put(numbered("b", 20)).await;
    let mut pump = place.pump(Begin::Latest).await;
    let mut all = numbered("c", 20);
    place.put(all.clone()).await;
    place.merge().await;
    let last = numbered("d", 20);
    place.put(last.clone()).await;
    all.extend(last);
    let _ = drain(&mut pump).await;
    assert_eq!(place.texts().await, texts_of(&all));
}

async fn playback_reproduces_the_pumped_stream(place: Place) {
    place.create(1).await;
    place.put(numbered("a", 1_200)).await;
    let _ = drain(&mut place.pump(Begin::TrimHorizon).await).await;
    place.events().await;
    let events = place.log().await.playback(Span::ALL);
    let run = Random::from_machine().bits();
    let to: StreamName = format!("annals-test-replay-{run:016x}").parse().unwrap();
    place.create_named(&to, 2).await;
    let mut requests = 0;
    let played = place.kinesis.play(&to, events, |_| requests += 1).await;
    assert!(played.failure.is_none(), "{played:?}");
    assert_eq!((played.events, played.resent), (1_200, 0));
    assert_eq!(played.requests, requests);

    // Pump it back into another log.
    let back = Place {
        stream: to,
        items: std::sync::Arc::new(annals::memory::Memory::new()),
        ..place
    };
    let _ = drain(&mut back.pump(Begin::TrimHorizon).await).await;
    let events = back.events().await;
    assert_eq!(events.len(), 1_200);
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut by_id = events.clone();
    // In a shard, sequence numbers are in order.
    by_id.sort_by(|a, b| a.event_id.cmp(&b.event_id));
    for event in &by_id {
        let text = text_of(event);
        let key = text.split('-').nth(2).unwrap().to_owned();
        let before = last.insert(key, text.clone());
        assert!(before.is_none_or(|before| before < text), "{text}");
    }
}
