//! Scripted failures of DynamoDB and of the network. The clock is manual: no test waits.

use std::collections::HashSet;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use annals::items::{
    Condition, Cost, Item, Items, Key, KeyAttribute, KeySchema, TableSpec, Write, WriteError,
};
use annals::{Clock, Error, ErrorKind, ManualClock, Random};
use annals_aws::{AwsSettings, DynamoDb};
use serde_json::{Value as Json, json};

use crate::script::{Act, Script, error, ok};
use crate::server::{endpoint, events, open_at, settings};

fn event(n: u64) -> Item {
    Item::new().with("p", "cart-1").with("n", n)
}

fn key(n: u64) -> Key {
    Key::new("cart-1").sorted(n)
}

fn table() -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    TableSpec::new("events".parse().unwrap(), key).unwrap()
}

fn put_answer(units: f64) -> Act {
    ok(json!({"ConsumedCapacity": {"TableName": "events", "CapacityUnits": units}}))
}

#[track_caller]
fn failed(outcome: Result<Cost, WriteError>) -> Error {
    match outcome {
        Err(WriteError::Failed(error)) => error,
        other => panic!("not failed: {other:?}"),
    }
}

fn chain(error: &Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| {
        format!("{text} <- {cause}")
    })
}

#[tokio::test]
async fn retries_and_counts_a_throttled_put() {
    let script = Script::start(|n, _| match n {
        0 => error(400, "ProvisionedThroughputExceededException"),
        1 => error(400, "ThrottlingException"),
        _ => put_answer(1.0),
    })
    .await;
    let (store, clock) = script.open().await;
    let cost = store
        .put(&table(), event(1), Condition::Absent)
        .await
        .unwrap();
    assert_eq!((cost.requests, cost.write_units), (3, 1));
    assert_eq!(script.seen().len(), 3);
    let waited = clock.monotonic();
    assert!(
        waited > Duration::ZERO && waited <= Duration::from_millis(50 + 100),
        "{waited:?}"
    );
}

