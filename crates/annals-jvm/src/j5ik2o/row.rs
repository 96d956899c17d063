//! An event of the `j5ik2o` layout as an item.
//!
//! Compatible with the plugin in both directions. Metadata, the position in a batch and a manifest
//! that the serializer does not carry are stored in attributes that the plugin ignores. The plugin
//! does not see deleted events: their rows are flagged, or lack the attributes of its index.

use super::format::J5ik2oRows;
use crate::attributes::{self, ADAPTER, KEPT, improper};
use crate::checksum;
use crate::message::Message;
use crate::rows::{BatchIndex, EVENTS_MAX, NewRow, Row, RowCodec, RowState, improper_batch};
use crate::serialization;
use crate::settings::{J5ik2oJournal as Section, JournalColumns};
use crate::writers::{is_ours, token_of};
use annals::items::{Item, KeySchema, Value};
use annals::{Error, Event, Payload, PersistenceId, Result, SequenceNumber, Token};

/// On items that are not in the plugin's index: their id.
pub(super) const OWNER: &str = "annals-id";
/// On an emptied row: its number, and its writer.
const NUMBER: &str = "number";
const WRITER: &str = "writer";
/// On rows of an abandoned batch, which are never replayed. False in place of its last member until
/// all of them are flagged.
const CLOSED: &str = "closed";

/// Adds a new event to an item that has its key.
pub(super) fn encode(row: &NewRow<'_>, item: Item, section: &Section) -> Result<Item> {
    let mut item = item;
    let columns = &section.columns_def;
    let mut metadata = row.event.metadata.clone();
    let adapter_manifest = metadata.remove(ADAPTER).unwrap_or_default();
    let payload = Payload::from(row.event.clone());
    let written = serialization::write(&payload)?;
    let message = Message::new(row, written.serialized, adapter_manifest);
    show(&mut item, columns, (row.id, row.number.get(), row.time_ms));
    item.insert(&columns.deleted_column_name, false);
    item.insert(&columns.message_column_name, message.encode());
    if let Some(tags) = joined_tags(&row.event.tags, &section.tag_separator)? {
        item.insert(&columns.tags_column_name, tags);
    }
    if let Some(batch) = row.batch {
        batch.insert(&mut item);
    }
    if !written.carries {
        attributes::keep_type(&mut item, &payload);
    }
    attributes::keep_metadata(&mut item, metadata);
    attributes::keep_causes(&mut item, row.causation, row.correlation);
    Ok(checksum::sealed(item, covered(columns)))
}

/// The tags as the plugin joins them. It cannot distinguish a tag that contains the separator from
/// two tags.
fn joined_tags(tags: &[String], separator: &str) -> Result<Option<String>> {
    match tags.iter().find(|tag| tag.contains(separator)) {
        Some(tag) => Err(Error::invalid(
            "a tag on this layout must not contain tag-separator; choose another tag or separator",
        )
        .fact("tag", tag)
        .fact("separator", separator)),
        None => Ok((!tags.is_empty()).then(|| tags.join(separator))),
    }
}

/// Inserts the attributes of the plugin's index, and the time.
fn show(
    item: &mut Item,
    columns: &JournalColumns,
    (id, number, time_ms): (&PersistenceId, u64, u64),
) {
    item.insert(&columns.persistence_id_column_name, id.as_str());
    item.insert(&columns.sequence_nr_column_name, number);
    item.insert(&columns.ordering_column_name, time_ms);
}

/// The attributes that the checksum covers: never in another order. Without the deletion flag, which
/// changes.
fn covered(columns: &JournalColumns) -> impl Iterator<Item = &str> {
    let theirs = [
        &columns.partition_key_column_name,
        &columns.sort_key_column_name,
        &columns.persistence_id_column_name,
        &columns.sequence_nr_column_name,
        &columns.ordering_column_name,
        &columns.message_column_name,
        &columns.tags_column_name,
    ];
    let theirs = theirs.into_iter().map(String::as_str);
    let batch = [BatchIndex::INDEX, BatchIndex::LAST];
    theirs.chain(batch).chain(KEPT)
}

/// A tombstone for a number of an abandoned batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tombstone<'a> {
    pub(super) id: &'a PersistenceId,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) time_ms: u64,
}

