//! Ids that both sources use, at the same times and with different content: of each one is an event
//! and the other is set aside, and nobody's is lost.

use std::collections::BTreeMap;

use annals::Random;
use annals::items::Value;
use annals::log::{Aside, Ingested, Log, LogEvent, Record, Time};
use futures::TryStreamExt;
use serde_json::json;

use super::{START, Told, World};

const BEGINS: &str = "shared-";

/// What both bring under a name, as one of them has it.
fn record(source: u32, step: usize, n: u64) -> Record {
    let id = format!("{BEGINS}{step}-{n}");
    let time = Time::from_ms(START + 1_000 * step as u64 + 7 * n).unwrap();
    let (from, data) = (format!("sim-{source}"), json!({"from": source}));
    Record::json(from, id.parse().unwrap(), time, &data)
}

pub(super) fn is_shared(id: &str) -> bool {
    id.starts_with(BEGINS)
}

/// What is known to be in, by id and by what it says.
pub(super) type Acked = BTreeMap<(String, String), Record>;

/// Brings some of this step's, or of an earlier one's.
pub(super) async fn bring(world: &World, log: &Log, random: &Random, (source, step): (u32, usize)) {
    let step = step.saturating_sub(random.below(3) as usize);
    let records: Vec<Record> = (0..1 + random.below(12))
        .map(|n| record(source, step, n))
        .collect();
    let report = log.ingest(records.clone()).await;
    let mut told = world.told();
    for (record, outcome) in records.into_iter().zip(&report.outcomes) {
        match outcome {
            Ingested::Stored | Ingested::Present => {
                let said = format!("{:?}", record.payload.data());
                let key = (record.event_id.to_string(), said);
                told.shared.insert(key, record);
            }
            Ingested::Unknown(_) => {}
            other => told.violations.push(format!("{record:?}: {other:?}")),
        }
    }
}

/// Whether an event is what one of the two brought.
pub(super) fn is_brought(told: &Told, event: &LogEvent) -> bool {
    let said = |source| json!({"from": source});
    let time = told
        .shared
        .values()
        .find(|record| record.event_id == event.event_id);
    time.is_none_or(|record| record.time == event.time)
        && [0, 1].iter().any(|source| {
            event.payload == annals::log::RecordPayload::json(&said(source))
                || event.data() == annals::log::Data::Json(said(source))
        })
}

fn said_by(aside: &Aside) -> (String, String) {
    let id = aside.record.get("event_id").and_then(Value::as_str);
    let payload = match aside.record.get("record_payload") {
        Some(Value::M(map)) => annals::log::RecordPayload::new(map.clone()),
        other => panic!("{other:?}"),
    };
    (id.unwrap().to_owned(), format!("{:?}", payload.data()))
}

/// Everything that was acknowledged is an event or set aside; nothing else is set aside.
pub(super) async fn check(world: &World, healthy: &Log, played: &[LogEvent]) {
    let aside: Vec<Aside> = healthy.set_aside().try_collect().await.unwrap();
    let aside: Vec<(String, String)> = aside.iter().map(said_by).collect();
    let mut told = world.told();
    let mut violations = Vec::new();
    if let Some(other) = aside.iter().find(|(id, _)| !is_shared(id)) {
        violations.push(format!("{other:?} is set aside"));
    }
    let says = |event: &LogEvent| (event.event_id.to_string(), format!("{:?}", event.data()));
    let played: Vec<_> = played.iter().map(says).collect();
    let kept = |key: &&(String, String)| played.contains(key) || aside.contains(key);
    let lost: Vec<_> = told.shared.keys().filter(|key| !kept(key)).collect();
    if !lost.is_empty() {
        violations.push(format!(
            "acknowledged, and neither event nor aside: {lost:?}"
        ));
    }
    told.met.shared = told.shared.len() as u64;
    told.met.aside = aside.len() as u64;
    told.violations.extend(violations);
}
