//! The properties of journals, snapshots and durable state, on DynamoDB.

use annals::layout::Layout;
use annals::tck;

use crate::server::open;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journals_on_dynamodb() {
    tck::run(tck::journal::PROPERTIES, open().await, Layout::Annals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_on_dynamodb() {
    tck::run(tck::snapshot::PROPERTIES, open().await, Layout::Annals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_state_on_dynamodb() {
    tck::run(tck::state::PROPERTIES, open().await, Layout::Annals).await;
}
