//! Counting: every verb, every outcome of a call, and the metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use annals::Random;
use annals::items::{Condition, Cost, Query, Scan, Write, item_size};
use annals::store::Store;
use annals::store::{Count, Counts, FAILED, READ_UNITS, REFUSED, REQUESTS, Verb, WRITE_UNITS};
use annals_testkit::faulty::{Faults, Faulty};
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};

use crate::{item, key, table};

fn cost(requests: u64, write_units: u64, read_half_units: u64) -> Cost {
    Cost {
        requests,
        write_units,
        read_half_units,
    }
}

#[track_caller]
fn check(counts: Counts, verb: Verb, want: Count) {
    assert_eq!(counts.of(verb), want, "{verb:?}");
    assert_eq!(counts.total(), want, "no other verb");
}

fn called(cost: Cost) -> Count {
    let mut count = Count::default();
    count.calls = 1;
    count.cost = cost;
    count
}

#[tokio::test]
async fn every_verb_is_counted_separately() {
    let (memory, table) = table().await;
    let items = Store::from(memory);
    let one = item(1);
    let bytes = item_size(&one) as u64;

    items
        .put(&table, one.clone(), Condition::Absent)
        .await
        .unwrap();
    let mut put = called(cost(1, 1, 0));
    put.bytes_written = bytes;
    check(items.take_counts(), Verb::Put, put);

    let keys = vec![key(1), key(9), key(1)];
    items.get(&table, keys).await.unwrap();
    let mut got = called(cost(1, 0, 4));
    got.bytes_read = 2 * bytes;
    check(items.take_counts(), Verb::Get, got);

    items
        .query(&table, Query::of("a").eventually())
        .await
        .unwrap();
    let page = |halves| {
        let mut page = called(cost(1, 0, halves));
        page.bytes_read = bytes;
        page
    };
    check(items.take_counts(), Verb::Query, page(1));
    items.scan(&table, Scan::whole()).await.unwrap();
    check(items.take_counts(), Verb::Scan, page(2));

    items
        .delete(&table, key(1), Condition::Always)
        .await
        .unwrap();
    check(items.take_counts(), Verb::Delete, called(cost(1, 1, 0)));

    let writes = (0..30).map(|n| match n {
        0 => Write::Delete(key(100)),
        _ => Write::Put(item(n)),
    });
    items.write(&table, writes.collect()).await.unwrap();
    let mut written = called(cost(2, 30, 0));
    written.bytes_written = (1..30).map(|n| item_size(&item(n)) as u64).sum();
    check(items.take_counts(), Verb::Write, written);

    items.describe_table(table.name()).await.unwrap();
    check(items.take_counts(), Verb::Tables, called(cost(1, 0, 0)));
}

#[tokio::test]
async fn a_refusal_counts_its_cost_and_the_returned_item() {
    let (memory, table) = table().await;
    let items = Store::from(memory);
    let large = item(1).with("v", "x".repeat(1500));
    items
        .put(&table, large.clone(), Condition::Absent)
        .await
        .unwrap();
    let before = items.counts();
    items
        .put(&table, item(1), Condition::Absent)
        .await
        .unwrap_err();
    let mut refused = called(cost(1, 2, 0));
    refused.refused = 1;
    refused.bytes_read = item_size(&large) as u64;
    check(items.counts() - before, Verb::Put, refused);
}

