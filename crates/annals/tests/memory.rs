//! Memory, counted by the allocator: a replay or a playback of a long journal or log uses as much as
//! of a short one, and an idle entity is small. A separate test program, so that no other test
//! allocates.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use annals::embedded::Embedded;
use annals::entity::{Cx, Effect, Entity, EntityEvent, EntitySettings, Handle, Stored, persist};
use annals::items::Items;
use annals::journal::{Append, EventStream, Expected, Journal, Window};
use annals::layout::Layout;
use annals::log::{Log, LogStream, Record, Span, Time};
use annals::memory::Memory;
use annals::settings::{EmbeddedSettings, LogSettings};
use annals::store::Store;
use annals::{Annals, Codec, ManualClock, NewEvent, PersistenceId, Random, SequenceNumber};
use annals_jvm::AnyLayout;
use annals_testkit::store;
use futures::TryStreamExt;
use peak_alloc::PeakAlloc;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

#[path = "memory/endless.rs"]
mod endless;

use endless::Endless;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const EVENT_BYTES: usize = 200;
const EVENTS_AN_APPEND: u64 = 500;
/// The lengths of the shorter replay, which fills all buffers, and of the longer one.
const SHORT: u64 = 25_000;
const LONG: u64 = 4 * SHORT;
const MIB: usize = 1024 * 1024;
/// The limit of a replay; the events of the longer one have 19 MiB of payload.
const BOUND_BYTES: usize = 8 * MIB;

#[derive(Default, Serialize, Deserialize, Stored)]
struct Counter(u64);

#[derive(Serialize, Deserialize, EntityEvent)]
struct Counted;

struct Count;

impl Entity for Counter {
    const TYPE: &'static str = "Counter";
    type Event = Counted;
    type Error = std::convert::Infallible;

    fn apply(&mut self, _: &Counted) {
        self.0 += 1;
    }
}

impl Handle<Count> for Counter {
    type Reply = ();

    fn handle(&self, _: &Count, _: &Cx<'_>) -> Result<Effect<Self, ()>, Self::Error> {
        Ok(persist(Counted))
    }
}

fn id() -> PersistenceId {
    "Account|1".parse().unwrap()
}

/// Opens the journal, in its table.
async fn open(items: Arc<dyn Items>) -> Journal {
    let settings = AnyLayout::default();
    let table = settings.tables().unwrap().journal;
    if items.describe_table(table.name()).await.unwrap().is_none() {
        let created = items.create_table(&table, Default::default());
        created.await.unwrap();
    }
    let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
    let store = store(items, clock, Random::seeded(0));
    let opened = settings.journal(&store);
    opened.await.unwrap()
}

/// Appends as many events as the longer replay has, of bytes that do not compress.
async fn fill(journal: &Journal) {
    let random = Random::seeded(1);
    let event = |_| {
        let words = std::iter::repeat_with(|| random.bits()).flat_map(u64::to_le_bytes);
        NewEvent::new(Codec::Bytes, words.take(EVENT_BYTES).collect::<Vec<u8>>())
    };
    let mut expected = Expected::Empty;
    for _ in 0..LONG / EVENTS_AN_APPEND {
        let events: Vec<_> = (0..EVENTS_AN_APPEND).map(event).collect();
        let appended = journal.append(&id(), expected, Append::of(events)).await;
        expected = Expected::Last(appended.unwrap().last);
    }
}

fn replay(journal: &Journal, events: u64) -> EventStream {
    let window = Window::ALL.to(SequenceNumber::new(events).unwrap());
    journal.replay(&id(), window)
}

/// The peak of additional bytes while events are replayed one by one.
async fn peak_of(journal: &Journal, events: u64) -> usize {
    let before = begin();
    let mut replayed = replay(journal, events);
    let mut count = 0;
    while let Some(event) = replayed.try_next().await.unwrap() {
        assert_eq!(event.data.payload.len(), EVENT_BYTES);
        count += 1;
    }
    assert_eq!(count, events);
    HEAP.peak_usage() - before
}

/// The bytes in use now, the base of the peak.
fn begin() -> usize {
    HEAP.reset_peak_usage();
    HEAP.current_usage()
}

