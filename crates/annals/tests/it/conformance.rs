//! Every store of this crate against the suite all stores must pass.

use std::sync::Arc;

use annals::conformance::{self, CHECKS};
use annals::memory::Memory;

#[tokio::test]
async fn memory_conforms() {
    conformance::run(Arc::new(Memory::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_conforms_when_tasks_run_in_parallel() {
    conformance::run(Arc::new(Memory::new())).await;
}

/// A check that nobody lists would pass for ever.
#[test]
fn every_check_is_listed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/conformance");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let subject = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if ["mod", "scratch"].contains(&subject.as_str()) {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        for line in source.lines() {
            let Some(rest) = line.strip_prefix("pub async fn ") else {
                continue;
            };
            let name = rest.split('(').next().unwrap();
            let is_listed = CHECKS
                .iter()
                .any(|check| check.subject == subject && check.name == name);
            assert!(is_listed, "{subject}::{name} is not in CHECKS");
        }
    }
}
