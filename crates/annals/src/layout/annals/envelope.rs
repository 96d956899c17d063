//! Envelopes: a snapshot or a value as an item, with a checksum over key, metadata and payload, and in
//! chunks if it is too large for one item.
//!
//! Guarantees: an envelope decodes unchanged under its key, or is `Corrupt`. Attributes outside the
//! checksum, which exist for conditions, are compared with the checked ones; only a snapshot's anchor
//! is not, as it is a hint. No I/O.

use minicbor::Decoder;
use minicbor::data::Type;

use super::body::{Body, BodyBytes, ChunkSummary, ItemForm, WriteSet};
use super::body::{Encoded, Out, Read, read_frame, write_frame};
use super::chunks::ParseChunk;
use super::events::{read_codec, write_codec};
use super::keys::{self, ChunkOwner};
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Condition, Item, Key, Value};
use crate::snapshot::Snapshot;
use crate::state::{Revision, State};
use crate::verify::StoredKind;
use crate::{Error, Payload, PersistenceId, Result, SequenceNumber, Token};

const BYTES: &str = "c";
/// Of a snapshot: the first sequence number of its append. A hint, not covered by the checksum.
const ANCHOR: &str = "f";
/// Of a value: its revision. A value in chunks has it under another name, so that a conditional
/// replacement is refused and learns of the chunks without reading first.
const REVISION: &str = "r";
const REVISION_IF_CHUNKED: &str = "R";
const TAG: &str = "t";
/// Present if the value was deleted.
const DELETED: &str = "d";

/// Maximum bytes of a payload, which is held in memory.
pub(super) const PAYLOAD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What an envelope holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Snapshot,
    State,
}

/// A snapshot or value, whose payload may be in chunks.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) kind: Kind,
    pub(super) id: PersistenceId,
    /// The sequence number of a snapshot, the revision of a value.
    pub(super) number: u64,
    pub(super) time_ms: u64,
    /// The token of the write.
    pub(super) token: Token,
    /// The tag of a value; empty for none.
    pub(super) tag: String,
    /// The anchor of a snapshot, if known.
    pub(super) anchor: Option<SequenceNumber>,
    /// The payload without its bytes.
    pub(super) metadata: Payload,
    pub(super) body: Body,
}

/// What the checksum covers besides the body.
struct Header {
    time_ms: u64,
    token: Token,
    metadata: Payload,
    /// Revision and tag of a value.
    label: Option<(Revision, String)>,
}

impl Kind {
    pub(super) fn key(self, id: &PersistenceId, number: u64) -> Key {
        match self {
            Self::Snapshot => keys::snapshot(id, number),
            Self::State => keys::state(id),
        }
    }

    pub(super) fn parse_chunk(self) -> ParseChunk {
        match self {
            Self::Snapshot => keys::parse_chunk,
            Self::State => keys::parse_state_chunk,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::State => "value",
        }
    }

    pub(super) fn stored_kind(self) -> StoredKind {
        match self {
            Self::Snapshot => StoredKind::Snapshot,
            Self::State => StoredKind::Value,
        }
    }

    /// The number of an item that may not decode; 0 for none.
    pub(super) fn number_in(self, item: &Item) -> u64 {
        let names = match self {
            Self::Snapshot => ["n", "n"],
            Self::State => [REVISION, REVISION_IF_CHUNKED],
        };
        let number = names.into_iter().find_map(|name| item.get(name)?.as_u64());
        number.unwrap_or(0)
    }

    pub(super) fn orphan(self) -> &'static str {
        match self {
            Self::Snapshot => "a chunk without its snapshot",
            Self::State => "a chunk without its value",
        }
    }
}

/// Separates the metadata and the bytes of a payload.
fn split_payload(payload: &Payload) -> Result<(Payload, Body)> {
    let bytes = payload.bytes.len();
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a payload has at most {PAYLOAD_BYTES_MAX} bytes; store less"
        ))
        .fact("bytes", bytes));
    }
    let body = Body::Inline(BodyBytes::plain(payload.bytes.clone()));
    let mut metadata = payload.clone();
    metadata.bytes.clear();
    Ok((metadata, body))
}

