//! The pump as Lambda calls it: with records that it has read out of a stream.
//!
//! Promises: a record is answered as done only after it is known to be stored, or was told to be no
//! event. From the first that may not be stored Lambda hands the batch over again.

use annals::items::Value;
use annals::log::{Log, Record};
use annals::{Error, Result};
use serde_json::{Value as Json, json};

use annals_aws::kinesis::{Landing, record_of_event};

pub(super) async fn handle(log: &Log, mut event: Json) -> Result<Json> {
    let Some(Json::Array(entries)) = event.get_mut("Records").map(Json::take) else {
        return Err(Error::invalid(
            "an event for the pump has Records; check what invokes the function",
        ));
    };
    // Another source's records are not ours to be done with: it would delete them.
    if !entries.iter().all(is_of_a_stream) {
        return Err(Error::invalid(
            "an event for the pump has Records, each a record of a Kinesis stream; check what invokes the function",
        ));
    }
    let mut records = Vec::with_capacity(entries.len());
    let mut malformed = 0_u64;
    for entry in entries {
        // Handed over again it would be no better, and hold up its shard until it expires.
        match record_of_event(entry) {
            Ok(record) => records.push(record),
            Err(problem) => {
                malformed += 1;
                tracing::warn!(%problem, "a record is not in the log: it is no event");
            }
        }
    }
    let numbers: Vec<String> = records.iter().map(number_of).collect();
    let landing = Landing::ingest(log, records).await;
    for problem in &landing.problems {
        tracing::warn!(%problem, "a record is not in the log as it came");
    }
    tracing::info!(
        stored = landing.stored,
        present = landing.present,
        without_data = landing.without_data,
        malformed,
        "pumped"
    );
    let failed = landing.unknown.as_ref().map(|(place, error)| {
        tracing::warn!(%error, "records are to be handed over again");
        let number = numbers.get(*place).map_or("", String::as_str);
        json!({"itemIdentifier": number})
    });
    let failures: Vec<Json> = failed.into_iter().collect();
    Ok(json!({"batchItemFailures": failures}))
}

fn is_of_a_stream(entry: &Json) -> bool {
    entry.get("eventSource").and_then(Json::as_str) == Some("aws:kinesis")
}

/// The sequence number by which Lambda knows a record.
fn number_of(record: &Record) -> String {
    let number = match record.payload.as_map().get("kinesis") {
        Some(Value::M(kinesis)) => kinesis.get("sequenceNumber").and_then(Value::as_str),
        _ => None,
    };
    number.unwrap_or_default().to_owned()
}
