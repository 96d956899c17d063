//! A record of a stream as the log stores it: the map that AWS Lambda passes to a function. Pure.
//!
//! Guarantees: a record from a shard and the same record from Lambda become the same item, except for
//! `invokeIdentityArn`, which only Lambda knows: [`Pump::invoked_as`](super::Pump::invoked_as) adds
//! it. The key consists of `eventSourceARN` and `eventID`; the time is the arrival time, rounded up.

use std::collections::BTreeMap;

use annals::items::Value;
use annals::log::{Record, RecordPayload, Time};
use annals::{Error, Result};
use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::ShardId;

const SOURCE_ARN: &str = "eventSourceARN";
const EVENT_ID: &str = "eventID";
const KINESIS: &str = "kinesis";
const DATA: &str = "data";
const ARRIVAL: &str = "approximateArrivalTimestamp";
const PARTITION_KEY: &str = "partitionKey";

/// What all records of a stream share.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) arn: String,
    pub(crate) invoked_as: Option<String>,
}

impl Origin {
    /// `arn:aws:kinesis:REGION:ACCOUNT:stream/NAME`.
    fn region(&self) -> &str {
        self.arn.split(':').nth(3).unwrap_or_default()
    }

    /// The log record of a record of a shard.
    ///
    /// # Errors
    /// `Invalid` if its arrival time is missing or out of the log's range.
    pub(crate) fn record(&self, shard: &ShardId, record: &types::Record) -> Result<Record> {
        let number = record.sequence_number.as_str();
        let mut kinesis = text_map(&[("kinesisSchemaVersion", "1.0"), ("sequenceNumber", number)]);
        kinesis.insert(DATA.to_owned(), Value::S(BASE64.encode(&record.data)));
        if let Some(key) = &record.partition_key {
            kinesis.insert(PARTITION_KEY.to_owned(), Value::S(key.clone()));
        }
        if let Some(arrival) = &record.approximate_arrival_timestamp {
            let seconds = seconds_of(arrival).parse();
            let seconds = seconds.map(|n| kinesis.insert(ARRIVAL.to_owned(), Value::N(n)));
            seconds.map_err(|cause| {
                about(number, "has an arrival time out of range").because(cause)
            })?;
        }
        let mut map = text_map(&[
            ("eventSource", "aws:kinesis"),
            ("eventVersion", "1.0"),
            ("eventName", "aws:kinesis:record"),
            ("awsRegion", self.region()),
            (SOURCE_ARN, &self.arn),
            (EVENT_ID, &format!("{shard}:{number}")),
        ]);
        if let Some(role) = &self.invoked_as {
            map.insert("invokeIdentityArn".to_owned(), Value::from(role.as_str()));
        }
        map.insert(KINESIS.to_owned(), Value::M(kinesis));
        record_of(RecordPayload::new(map))
    }
}

fn text_map(texts: &[(&str, &str)]) -> BTreeMap<String, Value> {
    let texts = texts.iter();
    let texts = texts.map(|(name, text)| ((*name).to_owned(), Value::from(*text)));
    texts.collect()
}

fn about(id: &str, what: &str) -> Error {
    Error::invalid(format!("a record of a stream {what}")).fact("record", id)
}

/// Seconds since 1970 as a decimal. The SDK parsed them as a binary fraction, which is off by less than
/// a microsecond.
fn seconds_of(time: &DateTime) -> String {
    let micros = time.as_nanos().saturating_add(500) / 1_000;
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let text = format!("{seconds}.{micros:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The log record of a map as Lambda passes it.
fn record_of(payload: RecordPayload) -> Result<Record> {
    let text = |name: &str| payload.as_map().get(name).and_then(Value::as_str);
    let id = text(EVENT_ID).ok_or_else(|| about("", "lacks eventID"))?;
    let source = text(SOURCE_ARN).ok_or_else(|| about(id, "lacks eventSourceARN"))?;
    let arrival = inner(&payload, ARRIVAL).and_then(Value::as_number);
    let arrival = arrival.and_then(|number| number.to_string().parse::<f64>().ok());
    let arrival = arrival.ok_or_else(|| about(id, "lacks its arrival time"))?;
    let time = Time::from_seconds(arrival)
        .map_err(|cause| about(id, "has an arrival time out of range").because(cause))?;
    let (source, id) = (source.to_owned(), id.parse()?);
    Ok(Record::new(source, id, time, payload))
}

/// The log record of one entry of the event that Lambda passes.
///
/// # Errors
/// `Invalid` if it is not a record of a stream.
pub fn record_of_event(json: serde_json::Value) -> Result<Record> {
    let payload = RecordPayload::from_object(json).ok_or_else(|| {
        Error::invalid(
            "an event for the pump must have Records, each a record of a Kinesis stream; check what invokes the function",
        )
    })?;
    record_of(payload)
}

/// The same record with the length of its data instead of the data, if it is too large for an item.
pub(crate) fn without_data(record: &Record) -> Option<Record> {
    let mut map = record.payload.as_map().clone();
    let Some(Value::M(kinesis)) = map.get_mut(KINESIS) else {
        return None;
    };
    let data = kinesis.remove(DATA)?;
    let bytes = data.as_str().and_then(|text| BASE64.decode(text).ok())?;
    kinesis.insert("dataBytes".to_owned(), Value::from(bytes.len() as u64));
    let mut record = record.clone();
    record.payload = RecordPayload::new(map);
    Some(record)
}

/// The partition key of a record in its stream.
pub(super) fn partition_key(payload: &RecordPayload) -> Option<&str> {
    inner(payload, PARTITION_KEY)
        .and_then(Value::as_str)
        .filter(|key| !key.is_empty())
}

/// The original bytes of a record's data, if they are stored.
pub(super) fn raw_data(payload: &RecordPayload) -> Option<Vec<u8>> {
    let text = inner(payload, DATA).and_then(Value::as_str)?;
    BASE64.decode(text).ok()
}

/// The length of a record's data in base64.
pub(super) fn data_bytes(payload: &RecordPayload) -> usize {
    inner(payload, DATA)
        .and_then(Value::as_str)
        .map_or(0, str::len)
}

fn inner<'a>(payload: &'a RecordPayload, name: &str) -> Option<&'a Value> {
    match payload.as_map().get(KINESIS) {
        Some(Value::M(kinesis)) => kinesis.get(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_time_keeps_its_digits() {
        for text in ["1545084650.987", "1521230163.001", "1521230163", "0.5"] {
            let parsed = text.parse::<f64>().unwrap();
            assert_eq!(seconds_of(&DateTime::from_secs_f64(parsed)), text);
        }
        // Every millisecond of some seconds.
        for ms in 0..3_000u64 {
            let ms = 1_545_084_650_000 + ms;
            let seconds = ms as f64 / 1_000.0;
            let text = seconds_of(&DateTime::from_secs_f64(seconds));
            assert_eq!(text.parse::<f64>().unwrap(), seconds, "{ms}");
        }
    }
}
