//! The suite that every store must pass.

use annals_testkit::conformance;

use crate::server::{is_emulator, open};

/// DynamoDB Local charges other units than DynamoDB does for reading or deleting what is not
/// there, so those checks run on the emulator alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamodb_conforms() {
    let is_known_to_differ = |subject: &str| !is_emulator() && subject == "cost_of_nothing";
    if !is_emulator() {
        println!("skipped on this server: the checks of cost_of_nothing");
    }
    conformance::run_where(open().await, |check| !is_known_to_differ(check.subject)).await;
}
