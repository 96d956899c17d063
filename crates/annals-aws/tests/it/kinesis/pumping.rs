//! The pump: nothing is lost and nothing doubled, whatever stops or fails.

use std::sync::Arc;

use annals::ErrorKind;
use annals::items::{Scan, item_to_json, scan_pages};
use annals::log::{Data, Time};
use annals::store::Verb;
use annals_aws::kinesis::{Begin, Pump};
use annals_testkit::faulty::Faulty;
use futures::{FutureExt, StreamExt, TryStreamExt};
use serde_json::json;

use super::fake::FIRST_MS;
use super::place::{Place, drain, numbered, places, text_of, texts_of};
use crate::script::{Act, error};

#[tokio::test]
async fn every_record_of_every_shard_is_in_the_log_once() {
    for place in places("every record").await {
        place.create(3).await;
        let records = numbered("a", 60);
        place.put(records.clone()).await;
        let mut pump = place.pump(Begin::TrimHorizon).await;
        let done = drain(&mut pump).await;
        assert_eq!((done.records, done.stored, done.present), (60, 60, 0));
        assert!(done.problems.is_empty() && done.dropped.is_empty());
        assert_eq!(place.texts().await, texts_of(&records));
        // What is there is not brought again.
        assert_eq!(drain(&mut pump).await.records, 0);
    }
}

#[tokio::test]
async fn a_record_in_the_buffer_is_what_the_original_writes() {
    let place = Place::here().await;
    place.create(1).await;
    place.put([("user-1".to_owned(), "hello".to_owned())]).await;
    let pump = place.pump(Begin::TrimHorizon).await;
    let role = "arn:aws:iam::000000000000:role/pump";
    drain(&mut pump.invoked_as(role)).await;
    let log = place.log().await;
    let table = log.tables().buffer.clone();
    let pages = scan_pages(place.items.clone(), table, Scan::whole());
    let pages: Vec<_> = pages.try_collect().await.unwrap();
    let items: Vec<_> = pages.iter().flat_map(|page| &page.items).collect();
    let arn = format!(
        "arn:aws:kinesis:us-east-1:000000000000:stream/{}",
        place.stream
    );
    let id = "shardId-000000000000:1000002";
    let digest = {
        use sha2::{Digest, Sha256};
        let digest = Sha256::digest(format!("{arn}{id}").as_bytes());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        hex
    };
    let want = json!({
        "partition_key": {"S": digest},
        "event_id": {"S": id},
        "event_time_stamp": {"N": (FIRST_MS + 2).to_string()},
        "record_payload": {"M": {
            "kinesis": {"M": {
                "kinesisSchemaVersion": {"S": "1.0"},
                "partitionKey": {"S": "user-1"},
                "sequenceNumber": {"S": "1000002"},
                "data": {"S": "aGVsbG8="},
                "approximateArrivalTimestamp": {"N": "1700000000.002"},
            }},
            "eventSource": {"S": "aws:kinesis"},
            "eventVersion": {"S": "1.0"},
            "eventID": {"S": id},
            "eventName": {"S": "aws:kinesis:record"},
            "invokeIdentityArn": {"S": role},
            "awsRegion": {"S": "us-east-1"},
            "eventSourceARN": {"S": arn},
        }},
    });
    assert_eq!(items.len(), 1);
    assert_eq!(item_to_json(items[0]), want);
}

#[tokio::test]
async fn a_restart_in_the_middle_loses_and_doubles_nothing() {
    for place in places("a restart").await {
        place.create(2).await;
        let first = numbered("first", 40);
        place.put(first.clone()).await;
        let mut pump = place.pump(Begin::TrimHorizon).await;
        let step = pump.step().await;
        assert!(step.records > 0 && step.failure.is_none(), "{step:?}");
        drop(pump);
        let second = numbered("second", 40);
        place.put(second.clone()).await;
        // The beginning is for pumps that have no checkpoints.
        let mut pump = place.pump(Begin::Latest).await;
        let done = drain(&mut pump).await;
        assert_eq!(step.records + done.records, 80);
        assert_eq!(done.present, 0);
        assert_eq!(place.texts().await, texts_of(&[first, second].concat()));
    }
}