impl Tombstone<'_> {
    /// Adds the tombstone's attributes to an item with its key.
    pub(super) fn fill(&self, item: &mut Item, columns: &JournalColumns, number: u64) {
        show(item, columns, (self.id, number, self.time_ms));
        item.insert(&columns.deleted_column_name, true);
        item.insert(&columns.message_column_name, Vec::new());
        item.insert(WRITER, "");
        let (index, last) = (number - self.begin, self.end - self.begin);
        BatchIndex { index, last }.insert(item);
        item.insert(CLOSED, number != self.end);
    }
}

/// The id that an item belongs to.
pub(super) fn owner<'a>(item: &'a Item, columns: &JournalColumns) -> Option<&'a str> {
    let id = item.get(&columns.persistence_id_column_name);
    id.or_else(|| item.get(OWNER)).and_then(Value::as_str)
}

/// # Errors
/// `Corrupt` if an item was altered since we wrote it. The plugin can replace an event in place,
/// which leaves our attributes on it: such an event has no writer, no time and no manifest.
fn check(columns: &JournalColumns, item: &Item) -> Result<()> {
    let Err(altered) = checksum::check(item, covered(columns)) else {
        return Ok(());
    };
    let message = item.get(&columns.message_column_name);
    let message = message.and_then(Value::as_bytes);
    let message = message.and_then(|message| Message::decode(message).ok());
    let is_replaced = message.is_some_and(|message| {
        message.writer_uuid.is_empty()
            && message.timestamp_ms.is_none()
            && message.adapter_manifest.is_empty()
    });
    match is_replaced {
        true => Ok(()),
        false => Err(altered),
    }
}

/// The row in an item under an event's key.
///
/// # Errors
/// `Corrupt` if it was altered since we wrote it, or has no sequence number.
pub(super) fn decode(columns: &JournalColumns, item: Item) -> Result<Row> {
    let name = &columns.sequence_nr_column_name;
    let number = item.get(NUMBER).or_else(|| item.get(name));
    let number = number.and_then(Value::as_u64);
    let number = number.ok_or_else(|| improper(name))?;
    check(columns, &item).map_err(|cause| {
        Error::corrupt("an event is damaged")
            .fact("number", number)
            .because(cause)
    })?;
    Ok(Row {
        number,
        batch: batch_in(&item, number)?,
        state: state_in(columns, &item)?,
        item,
    })
}

/// The position in a batch, which is always one of ours.
fn batch_in(item: &Item, number: u64) -> Result<Option<BatchIndex>> {
    let is_ours = |batch: &BatchIndex| usize::try_from(batch.last).is_ok_and(|n| n < EVENTS_MAX);
    match BatchIndex::from_item(item, number)? {
        None if item.get(BatchIndex::INDEX).is_none() => Ok(None),
        Some(batch) if is_ours(&batch) => Ok(Some(batch)),
        _ => Err(improper_batch(number)),
    }
}

fn state_in(columns: &JournalColumns, item: &Item) -> Result<RowState> {
    match (item.get(CLOSED), item.get(&columns.deleted_column_name)) {
        (Some(Value::Bool(false)), _) => Ok(RowState::Closing),
        (Some(_), _) => Ok(RowState::Closed),
        _ if !is_shown(columns, item) => Ok(RowState::Deleted),
        (None, Some(Value::Bool(true))) => Ok(RowState::Deleted),
        (None, Some(Value::Bool(false))) => Ok(RowState::Live),
        _ => Err(improper(&columns.deleted_column_name)),
    }
}

/// Whether an item is in the plugin's index.
pub(super) fn is_shown(columns: &JournalColumns, item: &Item) -> bool {
    item.get(&columns.persistence_id_column_name).is_some()
}

/// The sequence numbers in an unreadable item.
pub(super) fn numbers_in(columns: &JournalColumns, item: &Item) -> Vec<u64> {
    let name = &columns.sequence_nr_column_name;
    let number = item.get(NUMBER).or_else(|| item.get(name));
    let message = item.get(&columns.message_column_name);
    let message = message.and_then(Value::as_bytes);
    let message = message.and_then(|message| Message::decode(message).ok());
    let inside = message.map(|message| message.sequence_number);
    let numbers = [number.and_then(Value::as_u64), inside];
    numbers.into_iter().flatten().collect()
}

/// Whether a row was flagged as deleted by us: the plugin would have rewritten it without our
/// attributes. We raise the marker of the id first.
pub(super) fn is_deleted_by_us(row: &Row) -> bool {
    row.is_deleted() && checksum::is_sealed(&row.item)
}

/// The item flagged as deleted, as the plugin flags it.
pub(super) fn flagged(row: &Row, columns: &JournalColumns) -> Item {
    let mut item = row.item.clone();
    item.insert(&columns.deleted_column_name, true);
    item
}

