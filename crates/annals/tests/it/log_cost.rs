//! The cost of ingest, sweep and playback per 1,000 events, in requests and units, compared with the
//! original. `--nocapture` prints the table.
//!
//! The events are in one minute, 60 slots, each with a payload of about 200 bytes. Playback is of 15
//! minutes, the original's default. The original's playback reads eventually consistent; ours reads
//! strongly consistent, at twice the units per page.

use std::sync::Arc;

use annals::ManualClock;
use annals::items::{Cost, Item, Items, Scan, scan_all};
use annals::log::{Log, LogTables, Record, Span, Time};
use annals::memory::Memory;
use annals::settings::LogSettings;
use annals::store::Store;
use futures::TryStreamExt;
use serde_json::json;

use crate::log_original::Original;

const START: u64 = 1_521_230_160_000;
const EVENTS: u64 = 1_000;

fn time(ms: u64) -> Time {
    Time::from_ms(START + ms).unwrap()
}

fn span(ms: u64) -> Span {
    Span::new(time(0), time(ms)).unwrap()
}

fn records() -> Vec<Record> {
    let record = |n: u64| {
        let id = format!("shardId-000000000000:{n:056}").parse().unwrap();
        Record::json(
            "stream",
            id,
            time(n * 60),
            &json!({"text": "x".repeat(190)}),
        )
    };
    (0..EVENTS).map(record).collect()
}

struct Bed {
    counting: Store,
    log: Log,
    original: Original,
}

impl Bed {
    async fn new(settings: LogSettings) -> Self {
        let counting = Store::from(Arc::new(Memory::new()));
        let items: Arc<dyn Items> = counting.items().clone();
        let clock = Arc::new(ManualClock::at_ms(START + 120_000));
        let log = Log::create(Store::from(items.clone()).with_clock(clock), &settings)
            .await
            .unwrap();
        let tables = LogTables::new(&settings).unwrap();
        counting.take_counts();
        Self {
            counting,
            log,
            original: Original { items, tables },
        }
    }

    fn spent(&self) -> Cost {
        self.counting.take_counts().total().cost
    }
}

/// Prints one step of both.
fn print(step: &str, ours: Cost, original: Cost) {
    println!(
        "{step:<22} {:>8} {:>6} {:>7.1} {:>10} {:>6} {:>7.1} {:>7.3}",
        ours.requests,
        ours.write_units,
        ours.read_units(),
        original.requests,
        original.write_units,
        original.read_units(),
        ours.requests as f64 / original.requests as f64,
    );
}

async fn of_original() -> [Cost; 3] {
    let bed = Bed::new(LogSettings::default()).await;
    let _ = bed.log.ingest(records()).await;
    let table = bed.log.tables().buffer.clone();
    let buffered = scan_all(bed.original.items.clone(), table, Scan::whole());
    let buffered: Vec<Item> = buffered.try_collect().await.unwrap();
    let bed = Bed::new(LogSettings::default()).await;
    bed.original.pump(&buffered).await;
    let pumped = bed.spent();
    bed.original.scan().await;
    let swept = bed.spent();
    assert_eq!(bed.original.playback(span(900_000)).await as u64, EVENTS);
    [pumped, swept, bed.spent()]
}

async fn of_ours() -> [Cost; 3] {
    let bed = Bed::new(LogSettings::default()).await;
    let report = bed.log.ingest(records()).await;
    assert_eq!(report.stored() as u64, EVENTS);
    let ingested = bed.spent();
    let report = bed.log.sweep().await;
    assert_eq!(report.moved, EVENTS, "{report:?}");
    let swept = bed.spent();
    let events: Vec<_> = bed.log.playback(span(900_000)).try_collect().await.unwrap();
    assert_eq!(events.len() as u64, EVENTS);
    [ingested, swept, bed.spent()]
}

#[tokio::test]
async fn a_thousand_events_take_at_most_a_tenth_of_the_requests() {
    let (ours, original) = (of_ours().await, of_original().await);
    println!("per 1,000 events       requests  write    read |  original  write    read   ratio");
    let steps = ["ingest", "sweep", "playback of 15 min"];
    for ((step, ours), original) in steps.into_iter().zip(ours).zip(original) {
        print(step, ours, original);
        assert!(ours.requests * 10 <= original.requests, "{step}");
    }
    // Only the slot index and the claims, 16 bytes per event written and deleted, are added to the
    // original's write units.
    let (slots, claims) = (60 + 1, 2 * (16 + 4));
    assert!(ours[0].write_units <= original[0].write_units);
    assert!(
        ours[1].write_units <= original[1].write_units + slots + claims,
        "{ours:?}"
    );
}

/// Days without events are not read.
#[tokio::test]
async fn an_empty_day_costs_nothing() {
    let bed = Bed::new(LogSettings::default()).await;
    let at = |id: &str, ms| Record::json("stream", id.parse().unwrap(), time(ms), &json!({"n": 1}));
    const DAY: u64 = 86_400_000;
    let _ = bed.log.ingest(vec![at("a", 0), at("b", 30 * DAY)]).await;
    let _ = bed.log.sweep().await;
    let cost = async |days: u64| {
        bed.spent();
        let span = Span::new(time(0), time(days * DAY)).unwrap();
        let events: Vec<_> = bed.log.playback(span).try_collect().await.unwrap();
        (events.len(), bed.spent().requests)
    };
    // The days, the slots of the one day, and its slot.
    assert_eq!(cost(1).await, (1, 3));
    assert_eq!(cost(2).await, (1, 3));
    assert_eq!(cost(30).await, (1, 4));
    assert_eq!(cost(31).await, (2, 5));
}
