//! Rows: an event of the `akka` layout as an item, in both generations the plugin ever wrote.
//!
//! Promises: what the plugin wrote is read, and what is written here it reads; what it has no
//! attribute for (time, tags, metadata, and a manifest its serializer does not carry) is kept in
//! attributes it does not ask for. Nothing of a row is decoded before it is known to count.
//! Never: writes `idx` and `cnt` on a lone event: the plugin would pass it over.

use std::collections::BTreeMap;

use super::keys::Keys;
use crate::attributes::{self, ADAPTER, KEPT, Names, improper};
use crate::checksum;
use crate::message::Message;
use crate::serialization::{self, Serialized};
use crate::settings::Format;
use crate::writers::{is_ours, token_of, writer_uuid};
use annals::items::{Condition, Item, Value};
use annals::{Error, Event, NewEvent, Payload, PersistenceId, Result, SequenceNumber, Token};

/// On an item whose event was deleted: its number stays taken.
const GONE: &str = "deleted";
/// Where generation B keeps the payload.
const NAMES: Names = Names {
    bytes: "event",
    id: "ev_ser_id",
    manifest: "ev_ser_manifest",
};
/// What an event is read from, for its checksum: never in another order.
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
/// What the plugin adds up for keys and the like.
const FIXED_BYTES: usize = 26;

/// A place in a batch: `idx` and `cnt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) index: u64,
    pub(super) last: u64,
}

/// An item of the journal under an event's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) number: SequenceNumber,
    pub(super) batch: Option<Place>,
    pub(super) item: Item,
}

/// The item that keeps a number taken whose event nobody read before it was deleted. `key` has the
/// event's key.
pub(super) fn forgotten(key: Item) -> Item {
    key.with(GONE, true)
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
    /// The item of this event in a generation, and how large the plugin reckons it to be.
    pub(super) fn to_item(&self, keys: &Keys, format: Format) -> Result<(Item, usize)> {
        let mut metadata = self.event.metadata.clone();
        let adapter = metadata.remove(ADAPTER).unwrap_or_default();
        let payload = Payload::from(self.event.clone());
        let written = serialization::write(&payload)?;
        let serialized = written.serialized;
        let key = keys.event(self.id, self.number.get());
        let mut item = Item::new().with("par", key.partition);
        if let Some(sort) = key.sort {
            item.insert("num", sort);
        }
        if let Some(place) = self.batch {
            item.insert("idx", place.index);
            item.insert("cnt", place.last);
        }
        let bytes = match format {
            Format::B => self.fill(&mut item, serialized, &adapter),
            Format::A => {
                let message = self.message(serialized, adapter).encode();
                let bytes = message.len();
                item.insert("pay", message);
                bytes
            }
        };
        if !written.carries {
            attributes::keep_type(&mut item, &payload);
        }
        self.add_ours(&mut item, metadata);
        let key_units = keys.name_units() + self.id.as_str().encode_utf16().count();
        let item = checksum::sealed(item, covered());
        Ok((item, bytes + key_units + FIXED_BYTES))
    }

    /// The attributes of generation B; answers their size as the plugin reckons it.
    fn fill(&self, item: &mut Item, serialized: Serialized, adapter: &str) -> usize {
        let uuid = writer_uuid(self.token);
        let texts = [
            ("persistence_id", self.id.as_str()),
            ("writer_uuid", &uuid),
            ("manifest", adapter),
        ];
        let sizes = texts.iter().map(|(_, text)| text.len()).sum::<usize>();
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            item.insert(name, text);
        }
        item.insert("seq", self.number.get());
        let digits = self.number.to_string().len() + serialized.id.to_string().len();
        let bytes = sizes + digits + serialized.manifest.len() + serialized.bytes.len();
        NAMES.insert(item, serialized);
        bytes
    }

    fn message(&self, payload: Serialized, adapter_manifest: String) -> Message {
        Message {
            payload,
            sequence_number: self.number.get(),
            persistence_id: self.id.to_string(),
            adapter_manifest,
            writer_uuid: writer_uuid(self.token),
            timestamp_ms: Some(self.time_ms),
            metadata: None,
            is_deleted: false,
        }
    }

    /// What the plugin has no place for.
    fn add_ours(&self, item: &mut Item, metadata: BTreeMap<String, String>) {
        item.insert("time", self.time_ms);
        if !self.event.tags.is_empty() {
            let tags = self.event.tags.iter().map(|tag| Value::from(tag.as_str()));
            item.insert("tags", Value::L(tags.collect()));
        }
        attributes::keep_metadata(item, metadata);
        attributes::keep_causes(item, self.causation, self.correlation);
    }
}

