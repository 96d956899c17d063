//! The pump loses and repeats nothing, whatever stops or fails.

use std::sync::Arc;

use annals::ErrorKind;
use annals::items::{Scan, item_to_json, scan_pages};
use annals::store::Verb;
use annals_aws::kinesis::{Begin, Pump};
use annals_testkit::faulty::Faulty;
use futures::{FutureExt, StreamExt, TryStreamExt};
use serde_json::json;

use super::fake::FIRST_MS;
use super::place::{Place, drain, numbered, texts_of};
use crate::script::{Act, error};

#[tokio::test]
async fn a_buffered_record_equals_that_of_the_original() {
    let place = Place::here().await;
    place.create(1).await;
    place.put([("user-1".to_owned(), "hello".to_owned())]).await;
    let pump = place.pump(Begin::TrimHorizon).await;
    let role = "arn:aws:iam::000000000000:role/pump";
    let _ = drain(&mut pump.invoked_as(role)).await;
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

/// A pump on a faulty store.
async fn faulty(place: &Place) -> (Arc<Faulty>, Pump) {
    let items = Arc::new(Faulty::scripted(place.items.clone()));
    let log = place.log_on(items.clone()).await;
    let (kinesis, stream) = (place.kinesis.clone(), place.stream.clone());
    let pump = Pump::open(kinesis, stream, log, Begin::TrimHorizon).await;
    (items, pump.unwrap())
}

#[tokio::test]
async fn records_without_a_checkpoint_are_pumped_again_and_stored_once() {
    let place = Place::here().await;
    place.create(1).await;
    let records = numbered("a", 10);
    place.put(records.clone()).await;
    let (items, mut pump) = faulty(&place).await;
    // A step writes its records first, then its checkpoint.
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
async fn a_restart_after_a_sweep_repeats_nothing_in_playback() {
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
async fn saves_no_checkpoint_for_records_that_may_not_be_stored() {
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
    // Nothing is skipped, here or after a restart.
    let done = drain(&mut pump).await;
    assert_eq!(done.records, 12);
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn a_step_can_be_cancelled_anywhere() {
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
    let _ = drain(&mut pump).await;
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn a_pump_from_latest_that_stops_before_the_first_record_misses_nothing() {
    let place = Place::here().await;
    place.create(2).await;
    let pump = place.pump(Begin::Latest).await;
    drop(pump);
    let after = numbered("after", 20);
    place.put(after.clone()).await;
    let _ = drain(&mut place.pump(Begin::Latest).await).await;
    assert_eq!(place.texts().await, texts_of(&after));
}

#[tokio::test]
async fn replaces_an_expired_iterator() {
    // A pump that starts at the latest record gets its iterator when it is opened.
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
        let _ = drain(&mut pump).await;
        assert_eq!(place.texts().await, texts_of(&records), "{begin:?}");
    }
}

#[tokio::test]
async fn retries_throttled_reads() {
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
    let _ = drain(&mut place.pump(Begin::TrimHorizon).await).await;
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn a_failing_shard_does_not_block_the_others() {
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
    let _ = drain(&mut pump).await;
    assert_eq!(place.texts().await, texts_of(&records));
}

#[tokio::test]
async fn refuses_a_missing_or_another_stream() {
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
async fn steps_pause_after_everything_is_read() {
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
