//! Ids that both sources use, at the same times with different content: one record of each becomes the
//! event and the other a dead letter, and none is lost.

use std::collections::BTreeMap;

use annals::Random;
use annals::items::Value;
use annals::log::{DeadLetter, Ingested, Log, LogEvent, Record, Time};
use futures::TryStreamExt;
use serde_json::json;

use super::{Observed, START, World};

const BEGINS: &str = "shared-";

/// The record of one source with an id that both use.
fn record(source: u32, step: usize, n: u64) -> Record {
    let id = format!("{BEGINS}{step}-{n}");
    let time = Time::from_ms(START + 1_000 * step as u64 + 7 * n).unwrap();
    let (from, data) = (format!("sim-{source}"), json!({"from": source}));
    Record::json(from, id.parse().unwrap(), time, &data)
}

pub(super) fn is_shared(id: &str) -> bool {
    id.starts_with(BEGINS)
}

/// Acknowledged records, by id and content.
pub(super) type Acked = BTreeMap<(String, String), Record>;

/// A step of a source.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) source: u32,
    pub(super) step: usize,
}

/// Ingests some records of this step, or of an earlier one.
pub(super) async fn ingest(world: &World, log: &Log, random: &Random, step: Step) {
    let Step { source, step } = step;
    let step = step.saturating_sub(random.below(3) as usize);
    let records: Vec<Record> = (0..1 + random.below(12))
        .map(|n| record(source, step, n))
        .collect();
    let report = log.ingest(records.clone()).await;
    let mut observed = world.observed();
    for (record, outcome) in records.into_iter().zip(&report.outcomes) {
        match outcome {
            Ingested::Stored | Ingested::Present => {
                let content = format!("{:?}", record.payload.data());
                let key = (record.event_id.to_string(), content);
                observed.shared.insert(key, record);
            }
            Ingested::Unknown(_) => {}
            other => observed.violations.push(format!("{record:?}: {other:?}")),
        }
    }
}

/// Whether one of the two sources sent this event.
pub(super) fn is_sent(observed: &Observed, event: &LogEvent) -> bool {
    let content = |source| json!({"from": source});
    let time = observed
        .shared
        .values()
        .find(|record| record.event_id == event.event_id);
    time.is_none_or(|record| record.time == event.time)
        && [0, 1].iter().any(|source| {
            event.payload == annals::log::RecordPayload::json(&content(source))
                || event.data() == annals::log::Data::Json(content(source))
        })
}

fn id_and_content(letter: &DeadLetter) -> (String, String) {
    let id = letter.record.get("event_id").and_then(Value::as_str);
    let payload = match letter.record.get("record_payload") {
        Some(Value::M(map)) => annals::log::RecordPayload::new(map.clone()),
        other => panic!("{other:?}"),
    };
    (id.unwrap().to_owned(), format!("{:?}", payload.data()))
}

/// Every acknowledged record is an event or a dead letter, and there are no other dead letters.
pub(super) async fn check(world: &World, healthy: &Log, played: &[LogEvent]) {
    let letters: Vec<DeadLetter> = healthy.dead_letters().try_collect().await.unwrap();
    let letters: Vec<(String, String)> = letters.iter().map(id_and_content).collect();
    let mut observed = world.observed();
    let mut violations = Vec::new();
    if let Some(other) = letters.iter().find(|(id, _)| !is_shared(id)) {
        violations.push(format!("is a dead letter: {other:?}"));
    }
    let key_of = |event: &LogEvent| (event.event_id.to_string(), format!("{:?}", event.data()));
    let played: Vec<_> = played.iter().map(key_of).collect();
    let kept = |key: &&(String, String)| played.contains(key) || letters.contains(key);
    let lost: Vec<_> = observed.shared.keys().filter(|key| !kept(key)).collect();
    if !lost.is_empty() {
        violations.push(format!(
            "acknowledged, but neither event nor dead letter: {lost:?}"
        ));
    }
    observed.counts.shared = observed.shared.len() as u64;
    observed.counts.dead_letters = letters.len() as u64;
    observed.violations.extend(violations);
}