#[tokio::test]
async fn a_failure_counts_one_request() {
    let (memory, table) = table().await;
    let always = Faults {
        error: 1_000,
        ..Faults::none()
    };
    let faulty = Faulty::new(memory, Random::seeded(1), always);
    let items = Store::from(Arc::new(faulty));
    let mut failed = called(cost(1, 0, 0));
    failed.failed = 1;
    items.get(&table, vec![key(1)]).await.unwrap_err();
    check(items.take_counts(), Verb::Get, failed);
    items
        .put(&table, item(1), Condition::Always)
        .await
        .unwrap_err();
    check(items.take_counts(), Verb::Put, failed);
    items
        .delete(&table, key(1), Condition::Always)
        .await
        .unwrap_err();
    check(items.take_counts(), Verb::Delete, failed);
    items
        .write(&table, vec![Write::Put(item(1))])
        .await
        .unwrap_err();
    check(items.take_counts(), Verb::Write, failed);
    items.query(&table, Query::of("a")).await.unwrap_err();
    check(items.take_counts(), Verb::Query, failed);
    items.scan(&table, Scan::whole()).await.unwrap_err();
    check(items.take_counts(), Verb::Scan, failed);
    items
        .create_table(&table, Default::default())
        .await
        .unwrap_err();
    check(items.take_counts(), Verb::Tables, failed);
}

#[tokio::test]
async fn an_incomplete_batch_counts_the_confirmed_writes() {
    let (memory, table) = table().await;
    let always = Faults {
        unprocessed: 1_000,
        ..Faults::none()
    };
    let faulty = Faulty::new(memory, Random::seeded(3), always);
    let items = Store::from(Arc::new(faulty));
    let writes: Vec<Write> = (0..20).map(|n| Write::Put(item(n))).collect();
    let error = items.write(&table, writes.clone()).await.unwrap_err();
    let done = (writes.len() - error.remaining.len()) as u64;
    let size = |writes: &[Write]| -> usize {
        let puts = writes.iter().map(|write| match write {
            Write::Put(item) => item_size(item),
            Write::Delete(_) => 0,
        });
        puts.sum()
    };
    let mut half = called(cost(1, done, 0));
    half.failed = 1;
    half.bytes_written = (size(&writes) - size(&error.remaining)) as u64;
    assert!(done > 0, "the seed leaves something to do");
    check(items.counts(), Verb::Write, half);
}

/// A recorder that stores counters by name and labels.
#[derive(Default)]
struct Recorder(Mutex<BTreeMap<String, Arc<Cell>>>);

#[derive(Default)]
struct Cell(AtomicU64);

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

impl Recorder {
    fn value(&self, name: &str) -> u64 {
        self.0.lock().unwrap()[name].0.load(Ordering::Relaxed)
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key.labels().map(|label| label.value());
        let name = std::iter::once(key.name()).chain(labels);
        let name = name.collect::<Vec<_>>().join(" ");
        let mut cells = self.0.lock().unwrap();
        Counter::from_arc(cells.entry(name).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
async fn metrics_are_reported_by_verb_and_half_units_add_up() {
    let (memory, table) = table().await;
    let recorder = Recorder::default();
    let items = metrics::with_local_recorder(&recorder, || Store::from(memory));
    items.put(&table, item(1), Condition::Absent).await.unwrap();
    items
        .put(&table, item(1), Condition::Absent)
        .await
        .unwrap_err();
    items
        .put(&table, Default::default(), Condition::Absent)
        .await
        .unwrap_err();
    for _ in 0..5 {
        items
            .query(&table, Query::of("a").eventually())
            .await
            .unwrap();
    }
    assert_eq!(recorder.value(&format!("{REQUESTS} put")), 3);
    assert_eq!(recorder.value(&format!("{REQUESTS} query")), 5);
    assert_eq!(recorder.value(&format!("{REQUESTS} scan")), 0);
    assert_eq!(recorder.value(WRITE_UNITS), 2);
    assert_eq!(recorder.value(READ_UNITS), 2, "five halves, one carried");
    assert_eq!(recorder.value(REFUSED), 1);
    assert_eq!(recorder.value(FAILED), 1);
    items
        .query(&table, Query::of("a").eventually())
        .await
        .unwrap();
    assert_eq!(recorder.value(READ_UNITS), 3, "six halves");
}

#[test]
fn the_names_of_verbs_differ() {
    let names = Verb::ALL.map(Verb::name);
    let different: std::collections::BTreeSet<_> = names.into_iter().collect();
    assert_eq!(different.len(), Verb::ALL.len());
}
