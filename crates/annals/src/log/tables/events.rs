//! Records in the buffer and events in slots, as items. Pure.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{
    EVENT_ID, EVENT_TIME_SLOT, EVENT_TIME_STAMP, NEXT_SLOT, PARTITION_KEY, sha256, text_of,
};
use crate::items::{Item, Key, TableSpec, Value, check_item};
use crate::log::data::{self, Members};
use crate::log::slot::TimeUnit;
use crate::log::{EventId, LogEvent, Record, RecordPayload, Slot, Time};
use crate::{Error, Result};

const RECORD_PAYLOAD: &str = "record_payload";

/// The buffer item of a record.
pub(crate) fn buffer_item(record: Record) -> Item {
    let id = record.event_id.as_str();
    let key = sha256(&[record.source.as_bytes(), id.as_bytes()]);
    Item::new()
        .with(PARTITION_KEY, key)
        .with(EVENT_ID, id)
        .with(EVENT_TIME_STAMP, record.time.ms())
        .with(RECORD_PAYLOAD, record.payload.into_value())
}

/// A record, borrowed from its buffer item.
#[derive(Clone, Debug)]
pub(crate) struct Buffered<'a> {
    pub(crate) event_id: EventId,
    pub(crate) time: Time,
    payload: &'a Members,
}

fn payload_of(item: &Item) -> Option<&Members> {
    match item.get(RECORD_PAYLOAD) {
        Some(Value::M(map)) => Some(map),
        _ => None,
    }
}

/// Parses a buffer item.
pub(crate) fn buffered_of(item: &Item) -> Result<Buffered<'_>> {
    let wrong = |name: &str| {
        Error::corrupt("an item of the buffer lacks an attribute or has it with another type")
            .fact("attribute", name)
            .fact("key", text_of(item, PARTITION_KEY).unwrap_or_default())
    };
    let event_id = text_of(item, EVENT_ID).ok_or_else(|| wrong(EVENT_ID))?;
    let time = item.get(EVENT_TIME_STAMP).and_then(Value::as_number);
    let time = time.ok_or_else(|| wrong(EVENT_TIME_STAMP))?;
    Ok(Buffered {
        event_id: event_id.parse()?,
        time: time.to_string().parse()?,
        payload: payload_of(item).ok_or_else(|| wrong(RECORD_PAYLOAD))?,
    })
}

/// The partition of a slot that is not spread.
pub(crate) fn slot_partition(slot: Slot) -> String {
    slot.to_string()
}

/// Every partition of a slot that is spread over `parts`.
pub(crate) fn slot_partitions(slot: Slot, parts: u32) -> impl Iterator<Item = String> {
    (0..parts.max(1)).map(move |part| match parts {
        0 | 1 => slot_partition(slot),
        _ => format!("{slot}#{part}"),
    })
}

/// The partition of an event whose slot is spread over `parts`.
pub(crate) fn partition_of(slot: Slot, id: &EventId, parts: u32) -> String {
    if parts <= 1 {
        return slot_partition(slot);
    }
    let digest = Sha256::digest(id.as_str().as_bytes());
    let number = u64::from_be_bytes(digest.first_chunk().copied().unwrap_or_default());
    format!("{slot}#{}", number % u64::from(parts))
}

/// How the settings turn records into events.
#[derive(Clone, Debug)]
pub(crate) struct SlotFormat {
    pub(crate) table: Arc<TableSpec>,
    pub(crate) unit: TimeUnit,
    /// Over how many partitions a slot is spread.
    pub(crate) parts: u32,
    /// Whether data is stored as JSON if it is JSON.
    pub(crate) decodes: bool,
}

impl SlotFormat {
    /// The slot of a time.
    pub(crate) fn slot(&self, time: Time) -> Slot {
        Slot::new(time, self.unit)
    }

    /// Checks that a stored slot has the length in the settings.
    pub(crate) fn check(&self, slot: Slot) -> Result<()> {
        if self.slot(slot.start()) == slot {
            return Ok(());
        }
        Err(Error::invalid(
            "a slot of the table has another length than time-unit-ms, so its events would be missed; set time-unit-ms to the length that the table was written with",
        )
        .fact("slot", slot)
        .fact("time-unit-ms", self.unit.ms()))
    }

    /// The item that a record becomes in a partition. Data is decoded if that is set and the item
    /// stays within the limits of a table.
    pub(crate) fn event(&self, partition: &str, record: &Buffered<'_>) -> Result<Item> {
        let item = |payload: Members| {
            Item::new()
                .with(EVENT_TIME_SLOT, partition)
                .with(EVENT_ID, record.event_id.as_str())
                .with(EVENT_TIME_STAMP, record.time.to_string())
                .with(RECORD_PAYLOAD, Value::M(payload))
        };
        let decoded = self.decodes.then(|| data::decoded(record.payload));
        if let Some(item) = decoded.flatten().map(item)
            && check_item(&self.table, &item).is_ok()
        {
            return Ok(item);
        }
        let item = item(record.payload.clone());
        check_item(&self.table, &item)?;
        Ok(item)
    }
}

