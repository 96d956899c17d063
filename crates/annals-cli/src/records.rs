//! Records as they are sent, on standard input and over HTTP: `{"event_id":…,"time":…,"payload":…}`.
//!
//! Promises: members that are left out have defaults; unknown ones are refused and named. A payload is
//! kept byte for byte.

use annals::log::{EventId, Record, RecordPayload, Time};
use annals::{Error, Result};
use serde_json::Value as Json;

use crate::wire;

/// The record in a line, of this source; at `now` if it has no time.
pub(crate) fn record(line: &[u8], source: &str, now: Time) -> Result<Record> {
    let sent: wire::Record<'_> = serde_json::from_slice(line).map_err(|cause| {
        Error::invalid(format!(
            "line is not a record, {{\"event_id\":…,\"time\":…,\"payload\":…}}: {cause}"
        ))
    })?;
    let event_id = match sent.event_id {
        None => EventId::from_content(line.trim_ascii()),
        Some(id) => id.parse()?,
    };
    let time: Time = match sent.time {
        None | Some(Json::Null) => now,
        Some(Json::String(text)) => text.parse()?,
        // JSON may have a whole number as `7.0` as well.
        Some(Json::Number(number)) => match wire::integer(&number) {
            Some(whole) => whole.to_string().parse()?,
            None => number.to_string().parse()?,
        },
        Some(other) => other.to_string().parse()?,
    };
    // The bytes, because a parser would round numbers and drop members with a repeated name.
    let payload = RecordPayload::bytes(sent.payload.get().as_bytes());
    Ok(Record::new(source, event_id, time, payload))
}