impl Row {
    /// The row in an item under an event's key.
    ///
    /// # Errors
    /// `Corrupt` where it was altered since we wrote it, or does not tell its place.
    pub(super) fn of(keys: &Keys, item: Item) -> Result<Self> {
        let number = keys.number_of(&item)?;
        checksum::check(&item, covered()).map_err(|cause| {
            let par = item.get("par").and_then(Value::as_str).unwrap_or_default();
            let message = format!("an event is damaged. number=`{number}`, par=`{par}`");
            Error::corrupt(message).because(cause)
        })?;
        let place = |name| item.get(name).map(|value: &Value| value.as_u64());
        let batch = match (place("idx"), place("cnt")) {
            (_, None) => None,
            (Some(Some(index)), Some(Some(last))) if can_be(number, index, last) => {
                Some(Place { index, last })
            }
            _ => {
                return Err(Error::corrupt(format!(
                    "an event does not tell its place in its batch. number=`{number}`, par=`{:?}`",
                    item.get("par")
                )));
            }
        };
        Ok(Self {
            number,
            batch,
            item,
        })
    }

    /// Where an item came from that is whole, and stands under a key that is not its own.
    pub(super) fn moved_from(keys: &Keys, item: &Item) -> Option<(String, u64)> {
        let number = keys.number_of(item).ok()?;
        let row = Self {
            number,
            batch: None,
            item: item.clone(),
        };
        let (Some(told), Some(seq)) = row.told().ok()? else {
            return None;
        };
        let key = keys.event(&told.parse().ok()?, seq);
        let home = row.item.with("par", key.partition).with("num", key.sort?);
        let is_whole = checksum::is_sealed(&home) && checksum::check(&home, covered()).is_ok();
        (is_whole && keys.number_of(&home).is_ok()).then_some((told, seq))
    }

    /// The item that keeps the number taken when the event is deleted. The plugin never sees it: it
    /// stands below the low mark. It still tells which append it came with, so that an append whose
    /// answer was lost is known again, and its place there, so that a batch that is under way while
    /// it is deleted still ends where everybody thought it would.
    pub(super) fn emptied(&self) -> Result<Item> {
        let mut item = Item::new().with(GONE, true);
        for name in ["par", "num", "idx", "cnt", "time"] {
            if let Some(value) = self.item.get(name) {
                item.insert(name, value.clone());
            }
        }
        item.insert("writer_uuid", self.writer_uuid()?);
        Ok(item)
    }

    /// Where the batch of this row begins, or the row itself.
    pub(super) fn begin(&self) -> u64 {
        let number = self.number.get();
        self.batch.map_or(number, |place| number - place.index)
    }

    /// Where the batch of this row ends, or the row itself.
    pub(super) fn end(&self) -> u64 {
        let last = self.batch.map_or(0, |place| place.last);
        self.begin() + last
    }

    pub(super) fn is_gone(&self) -> bool {
        self.item.get(GONE).is_some()
    }

    fn text(&self, name: &str) -> &str {
        let value = self.item.get(name).and_then(Value::as_str);
        value.unwrap_or_default()
    }

    /// Which append it came with; `None` where a deletion took even that.
    pub(super) fn token(&self) -> Result<Option<Token>> {
        let token = || Ok(token_of(&self.writer_uuid()?));
        (!self.is_forgotten()).then(token).transpose()
    }

    /// Whether all that is left of it is that its number is taken.
    pub(super) fn is_forgotten(&self) -> bool {
        self.is_gone() && self.item.get("writer_uuid").is_none()
    }

    pub(super) fn writer_uuid(&self) -> Result<String> {
        if self.item.get("event").is_some() || self.is_gone() {
            return Ok(self.text("writer_uuid").to_owned());
        }
        Ok(self.message()?.writer_uuid)
    }

    /// Whether we wrote it.
    pub(super) fn is_ours(&self) -> bool {
        self.writer_uuid().is_ok_and(|writer| is_ours(&writer))
    }

