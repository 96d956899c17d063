//! A journal with two writers, and two pumps that copy it into the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals::journal::{Append, Appended, Expected, Journal, Window};
use annals::layout::Layout;
use annals::log::{JournalPump, Log, LogEvent};
use annals::{Clock, Codec, NewEvent, PersistenceId, Random};
use annals_testkit::store;
use futures::TryStreamExt;
use serde_json::{Value as Json, json};

use super::process::{STEPS, restart, wait, wait_all};
use super::{Handle, LATENESS, World};

const IDS: u64 = 3;

fn id(n: u64) -> PersistenceId {
    format!("Cart|{n}").parse().unwrap()
}

/// The id of an event of the journal in the log.
fn event_id(id: &PersistenceId, number: u64) -> String {
    format!("{id}:{number:019}")
}

async fn opened(world: &World, handle: &Handle, random: &Random) -> Journal {
    loop {
        handle.faulty.revive();
        let (items, clock) = (handle.items.clone(), world.clock.clone());
        let store = store(items, clock, random.clone());
        let opened = world.journals.journal(&store);
        if let Ok(journal) = opened.await {
            return journal;
        }
        tokio::task::yield_now().await;
    }
}

/// A journal without faults, with its tables.
pub(super) async fn create(world: &World) -> Journal {
    let tables = world.journals.tables().unwrap();
    let created = world
        .items
        .create_table(&tables.journal, Default::default());
    created.await.unwrap();
    let (items, clock) = (world.items.clone(), world.clock.clone());
    let store = store(items, clock, Random::seeded(0));
    let opened = world.journals.journal(&store);
    let journal = opened.await.unwrap();
    journal.prepare().await.unwrap();
    journal
}

/// Appends events, some of them in one append. A failed append may be stored.
pub(super) async fn append(world: Arc<World>, handle: Handle, random: Random, writer: u32) {
    let mut journal = opened(&world, &handle, &random).await;
    for step in 0..STEPS {
        if restart(&world, &handle) {
            journal = opened(&world, &handle, &random).await;
        }
        world
            .clock
            .advance(Duration::from_millis(random.below(1_000)));
        let event = |n| NewEvent::new(Codec::Text, format!("{writer}-{step}-{n}"));
        let events: Vec<NewEvent> = (0..1 + random.below(4)).map(event).collect();
        let id = id(random.below(IDS));
        let appended = journal.append(&id, Expected::Any, Append::of(events)).await;
        note(&world, &id, appended.ok());
        wait(&random, 60).await;
    }
}

fn note(world: &World, id: &PersistenceId, appended: Option<Appended>) {
    let mut observed = world.observed();
    let Some(done) = appended else {
        observed.counts.unknown += 1;
        return;
    };
    for number in done.first.get()..=done.last.get() {
        observed.appended.insert(event_id(id, number), done.time_ms);
    }
}

/// Pumps new events, sometimes twice; some passes are dropped half done.
pub(super) async fn pump(world: Arc<World>, handle: Handle, random: Random) {
    let mut pump = start(&world, &handle, &random).await;
    for _ in 0..STEPS {
        if restart(&world, &handle) {
            pump = start(&world, &handle, &random).await;
        }
        if random.below(4) == 0 {
            let turns = random.below(60);
            tokio::select! {
                biased;
                _ = pump.pass() => {}
                () = wait_all(turns) => world.observed().counts.dropped_passes += 1,
            }
        } else {
            pass(&world, &pump).await;
            if random.below(3) == 0 {
                pass(&world, &pump).await;
            }
        }
        wait(&random, 80).await;
    }
    restart(&world, &handle);
}

async fn start(world: &World, handle: &Handle, random: &Random) -> JournalPump {
    let journal = opened(world, handle, random).await;
    JournalPump::new(journal, world.open(handle, 1).await, "sim")
}

/// Every event that was appended before a successful pass is in the buffer, or in its slot.
async fn pass(world: &World, pump: &JournalPump) {
    let before = world.observed().appended.clone();
    let passed = pump.pass().await;
    let now = world.clock.now_ms();
    let mut observed = world.observed();
    match passed {
        Err(_) => observed.counts.failed_passes += 1,
        Ok(report) if !report.failures.is_empty() => observed.counts.failed_passes += 1,
        Ok(report) => {
            observed.counts.passes += 1;
            observed.counts.pumped += report.events;
            if !report.problems.is_empty() {
                observed.violations.push(format!("{report:?}"));
            }
            for (id, time_ms) in before {
                if now <= time_ms + LATENESS {
                    observed.in_time.insert(id.clone());
                }
                observed.acked.insert(id);
            }
        }
    }
}

/// The time and payload of the events of the journal at the end, by their ids in the log.
pub(super) async fn events(journal: &Journal) -> BTreeMap<String, (u64, Json)> {
    let mut all = BTreeMap::new();
    for n in 0..IDS {
        let events = journal.replay(&id(n), Window::ALL);
        let events: Vec<_> = events.try_collect().await.unwrap();
        for event in events {
            let number = event.sequence_number.get();
            let text = String::from_utf8(event.data.payload.to_vec()).unwrap();
            let name = event_id(&event.persistence_id, number);
            all.insert(name, (event.time_ms, json!(text)));
        }
    }
    all
}

/// Whether an event of the log has the content of the journal.
pub(super) fn is_same(event: &LogEvent, (time_ms, payload): &(u64, Json)) -> bool {
    let annals::log::Data::Json(data) = event.data() else {
        return false;
    };
    let number = data.get("sequence_number").and_then(Json::as_u64);
    let name = format!(
        "{}:{:019}",
        data["persistence_id"].as_str().unwrap_or_default(),
        number.unwrap_or_default()
    );
    event.time.ms() == *time_ms && data["payload"] == *payload && name == event.event_id.as_str()
}

/// The last pass, without faults.
pub(super) async fn pump_the_rest(journal: Journal, log: Log) -> annals::Result<()> {
    let report = JournalPump::new(journal, log, "sim").pass().await?;
    if let Some(failure) = report.failures.into_iter().next() {
        return Err(failure);
    }
    Ok(())
}
