//! The races that the log's promises rest on, one by one, as a script has them happen.

use std::sync::Arc;
use std::time::Duration;

use annals::items::{Items, Scan, scan_all};
use annals::log::{Ingested, Log, LogTables, Playback, Record, Span, Time};
use annals::memory::Memory;
use annals::settings::LogSettings;
use annals::store::{Store, Verb};
use annals::{Clock, ErrorKind, ManualClock, Random};
use annals_testkit::faulty::{Faults, Faulty};
use futures::TryStreamExt;
use serde_json::json;

const LATENESS: u64 = 5_000;

struct Bed {
    clock: Arc<ManualClock>,
    items: Arc<dyn Items>,
    log: Log,
}

fn settings() -> LogSettings {
    LogSettings {
        allowed_lateness_ms: LATENESS,
        sweep_segments: 1,
        follow_poll_ms: 1,
        ..LogSettings::default()
    }
}

impl Bed {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let settings = settings();
        let log = Log::create(
            Store::from(items.clone()).with_clock(clock.clone()),
            &settings,
        );
        let log = log.await.unwrap();
        Self { clock, items, log }
    }

    /// The same log on a store that does as it is told.
    async fn scripted(&self) -> (Arc<Faulty>, Log) {
        let faulty = Arc::new(Faulty::scripted(self.items.clone()));
        let settings = settings();
        let log = Log::open(
            Store::from(faulty.clone()).with_clock(self.clock.clone()),
            &settings,
        );
        (faulty.clone(), log.await.unwrap())
    }

    fn record(&self, id: &str, ago: u64) -> Record {
        let time = Time::from_ms(self.clock.now_ms() - ago).unwrap();
        Record::json("test", id.parse().unwrap(), time, &json!({"id": id}))
    }

    async fn ids(&self) -> Vec<String> {
        let events: Vec<_> = self.log.playback(Span::ALL).try_collect().await.unwrap();
        events
            .iter()
            .map(|event| event.event_id.to_string())
            .collect()
    }

    async fn buffered(&self) -> usize {
        let table = self.log.tables().buffer.clone();
        let all = scan_all(self.items.clone(), table, Scan::whole());
        all.try_collect::<Vec<_>>().await.unwrap().len()
    }

    fn advance(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }
}

/// One sweep holds an event that has come late while another publishes a horizon past it: the first
/// one tells, although the horizon was not there when it began.
#[tokio::test]
async fn a_horizon_that_overtakes_a_store_makes_it_late() {
    let bed = Bed::new().await;
    let (faulty, slow) = bed.scripted().await;
    bed.log.ingest_one(bed.record("late", 20_000)).await;
    // The other one's scan passed before the record came: it sees nothing of it.
    faulty.hold(Verb::Write);
    let swept = tokio::spawn(async move { slow.sweep().await });
    faulty.until_held(1).await;
    publish(&bed).await;
    let horizon = bed.log.horizon().await.unwrap().unwrap();
    let seen = bed
        .log
        .playback(Playback::since(Time::FIRST).until(horizon));
    assert_eq!(seen.try_collect::<Vec<_>>().await.unwrap().len(), 0);
    faulty.release(Verb::Write);
    let report = swept.await.unwrap();
    assert_eq!((report.moved, report.late), (1, 1), "{report:?}");
}

/// A sweep of an empty buffer, as one is whose scan passed before a record came: over the same event
/// table, with a buffer of its own.
async fn publish(bed: &Bed) {
    let settings = LogSettings {
        buffer_table: Some("another-buffer".parse().unwrap()),
        ..settings()
    };
    let log = Log::create(
        Store::from(bed.items.clone()).with_clock(bed.clock.clone()),
        &settings,
    );
    let report = log.await.unwrap().sweep().await;
    assert!(report.horizon.is_some(), "{report:?}");
}

