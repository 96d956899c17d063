//! Conditional puts that another process keeps refusing: the log gives up with `Unavailable` after a
//! few attempts.
//!
//! [`Contended`] panics after [`REFUSALS_MAX`] refusals, so an unbounded loop fails its test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use annals::items::{Condition, Cost, Item, Items, Number, Value, WriteError};
use annals::log::{Log, Record, SweepReport, Time};
use annals::memory::Memory;
use annals::settings::LogSettings;
use annals::store::Store;
use annals::{ErrorKind, ManualClock};
use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
use async_trait::async_trait;
use serde_json::json;

const NOW: u64 = 1_700_000_000_000;
const REFUSALS_MAX: u64 = 100;

/// A store on which another process has always just changed one item. It refuses every put under a
/// sort key, and returns the put item with one attribute changed.
struct Contended {
    partition: &'static str,
    /// The start of the sort key.
    sort: &'static str,
    /// The attribute that the other process changes.
    attribute: &'static str,
    /// Its value after so many refusals.
    value: fn(u64) -> Value,
    refusals: AtomicU64,
}

impl Contended {
    fn refuses(&self, item: &Item) -> bool {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        text("event_time_slot") == self.partition && text("event_id").starts_with(self.sort)
    }
}

#[async_trait]
impl Hook for Contended {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        let mut item = match call {
            Call::Put(_, item, _) if self.refuses(&item) => item,
            call => return call.send(inner).await,
        };
        let n = self.refusals.fetch_add(1, Ordering::Relaxed);
        assert!(n < REFUSALS_MAX, "a put is retried without a bound");
        item.insert(self.attribute, (self.value)(n));
        let refused = WriteError::Refused {
            existing: Some(Box::new(item)),
            cost: Cost::request(),
        };
        Err(refused.into())
    }
}

/// A log with one buffered record, on a store that refuses puts of `partition` and `sort`.
async fn log_on(
    partition: &'static str,
    sort: &'static str,
    attribute: &'static str,
    value: fn(u64) -> Value,
) -> (Arc<Hooked<Contended>>, Log) {
    let contended = Contended {
        partition,
        sort,
        attribute,
        value,
        refusals: AtomicU64::new(0),
    };
    let store = Arc::new(Hooked::over(Arc::new(Memory::new()), contended));
    let clock = Arc::new(ManualClock::at_ms(NOW));
    let handle = Store::from_items(store.clone()).with_clock(clock);
    let log = Log::create(handle, &LogSettings::default()).await.unwrap();
    let record = Record::json("web", "a".parse().unwrap(), log.now(), &json!(1));
    let _ = log.ingest_one(record).await;
    (store, log)
}

#[track_caller]
fn check(store: &Contended, error: &annals::Error, item: &str) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains("retry later"), "{text}");
    assert!(text.contains(&format!("item=`{item}")), "{text}");
    assert_eq!(store.refusals.load(Ordering::Relaxed), 10);
}

#[track_caller]
fn failure(report: &SweepReport) -> &annals::Error {
    report.failure.as_ref().expect("the sweep fails")
}

#[tokio::test]
async fn publishing_a_contended_horizon_gives_up() {
    // Each time another sweep has published another horizon, all of them earlier than ours.
    let (store, log) = log_on("annals#log", "horizon", "time", |n| (1_000 + n).into()).await;
    let report = log.sweep().await;
    check(&store, failure(&report), "annals#log/horizon");
    assert_eq!((report.moved, report.horizon), (1, None), "{report:?}");
}

#[tokio::test]
async fn setting_back_a_contended_horizon_gives_up() {
    let (store, log) = log_on("annals#log", "horizon", "time", |n| (NOW + n).into()).await;
    let horizon = Item::new()
        .with("event_time_slot", "annals#log")
        .with("event_id", "horizon")
        .with("time", NOW);
    let table = &log.tables().event;
    let put = store.inner().put(table, horizon, Condition::Always);
    put.await.unwrap();
    let error = log.set_back_horizon(Time::FIRST).await.unwrap_err();
    check(&store, &error, "annals#log/horizon");
}

#[tokio::test]
async fn recording_parts_in_contended_metadata_gives_up() {
    let parts = |n| Value::Ns([Number::from(2 + n)].into_iter().collect());
    let (store, log) = log_on("annals#log", "written", "parts", parts).await;
    let report = log.sweep().await;
    check(&store, failure(&report), "annals#log/written");
    assert_eq!(report.moved, 0, "{report:?}");
    // Nothing is lost: the record is still in the buffer.
    assert_eq!(log.stats().await.unwrap().buffered, 1);
}

#[tokio::test]
async fn claiming_under_taken_names_gives_up() {
    let (store, log) = log_on("annals#sweeping", "", "time", |_| NOW.into()).await;
    let report = log.sweep().await;
    check(&store, failure(&report), "annals#sweeping/");
    assert_eq!((report.moved, report.left), (0, 1), "{report:?}");
    // The horizon does not pass the record that is left.
    assert!(report.horizon < Some(log.now()), "{report:?}");
}
