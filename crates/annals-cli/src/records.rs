//! Records as they are sent, on standard input and over HTTP: `{"event_id":…,"time":…,"payload":…}`.
//!
//! Promises: what is left out has its default; what is not understood is refused and named. A payload
//! is kept as it was sent, byte for byte.

use std::collections::BTreeMap;

use annals::log::{EventId, Record, RecordPayload, Time};
use annals::{Error, Result};
use serde::de::IgnoredAny;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::payload;

/// The members of a line, each as it was sent.
fn members(line: &[u8]) -> Result<BTreeMap<String, &RawValue>> {
    serde_json::from_slice(line).map_err(|cause| match serde_json::from_slice(line) {
        Ok(IgnoredAny) => {
            Error::invalid("line is no object; say {\"event_id\":…,\"time\":…,\"payload\":…}")
        }
        Err(_) => Error::invalid("line is not JSON").because(cause),
    })
}

/// A small member, as a parser has it.
fn parsed(raw: Option<&RawValue>) -> Option<Json> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// The record in a line, of this source; `now` where it tells no time.
pub(crate) fn record(line: &[u8], source: &str, now: Time) -> Result<Record> {
    let mut members = members(line)?;
    let event_id = match parsed(members.remove("event_id")) {
        None | Some(Json::Null) => EventId::of_bytes(line.trim_ascii()),
        Some(Json::String(id)) => id.parse()?,
        Some(other) => {
            let message = format!("event_id is a text. event_id=`{other}`");
            return Err(Error::invalid(message));
        }
    };
    let time: Time = match parsed(members.remove("time")) {
        None | Some(Json::Null) => now,
        Some(Json::String(text)) => text.parse()?,
        // JSON may have a whole number as `7.0` as well.
        Some(Json::Number(number)) => match payload::whole(&number) {
            Some(whole) => whole.to_string().parse()?,
            None => number.to_string().parse()?,
        },
        Some(other) => other.to_string().parse()?,
    };
    let missing = || Error::invalid("line has no payload; what did happen?");
    let payload = members.remove("payload").ok_or_else(missing)?;
    if let Some(name) = members.keys().next() {
        return Err(Error::invalid(format!(
            "there are event_id, time and payload, and no others. name=`{name}`"
        )));
    }
    Ok(Record {
        source: source.to_owned(),
        event_id,
        time,
        // A parser would round numbers, and drop the first of two members of one name.
        payload: RecordPayload::bytes(payload.get().as_bytes()),
    })
}
