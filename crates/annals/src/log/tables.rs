//! The two tables of the log: their keys, attributes and items. The only code that knows them.
//!
//! Promises: items have the attributes and key formats of the original's, and no others. What we
//! keep for ourselves stands in the event table under partition keys that begin with `annals#`,
//! which no slot does, without the attribute that the index by time has: the original, which asks
//! for slots, never meets it. Nothing of ours stands in the buffer, which it scans.
//! Never: talks to a store.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::data::{self, Members};
use super::slot::Day;
use super::{EventId, LogEvent, Record, RecordPayload, Slot, Time};
use crate::items::{
    IndexSpec, Item, Key, KeyAttribute, KeySchema, TableName, TableSpec, Value, check_item,
    item_to_json,
};
use crate::settings::LogSettings;
use crate::{Error, Result};

const PARTITION_KEY: &str = "partition_key";
pub(super) const EVENT_ID: &str = "event_id";
pub(super) const EVENT_TIME_STAMP: &str = "event_time_stamp";
const RECORD_PAYLOAD: &str = "record_payload";
const EVENT_TIME_SLOT: &str = "event_time_slot";
pub(super) const NEXT_SLOT: &str = "next_slot";
/// The local index of the event table.
pub(super) const BY_TIME: &str = "event_time_stamp";

/// What our own partitions begin with.
const OURS: &str = "annals#";
const DAYS: &str = "annals#days";
const LOG: &str = "annals#log";
const ASIDE: &str = "annals#aside";
const CLAIMS: &str = "annals#sweeping";

/// The tables of a log.
///
/// ```
/// use annals::log::LogTables;
/// use annals::settings::LogSettings;
///
/// let tables = LogTables::of(&LogSettings::default())?;
/// assert_eq!(tables.event.key().to_string(), "event_time_slot S, event_id S");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTables {
    /// Records that wait.
    pub buffer: Arc<TableSpec>,
    /// Events by time.
    pub event: Arc<TableSpec>,
}

impl LogTables {
    /// The tables under the names the settings give them.
    ///
    /// # Errors
    /// `Invalid` where both have one name.
    pub fn of(settings: &LogSettings) -> Result<Self> {
        let name = |set: &Option<TableName>, own: &str| match set {
            Some(name) => Ok(name.clone()),
            None => own.parse(),
        };
        let buffer = name(&settings.buffer_table, "annals-buffer")?;
        let event = name(&settings.event_table, "annals-log")?;
        if buffer == event {
            return Err(Error::invalid(format!(
                "two tables have one name; set buffer-table and event-table apart. name=`{event}`"
            )));
        }
        let slot = || KeySchema::new(KeyAttribute::text(EVENT_TIME_SLOT));
        let by_id = slot().sorted(KeyAttribute::text(EVENT_ID));
        let by_time = slot().sorted(KeyAttribute::text(EVENT_TIME_STAMP));
        let by_time = IndexSpec::local(BY_TIME.parse()?, by_time);
        let key = KeySchema::new(KeyAttribute::text(PARTITION_KEY));
        Ok(Self {
            buffer: Arc::new(TableSpec::new(buffer, key)?),
            event: Arc::new(TableSpec::new(event, by_id)?.with_index(by_time)?),
        })
    }

    /// Every table there is.
    pub fn all(&self) -> impl Iterator<Item = &TableSpec> {
        [&*self.buffer, &*self.event].into_iter()
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
    let mut text = String::with_capacity(2 * bytes.len());
    text.extend(digits);
    text
}

/// The lower-case hex SHA-256 of bytes.
pub(super) fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The lower-case hex SHA-256 of texts, one behind the other.
pub(super) fn sha256(texts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.as_bytes());
    }
    hex(&digest.finalize())
}

/// The item of a record in the buffer.
pub(super) fn buffer_item(record: Record) -> Item {
    let key = sha256(&[&record.source, record.event_id.as_str()]);
    Item::new()
        .with(PARTITION_KEY, key)
        .with(EVENT_ID, record.event_id.as_str())
        .with(EVENT_TIME_STAMP, record.time.ms())
        .with(RECORD_PAYLOAD, record.payload.into_value())
}

/// A record where the buffer's item has it.
#[derive(Clone, Debug)]
pub(super) struct Buffered<'a> {
    pub(super) event_id: EventId,
    pub(super) time: Time,
    payload: &'a Members,
}

