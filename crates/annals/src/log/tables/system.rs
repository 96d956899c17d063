//! System items, which the log stores about itself under `annals#` in the event table: the slot
//! index, the table metadata, the horizon, dead letters, claims and checkpoints. Pure.

use sha2::{Digest, Sha256};

use super::{EVENT_ID, EVENT_TIME_SLOT, PARTITION_KEY, sha256, text_of};
use crate::items::{Item, Key, KeyPart, Value, item_to_json};
use crate::log::slot::Day;
use crate::log::{DeadLetter, EventId, Slot, Time};
use crate::{Error, Result};

/// The start of every partition key of system items.
pub(super) const PREFIX: &str = "annals#";
const LOG: &str = "annals#log";
/// The partition of the days that have slots.
pub(crate) const DAYS: &str = "annals#days";
/// The partition of dead letters.
pub(crate) const DEAD_LETTERS: &str = "annals#aside";
/// The partition of claims.
pub(crate) const CLAIMS: &str = "annals#sweeping";

fn item_of(partition: impl Into<String>, sort: impl Into<String>) -> Item {
    Item::new()
        .with(EVENT_TIME_SLOT, partition.into())
        .with(EVENT_ID, sort.into())
}

/// The system item with this key and no other attributes.
pub(crate) fn system_item(key: &Key) -> Item {
    let sort = key.sort.as_ref().map(KeyPart::to_string);
    item_of(key.partition.to_string(), sort.unwrap_or_default())
}

/// The partition of a day's slots.
pub(crate) fn slots(day: Day) -> String {
    format!("annals#slots#{day}")
}

/// The index entry of a day.
pub(crate) fn day_entry(day: Day) -> Item {
    item_of(DAYS, day.to_string())
}

/// The index entry of a slot that is spread over `parts`.
pub(crate) fn slot_entry(slot: Slot, parts: u32) -> Item {
    let sort = match parts {
        1 => slot.to_string(),
        n => format!("{slot}#{n}"),
    };
    item_of(slots(slot.day()), sort)
}

/// A sort key after every entry of this slot and before those of the next slot.
pub(crate) fn after_slot(slot: Slot) -> String {
    format!("{slot}#~")
}

/// The key of an item of the event table as text, for errors.
pub(crate) fn name_of(item: &Item) -> String {
    let text = |name| text_of(item, name).unwrap_or_default();
    format!("{}/{}", text(EVENT_TIME_SLOT), text(EVENT_ID))
}

fn bad_entry(item: &Item) -> Error {
    let name = name_of(item);
    Error::corrupt("an entry of the slot index does not parse; delete it and run `annals log link`")
        .fact("item", name)
}

/// The day of an index entry.
pub(crate) fn day_of(item: &Item) -> Result<Day> {
    let day = text_of(item, EVENT_ID).and_then(Day::from_stored);
    day.ok_or_else(|| bad_entry(item))
}

/// The slot of an index entry, and over how many parts it is spread.
pub(crate) fn slot_of(item: &Item) -> Result<(Slot, u32)> {
    let sort = text_of(item, EVENT_ID).unwrap_or_default();
    let (slot, parts) = sort.split_once('#').unwrap_or((sort, "1"));
    let slot = Slot::from_stored(slot);
    slot.zip(parts.parse().ok()).ok_or_else(|| bad_entry(item))
}

/// The key of the table metadata: slot length and parts.
pub(crate) fn metadata_key() -> Key {
    Key::new(LOG).sorted("written")
}
/// The key of the item that says the slot index is complete.
pub(crate) fn indexed_key() -> Key {
    Key::new(LOG).sorted("indexed")
}
/// The key of the horizon.
pub(crate) fn horizon_key() -> Key {
    Key::new(LOG).sorted("horizon")
}

/// Of the metadata: the slot length, and every number of parts in use.
pub(crate) const TIME_UNIT: &str = "time_unit";
pub(crate) const PARTS: &str = "parts";
/// Of the horizon: its time, in milliseconds.
pub(crate) const HORIZON: &str = "time";

const REASON: &str = "reason";
const RECORD: &str = "record";

/// The dead letter of a buffer item. It is named after its key in the buffer and its content.
pub(crate) fn dead_letter_item(record: &Item, reason: &str) -> Item {
    let key = text_of(record, PARTITION_KEY).unwrap_or_default();
    let content = sha256(&[item_to_json(record).to_string().as_bytes()]);
    let content = content.get(..16).unwrap_or_default();
    item_of(DEAD_LETTERS, format!("{key}#{content}"))
        .with(REASON, reason)
        .with(RECORD, Value::M(record.clone().into_iter().collect()))
}