/// The peaks of a shorter and a longer replay, after a warm-up.
async fn peaks(journal: &Journal) -> [usize; 2] {
    peak_of(journal, SHORT).await;
    let peaks = [peak_of(journal, SHORT).await, peak_of(journal, LONG).await];
    println!("bytes at the most, {SHORT} events and {LONG}: {peaks:?}");
    peaks
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(test);
}

async fn check_memory() {
    let journal = open(Arc::new(Memory::new())).await;
    fill(&journal).await;
    let [short, long] = peaks(&journal).await;
    assert!(long <= BOUND_BYTES, "{long}");
    // Only the replay allocates here.
    assert!(long <= short + short / 10, "{short}, {long}");
    check_count(&journal).await;
}

async fn check_embedded() {
    let folder = TempDir::new().unwrap();
    let settings = EmbeddedSettings::default().cache_mib(1);
    let embedded = || Arc::new(Embedded::open(folder.path(), &settings).unwrap());
    fill(&open(embedded()).await).await;
    // A store that has just been opened has nothing to write.
    let journal = open(embedded()).await;
    let [short, long] = peaks(&journal).await;
    assert!(long <= BOUND_BYTES, "{long}");
    assert!(long <= short + 2 * MIB, "{short}, {long}");
}

/// The limit is meaningful: a collected replay is far above it.
async fn check_count(journal: &Journal) {
    let before = begin();
    let all: Vec<_> = replay(journal, LONG).try_collect().await.unwrap();
    assert_eq!(all.len() as u64, LONG);
    let peak = HEAP.peak_usage() - before;
    println!("bytes of {LONG} events, collected: {peak}");
    assert!(peak > 3 * BOUND_BYTES, "{peak}");
}

/// Entities that are recovered and idle, one event and a small state each.
async fn check_idle_entities() {
    const ENTITIES: usize = 10_000;
    const IDLE_BYTES_MAX: usize = 2_048;
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let settings = AnyLayout::default();
    let opened = || Annals::create(items.clone(), &settings);
    let annals = opened().await.unwrap();
    let counters = annals.executor::<Counter>(EntitySettings::new());
    for n in 0..ENTITIES {
        counters.ask(&n.to_string(), Count).await.unwrap();
    }
    // Another journal, with an empty cache.
    let annals = opened().await.unwrap();
    let region = annals.region::<Counter>(EntitySettings::new());
    let before = HEAP.current_usage();
    for n in 0..ENTITIES {
        let name = n.to_string();
        let count = region.view(&name, |counter| counter.0);
        assert_eq!(count.await.unwrap(), 1);
    }
    let idle = (HEAP.current_usage() - before) / ENTITIES;
    println!("bytes of an idle entity: {idle}");
    assert_eq!(region.resident(), ENTITIES);
    assert!(idle <= IDLE_BYTES_MAX, "{idle}");
    region.passivate_all().await;
    let left = HEAP.current_usage().saturating_sub(before) / ENTITIES;
    println!("bytes of one that has left memory, which the journal knows: {left}");
    assert!(left < idle, "{left}, {idle}");
}

/// Events of the log: 500 per second, over two parts of each slot.
const LOG_SHORT: u64 = 6_000;
const LOG_LONG: u64 = 8 * LOG_SHORT;
const LOG_START: u64 = 1_700_000_000_000;

async fn fill_log(log: &Log) {
    let text = "x".repeat(600);
    let record = |n: u64| {
        let id = format!("e{n:08}").parse().unwrap();
        let time = Time::from_ms(LOG_START + n * 2).unwrap();
        Record::json("test", id, time, &serde_json::json!({"text": text}))
    };
    for n in 0..LOG_LONG / 1_000 {
        let records = (n * 1_000..(n + 1) * 1_000).map(record).collect();
        assert_eq!(log.ingest(records).await.stored(), 1_000);
    }
    assert_eq!(log.sweep().await.moved, LOG_LONG);
}