fn payload_of(item: &Item) -> Option<&Members> {
    match item.get(RECORD_PAYLOAD) {
        Some(Value::M(map)) => Some(map),
        _ => None,
    }
}

fn text_of<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name).and_then(Value::as_str)
}

/// What an item of the buffer says.
pub(super) fn buffered_of(item: &Item) -> Result<Buffered<'_>> {
    let lacks = |name: &str| {
        Error::corrupt(format!(
            "an item of the buffer lacks an attribute or has another type there. attribute=`{name}`, key=`{}`",
            text_of(item, PARTITION_KEY).unwrap_or_default()
        ))
    };
    let event_id = text_of(item, EVENT_ID).ok_or_else(|| lacks(EVENT_ID))?;
    let time = item.get(EVENT_TIME_STAMP).and_then(Value::as_number);
    let time = time.ok_or_else(|| lacks(EVENT_TIME_STAMP))?;
    Ok(Buffered {
        event_id: event_id.parse()?,
        time: time.to_string().parse()?,
        payload: payload_of(item).ok_or_else(|| lacks(RECORD_PAYLOAD))?,
    })
}

/// The partition of a slot, or one of the parts it is spread over.
pub(super) fn partition(slot: Slot, part: Option<u32>) -> String {
    match part {
        None => slot.to_string(),
        Some(part) => format!("{slot}#{part}"),
    }
}

/// Every partition of a slot that is spread over so many parts.
pub(super) fn partitions(slot: Slot, parts: u32) -> impl Iterator<Item = String> {
    let part = move |part| Some(part).filter(|_| parts > 1);
    (0..parts.max(1)).map(move |n| partition(slot, part(n)))
}

/// The partition that an event stands in where its slot is spread over so many parts.
pub(super) fn partition_of(slot: Slot, id: &EventId, parts: u32) -> String {
    if parts <= 1 {
        return partition(slot, None);
    }
    let digest = Sha256::digest(id.as_str().as_bytes());
    let first = digest.iter().take(8);
    let number = first.fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let part = u32::try_from(number % u64::from(parts)).unwrap_or_default();
    partition(slot, Some(part))
}

/// The item of an event.
fn event_item(partition: String, record: &Buffered<'_>, payload: Members) -> Item {
    Item::new()
        .with(EVENT_TIME_SLOT, partition)
        .with(EVENT_ID, record.event_id.as_str())
        .with(EVENT_TIME_STAMP, record.time.to_string())
        .with(RECORD_PAYLOAD, Value::M(payload))
}

/// The item that a record becomes, with its data decoded where that is wanted and the item stays one
/// that a table takes.
pub(super) fn event_of(
    table: &TableSpec,
    partition: String,
    record: &Buffered<'_>,
    is_decoded: bool,
) -> Result<Item> {
    let decoded = is_decoded.then(|| data::decoded(record.payload)).flatten();
    if let Some(decoded) = decoded {
        let item = event_item(partition.clone(), record, decoded);
        if check_item(table, &item).is_ok() {
            return Ok(item);
        }
    }
    let item = event_item(partition, record, record.payload.clone());
    check_item(table, &item)?;
    Ok(item)
}

/// Why a record that the buffer takes is too large for a slot.
pub(super) fn too_large(bytes: usize) -> Error {
    Error::invalid(format!(
        "an event has at most some 200 KB, because its slot's index by time carries it a second time; store the rest elsewhere. bytes=`{bytes}`"
    ))
}

/// The key of an event.
pub(super) fn event_key(partition: impl Into<String>, id: &EventId) -> Key {
    Key::new(partition.into()).sorted(id.as_str())
}

/// The event that an item of a slot is.
pub(super) fn log_event_of(slot: Slot, mut item: Item) -> Result<LogEvent> {
    let id = text_of(&item, EVENT_ID).unwrap_or_default().to_owned();
    let wrong = |name: &str| {
        Error::corrupt(format!(
            "an event lacks an attribute, or has something else there. attribute=`{name}`, slot=`{slot}`, event id=`{id}`"
        ))
    };
    let time = text_of(&item, EVENT_TIME_STAMP).and_then(Time::from_stored);
    let Some(Value::M(payload)) = item.remove(RECORD_PAYLOAD) else {
        return Err(wrong(RECORD_PAYLOAD));
    };
    Ok(LogEvent {
        slot,
        time: time.ok_or_else(|| wrong(EVENT_TIME_STAMP))?,
        event_id: id.parse().map_err(|_| wrong(EVENT_ID))?,
        payload: RecordPayload::new(payload),
    })
}