#[tokio::test]
async fn a_failing_server_is_unavailable_at_the_deadline() {
    let script = Script::start(|_, _| error(500, "InternalServerError")).await;
    let (store, clock) = script.open().await;
    let error = failed(store.put(&table(), event(1), Condition::Absent).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let attempts = script.seen().len();
    let text = chain(&error);
    assert!(
        text.starts_with("DynamoDB did not answer within client-execution-timeout"),
        "{text}"
    );
    assert!(
        text.contains(&format!("attempts=`{attempts}`")),
        "{attempts}: {text}"
    );
    assert!(
        text.ends_with("code=`InternalServerError` <- as scripted"),
        "{text}"
    );
    assert!(attempts > 5);
    assert!(clock.monotonic() <= Duration::from_secs(15));
}

#[tokio::test]
async fn reports_throttling_at_the_deadline() {
    let script = Script::start(|_, _| error(400, "RequestLimitExceeded")).await;
    let (store, _) = script.open().await;
    let error = store.get(&table(), vec![key(1)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().starts_with("DynamoDB throttles"),
        "{error}"
    );
}

#[tokio::test]
async fn retries_after_a_gateway_error() {
    let script = Script::start(|n, _| match n {
        0 => Act::Answer(503, "<html>try later</html>".to_owned()),
        1 => Act::Lose,
        _ => put_answer(1.0),
    })
    .await;
    let (store, _) = script.open().await;
    let cost = store
        .put(&table(), event(1), Condition::Always)
        .await
        .unwrap();
    assert_eq!(cost.requests, 3);
}

#[tokio::test]
async fn does_not_retry_a_refusal() {
    let script = Script::start(|_, _| {
        let item = json!({"p": {"S": "cart-1"}, "n": {"N": "1"}, "w": {"S": "you"}});
        let code = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        let body = json!({"__type": code, "message": "as scripted", "Item": item});
        Act::Answer(400, body.to_string())
    })
    .await;
    let (store, _) = script.open().await;
    let large = event(1).with("d", vec![0u8; 2_500]);
    match store.put(&table(), large, Condition::Absent).await {
        Err(WriteError::Refused { existing, cost }) => {
            assert_eq!(existing.as_deref(), Some(&event(1).with("w", "you")));
            assert_eq!((cost.requests, cost.write_units), (1, 3));
        }
        other => panic!("{other:?}"),
    }
    let asked = &script.seen()[0].body;
    assert_eq!(asked["ConditionExpression"], "attribute_not_exists(#a)");
    assert_eq!(asked["ExpressionAttributeNames"], json!({"#a": "p"}));
    assert_eq!(asked["ReturnValuesOnConditionCheckFailure"], "ALL_OLD");
    assert_eq!(asked["ReturnConsumedCapacity"], "TOTAL");
}

#[tokio::test]
async fn reads_the_existing_item_after_a_refusal_without_it() {
    let script = Script::start(|n, _| match n {
        0 => error(400, "ConditionalCheckFailedException"),
        _ => ok(json!({"Item": {"p": {"S": "cart-1"}, "n": {"N": "1"}}})),
    })
    .await;
    let (store, _) = script.open().await;
    match store.put(&table(), event(1), Condition::Absent).await {
        Err(WriteError::Refused { existing, cost }) => {
            assert_eq!(existing.as_deref(), Some(&event(1)));
            assert_eq!(cost.requests, 2);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(script.seen()[1].operation, "GetItem");
    assert_eq!(script.seen()[1].body["ConsistentRead"], true);
}

#[tokio::test]
async fn a_lost_response_then_a_refusal_returns_our_own_item() {
    let behind = endpoint().await;
    let clock = Arc::new(ManualClock::at_ms(0));
    let direct = open_at(&behind, clock).await;
    let table = events();
    direct
        .create_table(&table, Default::default())
        .await
        .unwrap();

    let script = Script::in_front_of(&behind, |n, _| match n {
        0 => Act::ForwardAndLose,
        _ => Act::Forward,
    })
    .await;
    let (store, _) = script.open().await;
    let mine = event(1).with("writer", "token-1");
    let outcome = store.put(&table, mine.clone(), Condition::Absent).await;
    direct.drop_table(table.name()).await.unwrap();
    match outcome {
        Err(WriteError::Refused { existing, cost }) => {
            assert_eq!(existing.as_deref(), Some(&mine));
            assert_eq!(cost.requests, 2);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn lost_responses_about_tables_are_not_conflicts() {
    let behind = endpoint().await;
    // The first response of each kind is lost.
    let mut lost = HashSet::new();
    let script = Script::in_front_of(&behind, move |_, request| {
        match lost.insert(request.operation.clone()) && request.operation != "DescribeTable" {
            true => Act::ForwardAndLose,
            false => Act::Forward,
        }
    })
    .await;
    let (store, _) = script.open().await;
    let table = events();
    store
        .create_table(&table, Default::default())
        .await
        .unwrap();
    assert!(store.drop_table(table.name()).await.unwrap());
}

/// The writes of a request in order, and a response that leaves some unprocessed.
fn leave(body: &Json, unprocessed: impl Fn(usize) -> bool) -> Act {
    let writes = body["RequestItems"]["events"].as_array().unwrap();
    let left: Vec<_> = writes
        .iter()
        .enumerate()
        .filter(|(n, _)| unprocessed(*n))
        .collect();
    let left: Vec<_> = left.into_iter().map(|(_, write)| write).collect();
    let done = writes.len() - left.len();
    let left = match left.is_empty() {
        true => json!({}),
        false => json!({ "events": left }),
    };
    let capacity = json!([{"TableName": "events", "CapacityUnits": done}]);
    ok(json!({"UnprocessedItems": left, "ConsumedCapacity": capacity}))
}

#[tokio::test]
async fn resends_unprocessed_writes_until_none_is_left() {
    let script = Script::start(|_, request| leave(&request.body, |n| n % 3 != 0)).await;
    let (store, clock) = script.open().await;
    let writes = (0..10).map(|n| Write::Put(event(n)));
    let writes = writes.chain([Write::Delete(key(10))]).collect();
    let cost = store.write(&table(), writes).await.unwrap();
    // 11, 7, 4, 2, 1 and at last none.
    assert_eq!((cost.requests, cost.write_units), (5, 11));
    let sent = script.seen().into_iter();
    let sent = sent.map(|s| s.body["RequestItems"]["events"].as_array().unwrap().len());
    assert_eq!(sent.collect::<Vec<_>>(), [11, 7, 4, 2, 1]);
    assert_eq!(clock.monotonic(), Duration::ZERO, "each answer got on");
}

#[tokio::test]
async fn pauses_before_resending_if_nothing_was_processed() {
    let script = Script::start(|n, request| match n % 2 {
        0 if request.operation == "BatchWriteItem" => leave(&request.body, |_| true),
        0 => ok(json!({"Responses": {}, "UnprocessedKeys": request.body["RequestItems"]})),
        _ if request.operation == "BatchWriteItem" => leave(&request.body, |_| false),
        _ => ok(json!({"Responses": {"events": []}})),
    })
    .await;
    let (store, clock) = script.open().await;
    let writes = vec![Write::Put(event(1)), Write::Delete(key(2))];
    let cost = store.write(&table(), writes).await.unwrap();
    assert_eq!(cost.requests, 2);
    let after_writes = clock.monotonic();
    assert!(after_writes > Duration::ZERO);
    let got = store.get(&table(), vec![key(1), key(2)]).await.unwrap();
    assert_eq!(got.cost.requests, 2);
    assert!(clock.monotonic() > after_writes);
}

#[tokio::test]
async fn names_unprocessed_writes_in_the_order_of_the_caller() {
    let script = Script::start(|_, request| {
        let number = |write: &Json| -> u64 {
            let item = &write["PutRequest"]["Item"];
            item["n"]["N"].as_str().unwrap().parse().unwrap()
        };
        let writes = request.body["RequestItems"]["events"]
            .as_array()
            .unwrap()
            .clone();
        leave(&request.body, |n| number(&writes[n]) % 10 == 7)
    })
    .await;
    let (store, clock) = script.open().await;
    let writes: Vec<Write> = (0..60).rev().map(|n| Write::Put(event(n))).collect();
    let error = store.write(&table(), writes).await.unwrap_err();
    let put = |n| Write::Put(event(n));
    assert_eq!(error.remaining, [57, 47, 37, 27, 17, 7].map(put));
    assert_eq!(error.cost.write_units, 54);
    assert_eq!(error.cost.requests, script.seen().len() as u64);
    assert_eq!(error.cause.kind(), ErrorKind::Unavailable);
    assert!(clock.monotonic() <= Duration::from_secs(15 * 3));
    let error = Error::from(error);
    assert!(
        error
            .to_string()
            .starts_with("6 writes of the batch remain"),
        "{error}"
    );
}

#[tokio::test]
async fn a_failed_batch_names_every_unconfirmed_write() {
    // The third request of the batch and all after it fail for good.
    let script = Script::start(|n, request| match n {
        0 | 1 => leave(&request.body, |_| false),
        _ => error(400, "AccessDeniedException"),
    })
    .await;
    let mut settings = settings(&script.endpoint);
    settings.aws_client_config.max_connections = 1;
    let clock = Arc::new(ManualClock::at_ms(0));
    let store = DynamoDb::open_local(&settings, clock, Random::seeded(1))
        .await
        .unwrap();
    let writes: Vec<Write> = (0..200).map(|n| Write::Put(event(n))).collect();
    let error = store.write(&table(), writes.clone()).await.unwrap_err();
    assert_eq!(error.remaining, writes[50..]);
    assert_eq!(error.cause.kind(), ErrorKind::Invalid);
    // No chunk starts after a failure.
    assert_eq!((script.seen().len(), error.cost.requests), (3, 3));
    assert_eq!(error.cost.write_units, 50);
}

#[tokio::test]
async fn requests_unprocessed_keys_again() {
    let script = Script::start(|_, request| {
        // Returns the first key and leaves the others.
        let keys = request.body["RequestItems"]["events"]["Keys"]
            .as_array()
            .unwrap();
        let left = match &keys[1..] {
            [] => json!({}),
            left => json!({"events": {"Keys": left, "ConsistentRead": true}}),
        };
        let capacity = json!([{"TableName": "events", "CapacityUnits": 1.0}]);
        ok(json!({
            "Responses": {"events": [keys[0]]},
            "UnprocessedKeys": left,
            "ConsumedCapacity": capacity,
        }))
    })
    .await;
    let (store, clock) = script.open().await;
    let got = store
        .get(&table(), (0..4).rev().map(key).collect())
        .await
        .unwrap();
    assert_eq!(got.items, [3, 2, 1, 0].map(|n| Some(event(n))));
    assert_eq!((got.cost.requests, got.cost.read_half_units), (4, 8));
    assert_eq!(clock.monotonic(), Duration::ZERO, "each answer got on");
}

#[tokio::test]
async fn keys_left_unprocessed_are_unavailable() {
    let script = Script::start(|_, request| {
        let left = &request.body["RequestItems"];
        ok(json!({"Responses": {}, "UnprocessedKeys": left}))
    })
    .await;
    let (store, _) = script.open().await;
    let error = store.get(&table(), vec![key(1), key(2)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(chain(&error).ends_with("keys=`2`"), "{}", chain(&error));
}

#[tokio::test]
async fn computes_the_cost_if_the_server_reports_none() {
    let script = Script::start(|_, request| match request.operation.as_str() {
        "GetItem" => ok(json!({"Item": {"p": {"S": "cart-1"}, "n": {"N": "1"}}})),
        "Query" => ok(json!({"Items": [], "Count": 0, "LastEvaluatedKey": {}})),
        _ => ok(json!({})),
    })
    .await;
    let (store, _) = script.open().await;
    let table = table();
    let large = event(1).with("d", vec![0u8; 3_000]);
    let put = store
        .put(&table, large.clone(), Condition::Always)
        .await
        .unwrap();
    assert_eq!((put.requests, put.write_units), (1, 3));
    let delete = store
        .delete(&table, key(1), Condition::Always)
        .await
        .unwrap();
    assert_eq!((delete.requests, delete.write_units), (1, 1));
    let got = store.get(&table, vec![key(1)]).await.unwrap();
    assert_eq!((got.cost.requests, got.cost.read_half_units), (1, 2));
    let got = store.get(&table, vec![key(1), key(2)]).await.unwrap();
    assert_eq!((got.cost.requests, got.cost.read_half_units), (1, 4));
    let writes = vec![Write::Put(large), Write::Delete(key(2))];
    let written = store.write(&table, writes).await.unwrap();
    assert_eq!((written.requests, written.write_units), (1, 4));
    let query = annals::items::Query::of("cart-1").eventually();
    let page = store.query(&table, query).await.unwrap();
    assert_eq!((page.cost.requests, page.cost.read_half_units), (1, 1));
    assert_eq!(page.next, None);
}

#[tokio::test]
async fn refused_credentials_are_invalid_and_not_retried() {
    for code in ["UnrecognizedClientException", "AccessDeniedException"] {
        let script = Script::start(move |_, _| error(400, code)).await;
        let (store, _) = script.open().await;
        let error = failed(store.put(&table(), event(1), Condition::Absent).await);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(
            text.starts_with("AWS refused the credentials; check AWS_PROFILE"),
            "{text}"
        );
        assert!(text.ends_with(&format!(". code=`{code}`")), "{text}");
        assert_eq!(script.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_not_dynamodb_is_invalid() {
    for status in [200, 404] {
        let html = "<!doctype html><title>hello</title>";
        let script = Script::start(move |_, _| Act::Answer(status, html.to_owned())).await;
        let (store, _) = script.open().await;
        let error = store.get(&table(), vec![key(1)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.starts_with("the endpoint is not DynamoDB"), "{text}");
        assert_eq!(script.seen().len(), 1);
    }
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let clock = Arc::new(ManualClock::at_ms(0));
    let store = open_at("http://127.0.0.1:1", clock).await;
    let error = failed(store.put(&table(), event(1), Condition::Absent).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = chain(&error);
    assert!(
        text.starts_with("cannot reach DynamoDB; check the endpoint"),
        "{text}"
    );
    assert!(text.to_lowercase().contains("refused"), "{text}");
}

#[tokio::test]
async fn refuses_invalid_settings() {
    let refused = async |change: &dyn Fn(&mut AwsSettings)| {
        let mut settings = settings("http://127.0.0.1:1");
        change(&mut settings);
        let clock = Arc::new(ManualClock::at_ms(0));
        let opened = DynamoDb::open_local(&settings, clock, Random::seeded(1)).await;
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    let text = refused(&|s| s.aws_client_config.max_connections = 0).await;
    assert!(
        text.ends_with("setting=`aws-client-config.max-connections`"),
        "{text}"
    );
    let text = refused(&|s| s.aws_client_config.request_timeout = 0).await;
    assert!(
        text.ends_with("setting=`aws-client-config.request-timeout`"),
        "{text}"
    );
    let text = refused(&|s| s.endpoint = Some("localhost:8000".to_owned())).await;
    assert!(text.ends_with("endpoint=`localhost:8000`"), "{text}");
    for endpoint in ["http://127.0.0.1:99999", "http://127.0.0.1:1 x", "http://"] {
        let text = refused(&|s| s.endpoint = Some(endpoint.to_owned())).await;
        assert!(text.ends_with(&format!("endpoint=`{endpoint}`")), "{text}");
    }
    for region in ["", "eu west 1"] {
        let text = refused(&|s| s.region = Some(region.to_owned())).await;
        assert!(text.ends_with(&format!("region=`{region}`")), "{text}");
    }
    refused(&|s| s.endpoint = None).await;
}

#[tokio::test]
async fn reuses_a_limited_number_of_connections() {
    let script = Script::start(|_, _| put_answer(1.0)).await;
    let mut settings = settings(&script.endpoint);
    settings.aws_client_config.max_connections = 2;
    let clock = Arc::new(ManualClock::at_ms(0));
    let store = DynamoDb::open_local(&settings, clock, Random::seeded(1));
    let (store, table) = (store.await.unwrap(), table());
    let puts = (0..40).map(|n| store.put(&table, event(n), Condition::Absent));
    futures::future::try_join_all(puts).await.unwrap();
    assert_eq!(script.seen().len(), 40);
    let connections = script.connections();
    // The pool may open one for a request that then gets another.
    assert!(connections <= 4, "{connections}");
}
