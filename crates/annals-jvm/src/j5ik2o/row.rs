//! Rows: an event of the `j5ik2o` layout as an item.
//!
//! Promises: what the plugin wrote is read, and what is written here it reads; what it has no
//! attribute for (metadata, a place in a batch, a manifest its serializer does not carry) is kept
//! in attributes it does not ask for.
//! Never: shows the plugin a row whose event is deleted: it is marked, or lacks what the plugin's
//! index goes by.

use super::append::EVENTS_MAX;
use crate::attributes::{self, ADAPTER, KEPT, improper};
use crate::checksum;
use crate::message::Message;
use crate::serialization;
use crate::settings::{J5ik2oJournal as Section, JournalColumns};
use crate::writers::{is_ours, token_of, writer_uuid};
use annals::items::{Item, KeySchema, Value};
use annals::{Error, Event, NewEvent, Payload, PersistenceId, Result, SequenceNumber, Token};

/// On items that the plugin's index does not show: whose they are.
pub(super) const OWNER: &str = "annals-id";
/// On an emptied row: its number, and who wrote it.
const NUMBER: &str = "number";
const WRITER: &str = "writer";
/// On rows of a batch that was given up: they never count. False in the place of its last member
/// until all of them are marked.
const CLOSED: &str = "closed";
/// The place in a batch, counted from 0, and the last place.
const INDEX: &str = "idx";
const LAST: &str = "cnt";

/// A place in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) index: u64,
    pub(super) last: u64,
}

/// What has become of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Live,
    Deleted,
    /// Of a batch that was given up, or in the place of one of its members.
    Closed,
    /// It cannot be read. Only who verifies meets such rows.
    Damaged,
}

/// An item under the key of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) batch: Option<Place>,
    pub(super) fate: Fate,
    pub(super) item: Item,
}

/// One event to be written.
#[derive(Debug)]
pub(super) struct NewRow<'a> {
    pub(super) id: &'a PersistenceId,
    pub(super) number: SequenceNumber,
    pub(super) batch: Option<Place>,
    pub(super) token: Token,
    pub(super) time_ms: u64,
    pub(super) causation: Option<&'a str>,
    pub(super) correlation: Option<&'a str>,
    pub(super) event: &'a NewEvent,
}

impl NewRow<'_> {
    /// Adds this event to an item that has its key.
    pub(super) fn fill(&self, item: &mut Item, section: &Section) -> Result<()> {
        let columns = &section.columns_def;
        let mut metadata = self.event.metadata.clone();
        let adapter_manifest = metadata.remove(ADAPTER).unwrap_or_default();
        let payload = Payload::from(self.event.clone());
        let written = serialization::write(&payload)?;
        let message = Message {
            payload: written.serialized,
            sequence_number: self.number.get(),
            persistence_id: self.id.to_string(),
            adapter_manifest,
            writer_uuid: writer_uuid(self.token),
            timestamp_ms: Some(self.time_ms),
            metadata: None,
            is_deleted: false,
        };
        show(item, columns, (self.id, self.number.get(), self.time_ms));
        item.insert(&columns.deleted_column_name, false);
        item.insert(&columns.message_column_name, message.encode());
        if let Some(tags) = self.tags(&section.tag_separator)? {
            item.insert(&columns.tags_column_name, tags);
        }
        if let Some(place) = self.batch {
            item.insert(INDEX, place.index);
            item.insert(LAST, place.last);
        }
        if !written.carries {
            attributes::keep_type(item, &payload);
        }
        attributes::keep_metadata(item, metadata);
        attributes::keep_causes(item, self.causation, self.correlation);
        *item = checksum::sealed(std::mem::take(item), covered(columns));
        Ok(())
    }

    /// The tags as the plugin joins them, which knows no way to tell a tag that holds the separator
    /// from two.
    fn tags(&self, separator: &str) -> Result<Option<String>> {
        let tags = &self.event.tags;
        match tags.iter().find(|tag| tag.contains(separator)) {
            Some(tag) => Err(Error::invalid(format!(
                "a tag on this layout does not hold the separator of tags (tag-separator). tag=`{tag}`, separator=`{separator}`"
            ))),
            None => Ok((!tags.is_empty()).then(|| tags.join(separator))),
        }
    }
}

/// Adds what the plugin's index goes by, and the time.
fn show(
    item: &mut Item,
    columns: &JournalColumns,
    (id, number, time_ms): (&PersistenceId, u64, u64),
) {
    item.insert(&columns.persistence_id_column_name, id.as_str());
    item.insert(&columns.sequence_nr_column_name, number);
    item.insert(&columns.ordering_column_name, time_ms);
}

/// What an event is read from, for its checksum: never in another order. Not whether it is deleted,
/// which changes.
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
    theirs.chain([INDEX, LAST]).chain(KEPT)
}

