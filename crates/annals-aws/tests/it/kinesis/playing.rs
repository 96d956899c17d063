//! Playback to a stream: the order of each partition key is kept through every failure.

use std::collections::{BTreeMap, HashSet};

use annals::log::{LogStream, Playback, Record, RecordPayload, Span, Time};
use annals::{ErrorKind, Random};
use annals_aws::kinesis::{Begin, StreamName};
use futures::StreamExt;
use serde_json::json;

use super::place::{Place, drain, numbered};
use crate::script::Act;

/// A log of `count` records pumped from a stream.
async fn filled(place: &Place, count: usize) -> LogStream {
    place.create(1).await;
    place.put(numbered("a", count)).await;
    let _ = drain(&mut place.pump(Begin::TrimHorizon).await).await;
    place.events().await;
    place.log().await.playback(Span::ALL)
}

fn replay() -> StreamName {
    let run = Random::from_machine().bits();
    format!("annals-test-replay-{run:016x}").parse().unwrap()
}

/// The records of a stream in this process, by key.
fn by_key(place: &Place, stream: &StreamName) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in place.fake().state().records(stream.as_str()) {
        let data = record.data.as_str().unwrap().to_owned();
        found.entry(record.key).or_default().push(data);
    }
    found
}

/// The records put first, by key.
fn want(place: &Place) -> BTreeMap<String, Vec<String>> {
    by_key(place, &place.stream)
}

#[tokio::test]
async fn partial_failures_keep_the_order_of_each_key() {
    for seed in 0..10 {
        let place = Place::here().await;
        let events = filled(&place, 200).await;
        let to = replay();
        place.create_named(&to, 3).await;
        let random = Random::seeded(seed);
        place.fake().fault(move |seen, state| {
            if seen.operation != "PutRecords" {
                return None;
            }
            let records = seen.body["Records"].as_array().unwrap();
            let refused: Vec<bool> = records.iter().map(|_| random.happens(400)).collect();
            Some(state.put_some(&seen.body, |n| refused[n]))
        });
        let played = place.kinesis.play(&to, events, |_| ()).await;
        assert!(played.failure.is_none(), "seed {seed}: {played:?}");
        assert!(played.resent > 20, "seed {seed}: {played:?}");
        assert_eq!(played.events, 200, "seed {seed}");
        assert_eq!(by_key(&place, &to), want(&place), "seed {seed}");
    }
}

