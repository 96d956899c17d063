//! An event of the `akka` layout as an item, in both formats the plugin ever wrote.
//!
//! Compatible with the plugin in both directions. Time, tags, metadata and a manifest that the
//! serializer does not carry are stored in attributes that the plugin ignores. A payload is decoded
//! only when its row is replayed.
//! Never writes `idx` and `cnt` on a single event: the plugin would skip it.

use std::collections::BTreeMap;

use super::format::AkkaRows;
use super::keys::Keys;
use crate::attributes::{self, ADAPTER, KEPT, Names, improper};
use crate::checksum;
use crate::message::Message;
use crate::rows::{BatchIndex, NewRow, Row, RowCodec, RowState};
use crate::serialization::{self, Serialized};
use crate::settings::Format;
use crate::writers::{is_ours, token_of, writer_uuid};
use annals::items::{Condition, Item, Value};
use annals::{Error, Event, Payload, PersistenceId, Result, SequenceNumber, Token};

/// On an item whose event was deleted; its number is never reused.
const DELETED: &str = "deleted";
/// Where format B stores the payload.
const NAMES: Names = Names {
    bytes: "event",
    id: "ev_ser_id",
    manifest: "ev_ser_manifest",
};
/// The attributes that the checksum covers: never in another order.
const COVERED: [&str; 14] = [
    "par",
    "num",
    "persistence_id",
    "seq",
    NAMES.bytes,
    NAMES.id,
    NAMES.manifest,
    "writer_uuid",
    "manifest",
    "idx",
    "cnt",
    "pay",
    "time",
    "tags",
];
/// What the plugin adds for keys and attribute names.
const FIXED_BYTES: usize = 26;

/// The emptied item of an event that was deleted unread. `key` has the event's key.
pub(super) fn tombstone(key: Item) -> Item {
    key.with(DELETED, true)
}

/// The item of an event in a format, and its size as the plugin calculates it.
pub(super) fn encode(row: &NewRow<'_>, keys: &Keys, format: Format) -> Result<(Item, usize)> {
    let mut metadata = row.event.metadata.clone();
    let adapter = metadata.remove(ADAPTER).unwrap_or_default();
    let payload = Payload::from(row.event.clone());
    let written = serialization::write(&payload)?;
    let serialized = written.serialized;
    let key = keys.event(row.id, row.number.get());
    let mut item = Item::new().with("par", key.partition);
    if let Some(sort) = key.sort {
        item.insert("num", sort);
    }
    if let Some(batch) = row.batch {
        batch.insert(&mut item);
    }
    let bytes = match format {
        Format::B => insert_attributes(row, &mut item, serialized, &adapter),
        Format::A => {
            let message = Message::new(row, serialized, adapter).encode();
            let bytes = message.len();
            item.insert("pay", message);
            bytes
        }
    };
    if !written.carries {
        attributes::keep_type(&mut item, &payload);
    }
    insert_ours(row, &mut item, metadata);
    let key_units = keys.name_units() + row.id.as_str().encode_utf16().count();
    let item = checksum::sealed(item, covered());
    Ok((item, bytes + key_units + FIXED_BYTES))
}

/// Inserts the attributes of format B; returns their size as the plugin calculates it.
fn insert_attributes(
    row: &NewRow<'_>,
    item: &mut Item,
    serialized: Serialized,
    adapter: &str,
) -> usize {
    let uuid = writer_uuid(row.token);
    let texts = [
        ("persistence_id", row.id.as_str()),
        ("writer_uuid", &uuid),
        ("manifest", adapter),
    ];
    let sizes = texts.iter().map(|(_, text)| text.len()).sum::<usize>();
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        item.insert(name, text);
    }
    item.insert("seq", row.number.get());
    let digits = row.number.to_string().len() + serialized.id.to_string().len();
    let bytes = sizes + digits + serialized.manifest.len() + serialized.bytes.len();
    NAMES.insert(item, serialized);
    bytes
}

