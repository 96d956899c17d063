//! The properties of the time-ordered log, on every store: their setup.

pub(crate) mod playing;
pub(crate) mod storing;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt, TryStreamExt};
use serde_json::{Value as Json, json};

use super::Setup;
use annals::Random;
use annals::items::{Condition, Item, Key, Scan, scan_all};
use annals::log::{Log, LogEvent, Playback, Record, Span, SweepReport, Time};
use annals::settings::LogSettings;
use annals::store::Store;

/// A log with its own tables and clock.
#[derive(Clone, Debug)]
struct Stage {
    setup: Setup,
    settings: LogSettings,
    log: Log,
}

const START: &str = "2018-03-16T19:56:03.000Z";

fn time(text: &str) -> Time {
    text.parse().expect("a time")
}

/// A time this many milliseconds after the start.
fn at(ms: u64) -> Time {
    Time::from_ms(time(START).ms() + ms).expect("a time")
}

fn span(start: u64, end: u64) -> Span {
    Span::new(at(start), at(end)).expect("a span")
}

fn record(id: &str, ms: u64, data: &Json) -> Record {
    Record::json("test", id.parse().expect("an id"), at(ms), data)
}

fn numbered(id: &str, ms: u64) -> Record {
    record(id, ms, &json!({"id": id}))
}

/// Runs a check on a log whose tables are dropped afterwards.
async fn on_stage<F>(setup: Setup, settings: LogSettings, act: impl FnOnce(Stage) -> F)
where
    F: Future<Output = ()> + Send,
{
    let unique = Random::from_machine().bits();
    let name = |what: &str| format!("annals-tck-{what}-{unique:016x}").parse().ok();
    let mut settings = settings;
    settings.buffer_table = name("buffer");
    settings.event_table = name("events");
    let log = Log::create(
        Store::from(setup.items.clone()).with_clock(setup.clock.clone()),
        &settings,
    )
    .await;
    let log = log.expect("a log");
    let (items, tables) = (setup.items.clone(), log.tables().clone());
    let stage = Stage {
        setup,
        settings,
        log,
    };
    let ended = AssertUnwindSafe(act(stage)).catch_unwind().await;
    for table in tables.all() {
        items
            .drop_table(table.name())
            .await
            .expect("a table is dropped");
    }
    if let Err(panic) = ended {
        std::panic::resume_unwind(panic);
    }
}

impl Stage {
    /// The same tables with other settings.
    async fn reopened(&self, alter: impl FnOnce(&mut LogSettings)) -> Log {
        let mut settings = self.settings.clone();
        alter(&mut settings);
        let (items, clock) = (self.setup.items.clone(), self.setup.clock.clone());
        Log::open(Store::from(items).with_clock(clock), &settings)
            .await
            .expect("it opens")
    }

    async fn ingest(&self, records: Vec<Record>) {
        let report = self.log.ingest(records).await;
        let problems: Vec<_> = report.problems().collect();
        assert!(problems.is_empty(), "{problems:?}");
    }

    async fn fill(&self, records: Vec<Record>) {
        self.ingest(records).await;
        let _ = sweep(&self.log).await;
    }

    async fn buffered(&self) -> usize {
        let table = self.log.tables().buffer.clone();
        let all = scan_all(self.setup.items.clone(), table, Scan::whole());
        all.try_collect::<Vec<Item>>().await.expect("a scan").len()
    }

    /// Removes the flag that the index is complete, as in a table of the original.
    async fn forget_index(&self) {
        let key = Key::new("annals#log").sorted("indexed");
        let table = &self.log.tables().event;
        let deleted = self.setup.items.delete(table, key, Condition::Always);
        deleted.await.expect("a deletion");
    }

    fn advance(&self, seconds: u64) {
        self.setup.clock.advance(Duration::from_secs(seconds));
    }
}

async fn sweep(log: &Log) -> SweepReport {
    let report = log.sweep().await;
    assert!(report.failure.is_none(), "{report:?}");
    report
}

async fn played(log: &Log, playback: impl Into<Playback>) -> Vec<LogEvent> {
    log.playback(playback)
        .try_collect()
        .await
        .expect("a playback")
}

async fn ids(log: &Log, playback: impl Into<Playback>) -> Vec<String> {
    let events = played(log, playback).await;
    events
        .iter()
        .map(|event| event.event_id.to_string())
        .collect()
}