/// Whether an event that is stored says what a record says.
pub(super) fn is_same_event(stored: &Item, record: &Buffered<'_>) -> bool {
    text_of(stored, EVENT_TIME_STAMP) == Some(record.time.to_string().as_str())
        && payload_of(stored).is_some_and(|payload| data::is_same(payload, record.payload))
}

/// Whether two items of the buffer are one record: blanks and the order of members count for nothing.
pub(super) fn is_same_record(one: &Item, other: &Item) -> bool {
    let keys = [PARTITION_KEY, EVENT_ID, EVENT_TIME_STAMP];
    let payloads = payload_of(one).zip(payload_of(other));
    one == other
        || (one.iter().count() == other.iter().count()
            && keys.iter().all(|name| one.get(name) == other.get(name))
            && payloads.is_some_and(|(one, other)| data::is_same(one, other)))
}

/// Where the items of the event table's partitions belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To a slot that is not spread.
    Whole(Slot),
    /// To a part of a slot.
    Part,
    /// To us.
    Ours,
    /// To nobody we know.
    Unknown,
}

pub(super) fn place_of(item: &Item) -> Place {
    let partition = text_of(item, EVENT_TIME_SLOT).unwrap_or_default();
    if partition.starts_with(OURS) {
        return Place::Ours;
    }
    let (slot, part) = partition.split_once('#').unwrap_or((partition, ""));
    match (Slot::from_stored(slot), part) {
        (Some(slot), "") if slot.to_string() == partition => Place::Whole(slot),
        (Some(_), part) if part.parse::<u32>().is_ok() => Place::Part,
        _ => Place::Unknown,
    }
}

/// The link of an item to the slot behind its own.
pub(super) fn next_slot_of(item: &Item) -> Option<Slot> {
    text_of(item, NEXT_SLOT).and_then(Slot::from_stored)
}

/// One of our own items.
fn own(partition: impl Into<String>, sort: impl Into<String>) -> Item {
    Item::new()
        .with(EVENT_TIME_SLOT, partition.into())
        .with(EVENT_ID, sort.into())
}

/// The partition of the days that have slots.
pub(super) fn days() -> &'static str {
    DAYS
}

/// The partition of a day's slots.
pub(super) fn slots(day: Day) -> String {
    format!("annals#slots#{day}")
}

/// The index entry of a day.
pub(super) fn day_item(day: Day) -> Item {
    own(DAYS, day.to_string())
}

/// The index entry of a slot that is spread over so many parts.
pub(super) fn slot_item(slot: Slot, parts: u32) -> Item {
    let sort = match parts {
        1 => slot.to_string(),
        n => format!("{slot}#{n}"),
    };
    own(slots(slot.day()), sort)
}

/// What sorts behind every entry of a slot and before those of the next.
pub(super) fn behind_slot(slot: Slot) -> String {
    format!("{slot}#~")
}

fn bad_entry(item: &Item) -> Error {
    let (partition, sort) = (text_of(item, EVENT_TIME_SLOT), text_of(item, EVENT_ID));
    Error::corrupt(format!(
        "an entry of the log's index does not parse. partition=`{}`, entry=`{}`",
        partition.unwrap_or_default(),
        sort.unwrap_or_default()
    ))
}

/// The day of an index entry.
pub(super) fn day_of(item: &Item) -> Result<Day> {
    let day = text_of(item, EVENT_ID).and_then(Day::from_stored);
    day.ok_or_else(|| bad_entry(item))
}

/// The slot of an index entry, and over how many parts it is spread.
pub(super) fn slot_of(item: &Item) -> Result<(Slot, u32)> {
    let sort = text_of(item, EVENT_ID).unwrap_or_default();
    let (slot, parts) = sort.split_once('#').unwrap_or((sort, "1"));
    let slot = Slot::from_stored(slot);
    slot.zip(parts.parse().ok()).ok_or_else(|| bad_entry(item))
}

/// The keys of what the table knows about itself: how it is written, that its index is complete,
/// and the horizon.
pub(super) fn written_key() -> Key {
    Key::new(LOG).sorted("written")
}
pub(super) fn indexed_key() -> Key {
    Key::new(LOG).sorted("indexed")
}
pub(super) fn horizon_key() -> Key {
    Key::new(LOG).sorted("horizon")
}