/// What keeps a number from a batch that is given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tombstone<'a> {
    pub(super) id: &'a PersistenceId,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) time_ms: u64,
}

impl Tombstone<'_> {
    /// Makes an item that has a number's key one that takes the number for nothing.
    pub(super) fn fill(&self, item: &mut Item, columns: &JournalColumns, number: u64) {
        show(item, columns, (self.id, number, self.time_ms));
        item.insert(&columns.deleted_column_name, true);
        item.insert(&columns.message_column_name, Vec::new());
        item.insert(WRITER, "");
        item.insert(INDEX, number - self.begin);
        item.insert(LAST, self.end - self.begin);
        item.insert(CLOSED, number != self.end);
    }
}

/// Whose item it is.
pub(super) fn owner<'a>(item: &'a Item, columns: &JournalColumns) -> Option<&'a str> {
    let told = item.get(&columns.persistence_id_column_name);
    told.or_else(|| item.get(OWNER)).and_then(Value::as_str)
}

/// Whether an item is as we wrote it. The plugin has a message to replace an event in its place,
/// and leaves our attributes on it then: what it stores so has no writer, no time and no manifest.
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

impl Row {
    /// The row in an item under a number's key.
    pub(super) fn of(columns: &JournalColumns, item: Item) -> Result<Self> {
        let name = &columns.sequence_nr_column_name;
        let number = item.get(NUMBER).or_else(|| item.get(name));
        let number = number.and_then(Value::as_u64);
        let number = number.ok_or_else(|| improper(name))?;
        check(columns, &item).map_err(|cause| {
            Error::corrupt(format!("an event is damaged. number=`{number}`")).because(cause)
        })?;
        let place = |name| item.get(name).map(|value: &Value| value.as_u64());
        let batch = match (place(INDEX), place(LAST)) {
            (None, None) => None,
            (Some(Some(index)), Some(Some(last))) if can_be(number, index, last) => {
                Some(Place { index, last })
            }
            _ => {
                return Err(Error::corrupt(format!(
                    "an event does not tell its place in its batch. number=`{number}`"
                )));
            }
        };
        let is_shown = item.get(&columns.persistence_id_column_name).is_some();
        let fate = match item.get(&columns.deleted_column_name) {
            _ if item.get(CLOSED).is_some() => Fate::Closed,
            _ if !is_shown => Fate::Deleted,
            Some(Value::Bool(true)) => Fate::Deleted,
            Some(Value::Bool(false)) => Fate::Live,
            _ => return Err(improper(&columns.deleted_column_name)),
        };
        Ok(Self {
            number,
            batch,
            fate,
            item,
        })
    }

    /// The row in an item that cannot be read as one: its number, as far as that can be told.
    pub(super) fn damaged(
        columns: &JournalColumns,
        item: Item,
        fits: impl Fn(u64) -> bool,
    ) -> Self {
        let name = &columns.sequence_nr_column_name;
        let told = item.get(NUMBER).or_else(|| item.get(name));
        let message = item.get(&columns.message_column_name);
        let message = message.and_then(Value::as_bytes);
        let message = message.and_then(|message| Message::decode(message).ok());
        let inside = message.map(|message| message.sequence_number);
        let numbers = [told.and_then(Value::as_u64), inside];
        let numbers = || numbers.into_iter().flatten();
        let number = numbers().find(|number| fits(*number)).or(numbers().next());
        Self {
            number: number.unwrap_or(0),
            batch: None,
            fate: Fate::Damaged,
            item,
        }
    }

    /// Where the batch of this row begins, or the row itself.
    pub(super) fn begin(&self) -> u64 {
        self.number - self.batch.map_or(0, |place| place.index)
    }

    /// Where the batch of this row ends, or the row itself.
    pub(super) fn end(&self) -> u64 {
        let last = self.batch.map_or(0, |place| place.last);
        self.begin().saturating_add(last)
    }

    /// Whether it is put when all others of its append are there.
    pub(super) fn is_end(&self) -> bool {
        self.number == self.end()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.fate == Fate::Closed
    }

    /// Whether it ends a batch of which rows may not be marked yet.
    pub(super) fn is_closing(&self) -> bool {
        self.item.get(CLOSED) == Some(&Value::Bool(false))
    }

    pub(super) fn is_live(&self) -> bool {
        self.fate == Fate::Live
    }

    /// Whether it is marked as deleted, and not by the plugin, which would have rewritten it without
    /// what is ours. We raise the mark of the id first.
    pub(super) fn is_marked_by_us(&self) -> bool {
        self.fate == Fate::Deleted && checksum::is_sealed(&self.item)
    }

    /// When it was appended.
    pub(super) fn time_ms(&self, columns: &JournalColumns) -> u64 {
        let time = self.item.get(&columns.ordering_column_name);
        time.and_then(Value::as_u64).unwrap_or(0)
    }

