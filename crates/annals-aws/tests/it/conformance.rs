//! The conformance suite on DynamoDB.

use annals_testkit::conformance;

use crate::server::{emulator, open, open_patient};

/// DynamoDB Local reports wrong units for reads and deletes of absent items, so these checks always
/// run on the emulator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamodb_passes_the_suite() {
    const ABSENT: &str = "cost_of_nothing";
    conformance::run_where(open().await, |check| check.subject != ABSENT).await;
    let emulator = open_patient(&emulator().await).await;
    conformance::run_where(emulator, |check| check.subject == ABSENT).await;
}