/// A pump whose store fails as told.
async fn faulty(place: &Place) -> (Arc<Faulty>, Pump) {
    let items = Arc::new(Faulty::scripted(place.items.clone()));
    let log = place.log_on(items.clone()).await;
    let (kinesis, stream) = (place.kinesis.clone(), place.stream.clone());
    let pump = Pump::open(kinesis, stream, log, Begin::TrimHorizon).await;
    (items, pump.unwrap())
}

#[tokio::test]
async fn a_checkpoint_that_was_not_saved_is_pumped_again_and_stored_once() {
    let place = Place::here().await;
    place.create(1).await;
    let records = numbered("a", 10);
    place.put(records.clone()).await;
    let (items, mut pump) = faulty(&place).await;
    // The first write of a step is that of the records, the second its checkpoint.
    items.spare_next(Verb::Write, 1);
    items.fail_next(Verb::Write, 1, ErrorKind::Unavailable);
    let step = pump.step().await;
    assert!(step.failure.is_some(), "{step:?}");
    drop(pump);
    let done = drain(&mut place.pump(Begin::TrimHorizon).await).await;
    assert_eq!((done.records, done.present), (10, 7));
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn a_pump_that_restarts_after_a_sweep_doubles_nothing_in_playback() {
    let place = Place::here().await;
    place.create(1).await;
    let records = numbered("a", 5);
    place.put(records.clone()).await;
    let (items, mut pump) = faulty(&place).await;
    items.spare_next(Verb::Write, 1);
    items.fail_next(Verb::Write, 1, ErrorKind::Unavailable);
    assert!(pump.step().await.failure.is_some());
    assert_eq!(place.texts().await, texts_of(&records));
    let done = drain(&mut place.pump(Begin::TrimHorizon).await).await;
    assert_eq!((done.records, done.stored), (5, 5));
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn no_checkpoint_is_saved_for_records_that_may_not_be_stored() {
    let place = Place::here().await;
    place.create(1).await;
    let records = numbered("a", 12);
    place.put(records.clone()).await;
    let (items, mut pump) = faulty(&place).await;
    items.fail_next(Verb::Write, 1, ErrorKind::Unavailable);
    let step = pump.step().await;
    let failure = step.failure.expect("the store failed");
    assert_eq!(failure.kind(), ErrorKind::Unavailable);
    assert!(!step.is_caught_up);
    // Neither here nor in a restart is anything passed over.
    let done = drain(&mut pump).await;
    assert_eq!(done.records, 12);
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn a_step_may_be_dropped_anywhere() {
    let place = Place::here().await;
    place.create(2).await;
    let records = numbered("a", 60);
    place.put(records.clone()).await;
    let mut pump = place.pump(Begin::TrimHorizon).await;
    for polls in 0..40 {
        let mut step = Box::pin(pump.step());
        for _ in 0..polls {
            if (&mut step).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    drain(&mut pump).await;
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn latest_brings_what_comes_from_now_on() {
    for place in places("latest").await {
        place.create(2).await;
        place.put(numbered("before", 20)).await;
        let mut pump = place.pump(Begin::Latest).await;
        let after = numbered("after", 20);
        place.put(after.clone()).await;
        drain(&mut pump).await;
        assert_eq!(place.texts().await, texts_of(&after));
    }
}

#[tokio::test]
async fn a_pump_of_the_latest_that_stops_before_the_first_record_misses_nothing() {
    let place = Place::here().await;
    place.create(2).await;
    let pump = place.pump(Begin::Latest).await;
    drop(pump);
    let after = numbered("after", 20);
    place.put(after.clone()).await;
    drain(&mut place.pump(Begin::Latest).await).await;
    assert_eq!(place.texts().await, texts_of(&after));
}

#[tokio::test]
async fn an_iterator_that_is_too_old_is_replaced() {
    // One that reads from the latest on has its iterator from the beginning.
    for (begin, old) in [(Begin::TrimHorizon, 0), (Begin::Latest, 1)] {
        let place = Place::here().await;
        place.create(1).await;
        let mut pump = place.pump(begin).await;
        let records = numbered("a", 30);
        place.put(records.clone()).await;
        let mut n = 0;
        place.fake().fault(move |seen, _| {
            n += usize::from(seen.operation == "GetRecords");
            let is_old = seen.operation == "GetRecords" && n % 2 == old;
            is_old.then(|| error(400, "ExpiredIteratorException"))
        });
        drain(&mut pump).await;
        assert_eq!(place.texts().await, texts_of(&records), "{begin:?}");
    }
}

#[tokio::test]
async fn a_time_stamp_begins_with_what_arrived_then() {
    for place in places("a time stamp").await {
        place.create(1).await;
        let records = numbered("a", 20);
        place.put(records[..10].to_vec()).await;
        // Until the server's clock shows another millisecond.
        let log = place.log().await;
        let before = log.now().ms();
        while place.fake.is_none() && log.now().ms() <= before + 1 {
            tokio::task::yield_now().await;
        }
        let at = match &place.fake {
            // The stream was made at 1, the first ten records at 2 to 11.
            Some(_) => Time::from_ms(FIRST_MS + 12).unwrap(),
            None => log.now(),
        };
        place.put(records[10..].to_vec()).await;
        drain(&mut place.pump(Begin::At(at)).await).await;
        assert_eq!(place.texts().await, texts_of(&records[10..]));
    }
}

#[tokio::test]
async fn throttled_reads_are_repeated() {
    let place = Place::here().await;
    place.create(1).await;
    let records = numbered("a", 20);
    place.put(records.clone()).await;
    let mut n = 0;
    place.fake().fault(move |seen, _| {
        n += 1;
        let is_read = seen.operation.starts_with("Get") || seen.operation == "ListShards";
        match n % 3 {
            0 => None,
            _ if !is_read => None,
            1 => Some(error(400, "ProvisionedThroughputExceededException")),
            _ => Some(Act::Lose),
        }
    });
    drain(&mut place.pump(Begin::TrimHorizon).await).await;
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn a_shard_that_fails_does_not_hold_up_the_others() {
    let place = Place::here().await;
    place.create(2).await;
    let records = numbered("a", 30);
    place.put(records.clone()).await;
    let mut pump = place.pump(Begin::TrimHorizon).await;
    place.fake().fault(|seen, _| {
        let iterator = seen.body["ShardIterator"].as_str().unwrap_or_default();
        let is_broken = iterator.contains("shardId-000000000001");
        is_broken.then(|| error(500, "InternalFailure"))
    });
    let step = pump.step().await;
    assert!(step.records > 0 && !step.is_caught_up, "{step:?}");
    assert_eq!(step.failure.unwrap().kind(), ErrorKind::Unavailable);
    place.fake().heal();
    drain(&mut pump).await;
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn a_record_that_is_too_large_is_told_and_stands_without_its_data() {
    for place in places("a large record").await {
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
        let told = done.problems[0].to_string();
        assert!(told.contains("event id=`shardId-000000000000:"), "{told}");
        let events = place.events().await;
        assert_eq!(text_of(&events[0]), "small");
        let Data::Json(json) = events[1].data() else {
            panic!("{:?}", events[1]);
        };
        assert_eq!(json["kinesis"]["dataBytes"], 400_000);
    }
}

#[tokio::test]
async fn a_stream_that_is_not_there_or_another_is_refused() {
    let place = Place::here().await;
    let open = async || {
        let log = place.log().await;
        let (kinesis, stream) = (place.kinesis.clone(), place.stream.clone());
        Pump::open(kinesis, stream, log, Begin::Latest).await
    };
    let error = open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("there is no such stream"),
        "{error}"
    );
    place.create(1).await;
    assert!(open().await.is_ok());
    let delete = place.client.delete_stream();
    delete
        .stream_name(place.stream.as_str())
        .send()
        .await
        .unwrap();
    place.create(1).await;
    let error = open().await.unwrap_err();
    assert!(error.to_string().contains("created again"), "{error}");
}

#[tokio::test]
async fn steps_go_on_and_rest_when_everything_is_read() {
    let place = Place::here().await;
    place.create(1).await;
    let before = place.clock.monotonic();
    let pump = place.pump(Begin::TrimHorizon).await;
    let mut steps = Box::pin(pump.steps());
    assert!(steps.next().await.unwrap().is_caught_up);
    assert_eq!(place.clock.monotonic(), before);
    place.put(numbered("a", 1)).await;
    assert_eq!(steps.next().await.unwrap().records, 1);
    let rested = place.clock.monotonic() - before;
    assert_eq!(rested.as_millis(), 20);
}
