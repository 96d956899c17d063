//! The pump: stores the stream records of an invocation in the buffer.
//!
//! Guarantees: a record counts as done only if it is known to be stored, or was logged as malformed.
//! Lambda redelivers the batch from the first record that may not be stored.

use annals::items::Value;
use annals::log::{Log, Record};
use annals::{Error, Result};
use serde_json::{Value as Json, json};

use annals_aws::kinesis::{Landing, record_of_event};

pub(super) async fn handle(log: &Log, mut event: Json) -> Result<Json> {
    let Some(Json::Array(entries)) = event.get_mut("Records").map(Json::take) else {
        return Err(Error::invalid(
            "the pump expects an event with Records; check the trigger of the function",
        ));
    };
    // Records of another source must not be acknowledged: it would delete them.
    if !entries.iter().all(is_stream_record) {
        return Err(Error::invalid(
            "the pump expects Records of a Kinesis stream; check the trigger of the function",
        ));
    }
    let mut records = Vec::with_capacity(entries.len());
    let mut malformed = 0_u64;
    for entry in entries {
        // Redelivery would not help, and would block the shard until the record expires.
        match record_of_event(entry) {
            Ok(record) => records.push(record),
            Err(problem) => {
                malformed += 1;
                tracing::warn!(%problem, "dropped a malformed record");
            }
        }
    }
    let numbers: Vec<String> = records.iter().map(sequence_number).collect();
    let landing = Landing::ingest(log, records).await;
    for problem in &landing.problems {
        tracing::warn!(%problem, "a record was stored without its data, or not at all");
    }
    tracing::info!(
        stored = landing.stored,
        present = landing.present,
        without_data = landing.without_data,
        malformed,
        "pumped"
    );
    let failed = landing.unknown.as_ref().map(|(place, error)| {
        tracing::warn!(%error, "records will be redelivered");
        let number = numbers.get(*place).map_or("", String::as_str);
        json!({"itemIdentifier": number})
    });
    let failures: Vec<Json> = failed.into_iter().collect();
    Ok(json!({"batchItemFailures": failures}))
}

fn is_stream_record(entry: &Json) -> bool {
    entry.get("eventSource").and_then(Json::as_str) == Some("aws:kinesis")
}

/// The sequence number that identifies a record to Lambda.
fn sequence_number(record: &Record) -> String {
    let number = match record.payload.as_map().get("kinesis") {
        Some(Value::M(kinesis)) => kinesis.get("sequenceNumber").and_then(Value::as_str),
        _ => None,
    };
    number.unwrap_or_default().to_owned()
}