/// Inserts what the plugin has no attribute for.
fn insert_ours(row: &NewRow<'_>, item: &mut Item, metadata: BTreeMap<String, String>) {
    item.insert("time", row.time_ms);
    if !row.event.tags.is_empty() {
        let tags = row.event.tags.iter().map(|tag| Value::from(tag.as_str()));
        item.insert("tags", Value::L(tags.collect()));
    }
    attributes::keep_metadata(item, metadata);
    attributes::keep_causes(item, row.causation, row.correlation);
}

/// The row in an item under an event's key.
///
/// # Errors
/// `Corrupt` if it was altered since we wrote it, or has no sequence number.
pub(super) fn decode(keys: &Keys, item: Item) -> Result<Row> {
    let number = keys.number_of(&item)?.get();
    checksum::check(&item, covered()).map_err(|cause| {
        let par = item.get("par").and_then(Value::as_str).unwrap_or_default();
        Error::corrupt("an event is damaged")
            .fact("number", number)
            .fact("partition", par)
            .because(cause)
    })?;
    let state = match item.get(DELETED) {
        Some(_) => RowState::Deleted,
        None => RowState::Live,
    };
    Ok(Row {
        number,
        batch: BatchIndex::from_item(&item, number)?,
        state,
        item,
    })
}

/// The id and number of an undamaged item that is stored under another item's key.
pub(super) fn moved_from(keys: &Keys, item: &Item) -> Option<(String, u64)> {
    keys.number_of(item).ok()?;
    let (Some(id), Some(number)) = place_in(item).ok()? else {
        return None;
    };
    let key = keys.event(&id.parse().ok()?, number);
    let home = item
        .clone()
        .with("par", key.partition)
        .with("num", key.sort?);
    let is_whole = checksum::is_sealed(&home) && checksum::check(&home, covered()).is_ok();
    (is_whole && keys.number_of(&home).is_ok()).then_some((id, number))
}

/// The emptied item of a deleted event. The plugin never reads it, since it is below the low marker.
/// It keeps its append, so that an append whose response was lost is recognised, and its position,
/// so that all writers agree on the end of a batch that is deleted while in flight.
pub(super) fn emptied(row: &Row) -> Result<Item> {
    let mut item = Item::new().with(DELETED, true);
    let kept = ["par", "num", BatchIndex::INDEX, BatchIndex::LAST, "time"];
    for name in kept {
        if let Some(value) = row.item.get(name) {
            item.insert(name, value.clone());
        }
    }
    item.insert("writer_uuid", writer_in(row)?);
    Ok(item)
}

/// Whether an emptied row has no token.
pub(super) fn has_lost_token(row: &Row) -> bool {
    row.is_deleted() && row.item.get("writer_uuid").is_none()
}

/// The condition that an item is unchanged, by one attribute.
pub(super) fn unchanged(item: &Item) -> Option<Condition> {
    [NAMES.bytes, "pay"].into_iter().find_map(|name| {
        let value = item.get(name)?.clone();
        Some(Condition::Equals(name.to_owned(), value))
    })
}

/// The id and the number that an item has besides its key, where it has.
pub(super) fn place_in(item: &Item) -> Result<(Option<String>, Option<u64>)> {
    let id = item.get("persistence_id").and_then(Value::as_str);
    let seq = item.get("seq").and_then(Value::as_u64);
    if item.get(DELETED).is_some() || item.get(NAMES.bytes).is_some() {
        return Ok((id.map(str::to_owned), seq));
    }
    let message = message_in(item)?;
    Ok((Some(message.persistence_id), Some(message.sequence_number)))
}

