//! The journal pump: events without a time, persistence ids that cannot be read or were purged.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals::items::{Condition, Item, Items, Scan, Value, item_from_json, scan_all};
use annals::journal::{Append, Expected, Journal};
use annals::layout::Layout;
use annals::log::{JournalPump, Log, LogEvent, PumpReport, Span};
use annals::memory::Memory;
use annals::settings::LogSettings;
use annals::store::Store;
use annals::store::Verb;
use annals::{Codec, ErrorKind, ManualClock, NewEvent, Random};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_testkit::faulty::Faulty;
use annals_testkit::store;
use futures::TryStreamExt;
use serde_json::Value as Json;

const NOW: u64 = 1_700_000_000_000;

struct Bed {
    items: Arc<dyn Items>,
    clock: Arc<ManualClock>,
    settings: AnyLayout,
    log: Log,
}

impl Bed {
    async fn new(layout: LayoutName) -> Self {
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let clock = Arc::new(ManualClock::at_ms(NOW));
        let settings = AnyLayout {
            layout,
            journal_name: "journal".to_owned(),
            ..AnyLayout::default()
        };
        let table = settings.tables().unwrap().journal;
        let created = items.create_table(&table, Default::default());
        created.await.unwrap();
        let of_log = LogSettings::default();
        let log = Log::create(
            Store::from(items.clone()).with_clock(clock.clone()),
            &of_log,
        );
        Self {
            log: log.await.unwrap(),
            items,
            clock,
            settings,
        }
    }

    async fn journal(&self) -> Journal {
        let (items, clock) = (self.items.clone(), self.clock.clone());
        let store = store(items, clock, Random::seeded(0));
        let opened = self.settings.journal(&store);
        opened.await.unwrap()
    }

    async fn append(&self, id: &str, count: usize) {
        let event = |n| NewEvent::new(Codec::Text, format!("{n}"));
        let events: Vec<_> = (0..count).map(event).collect();
        let journal = self.journal().await;
        let id = id.parse().unwrap();
        let appended = journal.append(&id, Expected::Any, Append::of(events));
        appended.await.unwrap();
    }

    /// A pass of a new pump, with its log on this store.
    async fn pass(&self, items: Arc<dyn Items>) -> PumpReport {
        let settings = LogSettings::default();
        let log = Log::open(Store::from(items).with_clock(self.clock.clone()), &settings);
        let pump = JournalPump::new(self.journal().await, log.await.unwrap(), "j");
        pump.pass().await.unwrap()
    }

    async fn played(&self) -> Vec<LogEvent> {
        let report = self.log.sweep().await;
        assert_eq!((report.left, report.dead_letters), (0, 0), "{report:?}");
        self.log.playback(Span::ALL).try_collect().await.unwrap()
    }

    async fn all(&self) -> Vec<Item> {
        let table = self.settings.tables().unwrap().journal;
        let all = scan_all(self.items.clone(), Arc::new(table), Scan::whole());
        all.try_collect().await.unwrap()
    }
}

/// A journal that Pekko's plugin wrote.
async fn pekko() -> Bed {
    let bed = Bed::new(LayoutName::Akka).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../annals-jvm/tests/fixtures/pekko");
    let text = std::fs::read_to_string(folder.join("journal.jsonl")).unwrap();
    let table = bed.settings.tables().unwrap().journal;
    for line in text.lines() {
        let line: Json = serde_json::from_str(line).unwrap();
        let item = item_from_json(&line["Item"]).unwrap();
        let put = bed.items.put(&table, item, Condition::Always);
        put.await.unwrap();
    }
    bed
}