/// A record that could not be stored holds the horizon at its time.
#[tokio::test]
async fn what_is_left_holds_the_horizon() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    bed.log.ingest_one(bed.record("a", 0)).await;
    let time = bed.log.now();
    bed.advance(60_000);
    // The index is entered; the event's own write fails.
    faulty.spare_next(Verb::Write, 1);
    faulty.fail_next(Verb::Write, 1, ErrorKind::Unavailable);
    let report = log.sweep().await;
    assert_eq!(
        (report.moved, report.left, report.oldest_left),
        (0, 1, Some(time))
    );
    assert_eq!(report.failure.unwrap().kind(), ErrorKind::Unavailable);
    assert_eq!(report.horizon, Some(time));
    assert_eq!(bed.buffered().await, 1);
    let report = log.sweep().await;
    assert_eq!((report.moved, report.late), (1, 0));
    assert!(report.horizon > Some(time));
}

/// A scan that breaks off has not told what is left: no horizon.
#[tokio::test]
async fn a_scan_that_breaks_off_publishes_nothing() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    bed.log.ingest_one(bed.record("a", 0)).await;
    faulty.fail_next(Verb::Scan, 1, ErrorKind::Unavailable);
    let report = log.sweep().await;
    assert!(report.failure.is_some());
    assert_eq!(report.horizon, None);
    assert_eq!(bed.log.horizon().await.unwrap(), None);
}

/// Wherever a sweep dies, the record is in the buffer or its event is stored, and the next sweep
/// makes one event of it.
#[tokio::test]
async fn a_sweep_that_dies_anywhere_loses_and_doubles_nothing() {
    for verb in [Verb::Get, Verb::Put, Verb::Write, Verb::Scan] {
        for nth in 0..4 {
            for is_lost in [false, true] {
                let bed = Bed::new().await;
                let (faulty, log) = bed.scripted().await;
                bed.log
                    .ingest(vec![bed.record("a", 0), bed.record("b", 1)])
                    .await;
                faulty.spare_next(verb, nth);
                match is_lost {
                    true => faulty.lose_next(verb, 100),
                    false => faulty.fail_next(verb, 100, ErrorKind::Unavailable),
                }
                let report = log.sweep().await;
                let what = format!("{verb:?} {nth} {is_lost}: {report:?}");
                let stored = bed.ids().await.len();
                assert!(bed.buffered().await == 2 || stored == 2, "{what}");
                let report = bed.log.sweep().await;
                assert!(report.failure.is_none(), "{what}");
                assert_eq!(bed.ids().await, ["b", "a"], "{what}");
                assert_eq!(bed.buffered().await, 0, "{what}");
            }
        }
    }
}

/// The slot is in the index before its event is stored: a playback between the two finds no gap that
/// closes behind it.
#[tokio::test]
async fn a_slot_is_in_the_index_before_its_first_event() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    bed.log.ingest_one(bed.record("a", 0)).await;
    // Index, event, deletion: nothing behind the event is written.
    faulty.spare_next(Verb::Write, 2);
    faulty.fail_next(Verb::Write, 100, ErrorKind::Unavailable);
    log.sweep().await;
    assert_eq!(bed.buffered().await, 1);
    assert_eq!(bed.ids().await, ["a"]);
    let stats = bed.log.stats().await.unwrap();
    assert_eq!(stats.days, 1);
}

/// A put whose answer was lost is known again by its content.
#[tokio::test]
async fn a_record_whose_answer_was_lost_is_ingested_again() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    let record = bed.record("a", 0);
    faulty.lose_next(Verb::Put, 1);
    let told = log.ingest_one(record.clone()).await;
    assert!(matches!(told, Ingested::Unknown(_)), "{told:?}");
    let told = log.ingest_one(record.clone()).await;
    assert!(matches!(told, Ingested::Present), "{told:?}");
    faulty.lose_next(Verb::Write, 1);
    let report = log.ingest(vec![bed.record("b", 0)]).await;
    assert!(report.failure().is_some());
    let report = log.ingest(vec![bed.record("b", 0), record]).await;
    assert_eq!((report.stored(), report.present()), (0, 2));
}