impl Envelope {
    pub(super) fn of_snapshot(snapshot: &Snapshot, token: Token) -> Result<Self> {
        let (metadata, body) = split_payload(&snapshot.payload)?;
        Ok(Self {
            kind: Kind::Snapshot,
            id: snapshot.persistence_id.clone(),
            number: snapshot.sequence_number.get(),
            time_ms: snapshot.time_ms,
            token,
            tag: String::new(),
            anchor: snapshot.anchor,
            metadata,
            body,
        })
    }

    pub(super) fn of_state(state: &State, token: Token) -> Result<Self> {
        let (metadata, body) = match &state.value {
            Some(value) => split_payload(value)?,
            None => (Payload::default(), Body::Deleted),
        };
        Ok(Self {
            kind: Kind::State,
            id: state.persistence_id.clone(),
            number: state.revision,
            time_ms: state.time_ms,
            token,
            tag: state.tag.clone(),
            anchor: None,
            metadata,
            body,
        })
    }

    /// The items to write.
    pub(super) fn write(&self) -> Result<WriteSet> {
        let with_body = |body| {
            Self {
                body,
                ..self.clone()
            }
            .to_item()
        };
        match &self.body {
            Body::Inline(body) => body.clone().write(&ItemForm {
                item: &with_body,
                chunk_key: &|checksum, index| self.chunk_key(checksum, index),
                time_ms: self.time_ms,
                item_bytes_max: ITEM_BYTES_MAX,
            }),
            _ => Ok(self.to_item().into()),
        }
    }

    fn to_item(&self) -> Item {
        let key = self.kind.key(&self.id, self.number);
        let bytes = write_frame(&key, &self.body, |out| self.write_header(out));
        let mut item = keys::item_of(&key).with(BYTES, bytes);
        for (name, value) in self.attributes() {
            if let Some(value) = value {
                item.insert(name, value);
            }
        }
        if let Some(anchor) = self.anchor {
            item.insert(ANCHOR, anchor.get());
        }
        item
    }