#[tokio::test]
async fn a_request_has_at_most_500_records_and_one_of_a_key() {
    let place = Place::here().await;
    place.create(1).await;
    let to = replay();
    place.create_named(&to, 1).await;
    let one = |n: usize| (format!("key-{}", n % 700), json!({"n": n}).to_string());
    place.put((0..1_400).map(one)).await;
    let _ = drain(&mut place.pump(Begin::TrimHorizon).await).await;
    place.events().await;
    let events = place.log().await.playback(Span::ALL);
    let before = place.fake().script.seen().len();
    let _ = place.kinesis.play(&to, events, |_| ()).await;
    let seen = place.fake().script.seen();
    let mut sizes = Vec::new();
    for request in &seen[before..] {
        let records = request.body["Records"].as_array().unwrap();
        let keys: HashSet<_> = records.iter().map(|r| r["PartitionKey"].clone()).collect();
        assert_eq!(keys.len(), records.len());
        sizes.push(records.len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 1_400);
    assert_eq!(sizes.iter().max(), Some(&500));
    assert_eq!(by_key(&place, &to), want(&place));
}

#[tokio::test]
async fn a_failed_playback_reports_where_to_resume() {
    let place = Place::here().await;
    let events = filled(&place, 50).await;
    let to = replay();
    place.create_named(&to, 1).await;
    // Every fifth record has this key, which is always refused.
    place.fake().fault(|seen, state| {
        let records = seen.body["Records"].as_array()?.clone();
        let is_refused = move |n: usize| records[n]["PartitionKey"] == "key-3";
        Some(state.put_some(&seen.body, is_refused))
    });
    let mut told = Vec::new();
    let play = place
        .kinesis
        .play(&to, events, |played| told.push(played.last.clone()));
    let played = play.await;
    let failure = played.failure.expect("the server refuses a key");
    assert_eq!(failure.kind(), ErrorKind::Unavailable);
    let message = failure.to_string();
    assert!(
        message.starts_with("Kinesis throttles; send less"),
        "{message}"
    );
    // Records 0, 1 and 2 are stored; the fourth is the first that is not.
    let last = played.last.expect("three are stored");
    assert_eq!(told.last().unwrap().as_ref(), Some(&last));
    let log = place.log().await;
    place.fake().heal();
    let rest = log.playback(Playback::since(Time::FIRST).after(last));
    let played = place.kinesis.play(&to, rest, |_| ()).await;
    assert_eq!((played.events, played.failure.is_none()), (47, true));
    // The refused key arrived once and in order; later records of other keys arrived twice.
    let (found, want) = (by_key(&place, &to), want(&place));
    assert_eq!(found["key-3"], want["key-3"]);
    for (key, want) in &want {
        let mut seen = HashSet::new();
        let firsts = found[key].iter().filter(|data| seen.insert(*data));
        assert_eq!(&firsts.cloned().collect::<Vec<_>>(), want);
    }
}

#[tokio::test]
async fn a_lost_response_repeats_records_in_order() {
    let place = Place::here().await;
    let events = filled(&place, 30).await;
    let to = replay();
    place.create_named(&to, 1).await;
    let mut n = 0;
    place.fake().fault(move |seen, state| {
        n += 1;
        (n % 2 == 1).then(|| {
            state.put_some(&seen.body, |_| false);
            Act::Lose
        })
    });
    let played = place.kinesis.play(&to, events, |_| ()).await;
    assert!(played.failure.is_none());
    assert_eq!(played.events, 30);
    let (mut found, want) = (by_key(&place, &to), want(&place));
    for list in found.values_mut() {
        list.dedup();
    }
    assert_eq!(found, want);
}

#[tokio::test]
async fn events_of_other_sources_use_their_persistence_id_or_event_id() {
    let place = Place::here().await;
    let to = replay();
    place.create_named(&to, 1).await;
    let log = place.log().await;
    let time = Time::from_ms(1_000).unwrap();
    let id = |id: &str| id.parse().unwrap();
    let long = "i".repeat(300);
    let records = vec![
        Record::json("web", id("a"), time, &json!({"clap": 1})),
        Record::json(
            "journal:j",
            id("b"),
            time,
            &json!({"persistence_id": "Cart|1"}),
        ),
        Record::json("web", id(&long), time, &json!(2)),
        Record::new(
            "web",
            id("d"),
            time,
            RecordPayload::bytes(b"18446744073709551616.0"),
        ),
    ];
    let _ = log.ingest(records).await;
    let _ = log.sweep().await;
    let played = place
        .kinesis
        .play(&to, log.playback(Span::ALL), |_| ())
        .await;
    assert_eq!(played.events, 4, "{played:?}");
    let found = by_key(&place, &to);
    let keys: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(keys.len(), 4);
    assert!(keys.contains(&"a") && keys.contains(&"Cart|1") && keys.contains(&"d"));
    assert!(keys.iter().any(|key| key.len() == 64), "{keys:?}");
    // The original bytes, not parsed and printed again.
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(&found["d"][0]);
    assert_eq!(bytes.unwrap(), b"18446744073709551616.0");
}

#[tokio::test]
async fn plays_the_events_before_an_error() {
    let place = Place::here().await;
    let events = filled(&place, 10).await;
    let to = replay();
    place.create_named(&to, 1).await;
    let broken = annals::Error::corrupt("as told");
    let events = events.chain(futures::stream::once(async { Err(broken) }));
    let played = place.kinesis.play(&to, Box::pin(events), |_| ()).await;
    assert_eq!(played.events, 10);
    assert_eq!(played.failure.unwrap().kind(), ErrorKind::Corrupt);
    assert_eq!(by_key(&place, &to), want(&place));
}

#[tokio::test]
async fn sends_available_events_without_waiting_for_more() {
    let place = Place::here().await;
    let events = filled(&place, 10).await;
    let to = replay();
    place.create_named(&to, 1).await;
    // A follower's stream has no end.
    let events = events.chain(futures::stream::pending());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let (kinesis, stream) = (place.kinesis.clone(), to.clone());
    let playing = tokio::spawn(async move {
        let tell = |played: &annals_aws::kinesis::Played| tell.send(played.events).unwrap();
        kinesis.play(&stream, Box::pin(events), tell).await
    });
    while told.recv().await.unwrap() < 10 {}
    playing.abort();
    assert_eq!(by_key(&place, &to), want(&place));
}