/// Settings that cannot be are refused with their name.
#[tokio::test]
async fn settings_that_cannot_be_are_refused() {
    type Alter = fn(&mut LogSettings);
    let wrong: [(&str, Alter); 7] = [
        ("time-unit-ms", |s| s.time_unit_ms = 7_000),
        ("slot-parts", |s| s.slot_parts = 0),
        ("slot-parts", |s| s.slot_parts = 101),
        ("original-writes", |s| {
            s.slot_parts = 2;
            s.original_writes = true;
        }),
        ("sweep-segments", |s| s.sweep_segments = 0),
        ("concurrency", |s| s.concurrency = 0),
        ("event-table", |s| {
            s.event_table = Some("annals-buffer".parse().unwrap())
        }),
    ];
    let bed = Bed::new().await;
    for (name, alter) in wrong {
        let mut settings = settings();
        alter(&mut settings);
        let opened = Log::open(
            Store::from(bed.items.clone()).with_clock(bed.clock.clone()),
            &settings,
        )
        .await;
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn a_table_that_somebody_else_made_is_indexed_while_it_is_empty() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let settings = LogSettings::default();
    for table in annals::log::LogTables::of(&settings).unwrap().all() {
        items.create_table(table, Default::default()).await.unwrap();
    }
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let log = Log::open(Store::from(items).with_clock(clock), &settings)
        .await
        .unwrap();
    assert!(
        !log.stats().await.unwrap().is_indexed,
        "reading writes nothing"
    );
    assert!(log.sweep().await.failure.is_none());
    assert!(log.stats().await.unwrap().is_indexed);
}

/// Where the index is not complete every slot is asked that has begun, and none that has not.
#[tokio::test]
async fn a_walk_ends_with_what_has_happened() {
    let counting = Store::from(Arc::new(Memory::new()));
    for table in LogTables::of(&settings()).unwrap().all() {
        let created = counting.create_table(table, Default::default());
        created.await.unwrap();
    }
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let settings = settings();
    let log = Log::open(
        Store::from(counting.clone()).with_clock(clock.clone()),
        &settings,
    );
    let log = log.await.unwrap();
    let start = Time::from_ms(clock.now_ms() - 3_000).unwrap();
    let asked = async |playback: Playback| {
        counting.take_counts();
        let events = log.playback(playback).try_collect::<Vec<_>>().await;
        assert_eq!(events.unwrap().len(), 0);
        counting.take_counts().total().cost.requests
    };
    // Three slots that are over, the one that is now, those that a clock may be ahead, what the table
    // says of itself, twice, and a look at how long its slots are.
    let slots = 3 + LATENESS / 1_000;
    assert_eq!(asked(Playback::since(start)).await, slots + 3);
    let whole = Span::new(start, Time::END).unwrap();
    assert_eq!(asked(whole.into()).await, slots + 3);
    let later = Time::from_ms(clock.now_ms() + 10 * LATENESS).unwrap();
    assert_eq!(asked(Playback::since(later)).await, 0);
}

/// An event of a clock that is far ahead holds up nobody: it is stored, and given when its time comes
/// or to whoever asks for that time.
#[tokio::test]
async fn an_event_of_the_far_future_holds_nobody_up() {
    let bed = Bed::new().await;
    let future = Time::from_ms(bed.clock.now_ms() + 1_000_000_000).unwrap();
    let ahead = Record::json("test", "ahead".parse().unwrap(), future, &json!({"id": 1}));
    bed.log.ingest(vec![ahead, bed.record("a", 0)]).await;
    bed.advance(60_000);
    let report = bed.log.sweep().await;
    assert_eq!((report.moved, report.horizon_ahead_ms), (2, 0));
    let reached = bed.clock.now_ms() - LATENESS;
    assert_eq!(report.horizon.map(Time::ms), Some(reached));
    let played = bed.log.playback(Playback::since(Time::FIRST));
    let played: Vec<_> = played.try_collect().await.unwrap();
    assert_eq!(played.len(), 1, "a playback without an end ends about now");
    assert_eq!(bed.ids().await, ["a", "ahead"]);
}

/// A horizon that a wrong clock has published makes everything late, and is told, until it is set
/// back.
#[tokio::test]
async fn a_horizon_of_a_wrong_clock_is_told_and_set_back() {
    let bed = Bed::new().await;
    let wrong = Arc::new(ManualClock::at_ms(bed.clock.now_ms() + 1_000_000_000));
    let settings = settings();
    let sweeper = Log::open(Store::from(bed.items.clone()).with_clock(wrong), &settings);
    sweeper.await.unwrap().sweep().await;
    bed.log.ingest_one(bed.record("a", 0)).await;
    let report = bed.log.sweep().await;
    assert_eq!((report.moved, report.late), (1, 1));
    assert_eq!(report.horizon_ahead_ms, 1_000_000_000 - LATENESS);
    let right = Time::from_ms(bed.clock.now_ms() - LATENESS).unwrap();
    assert!(bed.log.set_back_horizon(right).await.unwrap());
    assert!(!bed.log.set_back_horizon(right).await.unwrap());
    bed.log.ingest_one(bed.record("b", 0)).await;
    let report = bed.log.sweep().await;
    assert_eq!((report.moved, report.late), (1, 0), "{report:?}");
    assert_eq!(report.horizon_ahead_ms, 0);
}

/// Two sources with the same ids and times: pages of one sweep hold them at the same time. One is the
/// event and the other is set aside; nobody's is lost.
#[tokio::test]
async fn sources_that_share_ids_lose_nothing_in_one_sweep() {
    const EVENTS: usize = 2_000;
    // Every call gives way, so that the pages of a sweep take turns.
    let delayed = Faults {
        delay: 1_000,
        ..Faults::none()
    };
    let items: Arc<dyn Items> = Arc::new(Faulty::new(
        Arc::new(Memory::new()),
        Random::seeded(1),
        delayed,
    ));
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let settings = LogSettings::default();
    let log = Log::create(Store::from(items).with_clock(clock.clone()), &settings)
        .await
        .unwrap();
    for source in ["a", "b"] {
        let record = |n: usize| {
            let time = Time::from_ms(1_699_999_000_000 + n as u64).unwrap();
            let id = format!("{n:04}").parse().unwrap();
            Record::json(source, id, time, &json!({"from": source}))
        };
        let report = log.ingest((0..EVENTS).map(record).collect()).await;
        assert_eq!(report.stored(), EVENTS);
    }
    let report = log.sweep().await;
    let (moved, aside) = (report.moved as usize, report.set_aside as usize);
    assert_eq!(
        (moved, aside, report.left),
        (EVENTS, EVENTS, 0),
        "{:?}",
        report.failure
    );
    let events: Vec<_> = log.playback(Span::ALL).try_collect().await.unwrap();
    let kept: Vec<_> = log.set_aside().try_collect().await.unwrap();
    assert_eq!((events.len(), kept.len()), (EVENTS, EVENTS));
    // What is set aside is the other one.
    let of_a = events
        .iter()
        .filter(|event| event.data() == annals::log::Data::Json(json!({"from": "a"})));
    let a = annals::log::RecordPayload::json(&json!({"from": "a"}));
    let a = annals::items::Value::M(a.as_map().clone());
    let aside_of_a = kept
        .iter()
        .filter(|aside| aside.record.get("record_payload") == Some(&a));
    assert_eq!(of_a.count() + aside_of_a.count(), EVENTS);
}

/// Another sweep is about to store something else under the key: the record stays for the next sweep.
#[tokio::test]
async fn what_another_sweep_claims_is_left() {
    let bed = Bed::new().await;
    let (faulty, slow) = bed.scripted().await;
    let of =
        |source: &str| Record::json(source, "x".parse().unwrap(), bed.log.now(), &json!(source));
    bed.log.ingest_one(of("a")).await;
    // It has looked, and found nothing; now it is about to store.
    faulty.spare_next(Verb::Write, 1);
    faulty.hold(Verb::Write);
    let swept = tokio::spawn(async move { slow.sweep().await });
    faulty.until_held(1).await;
    let buffer = bed.log.tables().buffer.clone();
    let mine: Vec<_> = scan_all(bed.items.clone(), buffer.clone(), Scan::whole())
        .try_collect()
        .await
        .unwrap();
    bed.log.ingest_one(of("b")).await;
    // As one whose scan meets only the other record.
    let key = buffer.key_of(&mine[0]).unwrap();
    let always = annals::items::Condition::Always;
    bed.items
        .delete(&buffer, key, always.clone())
        .await
        .unwrap();
    let report = bed.log.sweep().await;
    assert_eq!((report.moved, report.left), (0, 1), "{report:?}");
    bed.items
        .put(&buffer, mine[0].clone(), always)
        .await
        .unwrap();
    faulty.release(Verb::Write);
    assert_eq!(swept.await.unwrap().moved, 1);
    let report = bed.log.sweep().await;
    assert_eq!((report.moved, report.set_aside), (0, 1), "{report:?}");
    assert_eq!(bed.ids().await, ["x"]);
}

/// A claim of a sweep that has died holds up nobody who has the same record, and nobody for long.
#[tokio::test]
async fn a_claim_of_a_dead_sweep_holds_nobody_up() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    bed.log.ingest_one(bed.record("x", 0)).await;
    faulty.fail_next(Verb::Write, 100, ErrorKind::Unavailable);
    assert_eq!(log.sweep().await.left, 1);
    let claims = async || {
        let table = bed.log.tables().event.clone();
        let query = annals::items::Query::of("annals#sweeping");
        bed.items.query(&table, query).await.unwrap().items.len()
    };
    assert_eq!(claims().await, 1);
    let report = bed.log.sweep().await;
    assert_eq!((report.moved, report.left), (1, 0), "{report:?}");
    assert_eq!(
        claims().await,
        1,
        "nobody knows whether its put may still land"
    );
    bed.advance(11 * 60 * 1_000);
    bed.log.ingest_one(bed.record("y", 0)).await;
    assert_eq!(bed.log.sweep().await.moved, 1);
    assert_eq!(claims().await, 0);
}