    /// When it was appended, as far as anybody noted it.
    pub(super) fn time_ms(&self) -> u64 {
        self.item.get("time").and_then(Value::as_u64).unwrap_or(0)
    }

    fn message(&self) -> Result<Message> {
        let pay = self.item.get("pay").and_then(Value::as_bytes);
        Message::decode(pay.ok_or_else(|| improper("event"))?)
    }

    /// The id and the number that it tells besides its key, where it does.
    pub(super) fn told(&self) -> Result<(Option<String>, Option<u64>)> {
        let told = self.item.get("persistence_id").and_then(Value::as_str);
        let seq = self.item.get("seq").and_then(Value::as_u64);
        if self.is_gone() || self.item.get("event").is_some() {
            return Ok((told.map(str::to_owned), seq));
        }
        let message = self.message()?;
        Ok((Some(message.persistence_id), Some(message.sequence_number)))
    }

    /// That it still stands there as it was read, as far as one attribute tells.
    pub(super) fn unchanged(&self) -> Option<Condition> {
        [NAMES.bytes, "pay"].into_iter().find_map(|name| {
            let value = self.item.get(name)?.clone();
            Some(Condition::Equals(name.to_owned(), value))
        })
    }

    /// The event, and who wrote it; `None` where the JVM side marked it as deleted.
    pub(super) fn event(&self, id: &PersistenceId) -> Result<Option<(Event, String)>> {
        self.read(id).map_err(|cause| {
            let number = self.number;
            let message = format!("an event cannot be read. id=`{id}`, number=`{number}`");
            Error::new(cause.kind(), message).because(cause)
        })
    }

    fn read(&self, id: &PersistenceId) -> Result<Option<(Event, String)>> {
        self.check_place(id)?;
        let (serialized, adapter, writer, time_ms) = match self.item.get("event") {
            Some(_) => {
                let (adapter, writer) = (self.text("manifest"), self.text("writer_uuid"));
                let serialized = NAMES.read(&self.item)?;
                (serialized, adapter.to_owned(), writer.to_owned(), 0)
            }
            None => {
                let message = self.message()?;
                if message.is_deleted {
                    return Ok(None);
                }
                let time_ms = message.timestamp_ms.unwrap_or(0);
                let (adapter, writer) = (message.adapter_manifest, message.writer_uuid);
                (message.payload, adapter, writer, time_ms)
            }
        };
        let payload = serialization::read(serialized)?;
        let data = self.with_ours(payload, adapter)?;
        let mut event = Event::new(id.clone(), self.number, token_of(&writer), data);
        event.time_ms = self.time_ms().max(time_ms);
        event.causation = attributes::causation(&self.item);
        event.correlation = attributes::correlation(&self.item);
        Ok(Some((event, writer)))
    }

    /// That it is of this id: the keys of journals whose names hold a `-` may meet.
    fn check_place(&self, id: &PersistenceId) -> Result<()> {
        let (told, seq) = self.told()?;
        let is_other = told.as_ref().is_some_and(|told| told != id.as_str());
        if !is_other && seq.is_none_or(|seq| seq == self.number.get()) {
            return Ok(());
        }
        let (told, seq) = (told.unwrap_or_default(), seq.unwrap_or(0));
        Err(Error::corrupt(format!(
            "it tells of another place. id=`{told}`, number=`{seq}`"
        )))
    }

    /// A payload with what the plugin has no place for.
    fn with_ours(&self, payload: Payload, adapter: String) -> Result<NewEvent> {
        let payload = attributes::with_kept_type(&self.item, payload)?;
        let mut event = NewEvent::from(payload);
        if let Some(tags) = self.item.get("tags") {
            event.tags = tags_of(tags).ok_or_else(|| improper("tags"))?;
        }
        event.metadata = attributes::metadata(&self.item)?;
        if !adapter.is_empty() {
            event.metadata.insert(ADAPTER.to_owned(), adapter);
        }
        Ok(event)
    }
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

/// Whether an event of this number can have a place in a batch: one that begins at 1 or behind it
/// and ends where numbers still are.
fn can_be(number: SequenceNumber, index: u64, last: u64) -> bool {
    let begin = number.get().checked_sub(index);
    let begin = begin.and_then(SequenceNumber::new);
    index <= last && begin.and_then(|begin| begin.plus(last)).is_some()
}
