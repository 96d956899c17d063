//! A store that makes up a log: records in its buffer, events in its slots, as many as are told, a
//! page of a megabyte at a time. What is written to it is forgotten.

use std::sync::Arc;

use annals::items::{Cost, Cursor, Got, Item, Items, Key, KeyPart, Page, Query, Scan, Value};
use annals::log::Time;
use annals::memory::Memory;
use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
use async_trait::async_trait;

pub(crate) const START_MS: u64 = 1_700_006_400_000;
/// How many items a page has, of some 500 bytes each.
const PAGE: u64 = 2_000;
/// How many events a slot has.
const SLOT: u64 = 250;

pub(crate) struct Endless {
    events: u64,
}

/// The time of an event: those of a slot share its second.
fn time(n: u64) -> Time {
    Time::from_ms(START_MS + n / SLOT * 1_000 + n % SLOT).unwrap()
}

fn slot(n: u64) -> String {
    Time::from_ms(START_MS + n / SLOT * 1_000)
        .unwrap()
        .to_string()
}

fn data() -> Value {
    let data = [("data".to_owned(), Value::S("x".repeat(300)))];
    let kinesis = [("kinesis".to_owned(), Value::M(data.into_iter().collect()))];
    Value::M(kinesis.into_iter().collect())
}

fn record(n: u64) -> Item {
    Item::new()
        .with("partition_key", format!("{n:064}"))
        .with("event_id", format!("e{n:08}"))
        .with("event_time_stamp", time(n).ms())
        .with("record_payload", data())
}

fn event(n: u64) -> Item {
    Item::new()
        .with("event_time_slot", slot(n))
        .with("event_id", format!("e{n:08}"))
        .with("event_time_stamp", time(n).to_string())
        .with("record_payload", data())
}

fn own(partition: &str, sort: String) -> Item {
    let own = Item::new().with("event_time_slot", partition);
    own.with("event_id", sort)
}

fn page(items: Vec<Item>, next: Option<Item>) -> Page {
    Page::new(items, next.map(Cursor::new), Cost::request())
}

impl Endless {
    pub(crate) fn new(events: u64) -> Hooked<Self> {
        Hooked::over(Arc::new(Memory::new()), Self { events })
    }

    /// The slots, all of them on one day, behind the last of the page before.
    fn slots(&self, partition: &str, after: Option<&Cursor>) -> Page {
        let after = after.and_then(|cursor| cursor.key_attributes().get("n")?.as_u64());
        let first = after.map_or(0, |n| n + 1);
        let count = self.events.div_ceil(SLOT);
        let end = count.min(first + PAGE / 40);
        let items = (first..end).map(|n| own(partition, slot(n * SLOT)));
        let next = (end < count).then(|| Item::new().with("n", end - 1));
        page(items.collect(), next)
    }

    fn query(&self, query: &Query) -> Page {
        let KeyPart::S(partition) = &query.partition else {
            panic!("{query:?}");
        };
        match partition.as_str() {
            "annals#days" => page(vec![own("annals#days", slot(0)[..10].to_owned())], None),
            // Nobody else sweeps.
            "annals#sweeping" => page(Vec::new(), None),
            slots if slots.starts_with("annals#slots#") => self.slots(slots, query.after.as_ref()),
            slot => {
                let start: Time = slot.parse().unwrap();
                let first = (start.ms() - START_MS) / 1_000 * SLOT;
                let end = self.events.min(first + SLOT);
                page((first..end).map(event).collect(), None)
            }
        }
    }

    /// A page of the buffer.
    fn scan(&self, scan: &Scan) -> Page {
        let (index, of) = (u64::from(scan.segment.index), u64::from(scan.segment.of));
        let (first, end) = (self.events * index / of, self.events * (index + 1) / of);
        let after = scan.after.as_ref().and_then(|cursor| {
            let key = cursor.key_attributes().get("partition_key")?;
            key.as_str()?.parse::<u64>().ok()
        });
        let first = after.map_or(first, |n| n + 1);
        let stop = end.min(first + PAGE);
        let next = (stop < end).then(|| record(stop - 1));
        page((first..stop).map(record).collect(), next)
    }
}

#[async_trait]
impl Hook for Endless {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        Ok(match call {
            Call::Get(_, keys) => {
                let is_mark = |key: &Key| key.sort == Some(KeyPart::from("indexed"));
                let mark =
                    |key: &Key| is_mark(key).then(|| own("annals#log", "indexed".to_owned()));
                let (items, cost) = (keys.iter().map(mark).collect(), Cost::request());
                Got::new(items, cost).into()
            }
            Call::Put(..) | Call::Delete(..) => Cost::request().into(),
            Call::Write(_, writes) => {
                // What is measured is what the log holds.
                drop(writes);
                // So that segments take turns, as they do where writing takes time.
                tokio::task::yield_now().await;
                Cost::request().into()
            }
            Call::Query(_, query) => self.query(&query).into(),
            Call::Scan(table, scan) if table.name().as_str() == "annals-buffer" => {
                self.scan(&scan).into()
            }
            call => call.send(inner).await?,
        })
    }
}