    fn message(&self, columns: &JournalColumns) -> Result<Message> {
        let name = &columns.message_column_name;
        let bytes = self.item.get(name).and_then(Value::as_bytes);
        Message::decode(bytes.ok_or_else(|| improper(name))?)
    }

    fn writer_uuid(&self, columns: &JournalColumns) -> Result<String> {
        match attributes::text(&self.item, WRITER)? {
            Some(writer) => Ok(writer.to_owned()),
            None => Ok(self.message(columns)?.writer_uuid),
        }
    }

    /// Whether we wrote it.
    pub(super) fn is_ours(&self, columns: &JournalColumns) -> bool {
        self.writer_uuid(columns)
            .is_ok_and(|writer| is_ours(&writer))
    }

    /// Whether its bytes are of another id or number than its attributes.
    pub(super) fn tells_another(&self, id: &PersistenceId, columns: &JournalColumns) -> bool {
        self.message(columns).is_ok_and(|message| {
            message.persistence_id != id.as_str() || message.sequence_number != self.number
        })
    }

    /// Which append it came with.
    pub(super) fn token(&self, columns: &JournalColumns) -> Result<Token> {
        Ok(token_of(&self.writer_uuid(columns)?))
    }

    /// The item marked as deleted, as the plugin marks it.
    pub(super) fn marked(&self, columns: &JournalColumns) -> Item {
        let mut item = self.item.clone();
        item.insert(&columns.deleted_column_name, true);
        item
    }

    /// The item marked as one of a batch that was given up.
    pub(super) fn closed(&self, columns: &JournalColumns) -> Item {
        self.marked(columns).with(CLOSED, true)
    }

    /// What stays of a row that is removed: its key, which is taken for ever, and which append it
    /// came with. The plugin's index shows nothing of it.
    pub(super) fn emptied(&self, key: &KeySchema, columns: &JournalColumns) -> Result<Item> {
        let mut item = Item::new();
        let keys = key.attributes().map(|attribute| attribute.name.as_str());
        let kept = [INDEX, LAST, CLOSED, &columns.ordering_column_name];
        for name in keys.chain(kept) {
            if let Some(value) = self.item.get(name) {
                item.insert(name, value.clone());
            }
        }
        if let Some(owner) = owner(&self.item, columns) {
            item.insert(OWNER, owner);
        }
        item.insert(NUMBER, self.number);
        item.insert(WRITER, self.writer_uuid(columns)?);
        Ok(item)
    }

    /// The event, and who wrote it; `None` where the JVM side marked it inside as deleted.
    pub(super) fn event(
        &self,
        id: &PersistenceId,
        section: &Section,
    ) -> Result<Option<(Event, String)>> {
        self.read(id, section).map_err(|cause| {
            let number = self.number;
            let message = format!("an event cannot be read. id=`{id}`, number=`{number}`");
            Error::new(cause.kind(), message).because(cause)
        })
    }

    fn read(&self, id: &PersistenceId, section: &Section) -> Result<Option<(Event, String)>> {
        let columns = &section.columns_def;
        let message = self.message(columns)?;
        if message.is_deleted {
            return Ok(None);
        }
        let (told, number) = (&message.persistence_id, message.sequence_number);
        if told != id.as_str() || number != self.number {
            return Err(Error::corrupt(format!(
                "its bytes are of another place. id=`{told}`, number=`{number}`"
            )));
        }
        let sequence_number = SequenceNumber::new(number);
        let payload = serialization::read(message.payload)?;
        let mut data = NewEvent::from(attributes::with_kept_type(&self.item, payload)?);
        let tags = attributes::text(&self.item, &columns.tags_column_name)?;
        let tags = tags
            .into_iter()
            .flat_map(|tags| tags.split(&section.tag_separator));
        data.tags = tags.map(str::to_owned).collect();
        data.metadata = attributes::metadata(&self.item)?;
        if !message.adapter_manifest.is_empty() {
            let adapter = message.adapter_manifest;
            data.metadata.insert(ADAPTER.to_owned(), adapter);
        }
        let number = sequence_number.ok_or_else(|| Error::corrupt("it has no number"))?;
        let mut event = Event::new(id.clone(), number, token_of(&message.writer_uuid), data);
        event.time_ms = message.timestamp_ms.unwrap_or(self.time_ms(columns));
        event.causation = attributes::causation(&self.item);
        event.correlation = attributes::correlation(&self.item);
        Ok(Some((event, message.writer_uuid)))
    }
}

/// Whether an event of this number can have a place in a batch: one of ours, which has an end, and
/// begins at 1 or behind it and ends where numbers still are.
fn can_be(number: u64, index: u64, last: u64) -> bool {
    let begin = number.checked_sub(index).and_then(SequenceNumber::new);
    let is_long = usize::try_from(last).is_ok_and(|last| last < EVENTS_MAX);
    index <= last && is_long && begin.and_then(|begin| begin.plus(last)).is_some()
}
