//! The races that the log's guarantees depend on, one by one, each scripted.

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
    let mut settings = LogSettings::default();
    settings.allowed_lateness_ms = LATENESS;
    settings.sweep_segments = 1;
    settings.follow_poll_ms = 1;
    settings
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

    /// The same log on a store that follows a script.
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

/// One sweep is about to store a late event while another publishes a later horizon: the first one
/// reports it, although that horizon did not exist when it started.
#[tokio::test]
async fn an_event_stored_after_a_later_horizon_is_late() {
    let bed = Bed::new().await;
    let (faulty, slow) = bed.scripted().await;
    let _ = bed.log.ingest_one(bed.record("late", 20_000)).await;
    // The other sweep's scan was over before the record arrived.
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

/// A sweep whose scan was over before a record arrived: on the same event table, with an empty buffer
/// of its own.
async fn publish(bed: &Bed) {
    let mut settings = settings();
    settings.buffer_table = Some("another-buffer".parse().unwrap());
    let log = Log::create(
        Store::from(bed.items.clone()).with_clock(bed.clock.clone()),
        &settings,
    );
    let report = log.await.unwrap().sweep().await;
    assert!(report.horizon.is_some(), "{report:?}");
}

/// A record that could not be stored holds the horizon at its time.
#[tokio::test]
async fn the_horizon_does_not_pass_a_record_that_is_left() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    let _ = bed.log.ingest_one(bed.record("a", 0)).await;
    let time = bed.log.now();
    bed.advance(60_000);
    // The index entry is written; the write of the event fails.
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

/// A scan that fails does not know what is left, so there is no horizon.
#[tokio::test]
async fn a_failed_scan_publishes_no_horizon() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    let _ = bed.log.ingest_one(bed.record("a", 0)).await;
    faulty.fail_next(Verb::Scan, 1, ErrorKind::Unavailable);
    let report = log.sweep().await;
    assert!(report.failure.is_some());
    assert_eq!(report.horizon, None);
    assert_eq!(bed.log.horizon().await.unwrap(), None);
}