/// How long slots are, and over how many parts they are or were spread.
pub(super) const TIME_UNIT: &str = "time_unit";
pub(super) const PARTS: &str = "parts";
/// The horizon, in milliseconds.
pub(super) const HORIZON: &str = "time";

/// One of our items about the table.
pub(super) fn own_item(key: &Key) -> Item {
    let part = |part: &crate::items::KeyPart| part.to_string();
    own(
        part(&key.partition),
        key.sort.as_ref().map(part).unwrap_or_default(),
    )
}

const REASON: &str = "reason";
const RECORD: &str = "record";

/// The partition of records that were set aside.
pub(super) fn aside() -> &'static str {
    ASIDE
}

/// The item of a record that is set aside: all of it, by its key in the buffer and what it says.
pub(super) fn aside_item(item: &Item, reason: &str) -> Item {
    let key = text_of(item, PARTITION_KEY).unwrap_or_default();
    let says = sha256(&[&item_to_json(item).to_string()]);
    let says = says.get(..16).unwrap_or_default();
    own(ASIDE, format!("{key}#{says}"))
        .with(REASON, reason)
        .with(RECORD, Value::M(item.clone().into_iter().collect()))
}

/// The parts of a record that was set aside: its name, why, and its item.
pub(super) fn aside_of(item: Item) -> (String, String, Item) {
    let name = text_of(&item, EVENT_ID).unwrap_or_default().to_owned();
    let reason = text_of(&item, REASON).unwrap_or_default().to_owned();
    let record = match item.get(RECORD) {
        Some(Value::M(map)) => map.clone().into_iter().collect(),
        _ => Item::new(),
    };
    (name, reason, record)
}

pub(super) fn aside_key(name: &str) -> Key {
    Key::new(ASIDE).sorted(name)
}

/// The first bytes of the SHA-256 of a slot and an event id.
pub(super) type MarkKey = [u8; 6];

/// What a claim says of a record: under which key it is stored, and what the event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) key: MarkKey,
    says: [u8; 10],
}

const MARK_BYTES: usize = 16;

fn first_bytes<const N: usize>(digest: &[u8]) -> [u8; N] {
    digest.first_chunk().copied().unwrap_or([0; N])
}

/// The mark of an event that is to be stored in this slot. Over how many parts the slot is spread
/// makes no difference.
pub(super) fn mark_of(slot: Slot, id: &EventId, event: &Item) -> Mark {
    let key = Sha256::digest(format!("{slot}#{id}"));
    let mut said = item_to_json(event);
    if let Some(said) = said.as_object_mut() {
        said.remove(EVENT_TIME_SLOT);
    }
    Mark {
        key: first_bytes(&key),
        says: first_bytes(&Sha256::digest(said.to_string())),
    }
}

/// When a claim was made, in milliseconds, and what it claims.
const CLAIM_TIME: &str = "time";
const MARKS: &str = "marks";

/// The partition of the claims of sweeps.
pub(super) fn claims() -> &'static str {
    CLAIMS
}

pub(super) fn claim_key(since: Time, n: u64) -> Key {
    Key::new(CLAIMS).sorted(format!("{}-{n}", since.ms()))
}

pub(super) fn claim_item<'a>(
    key: &Key,
    since: Time,
    marks: impl Iterator<Item = &'a Mark>,
) -> Item {
    let marks: Vec<u8> = marks
        .flat_map(|mark| mark.key.into_iter().chain(mark.says))
        .collect();
    own_item(key)
        .with(CLAIM_TIME, since.ms())
        .with(MARKS, Value::B(marks.into()))
}

/// What a claim says. One without a time is of no time we know, and as old as can be.
pub(super) fn claim_of(item: &Item) -> (Time, impl Iterator<Item = Mark>) {
    let time = item.get(CLAIM_TIME).and_then(Value::as_u64);
    let bytes = match item.get(MARKS) {
        Some(Value::B(bytes)) => bytes.as_ref(),
        _ => &[],
    };
    let marks = bytes.chunks_exact(MARK_BYTES).map(|bytes| {
        let (key, says) = bytes.split_at(size_of::<MarkKey>());
        Mark {
            key: first_bytes(key),
            says: first_bytes(says),
        }
    });
    (Time::of_clock(time.unwrap_or_default()), marks)
}