/// Reads a dead letter.
pub(crate) fn dead_letter_of(mut item: Item) -> DeadLetter {
    let text = |name: &str| text_of(&item, name).unwrap_or_default().to_owned();
    let (name, reason) = (text(EVENT_ID), text(REASON));
    let record = match item.remove(RECORD) {
        Some(Value::M(map)) => map.into_iter().collect(),
        _ => Item::new(),
    };
    DeadLetter {
        name,
        reason,
        record,
    }
}

/// The key of a dead letter.
pub(crate) fn dead_letter_key(name: &str) -> Key {
    Key::new(DEAD_LETTERS).sorted(name)
}

/// The first bytes of the SHA-256 of a slot and an event id.
pub(crate) type KeyHash = [u8; 6];

/// An event in a claim: hashes of its key and of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) key: KeyHash,
    content: [u8; 10],
}

fn first_bytes<const N: usize>(digest: &[u8]) -> [u8; N] {
    digest.first_chunk().copied().unwrap_or([0; N])
}

/// The fingerprint of an event in a slot, over however many parts the slot is spread.
pub(crate) fn fingerprint(slot: Slot, id: &EventId, event: &Item) -> Fingerprint {
    let mut content = item_to_json(event);
    if let Some(content) = content.as_object_mut() {
        content.remove(EVENT_TIME_SLOT);
    }
    Fingerprint {
        key: first_bytes(&Sha256::digest(format!("{slot}#{id}"))),
        content: first_bytes(&Sha256::digest(content.to_string())),
    }
}

const FINGERPRINT_BYTES: usize = 16;
/// When a claim was made, in milliseconds, and its fingerprints.
const CLAIM_TIME: &str = "time";
const FINGERPRINTS: &str = "marks";

/// The key of claim number `n` of a millisecond.
pub(crate) fn claim_key(since: Time, n: u64) -> Key {
    Key::new(CLAIMS).sorted(format!("{}-{n}", since.ms()))
}

/// The item of a claim.
pub(crate) fn claim_item<'a>(
    key: &Key,
    since: Time,
    events: impl Iterator<Item = &'a Fingerprint>,
) -> Item {
    let bytes = events.flat_map(|event| event.key.into_iter().chain(event.content));
    let bytes: Vec<u8> = bytes.collect();
    system_item(key)
        .with(CLAIM_TIME, since.ms())
        .with(FINGERPRINTS, Value::B(bytes.into()))
}

/// When a claim was made, and its fingerprints. A claim without a time is as old as can be.
pub(crate) fn claim_of(item: &Item) -> (Time, impl Iterator<Item = Fingerprint>) {
    let time = item.get(CLAIM_TIME).and_then(Value::as_u64);
    let bytes = match item.get(FINGERPRINTS) {
        Some(Value::B(bytes)) => bytes.as_ref(),
        _ => &[],
    };
    let events = bytes.chunks_exact(FINGERPRINT_BYTES).map(|bytes| {
        let (key, content) = bytes.split_at(size_of::<KeyHash>());
        Fingerprint {
            key: first_bytes(key),
            content: first_bytes(content),
        }
    });
    (Time::from_clock(time.unwrap_or_default()), events)
}

/// A name longer than this is replaced by its hash in a sort key.
const NAME_BYTES_MAX: usize = 900;

/// A name as part of a sort key: the name itself, or its hash if it is too long.
pub(crate) fn short(name: &str) -> String {
    match name.len() {
        0..=NAME_BYTES_MAX if !name.starts_with('#') => name.to_owned(),
        _ => format!("#{}", sha256(&[name.as_bytes()])),
    }
}

/// Of a checkpoint: the position of a pump, and the name that the position is of.
pub(crate) const POSITION: &str = "position";
pub(crate) const OF: &str = "of";

/// The partition of a pump's checkpoints.
pub(crate) fn checkpoints(pump: &str) -> String {
    format!("annals#checkpoint#{pump}")
}

/// The key of a checkpoint.
pub(crate) fn checkpoint_key(pump: &str, of: &str) -> Key {
    Key::new(checkpoints(pump)).sorted(short(of))
}

/// The item of a checkpoint.
pub(crate) fn checkpoint_item(pump: &str, of: &str, position: &str) -> Item {
    system_item(&checkpoint_key(pump, of))
        .with(OF, of)
        .with(POSITION, position)
}
