//! Every property on every layout and on the stores of this crate.

use std::sync::Arc;

use annals::embedded::Embedded;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::tck;
use tempfile::TempDir;

#[tokio::test]
async fn journals_on_memory() {
    tck::run(
        tck::journal::PROPERTIES,
        Arc::new(Memory::new()),
        Layout::Annals,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journals_on_embedded() {
    let folder = TempDir::new().unwrap();
    let items = Embedded::open(folder.path(), &Default::default()).unwrap();
    tck::run(tck::journal::PROPERTIES, Arc::new(items), Layout::Annals).await;
}

#[tokio::test]
async fn snapshots_on_memory() {
    let items = Arc::new(Memory::new());
    tck::run(tck::snapshot::PROPERTIES, items, Layout::Annals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_on_embedded() {
    let folder = TempDir::new().unwrap();
    let items = Embedded::open(folder.path(), &Default::default()).unwrap();
    tck::run(tck::snapshot::PROPERTIES, Arc::new(items), Layout::Annals).await;
}

#[tokio::test]
async fn durable_state_on_memory() {
    let items = Arc::new(Memory::new());
    tck::run(tck::state::PROPERTIES, items, Layout::Annals).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_state_on_embedded() {
    let folder = TempDir::new().unwrap();
    let items = Embedded::open(folder.path(), &Default::default()).unwrap();
    tck::run(tck::state::PROPERTIES, Arc::new(items), Layout::Annals).await;
}
