//! The record of an event of a journal. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value as Json, json};

use super::super::{EventId, Record, RecordPayload, Time, tables};
use crate::{Codec, Error, Event, Result};

/// The record of an event. `stamp` is the time of an event that has none. The ids of one persistence
/// id sort by sequence number, so that ties keep the order of the journal.
pub(super) fn record_of(
    source: &str,
    event: &Event,
    stamp: Option<Time>,
    has_payload: bool,
) -> Result<Record> {
    let (id, number) = (&event.persistence_id, event.sequence_number.get());
    let event_id: EventId = format!("{}:{number:019}", tables::short(id.as_str())).parse()?;
    let time = match (event.time_ms, stamp) {
        (0, Some(stamp)) => stamp,
        (ms, _) => Time::from_ms(ms).map_err(|cause| {
            Error::invalid("an event cannot be in the log")
                .fact("event id", &event_id)
                .because(cause)
        })?,
    };
    let payload = RecordPayload::bytes(data_of(event, has_payload).as_bytes());
    Ok(Record::new(source, event_id, time, payload))
}

/// An event as `annals replay` prints it. A JSON payload is copied byte by byte: a parser would round
/// its numbers, and drop members with a repeated name.
fn data_of(event: &Event, has_payload: bool) -> String {
    let data = &event.data;
    let mut object = Map::new();
    let mut set = |name: &str, value: Json| {
        object.insert(name.to_owned(), value);
    };
    set("persistence_id", json!(event.persistence_id.as_str()));
    set("sequence_number", json!(event.sequence_number.get()));
    set("time", json!(event.time_ms));
    set("manifest", json!(data.manifest));
    set("schema", json!(data.schema));
    set("tags", json!(data.tags));
    set("metadata", json!(data.metadata));
    set("codec", json!(data.codec.to_string()));
    if let Some(causation) = &event.causation {
        set("causation", json!(**causation));
    }
    if let Some(correlation) = &event.correlation {
        set("correlation", json!(**correlation));
    }
    let (name, payload) = match has_payload {
        false => ("payload_bytes", data.payload.len().to_string()),
        true => payload_of(&data.codec, &data.payload),
    };
    let mut text = Json::Object(object).to_string();
    text.pop();
    format!("{text},\"{name}\":{payload}}}")
}

/// The member of a payload: JSON as it was written, other codecs as JSON, or base64.
fn payload_of(codec: &Codec, bytes: &[u8]) -> (&'static str, String) {
    let is_json = |text: &&str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let text = std::str::from_utf8(bytes).ok();
    if let Some(text) = text.filter(|_| *codec == Codec::Json).filter(is_json) {
        return ("payload", text.to_owned());
    }
    match codec.to_json(bytes) {
        Some(json) => ("payload", json.to_string()),
        None => ("payload_base64", json!(BASE64.encode(bytes)).to_string()),
    }
}