/// Events without a time get the time of their first pumping, even if they are pumped again, by
/// others, or after a crash.
#[tokio::test]
async fn events_without_a_time_get_one_once() {
    let bed = pekko().await;
    let expected = {
        let bed = pekko().await;
        let _ = bed.pass(bed.items.clone()).await;
        bed.played().await
    };
    let untimed = |event: &&LogEvent| event.time.ms() == NOW;
    assert!(
        expected.iter().filter(untimed).count() > 50,
        "{}",
        expected.len()
    );
    assert!(expected.iter().all(|event| event.time.ms() > 0));
    let faulty = Arc::new(Faulty::scripted(bed.items.clone()));
    // Each pass dies a few requests later than the one before, at another time.
    for nth in 0..40 {
        for verb in [Verb::Put, Verb::Write] {
            faulty.spare_next(verb, nth);
            faulty.fail_next(verb, 1_000, ErrorKind::Unavailable);
            let _ = bed.pass(faulty.clone()).await;
            faulty.spare_next(verb, 10_000);
            bed.clock.advance(Duration::from_millis(1_000));
            if nth % 5 == 0 {
                let _ = bed.log.sweep().await;
            }
        }
    }
    let (a, b) = tokio::join!(bed.pass(bed.items.clone()), bed.pass(bed.items.clone()));
    assert!(
        a.problems.is_empty() && b.problems.is_empty(),
        "{a:?} {b:?}"
    );
    let _ = bed.log.sweep().await;
    bed.clock.advance(Duration::from_millis(1_000));
    let again = bed.pass(bed.items.clone()).await;
    assert_eq!(again.events, 0, "{again:?}");
    let played = bed.played().await;
    let ids = |events: &[LogEvent]| {
        let mut ids: Vec<_> = events.iter().map(|event| event.event_id.clone()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&played), ids(&expected), "each of them once");
}

/// A problem with one persistence id is reported; the others are pumped.
#[tokio::test]
async fn an_unreadable_id_does_not_affect_the_others() {
    let bed = Bed::new(LayoutName::Annals).await;
    for id in ["Cart|1", "Cart|2", "Cart|3"] {
        bed.append(id, 3).await;
    }
    let table = bed.settings.tables().unwrap().journal;
    let mut damaged = 0;
    for mut item in bed.all().await {
        let is_of_cart_2 = item
            .iter()
            .any(|(_, value)| value.as_str().is_some_and(|text| text.contains("Cart|2")));
        let names: Vec<String> = item
            .iter()
            .filter(|(_, value)| matches!(value, Value::B(_)))
            .map(|(name, _)| name.to_owned())
            .collect();
        if is_of_cart_2 {
            for name in names {
                item.insert(name, Value::B(vec![0xff; 9].into()));
                damaged += 1;
            }
            let put = bed.items.put(&table, item, Condition::Always);
            put.await.unwrap();
        }
    }
    assert!(damaged > 0);
    let report = bed.pass(bed.items.clone()).await;
    assert_eq!((report.ids, report.events), (3, 6), "{report:?}");
    let [failure] = &report.failures[..] else {
        panic!("{report:?}");
    };
    assert_eq!(failure.kind(), ErrorKind::Corrupt);
    assert!(failure.to_string().contains("Cart|2"), "{failure}");
}

/// A purged persistence id restarts at 1, below its checkpoint.
#[tokio::test]
async fn a_purged_id_is_pumped_from_its_start() {
    let bed = Bed::new(LayoutName::Annals).await;
    bed.append("Cart|1", 5).await;
    assert_eq!(bed.pass(bed.items.clone()).await.events, 5);
    assert_eq!(bed.played().await.len(), 5);
    let journal = bed.journal().await;
    journal.purge(&"Cart|1".parse().unwrap()).await.unwrap();
    bed.clock.advance(Duration::from_millis(60_000));
    bed.append("Cart|1", 2).await;
    assert_eq!(bed.pass(bed.items.clone()).await.events, 2);
    assert_eq!(bed.pass(bed.items.clone()).await.events, 0);
    assert_eq!(bed.played().await.len(), 7);
}

/// A JSON payload reaches the log with every digit, and with repeated names.
#[tokio::test]
async fn numbers_keep_their_digits() {
    let bed = Bed::new(LayoutName::Annals).await;
    let payload = r#"{"wei":123456789012345678901,"f":0.12345678901234567,"d":1,"d":2}"#;
    let journal = bed.journal().await;
    let event = NewEvent::new(Codec::Json, payload);
    let id = "Cart|1".parse().unwrap();
    let appended = journal.append(&id, Expected::Any, event);
    appended.await.unwrap();
    let _ = bed.pass(bed.items.clone()).await;
    let text = bed.played().await[0].payload.to_text().unwrap();
    assert!(text.contains(&format!(r#""payload":{payload}"#)), "{text}");
}