/// Wherever a sweep dies, the record is in the buffer or its event is stored, and the next sweep
/// makes one event of it.
#[tokio::test]
async fn a_sweep_that_dies_anywhere_neither_loses_nor_duplicates() {
    for verb in [Verb::Get, Verb::Put, Verb::Write, Verb::Scan] {
        for nth in 0..4 {
            for is_lost in [false, true] {
                let bed = Bed::new().await;
                let (faulty, log) = bed.scripted().await;
                let _ = bed
                    .log
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

/// The slot is in the index before its event is stored, so a playback that finds the event has found
/// the slot.
#[tokio::test]
async fn a_slot_is_in_the_index_before_its_first_event() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    let _ = bed.log.ingest_one(bed.record("a", 0)).await;
    // Index entry and event are written, and nothing after that.
    faulty.spare_next(Verb::Write, 2);
    faulty.fail_next(Verb::Write, 100, ErrorKind::Unavailable);
    let _ = log.sweep().await;
    assert_eq!(bed.buffered().await, 1);
    assert_eq!(bed.ids().await, ["a"]);
    let stats = bed.log.stats().await.unwrap();
    assert_eq!(stats.days, 1);
}

/// A put with a lost response is recognised by its content.
#[tokio::test]
async fn a_record_with_a_lost_response_can_be_ingested_again() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    let record = bed.record("a", 0);
    faulty.lose_next(Verb::Put, 1);
    let outcome = log.ingest_one(record.clone()).await;
    assert!(matches!(outcome, Ingested::Unknown(_)), "{outcome:?}");
    let outcome = log.ingest_one(record.clone()).await;
    assert!(matches!(outcome, Ingested::Present), "{outcome:?}");
    faulty.lose_next(Verb::Write, 1);
    let report = log.ingest(vec![bed.record("b", 0)]).await;
    assert!(report.failure().is_some());
    let report = log.ingest(vec![bed.record("b", 0), record]).await;
    assert_eq!((report.stored(), report.present()), (0, 2));
}

/// Settings that are out of range are refused by name.
#[tokio::test]
async fn settings_out_of_range_are_refused() {
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
async fn the_index_of_an_empty_table_is_complete_whoever_created_it() {
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let settings = LogSettings::default();
    for table in annals::log::LogTables::new(&settings).unwrap().all() {
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

/// Without a complete index every slot up to now is read, and no future one.
#[tokio::test]
async fn a_playback_without_an_index_reads_no_future_slots() {
    let counting = Store::from(Arc::new(Memory::new()));
    for table in LogTables::new(&settings()).unwrap().all() {
        let created = counting.create_table(table, Default::default());
        created.await.unwrap();
    }
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let settings = settings();
    let log = Log::open(counting.clone().with_clock(clock.clone()), &settings);
    let log = log.await.unwrap();
    let start = Time::from_ms(clock.now_ms() - 3_000).unwrap();
    let requests = async |playback: Playback| {
        counting.take_counts();
        let events = log.playback(playback).try_collect::<Vec<_>>().await;
        assert_eq!(events.unwrap().len(), 0);
        counting.take_counts().total().cost.requests
    };
    // Three past slots, the current one, those within the clock skew, the table metadata, and a sample
    // for the length of its slots.
    let slots = 3 + LATENESS / 1_000;
    assert_eq!(requests(Playback::since(start)).await, slots + 2);
    let whole = Span::new(start, Time::END).unwrap();
    assert_eq!(requests(whole.into()).await, slots + 2);
    let later = Time::from_ms(clock.now_ms() + 10 * LATENESS).unwrap();
    assert_eq!(requests(Playback::since(later)).await, 0);
}

/// An event from a clock that is far ahead is stored and blocks nothing. It is played when its time
/// comes, or by a playback of that time.
#[tokio::test]
async fn an_event_in_the_far_future_blocks_nothing() {
    let bed = Bed::new().await;
    let future = Time::from_ms(bed.clock.now_ms() + 1_000_000_000).unwrap();
    let ahead = Record::json("test", "ahead".parse().unwrap(), future, &json!({"id": 1}));
    let _ = bed.log.ingest(vec![ahead, bed.record("a", 0)]).await;
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

/// A horizon from a wrong clock makes every event late, and is reported until it is set back.
#[tokio::test]
async fn a_horizon_from_a_wrong_clock_is_reported_and_set_back() {
    let bed = Bed::new().await;
    let wrong = Arc::new(ManualClock::at_ms(bed.clock.now_ms() + 1_000_000_000));
    let settings = settings();
    let sweeper = Log::open(Store::from(bed.items.clone()).with_clock(wrong), &settings);
    let _ = sweeper.await.unwrap().sweep().await;
    let _ = bed.log.ingest_one(bed.record("a", 0)).await;
    let report = bed.log.sweep().await;
    assert_eq!((report.moved, report.late), (1, 1));
    assert_eq!(report.horizon_ahead_ms, 1_000_000_000 - LATENESS);
    let right = Time::from_ms(bed.clock.now_ms() - LATENESS).unwrap();
    assert!(bed.log.set_back_horizon(right).await.unwrap());
    assert!(!bed.log.set_back_horizon(right).await.unwrap());
    let _ = bed.log.ingest_one(bed.record("b", 0)).await;
    let report = bed.log.sweep().await;
    assert_eq!((report.moved, report.late), (1, 0), "{report:?}");
    assert_eq!(report.horizon_ahead_ms, 0);
}

/// Two sources with the same ids and times, in different pages of one sweep. One record becomes the
/// event and the other a dead letter; none is lost.
#[tokio::test]
async fn sources_that_share_ids_lose_nothing_in_one_sweep() {
    const EVENTS: usize = 2_000;
    // Every call yields, so that the pages of a sweep alternate.
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
    let (moved, dead) = (report.moved as usize, report.dead_letters as usize);
    assert_eq!(
        (moved, dead, report.left),
        (EVENTS, EVENTS, 0),
        "{:?}",
        report.failure
    );
    let events: Vec<_> = log.playback(Span::ALL).try_collect().await.unwrap();
    let kept: Vec<_> = log.dead_letters().try_collect().await.unwrap();
    assert_eq!((events.len(), kept.len()), (EVENTS, EVENTS));
    // The dead letter is the other record.
    let of_a = events
        .iter()
        .filter(|event| event.data() == annals::log::Data::Json(json!({"from": "a"})));
    let a = annals::log::RecordPayload::json(&json!({"from": "a"}));
    let a = annals::items::Value::M(a.as_map().clone());
    let dead_of_a = kept
        .iter()
        .filter(|letter| letter.record.get("record_payload") == Some(&a));
    assert_eq!(of_a.count() + dead_of_a.count(), EVENTS);
}

/// If another sweep is about to store a different event under the key, the record is left.
#[tokio::test]
async fn a_record_contested_by_another_sweep_is_left() {
    let bed = Bed::new().await;
    let (faulty, slow) = bed.scripted().await;
    let of =
        |source: &str| Record::json(source, "x".parse().unwrap(), bed.log.now(), &json!(source));
    let _ = bed.log.ingest_one(of("a")).await;
    // It found nothing stored, and is about to store.
    faulty.spare_next(Verb::Write, 1);
    faulty.hold(Verb::Write);
    let swept = tokio::spawn(async move { slow.sweep().await });
    faulty.until_held(1).await;
    let buffer = bed.log.tables().buffer.clone();
    let mine: Vec<_> = scan_all(bed.items.clone(), buffer.clone(), Scan::whole())
        .try_collect()
        .await
        .unwrap();
    let _ = bed.log.ingest_one(of("b")).await;
    // Like a sweep whose scan finds only the other record.
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
    assert_eq!((report.moved, report.dead_letters), (0, 1), "{report:?}");
    assert_eq!(bed.ids().await, ["x"]);
}

/// The claim of a dead sweep does not block the same record, and expires.
#[tokio::test]
async fn the_claim_of_a_dead_sweep_blocks_nothing() {
    let bed = Bed::new().await;
    let (faulty, log) = bed.scripted().await;
    let _ = bed.log.ingest_one(bed.record("x", 0)).await;
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
    assert_eq!(claims().await, 1, "its put may still succeed");
    bed.advance(11 * 60 * 1_000);
    let _ = bed.log.ingest_one(bed.record("y", 0)).await;
    assert_eq!(bed.log.sweep().await.moved, 1);
    assert_eq!(claims().await, 0);
}

/// The horizon may be in the future by a follower's clock; it reads every slot up to it.
#[tokio::test]
async fn a_follower_without_an_index_misses_no_event() {
    let bed = Bed::new().await;
    let slow_clock = Arc::new(ManualClock::at_ms(bed.clock.now_ms() - 600_000));
    let _ = bed.log.ingest_one(bed.record("a", 0)).await;
    let (start, end) = (bed.record("a", 0).time, bed.log.now().ms() + 1);
    bed.advance(60_000);
    let _ = bed.log.sweep().await;
    bed.log.mark_index_incomplete().await.unwrap();
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

/// Slots of another length than in the settings would not be found, so they are an error.
#[tokio::test]
async fn slots_of_another_length_are_an_error() {
    let bed = Bed::new().await;
    let times = [1_234, 2_345, 63_456];
    let records = times.map(|ms| bed.record(&format!("{ms}"), ms));
    let _ = bed.log.ingest(records.to_vec()).await;
    let _ = bed.log.sweep().await;
    // As the original leaves its table: without metadata.
    let table = bed.log.tables().event.clone();
    let ours = scan_all(bed.items.clone(), table.clone(), Scan::whole());
    for item in ours.try_collect::<Vec<_>>().await.unwrap() {
        let key = table.key_of(&item).unwrap();
        if key.partition.to_string().starts_with("annals#") {
            let always = annals::items::Condition::Always;
            bed.items.delete(&table, key, always).await.unwrap();
        }
    }
    let mut wrong = settings();
    wrong.time_unit_ms = 3_600_000;
    let log = Log::open(
        Store::from(bed.items.clone()).with_clock(bed.clock.clone()),
        &wrong,
    )
    .await
    .unwrap();
    let played = log.playback(Span::ALL).try_collect::<Vec<_>>().await;
    let linked = log.link(Span::ALL).await.map(|_| Vec::new());
    for result in [played, linked] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("time-unit-ms"), "{error}");
    }
}