/// The error with the id and number in a row, if they do not match its key: journals whose names
/// contain a `-` may have the same keys.
pub(super) fn other_place(id: &PersistenceId, row: &Row) -> Result<Option<Error>> {
    let (stored_id, seq) = place_in(&row.item)?;
    let is_other = stored_id.as_ref().is_some_and(|it| it != id.as_str());
    if !is_other && seq.is_none_or(|seq| seq == row.number) {
        return Ok(None);
    }
    let (stored_id, seq) = (stored_id.unwrap_or_default(), seq.unwrap_or(0));
    let error = Error::corrupt("it is the event of another id or number");
    Ok(Some(error.fact("id", stored_id).fact("number", seq)))
}

fn text<'a>(item: &'a Item, name: &str) -> &'a str {
    let value = item.get(name).and_then(Value::as_str);
    value.unwrap_or_default()
}

fn writer_in(row: &Row) -> Result<String> {
    if row.item.get(NAMES.bytes).is_some() || row.is_deleted() {
        return Ok(text(&row.item, "writer_uuid").to_owned());
    }
    Ok(message_in(&row.item)?.writer_uuid)
}

fn message_in(item: &Item) -> Result<Message> {
    let pay = item.get("pay").and_then(Value::as_bytes);
    Message::decode(pay.ok_or_else(|| improper(NAMES.bytes))?)
}

fn time_in(item: &Item) -> u64 {
    item.get("time").and_then(Value::as_u64).unwrap_or(0)
}

impl RowCodec for AkkaRows {
    /// The plugin writes batches too, in no order.
    const COUNTS_MEMBERS: bool = true;
    /// Emptied items are only below the low marker.
    const DELETES_FROM_START: bool = true;

    fn event(&self, id: &PersistenceId, row: &Row) -> Result<Option<(Event, String)>> {
        read(id, row).map_err(|cause| {
            let number = row.number;
            Error::new(cause.kind(), "an event cannot be read")
                .fact("id", id)
                .fact("number", number)
                .because(cause)
        })
    }

    fn token(&self, row: &Row) -> Result<Option<Token>> {
        let token = || Ok(token_of(&writer_in(row)?));
        (!has_lost_token(row)).then(token).transpose()
    }

    fn is_ours(&self, row: &Row) -> bool {
        writer_in(row).is_ok_and(|writer| is_ours(&writer))
    }

    fn time_ms(&self, row: &Row) -> u64 {
        time_in(&row.item)
    }
}

fn read(id: &PersistenceId, row: &Row) -> Result<Option<(Event, String)>> {
    if let Some(error) = other_place(id, row)? {
        return Err(error);
    }
    let item = &row.item;
    let (serialized, adapter, writer, time_ms) = match item.get(NAMES.bytes) {
        Some(_) => {
            let (adapter, writer) = (text(item, "manifest"), text(item, "writer_uuid"));
            (NAMES.read(item)?, adapter.to_owned(), writer.to_owned(), 0)
        }
        None => {
            let message = message_in(item)?;
            if message.is_deleted {
                return Ok(None);
            }
            let time_ms = message.timestamp_ms.unwrap_or(0);
            let (adapter, writer) = (message.adapter_manifest, message.writer_uuid);
            (message.payload, adapter, writer, time_ms)
        }
    };
    let mut data = attributes::event(item, serialization::read(serialized)?, adapter)?;
    if let Some(tags) = item.get("tags") {
        data.tags = tags_of(tags).ok_or_else(|| improper("tags"))?;
    }
    let number = SequenceNumber::new(row.number).ok_or_else(|| improper("num"))?;
    let mut event = Event::new(id.clone(), number, token_of(&writer), data);
    event.time_ms = time_in(item).max(time_ms);
    event.causation = attributes::causation(item);
    event.correlation = attributes::correlation(item);
    Ok(Some((event, writer)))
}

fn covered() -> impl Iterator<Item = &'static str> {
    COVERED.into_iter().chain(KEPT)
}

fn tags_of(value: &Value) -> Option<Vec<String>> {
    let Value::L(tags) = value else {
        return None;
    };
    let tags = tags.iter().map(|tag| tag.as_str().map(str::to_owned));
    tags.collect()
}