    /// The attributes of a value that exist for conditions, also those it must not have.
    fn attributes(&self) -> [(&'static str, Option<Value>); 4] {
        let is_state = self.kind == Kind::State;
        let revision = is_state.then(|| Value::from(self.number));
        let (inline, chunked) = match self.is_chunked() {
            true => (None, revision),
            false => (revision, None),
        };
        let tag = (!self.tag.is_empty()).then(|| Value::from(self.tag.as_str()));
        [
            (REVISION, inline),
            (REVISION_IF_CHUNKED, chunked),
            (TAG, tag),
            (DELETED, self.is_deleted().then(|| Value::from(true))),
        ]
    }

    fn write_header(&self, out: &mut Out<'_>) -> Encoded {
        let is_state = self.kind == Kind::State;
        out.array(if is_state { 8 } else { 6 })?.u64(self.time_ms)?;
        out.bytes(&self.token.to_bytes())?;
        write_codec(out, &self.metadata.codec)?;
        out.str(&self.metadata.manifest)?
            .u32(self.metadata.schema)?;
        match self.body {
            Body::Chunked(summary) => summary.write(out)?,
            _ => out.null()?.ok()?,
        }
        match is_state {
            true => out.u64(self.number)?.str(&self.tag)?.ok(),
            false => Ok(()),
        }
    }

    /// Decodes a snapshot or value.
    pub(super) fn from_item(kind: Kind, id: &PersistenceId, item: &Item) -> Result<Self> {
        match kind {
            Kind::Snapshot => Self::snapshot(id, item),
            Kind::State => Self::state(id, item),
        }
    }

    /// Decodes a snapshot.
    pub(super) fn snapshot(id: &PersistenceId, item: &Item) -> Result<Self> {
        let number = item.get("n").and_then(Value::as_u64).unwrap_or(0);
        let mut envelope = Self::read(Kind::Snapshot, id, number, item)?;
        let anchor = item.get(ANCHOR).and_then(Value::as_u64);
        let anchor = anchor.filter(|anchor| *anchor <= number);
        envelope.anchor = anchor.and_then(SequenceNumber::new);
        Ok(envelope)
    }

    /// Decodes a value.
    pub(super) fn state(id: &PersistenceId, item: &Item) -> Result<Self> {
        Self::read(Kind::State, id, 0, item)
    }

    fn read(kind: Kind, id: &PersistenceId, number: u64, item: &Item) -> Result<Self> {
        let key = kind.key(id, number);
        // A value has its number inside.
        let named = |error: Error| match kind {
            Kind::Snapshot => error.fact("id", id).fact("number", number),
            Kind::State => error.fact("id", id),
        };
        let damaged = |how: &str| named(Error::corrupt(format!("stored {} {how}", kind.name())));
        let bytes = item.get(BYTES).and_then(Value::as_bytes);
        let bytes = bytes.ok_or_else(|| damaged("is missing"))?;
        let read_header = |input: &mut Decoder<'_>, _: &_| read_header(input);
        let read = read_frame(kind.name(), (&key).into(), bytes.clone(), read_header);
        let (header, body) = read.map_err(named)?;
        let (number, tag) = match (kind, header.label, &body) {
            (Kind::Snapshot, None, Body::Inline(_) | Body::Chunked(_)) => (number, String::new()),
            (Kind::State, Some(label), body) if *body != Body::Skipped => label,
            _ => return Err(damaged("is inconsistent")),
        };
        let envelope = Self {
            kind,
            id: id.clone(),
            number,
            time_ms: header.time_ms,
            token: header.token,
            tag,
            anchor: None,
            metadata: header.metadata,
            body,
        };
        let mut attributes = envelope.attributes().into_iter();
        let is_same = attributes
            .all(|(name, value)| kind == Kind::Snapshot || item.get(name) == value.as_ref());
        match is_same {
            true => Ok(envelope),
            false => Err(damaged("has attributes that do not match its bytes")),
        }
    }

    fn chunk_key(&self, checksum: u32, index: u32) -> Key {
        let (token, number) = (self.token, self.number);
        let owner = ChunkOwner {
            token,
            number,
            checksum,
        };
        match self.kind {
            Kind::Snapshot => keys::chunk(&self.id, owner, index),
            Kind::State => keys::state_chunk(&self.id, owner, index),
        }
    }

    /// The keys of its chunks.
    pub(super) fn chunk_keys(&self) -> Vec<Key> {
        let Body::Chunked(summary) = self.body else {
            return Vec::new();
        };
        let indexes = 0..summary.count;
        indexes
            .map(|index| self.chunk_key(summary.checksum, index))
            .collect()
    }

    pub(super) fn is_chunked(&self) -> bool {
        matches!(self.body, Body::Chunked(_))
    }

    fn is_deleted(&self) -> bool {
        self.body == Body::Deleted
    }
}

fn read_header(input: &mut Decoder<'_>) -> Read<(Header, Option<ChunkSummary>)> {
    let wrong = minicbor::decode::Error::message;
    let fields = input.array()?;
    if !matches!(fields, Some(6 | 8)) {
        return Err(wrong("header of another length"));
    }
    let time_ms = input.u64()?;
    let token = <[u8; Token::BYTES]>::try_from(input.bytes()?);
    let token = Token::from_bytes(token.map_err(|_| wrong("token of another length"))?);
    let metadata = Payload::new(read_codec(input)?, Vec::new());
    let metadata = metadata.manifest(input.str()?).schema(input.u32()?);
    let chunks = match input.datatype()? {
        Type::Null => input.null().map(|()| None)?,
        _ => Some(ChunkSummary::read(input)?),
    };
    let label = match fields {
        Some(8) => Some((input.u64()?, input.str()?.to_owned())),
        _ => None,
    };
    let header = Header {
        time_ms,
        token,
        metadata,
        label,
    };
    Ok((header, chunks))
}

/// The condition that the value has this revision, in chunks or not.
pub(super) fn at_revision(revision: Revision, is_chunked: bool) -> Condition {
    let name = match is_chunked {
        true => REVISION_IF_CHUNKED,
        false => REVISION,
    };
    Condition::Equals(name.to_owned(), revision.into())
}

/// The condition that an item is unchanged.
pub(super) fn unchanged(item: &Item) -> Condition {
    match item.get(BYTES) {
        Some(bytes) => Condition::Equals(BYTES.to_owned(), bytes.clone()),
        None => Condition::Absent,
    }
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
