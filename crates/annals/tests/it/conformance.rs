//! Every store of this crate passes the conformance suite.

use std::sync::Arc;

use annals::items::{
    Condition, Cost, IndexSpec, Item, Items, KeyAttribute, KeySchema, Query, Scan, TableSpec,
    Write, query_all,
};
use annals::memory::Memory;
use annals::store::Store;
use annals::{ErrorKind, Random};
use annals_testkit::conformance::{self, CHECKS};
use annals_testkit::faulty::{Faults, Faulty};
use futures::TryStreamExt;

use crate::table;

#[tokio::test]
async fn memory_conforms() {
    conformance::run(Arc::new(Memory::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_conforms_when_tasks_run_in_parallel() {
    conformance::run(Arc::new(Memory::new())).await;
}

#[tokio::test]
async fn faulty_without_faults_conforms() {
    let memory = Arc::new(Memory::new());
    let faulty = Faulty::new(memory, Random::seeded(1), Faults::none());
    conformance::run(Arc::new(faulty)).await;
}

#[tokio::test]
async fn delayed_conforms() {
    let delayed = Faults {
        delay: 1_000,
        ..Faults::none()
    };
    let memory = Arc::new(Memory::new());
    let faulty = Faulty::new(memory, Random::seeded(1), delayed);
    conformance::run(Arc::new(faulty)).await;
}

#[tokio::test]
async fn counting_conforms() {
    conformance::run(Store::from(Arc::new(Memory::new())).items().clone()).await;
}

/// The suite leaves the cost of a scan open; on one machine it is exact.
#[tokio::test]
async fn a_scan_of_memory_costs_what_it_reads() {
    let (memory, table) = table().await;
    let page = memory.scan(&table, Scan::whole()).await.unwrap();
    assert_eq!(
        page.cost,
        Cost {
            requests: 1,
            write_units: 0,
            read_half_units: 2
        }
    );
    let puts = (0..10u64).map(|n| Write::Put(crate::item(n).with("v", "x".repeat(990))));
    memory.write(&table, puts.collect()).await.unwrap();
    let page = memory.scan(&table, Scan::whole()).await.unwrap();
    assert_eq!(
        page.cost,
        Cost {
            requests: 1,
            write_units: 0,
            read_half_units: 6
        }
    );
}

/// An index that the caller's spec does not mention still guards its key.
#[tokio::test]
async fn memory_is_unchanged_if_an_index_unknown_to_the_caller_refuses() {
    let (_, known) = table().await;
    let key = KeySchema::new(KeyAttribute::number("g"));
    let index = IndexSpec::global("by-g".parse().unwrap(), key);
    let stored = known.clone().with_index(index).unwrap();
    let memory = Memory::new();
    memory
        .create_table(&stored, Default::default())
        .await
        .unwrap();
    let kept = crate::item(1).with("g", 1u64);
    let always = Condition::Always;
    memory
        .put(&known, kept.clone(), always.clone())
        .await
        .unwrap();

    let wrong = crate::item(1).with("g", "text");
    let put = memory.put(&known, wrong.clone(), always).await;
    let error: annals::Error = put.unwrap_err().into();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let batch = vec![Write::Put(crate::item(2)), Write::Put(wrong)];
    let error = memory.write(&known, batch).await.unwrap_err();
    assert_eq!(error.cause.kind(), ErrorKind::Invalid);
    let page = memory.scan(&known, Scan::whole()).await.unwrap();
    assert_eq!(page.items, vec![kept]);
}

/// DynamoDB gives a cursor after the only item of a partition; following it is a wasted request.
#[tokio::test]
async fn a_partition_of_one_item_is_read_in_one_request() {
    let key = KeySchema::new(KeyAttribute::text("p"));
    let table = Arc::new(TableSpec::new("lone".parse().unwrap(), key).unwrap());
    let items = Store::from(Arc::new(Memory::new()));
    items
        .create_table(&table, Default::default())
        .await
        .unwrap();
    let one = Item::new().with("p", "a");
    items.put(&table, one, Condition::Absent).await.unwrap();
    items.take_counts();
    let query = Query::of("a").limit(1);
    let all = query_all(items.items().clone(), table, query).try_collect::<Vec<Item>>();
    assert_eq!(all.await.unwrap().len(), 1);
    assert_eq!(items.counts().total().cost.requests, 1);
}

/// An unlisted check would never run.
#[test]
fn every_check_is_listed() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../annals-testkit/src/conformance"
    );
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