/// The key of an event.
pub(crate) fn event_key(partition: impl Into<String>, id: &EventId) -> Key {
    Key::new(partition.into()).sorted(id.as_str())
}

/// Parses an event of a slot.
pub(crate) fn log_event_of(slot: Slot, mut item: Item) -> Result<LogEvent> {
    let id = text_of(&item, EVENT_ID).unwrap_or_default().to_owned();
    let wrong = |name: &str| {
        Error::corrupt("an event lacks an attribute or has it with another type")
            .fact("attribute", name)
            .fact("slot", slot)
            .fact("event id", &id)
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

/// Whether a stored event has the time and content of a record.
pub(crate) fn is_same_event(stored: &Item, record: &Buffered<'_>) -> bool {
    text_of(stored, EVENT_TIME_STAMP) == Some(record.time.to_string().as_str())
        && payload_of(stored).is_some_and(|payload| data::is_same(payload, record.payload))
}

/// Whether two buffer items are the same record, whatever the whitespace and member order of their
/// JSON.
pub(crate) fn is_same_record(one: &Item, other: &Item) -> bool {
    let keys = [PARTITION_KEY, EVENT_ID, EVENT_TIME_STAMP];
    let payloads = payload_of(one).zip(payload_of(other));
    one == other
        || (one.iter().count() == other.iter().count()
            && keys.iter().all(|name| one.get(name) == other.get(name))
            && payloads.is_some_and(|(one, other)| data::is_same(one, other)))
}

/// What a partition of the event table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventPartition {
    /// A slot that is not spread.
    Slot(Slot),
    /// A part of a slot.
    SlotPart,
    /// System items.
    System,
    /// Items of an unknown format.
    Unknown,
}

/// What the partition of an item holds.
pub(crate) fn event_partition(item: &Item) -> EventPartition {
    let partition = text_of(item, EVENT_TIME_SLOT).unwrap_or_default();
    if partition.starts_with(super::system::PREFIX) {
        return EventPartition::System;
    }
    let (slot, part) = partition.split_once('#').unwrap_or((partition, ""));
    match (Slot::from_stored(slot), part) {
        (Some(slot), "") if slot.to_string() == partition => EventPartition::Slot(slot),
        (Some(_), part) if part.parse::<u32>().is_ok() => EventPartition::SlotPart,
        _ => EventPartition::Unknown,
    }
}

/// The link of an item to the next slot with events.
pub(crate) fn next_slot_of(item: &Item) -> Option<Slot> {
    text_of(item, NEXT_SLOT).and_then(Slot::from_stored)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::items::item_to_json;
    use crate::log::LogTables;
    use crate::settings::LogSettings;

    fn check(item: &Item, want: serde_json::Value) {
        assert_eq!(item_to_json(item), want);
    }

    #[test]
    fn items_have_the_format_of_the_original() {
        let (id, time) = ("shardId-000000000000:1", "2018-03-16T19:56:03.217Z");
        let (id, time) = (id.parse().unwrap(), time.parse().unwrap());
        let item = buffer_item(Record::json(
            "arn:aws:kinesis:x",
            id,
            time,
            &json!({"a": 1}),
        ));
        // As `sha256sum` computes it for the source followed by the id.
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
        let format = SlotFormat {
            table: LogTables::new(&LogSettings::default()).unwrap().event,
            unit: TimeUnit::from_ms(1_000).unwrap(),
            parts: 1,
            decodes: true,
        };
        let slot = format.slot(buffered.time);
        let event = format.event(&slot_partition(slot), &buffered).unwrap();
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
        assert_eq!(event_partition(&event), EventPartition::Slot(slot));
    }

    #[test]
    fn the_partition_says_what_an_item_is() {
        let of = |partition: &str| event_partition(&Item::new().with(EVENT_TIME_SLOT, partition));
        assert_eq!(of("2018-03-16T19:56:03.000Z#3"), EventPartition::SlotPart);
        assert_eq!(of("annals#days"), EventPartition::System);
        assert_eq!(of("2018-03-16T19:56:03Z"), EventPartition::Unknown);
        assert_eq!(of("2018-03-16T19:56:03.000Z#x"), EventPartition::Unknown);
    }

    #[test]
    fn an_event_is_in_one_partition_of_a_spread_slot() {
        let slot = Slot::from_stored("2018-03-16T19:56:03.000Z").unwrap();
        let all: Vec<String> = slot_partitions(slot, 3).collect();
        assert_eq!(all.last().unwrap(), "2018-03-16T19:56:03.000Z#2");
        for n in 0..100 {
            let id = format!("e{n}").parse().unwrap();
            assert!(all.contains(&partition_of(slot, &id, 3)));
        }
        let whole: Vec<String> = slot_partitions(slot, 1).collect();
        assert_eq!(whole, [slot.to_string()]);
    }
}
