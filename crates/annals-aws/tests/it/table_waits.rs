//! Scripted tables that take time to be created and dropped.

use std::time::Duration;

use annals::items::{IndexSpec, Items, KeyAttribute, KeySchema, TableSpec};
use annals::{Clock, ErrorKind};
use serde_json::{Value as Json, json};

use crate::script::{Act, Script, error, ok};

fn table() -> TableSpec {
    let key = |name: &str| KeySchema::new(KeyAttribute::text(name));
    let index = IndexSpec::global("by-tag".parse().unwrap(), key("tag"));
    let table = TableSpec::new("events".parse().unwrap(), key("p")).unwrap();
    table.with_index(index).unwrap()
}

/// The description of the table, with its status and that of its index.
fn described(status: &str, index_status: &str) -> Json {
    let key = |name: &str| json!([{"AttributeName": name, "KeyType": "HASH"}]);
    json!({
        "TableName": "events",
        "TableStatus": status,
        "KeySchema": key("p"),
        "AttributeDefinitions": [
            {"AttributeName": "p", "AttributeType": "S"},
            {"AttributeName": "tag", "AttributeType": "S"},
        ],
        "GlobalSecondaryIndexes": [{
            "IndexName": "by-tag",
            "IndexStatus": index_status,
            "KeySchema": key("tag"),
            "Projection": {"ProjectionType": "ALL"},
        }],
    })
}

fn created(status: &str) -> Act {
    ok(json!({"TableDescription": described(status, status)}))
}

fn polled(status: &str, index_status: &str) -> Act {
    ok(json!({"Table": described(status, index_status)}))
}

#[tokio::test]
async fn waits_for_a_table_with_its_indexes() {
    let script = Script::start(|n, _| match n {
        0 => created("CREATING"),
        1 => polled("CREATING", "CREATING"),
        2 => polled("ACTIVE", "CREATING"),
        _ => polled("ACTIVE", "ACTIVE"),
    })
    .await;
    let (store, clock) = script.open().await;
    store
        .create_table(&table(), Default::default())
        .await
        .unwrap();
    assert_eq!(script.seen().len(), 4);
    assert!(clock.monotonic() > Duration::ZERO);
}

#[tokio::test]
async fn gives_up_on_a_table_that_is_never_ready() {
    let script = Script::start(|n, _| match n {
        0 => created("CREATING"),
        _ => polled("CREATING", "CREATING"),
    })
    .await;
    let (store, clock) = script.open().await;
    let error = store
        .create_table(&table(), Default::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error
            .to_string()
            .starts_with("table is still changing after 300 s"),
        "{error}"
    );
    assert!(clock.monotonic() >= Duration::from_secs(300));
}

#[tokio::test]
async fn another_table_of_the_same_name_is_a_conflict_even_after_a_lost_response() {
    let script = Script::start(|n, request| match (n, request.operation.as_str()) {
        (0, _) => Act::Lose,
        (_, "CreateTable") => error(400, "ResourceInUseException"),
        _ => {
            let mut other = described("ACTIVE", "ACTIVE");
            other["AttributeDefinitions"][0]["AttributeType"] = json!("N");
            ok(json!({"Table": other}))
        }
    })
    .await;
    let (store, _) = script.open().await;
    let error = store
        .create_table(&table(), Default::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn waits_to_drop_a_table_and_until_it_is_gone() {
    let script = Script::start(|n, _| match n {
        0 => error(400, "ResourceInUseException"),
        1 => created("DELETING"),
        2 => polled("DELETING", "DELETING"),
        _ => error(400, "ResourceNotFoundException"),
    })
    .await;
    let (store, _) = script.open().await;
    assert!(store.drop_table(table().name()).await.unwrap());
    let operations: Vec<_> = script.seen().into_iter().map(|s| s.operation).collect();
    assert_eq!(
        operations,
        [
            "DeleteTable",
            "DeleteTable",
            "DescribeTable",
            "DescribeTable"
        ]
    );
}

#[tokio::test]
async fn ignores_an_index_that_a_spec_cannot_express() {
    let script = Script::start(|_, _| {
        let mut wide = described("ACTIVE", "ACTIVE");
        let index = &mut wide["GlobalSecondaryIndexes"][0]["KeySchema"];
        *index = json!([
            {"AttributeName": "tag", "KeyType": "HASH"},
            {"AttributeName": "p", "KeyType": "HASH"},
        ]);
        ok(json!({"Table": wide}))
    })
    .await;
    let (store, _) = script.open().await;
    let found = store.describe_table(table().name()).await.unwrap().unwrap();
    assert_eq!(found.indexes(), []);
    assert_eq!(table().differences(&found), ["index `by-tag` is missing"]);
}

#[tokio::test]
async fn reports_the_limit_of_tables_at_once() {
    let script = Script::start(|_, _| error(400, "LimitExceededException")).await;
    let (store, clock) = script.open().await;
    let error = store
        .create_table(&table(), Default::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    assert!(text.contains("raise the quota"), "{text}");
    assert_eq!(
        (script.seen().len(), clock.monotonic()),
        (1, Duration::ZERO)
    );
}
