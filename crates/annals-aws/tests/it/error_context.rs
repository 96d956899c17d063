//! Errors name the request, the table and the keys: FR7 to FR12 of the plugin's own tests, on requests
//! that the server rejects. `annals_testkit::tck` tests the same for a missing table on every store.

use std::error::Error as _;

use annals::items::{
    BatchError, Condition, IndexSpec, Item, Key, KeyAttribute, KeySchema, Query, Scan, SortRange,
    TableSpec, Write,
};
use annals::store::Store;
use annals::{Error, ErrorKind, Result};

use crate::script::{Script, error};
use crate::server::{events, open};

const SECRET: &str = "confidential";

fn event(n: u64) -> Item {
    let item = Item::new().with("p", "cart-1").with("n", n);
    item.with("payload", SECRET)
}

fn key(n: u64) -> Key {
    Key::new("cart-1").sorted(n)
}

fn table() -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let by_tag = KeySchema::new(KeyAttribute::text("tag"));
    let table = TableSpec::new("events".parse().unwrap(), key).unwrap();
    let by_tag = IndexSpec::global("by-tag".parse().unwrap(), by_tag);
    table.with_index(by_tag).unwrap()
}

/// The handle that adds the context.
async fn store(script: &Script) -> Store {
    Store::from_items(script.open().await.0)
}

/// The first line ends with the request, after the message of the server.
#[track_caller]
fn check<T: std::fmt::Debug>(outcome: Result<T, impl Into<Error>>, facts: &str) {
    let error: Error = outcome.map_err(Into::into).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    let want = format!("DynamoDB refused the request. code=`ValidationException`, {facts}");
    assert_eq!(error.to_string(), want);
    assert_eq!(error.source().unwrap().to_string(), "as scripted");
    assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
}

fn cause(error: BatchError) -> Error {
    error.cause
}

#[tokio::test]
async fn fr7_a_failed_description_names_request_and_table() {
    let script = Script::start(|_, _| error(400, "ValidationException")).await;
    let (store, table) = (store(&script).await, table());
    let described = store.describe_table(table.name()).await;
    check(described, "request=`describe_table`, table=`events`");
    let created = store.create_table(&table, Default::default()).await;
    check(created, "request=`create_table`, table=`events`");
    let dropped = store.drop_table(table.name()).await;
    check(dropped, "request=`drop_table`, table=`events`");
}

#[tokio::test]
async fn fr8_fr9_a_rejected_put_or_delete_names_its_key() {
    let script = Script::start(|_, _| error(400, "ValidationException")).await;
    let (store, table) = (store(&script).await, table());
    let put = store.put(&table, event(7), Condition::Absent).await;
    check(put, "request=`put`, table=`events`, key=`cart-1, 7`");
    let deleted = store.delete(&table, key(7), Condition::Always).await;
    check(deleted, "request=`delete`, table=`events`, key=`cart-1, 7`");
}

#[tokio::test]
async fn fr10_a_rejected_query_names_partition_sort_key_and_index() {
    let script = Script::start(|_, _| error(400, "ValidationException")).await;
    let (store, table) = (store(&script).await, table());
    let range = SortRange::Between(1u64.into(), 9u64.into());
    let page = store.query(&table, Query::of("cart-1").within(range)).await;
    let facts = "request=`query`, table=`events`, partition=`cart-1`, sort key=`1 to 9`";
    check(page, facts);
    let query = Query::of("red").on("by-tag").eventually();
    let facts = "request=`query`, table=`events`, index=`by-tag`, partition=`red`";
    check(store.query(&table, query).await, facts);
    let page = store.scan(&table, Scan::whole()).await;
    check(page, "request=`scan`, table=`events`");
}

#[tokio::test]
async fn fr11_a_rejected_batch_write_distinguishes_puts_and_deletes() {
    let script = Script::start(|_, _| error(400, "ValidationException")).await;
    let (store, table) = (store(&script).await, table());
    let puts = (1..=30).map(|n| Write::Put(event(n)));
    let writes = puts.chain([Write::Delete(key(99))]).collect();
    let written = store.write(&table, writes).await;
    let facts = "request=`write`, table=`events`, \
        puts=`cart-1, 1; cart-1, 2; cart-1, 3 and 27 more`, delete=`cart-1, 99`";
    check(written.map_err(cause), facts);
}

#[tokio::test]
async fn fr12_a_rejected_batch_get_names_its_first_keys() {
    let script = Script::start(|_, _| error(400, "ValidationException")).await;
    let (store, table) = (store(&script).await, table());
    let got = store.get(&table, (1..=120).map(key).collect()).await;
    let facts = "request=`get`, table=`events`, \
        keys=`cart-1, 1; cart-1, 2; cart-1, 3 and 117 more`";
    check(got, facts);
    let got = store.get(&table, vec![key(1)]).await;
    check(got, "request=`get`, table=`events`, key=`cart-1, 1`");
}

#[tokio::test]
async fn a_long_or_multi_line_key_is_shortened_to_one_line() {
    let script = Script::start(|_, _| error(400, "ValidationException")).await;
    let (store, table) = (store(&script).await, table());
    let long = Key::new("ü".repeat(900)).sorted(1u64);
    let facts = format!("request=`get`, table=`events`, key=`{}…`", "ü".repeat(200));
    check(store.get(&table, vec![long]).await, &facts);
    let ragged = Key::new("a\nb").sorted(1u64);
    let facts = "request=`get`, table=`events`, key=`a\u{fffd}b, 1`";
    check(store.get(&table, vec![ragged]).await, facts);
}

#[tokio::test]
async fn a_request_at_its_deadline_is_named() {
    let script = Script::start(|_, _| error(400, "ThrottlingException")).await;
    let (store, table) = (store(&script).await, table());
    let put = store.put(&table, event(7), Condition::Absent).await;
    let error = Error::from(put.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let (text, requests) = (error.to_string(), script.seen().len());
    let facts = format!("attempts=`{requests}`, request=`put`, table=`events`, key=`cart-1, 7`");
    assert!(text.ends_with(&facts), "{text}");
}

/// On a real server: the table has another key than the spec.
#[tokio::test]
async fn a_request_rejected_by_a_server_is_named() {
    let (store, table) = (Store::from_items(open().await), events());
    store
        .create_table(&table, Default::default())
        .await
        .unwrap();
    let other = KeySchema::new(KeyAttribute::text("q")).sorted(KeyAttribute::text("s"));
    let other = TableSpec::new(table.name().clone(), other).unwrap();
    let item = Item::new().with("q", "x").with("s", "y");
    let put = store.put(&other, item.with("payload", SECRET), Condition::Always);
    let put = Error::from(put.await.unwrap_err());
    let key = || Key::new("x").sorted("y");
    let deleted = store.delete(&other, key(), Condition::Always).await;
    let queried = store.query(&other, Query::of("x")).await;
    let errors = [
        ("put", put),
        ("delete", deleted.unwrap_err().into()),
        ("query", queried.unwrap_err()),
        ("get", store.get(&other, vec![key()]).await.unwrap_err()),
    ];
    store.drop_table(table.name()).await.unwrap();
    for (request, error) in errors {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        let text = error.to_string();
        let keys = match request {
            "query" => "partition=`x`",
            _ => "key=`x, y`",
        };
        let facts = format!("request=`{request}`, table=`{}`, {keys}", table.name());
        assert!(text.ends_with(&facts), "{text}");
        assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
    }
}