fn play(log: &Log, events: u64) -> LogStream {
    let time = |n: u64| Time::from_ms(LOG_START + n * 2).unwrap();
    log.playback(Span::new(time(0), time(events)).unwrap())
}

async fn peak_of_playback(log: &Log, events: u64) -> usize {
    let before = begin();
    let mut played = play(log, events);
    let mut count = 0;
    while played.try_next().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, events);
    HEAP.peak_usage() - before
}

async fn check_log() {
    let mut settings = LogSettings::default();
    settings.slot_parts = 2;
    let clock = Arc::new(ManualClock::at_ms(LOG_START));
    let log = Log::create(
        Store::from(Arc::new(Memory::new())).with_clock(clock),
        &settings,
    )
    .await
    .unwrap();
    fill_log(&log).await;
    peak_of_playback(&log, LOG_SHORT).await;
    let short = peak_of_playback(&log, LOG_SHORT).await;
    let long = peak_of_playback(&log, LOG_LONG).await;
    println!("bytes at the most, {LOG_SHORT} events of the log and {LOG_LONG}: {short}, {long}");
    assert!(long <= BOUND_BYTES, "{long}");
    assert!(long <= short + short / 10, "{short}, {long}");
    let before = begin();
    let all: Vec<_> = play(&log, LOG_LONG).try_collect().await.unwrap();
    assert_eq!(all.len() as u64, LOG_LONG);
    let peak = HEAP.peak_usage() - before;
    println!("bytes of {LOG_LONG} events of the log, collected: {peak}");
    assert!(peak > 3 * BOUND_BYTES, "{peak}");
}

/// A log whose store generates the buffer and the slots, so that only the sweep or the playback uses
/// memory.
async fn endless(events: u64, segments: u32) -> Log {
    let mut settings = LogSettings::default();
    settings.sweep_segments = segments;
    let clock = Arc::new(ManualClock::at_ms(endless::START_MS));
    let store = Store::new(Endless::new(events)).with_clock(clock);
    Log::create(&store, &settings).await.unwrap()
}

async fn peak_of_endless_sweep(events: u64, segments: u32) -> usize {
    let log = endless(events, segments).await;
    let before = begin();
    let report = log.sweep().await;
    assert_eq!((report.moved, report.left), (events, 0), "{report:?}");
    HEAP.peak_usage() - before
}

async fn peak_of_endless_playback(events: u64) -> usize {
    let log = endless(events, 1).await;
    let before = begin();
    let mut played = log.playback(Span::ALL);
    let mut count = 0;
    while played.try_next().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, events);
    HEAP.peak_usage() - before
}

/// A sweep and a playback use as much for 100,000 events as for 25,000; a sweep with twice as many
/// segments uses about twice as much.
async fn check_endless() {
    peak_of_endless_sweep(SHORT, 4).await;
    let [short, long] = [
        peak_of_endless_sweep(SHORT, 4).await,
        peak_of_endless_sweep(LONG, 4).await,
    ];
    let wider = peak_of_endless_sweep(LONG, 8).await;
    println!(
        "bytes of a sweep at the most, {SHORT} events and {LONG}: {short}, {long}; of one with twice the segments: {wider}"
    );
    assert!(long <= short + short / 10, "{short}, {long}");
    assert!(wider <= 2 * long + long / 10, "{long}, {wider}");
    assert!(long <= 4 * SWEPT_SEGMENT_BYTES_MAX, "{long}");
    peak_of_endless_playback(SHORT).await;
    let short = peak_of_endless_playback(SHORT).await;
    let long = peak_of_endless_playback(LONG).await;
    println!("bytes of a playback at the most, {SHORT} events and {LONG}: {short}, {long}");
    assert!(long <= short + short / 10, "{short}, {long}");
}

/// The limit of a sweep per segment: a page of a megabyte, as items and as events.
const SWEPT_SEGMENT_BYTES_MAX: usize = 20 * MIB;

/// One test, so that they do not run concurrently.
#[test]
fn memory_does_not_grow_with_the_length_of_histories_and_idle_entities_are_small() {
    run(check_endless());
    run(check_log());
    run(check_memory());
    run(check_embedded());
    run(check_idle_entities());
}