/// By a follower's clock the horizon may be in the future: it asks every slot of it all the same.
#[tokio::test]
async fn a_follower_without_an_index_passes_no_event_by() {
    let bed = Bed::new().await;
    let slow_clock = Arc::new(ManualClock::at_ms(bed.clock.now_ms() - 600_000));
    bed.log.ingest_one(bed.record("a", 0)).await;
    let (start, end) = (bed.record("a", 0).time, bed.log.now().ms() + 1);
    bed.advance(60_000);
    bed.log.sweep().await;
    bed.log.doubt_index().await.unwrap();
    let settings = settings();
    let log = Log::open(
        Store::from(bed.items.clone()).with_clock(slow_clock),
        &settings,
    )
    .await
    .unwrap();
    let until = Time::from_ms(end).unwrap();
    let events = log.follow(Playback::since(start).until(until));
    let events: Vec<_> = events.try_collect().await.unwrap();
    assert_eq!(events.len(), 1);
}

/// Slots of another length than the settings say would not be found: it is told.
#[tokio::test]
async fn slots_of_another_length_are_told() {
    let bed = Bed::new().await;
    let times = [1_234, 2_345, 63_456];
    let records = times.map(|ms| bed.record(&format!("{ms}"), ms));
    bed.log.ingest(records.to_vec()).await;
    bed.log.sweep().await;
    // As the original leaves its table: nothing says how it was written.
    let table = bed.log.tables().event.clone();
    let ours = scan_all(bed.items.clone(), table.clone(), Scan::whole());
    for item in ours.try_collect::<Vec<_>>().await.unwrap() {
        let key = table.key_of(&item).unwrap();
        if key.partition.to_string().starts_with("annals#") {
            let always = annals::items::Condition::Always;
            bed.items.delete(&table, key, always).await.unwrap();
        }
    }
    let wrong = LogSettings {
        time_unit_ms: 3_600_000,
        ..settings()
    };
    let log = Log::open(
        Store::from(bed.items.clone()).with_clock(bed.clock.clone()),
        &wrong,
    )
    .await
    .unwrap();
    let played = log.playback(Span::ALL).try_collect::<Vec<_>>().await;
    let linked = log.link(Span::ALL).await.map(|_| Vec::new());
    for told in [played, linked] {
        let error = told.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("time-unit-ms"), "{error}");
    }
}
