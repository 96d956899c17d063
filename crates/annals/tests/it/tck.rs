//! Every property on every layout and on the stores of this crate.

use std::sync::Arc;

use annals::embedded::Embedded;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::tck::{self, Property};
use tempfile::TempDir;

async fn on_memory(properties: &[Property], layout: Layout) {
    tck::run(properties, Arc::new(Memory::new()), layout).await;
}

async fn on_embedded(properties: &[Property], layout: Layout) {
    let folder = TempDir::new().unwrap();
    let items = Embedded::open(folder.path(), &Default::default()).unwrap();
    tck::run(properties, Arc::new(items), layout).await;
}

#[tokio::test]
async fn journals_on_memory() {
    on_memory(tck::journal::PROPERTIES, Layout::Annals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journals_on_embedded() {
    on_embedded(tck::journal::PROPERTIES, Layout::Annals).await;
}

#[tokio::test]
async fn snapshots_on_memory() {
    on_memory(tck::snapshot::PROPERTIES, Layout::Annals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_on_embedded() {
    on_embedded(tck::snapshot::PROPERTIES, Layout::Annals).await;
}

#[tokio::test]
async fn durable_state_on_memory() {
    on_memory(tck::state::PROPERTIES, Layout::Annals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_state_on_embedded() {
    on_embedded(tck::state::PROPERTIES, Layout::Annals).await;
}

#[tokio::test]
async fn akka_journals_on_memory() {
    on_memory(tck::journal::PROPERTIES, Layout::Akka).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn akka_journals_on_embedded() {
    on_embedded(tck::journal::PROPERTIES, Layout::Akka).await;
}

#[tokio::test]
async fn akka_snapshots_on_memory() {
    on_memory(tck::snapshot::PROPERTIES, Layout::Akka).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn akka_snapshots_on_embedded() {
    on_embedded(tck::snapshot::PROPERTIES, Layout::Akka).await;
}
