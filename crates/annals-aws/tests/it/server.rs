//! The DynamoDB server of the tests, and tables on it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use annals::items::{Items, KeyAttribute, KeySchema, TableName, TableSpec};
use annals::{Clock, Random, SystemClock};
use annals_aws::{AwsSettings, DynamoDb};
use futures::FutureExt;
use tokio::net::TcpListener;

/// Names the server to use instead of the emulator.
const ENDPOINT: &str = "ANNALS_TEST_DYNAMODB";

/// The endpoint of the named server, or of a new, empty emulator in this process.
pub(crate) async fn endpoint() -> String {
    if let Ok(endpoint) = std::env::var(ENDPOINT) {
        return endpoint;
    }
    emulator().await
}

/// The endpoint of a new, empty emulator in this process.
pub(crate) async fn emulator() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let database = dynoxide::Database::memory().unwrap();
    tokio::spawn(dynoxide::server::serve_on(listener, database));
    format!("http://{address}")
}

pub(crate) fn settings(endpoint: &str) -> AwsSettings {
    AwsSettings::at(endpoint)
}

/// A busy machine may be slow; no test waits for these limits.
fn patient_settings(endpoint: &str) -> AwsSettings {
    let mut settings = settings(endpoint);
    settings.aws_client_config.request_timeout = 60_000;
    settings.aws_client_config.client_execution_timeout = 180_000;
    settings
}

pub(crate) async fn open_at(endpoint: &str, clock: Arc<dyn Clock>) -> DynamoDb {
    let opened = DynamoDb::open_local(&settings(endpoint), clock, Random::seeded(1)).await;
    opened.unwrap()
}

pub(crate) async fn open() -> Arc<DynamoDb> {
    open_patient(&endpoint().await).await
}

pub(crate) async fn open_patient(endpoint: &str) -> Arc<DynamoDb> {
    let settings = patient_settings(endpoint);
    let clock = Arc::new(SystemClock::new());
    let opened = DynamoDb::open_local(&settings, clock, Random::seeded(1)).await;
    Arc::new(opened.unwrap())
}

/// A name that no other test or run uses.
pub(crate) fn unique(label: &str) -> TableName {
    let run = Random::from_machine().bits();
    format!("annals-test-{label}-{run:016x}").parse().unwrap()
}

/// A table with a text partition `p` and a number sort key `n`.
pub(crate) fn events() -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    TableSpec::new(unique("events"), key).unwrap()
}

/// Runs a test on a new table, which is dropped afterwards, even if the test panics.
pub(crate) async fn with_table<F: Future<Output = ()>>(
    table: TableSpec,
    test: impl FnOnce(Arc<DynamoDb>, Arc<TableSpec>) -> F,
) {
    with_table_at(&endpoint().await, table, test).await;
}

/// As [`with_table`], on a given server.
pub(crate) async fn with_table_at<F: Future<Output = ()>>(
    endpoint: &str,
    table: TableSpec,
    test: impl FnOnce(Arc<DynamoDb>, Arc<TableSpec>) -> F,
) {
    let (store, table) = (open_patient(endpoint).await, Arc::new(table));
    store
        .create_table(&table, Default::default())
        .await
        .unwrap();
    let test = test(store.clone(), table.clone());
    let outcome = AssertUnwindSafe(test).catch_unwind().await;
    assert!(store.drop_table(table.name()).await.unwrap());
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