/// The item flagged as one of an abandoned batch.
pub(super) fn closed(row: &Row, columns: &JournalColumns) -> Item {
    flagged(row, columns).with(CLOSED, true)
}

/// The emptied row of a deleted event: its key, which is never reused, and its append. It is not in
/// the plugin's index.
pub(super) fn emptied(row: &Row, key: &KeySchema, columns: &JournalColumns) -> Result<Item> {
    let mut item = Item::new();
    let keys = key.attributes().map(|attribute| attribute.name.as_str());
    let batch = [BatchIndex::INDEX, BatchIndex::LAST, CLOSED];
    let kept = batch
        .into_iter()
        .chain([columns.ordering_column_name.as_str()]);
    for name in keys.chain(kept) {
        if let Some(value) = row.item.get(name) {
            item.insert(name, value.clone());
        }
    }
    if let Some(owner) = owner(&row.item, columns) {
        item.insert(OWNER, owner);
    }
    item.insert(NUMBER, row.number);
    item.insert(WRITER, writer_in(row, columns)?);
    Ok(item)
}

/// The error with the id and number in a row's bytes, if they do not match its attributes.
pub(super) fn other_place(
    id: &PersistenceId,
    row: &Row,
    columns: &JournalColumns,
) -> Option<Error> {
    let message = message_in(row, columns).ok()?;
    let (other, number) = (message.persistence_id, message.sequence_number);
    let is_other = other != id.as_str() || number != row.number;
    is_other.then(|| {
        Error::corrupt("its bytes are of another id or number")
            .fact("id", other)
            .fact("number", number)
    })
}

fn message_in(row: &Row, columns: &JournalColumns) -> Result<Message> {
    let name = &columns.message_column_name;
    let bytes = row.item.get(name).and_then(Value::as_bytes);
    Message::decode(bytes.ok_or_else(|| improper(name))?)
}

fn writer_in(row: &Row, columns: &JournalColumns) -> Result<String> {
    match attributes::text(&row.item, WRITER)? {
        Some(writer) => Ok(writer.to_owned()),
        None => Ok(message_in(row, columns)?.writer_uuid),
    }
}

impl RowCodec for J5ik2oRows {
    /// The plugin writes no batches, and our last member is put after all others.
    const COUNTS_MEMBERS: bool = false;
    /// The plugin flags rows one by one, in no order.
    const DELETES_FROM_START: bool = false;

    fn event(&self, id: &PersistenceId, row: &Row) -> Result<Option<(Event, String)>> {
        read(id, row, self.section()).map_err(|cause| {
            let number = row.number;
            Error::new(cause.kind(), "an event cannot be read")
                .fact("id", id)
                .fact("number", number)
                .because(cause)
        })
    }

    fn token(&self, row: &Row) -> Result<Option<Token>> {
        Ok(Some(token_of(&writer_in(row, self.columns())?)))
    }

    fn is_ours(&self, row: &Row) -> bool {
        writer_in(row, self.columns()).is_ok_and(|writer| is_ours(&writer))
    }

    fn time_ms(&self, row: &Row) -> u64 {
        time_in(row, self.columns())
    }
}

fn time_in(row: &Row, columns: &JournalColumns) -> u64 {
    let time = row.item.get(&columns.ordering_column_name);
    time.and_then(Value::as_u64).unwrap_or(0)
}

fn read(id: &PersistenceId, row: &Row, section: &Section) -> Result<Option<(Event, String)>> {
    let (columns, item) = (&section.columns_def, &row.item);
    let message = message_in(row, columns)?;
    if message.is_deleted {
        return Ok(None);
    }
    if let Some(error) = other_place(id, row, columns) {
        return Err(error);
    }
    let payload = serialization::read(message.payload)?;
    let mut data = attributes::event(item, payload, message.adapter_manifest)?;
    let tags = attributes::text(item, &columns.tags_column_name)?;
    let tags = tags
        .into_iter()
        .flat_map(|tags| tags.split(&section.tag_separator));
    data.tags = tags.map(str::to_owned).collect();
    let number = SequenceNumber::new(row.number);
    let number = number.ok_or_else(|| Error::corrupt("it has no sequence number"))?;
    let mut event = Event::new(id.clone(), number, token_of(&message.writer_uuid), data);
    event.time_ms = message.timestamp_ms.unwrap_or(time_in(row, columns));
    event.causation = attributes::causation(item);
    event.correlation = attributes::correlation(item);
    Ok(Some((event, message.writer_uuid)))
}