/// The most bytes of a name in a sort key before its digest stands for it.
const NAME_BYTES_MAX: usize = 900;

/// A name as part of a sort key: itself, or its digest where it is too long.
pub(super) fn short(name: &str) -> String {
    match name.len() {
        0..=NAME_BYTES_MAX if !name.starts_with('#') => name.to_owned(),
        _ => format!("#{}", sha256(&[name])),
    }
}

/// How far a pump has come, and whose checkpoint it is.
pub(super) const POSITION: &str = "position";
pub(super) const OF: &str = "of";

/// The partition of a pump's checkpoints.
pub(super) fn checkpoints(pump: &str) -> String {
    format!("annals#checkpoint#{pump}")
}

pub(super) fn checkpoint_key(pump: &str, of: &str) -> Key {
    Key::new(checkpoints(pump)).sorted(short(of))
}

pub(super) fn checkpoint_item(pump: &str, of: &str, position: &str) -> Item {
    own_item(&checkpoint_key(pump, of))
        .with(OF, of)
        .with(POSITION, position)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::log::TimeUnit;

    fn record() -> Record {
        let (id, time) = ("shardId-000000000000:1", "2018-03-16T19:56:03.217Z");
        let (id, time) = (id.parse().unwrap(), time.parse().unwrap());
        Record::json("arn:aws:kinesis:x", id, time, &json!({"a": 1}))
    }

    fn check(item: &Item, want: serde_json::Value) {
        assert_eq!(item_to_json(item), want);
    }

    #[test]
    fn items_are_those_of_the_original() {
        let item = buffer_item(record());
        // As `sha256sum` has it for the source and the id, one behind the other.
        let key = "0ad5826e4c4bff93cc9540929f2c6cf2cce3eb1d2904bd2647e065ca75f3c2dd";
        check(
            &item,
            json!({
                "event_id": {"S": "shardId-000000000000:1"},
                "event_time_stamp": {"N": "1521230163217"},
                "partition_key": {"S": key},
                "record_payload": {"M": {"kinesis": {"M": {"data": {"S": "eyJhIjoxfQ=="}}}}},
            }),
        );
        let buffered = buffered_of(&item).unwrap();
        let slot = Slot::of(buffered.time, TimeUnit::from_ms(1_000).unwrap());
        let tables = LogTables::of(&LogSettings::default()).unwrap();
        let event = event_of(&tables.event, partition(slot, None), &buffered, true).unwrap();
        check(
            &event,
            json!({
                "event_id": {"S": "shardId-000000000000:1"},
                "event_time_slot": {"S": "2018-03-16T19:56:03.000Z"},
                "event_time_stamp": {"S": "2018-03-16T19:56:03.217Z"},
                "record_payload": {"M": {"kinesis": {"M": {"data": {"M": {"a": {"N": "1"}}}}}}},
            }),
        );
        assert!(is_same_event(&event, &buffered));
        assert_eq!(place_of(&event), Place::Whole(slot));
    }

    #[test]
    fn a_digest_is_lower_case_hex() {
        // The digest of "abc" that the standard gives.
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&["a", "bc"]), want);
    }

    #[test]
    fn partitions_tell_whose_they_are() {
        let place = |partition: &str| place_of(&Item::new().with(EVENT_TIME_SLOT, partition));
        assert_eq!(place("2018-03-16T19:56:03.000Z#3"), Place::Part);
        assert_eq!(place("annals#days"), Place::Ours);
        assert_eq!(place("2018-03-16T19:56:03Z"), Place::Unknown);
        assert_eq!(place("2018-03-16T19:56:03.000Z#x"), Place::Unknown);
    }

    #[test]
    fn a_spread_slot_has_each_event_in_one_of_its_partitions() {
        let slot = Slot::from_stored("2018-03-16T19:56:03.000Z").unwrap();
        let all: Vec<String> = partitions(slot, 3).collect();
        assert_eq!(all.last().unwrap(), "2018-03-16T19:56:03.000Z#2");
        for n in 0..100 {
            let id = format!("e{n}").parse().unwrap();
            assert!(all.contains(&partition_of(slot, &id, 3)));
        }
        assert_eq!(partitions(slot, 1).collect::<Vec<_>>(), [slot.to_string()]);
    }
}
