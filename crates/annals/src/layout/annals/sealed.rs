//! Snapshots and values as items: a payload and what is said of it, sealed with a checksum over key
//! and bytes, in parts where it is too large for one item.
//!
//! Promises: what was sealed opens to the same under the same key, or is told as `Corrupt`. That
//! goes for every attribute but a snapshot's anchor, which is a hint: what stands outside the
//! checksum, for conditions, is held against what stands under it.
//! Trusts: the frame to tell damage.
//! Never: reads or writes the store.

use minicbor::Decoder;
use minicbor::data::Type;

use super::blob::{read_codec, write_codec};
use super::body::{Body, BodyBytes, Form, PartsRecord, Written};
use super::frame::{Encoded, Out, Read, frame, unframe};
use super::keys::{self, PartsOf};
use super::parts::ParsePart;
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Condition, Item, Key, Value};
use crate::snapshot::Snapshot;
use crate::state::{Revision, State};
use crate::verify::Kept;
use crate::{Error, Payload, PersistenceId, Result, SequenceNumber, Token};

const BLOB: &str = "c";
/// Of a snapshot: where the append begins that its number ends. A hint, and not under the checksum.
const ANCHOR: &str = "f";
/// Of a value: its revision, by one name or the other. One in parts has another, so that whoever
/// replaces it on the condition of its revision learns of the parts, from the refusal, without
/// reading first.
const REVISION: &str = "r";
const REVISION_OF_PARTS: &str = "R";
const TAG: &str = "t";
/// There where the value was deleted.
const DELETED: &str = "d";

/// The most bytes of a payload: it is held in memory whole.
pub(super) const PAYLOAD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Snapshot,
    State,
}

/// What is known of a payload without opening it.
#[derive(Clone, Debug)]
pub(super) struct Sealed {
    pub(super) kind: Kind,
    pub(super) id: PersistenceId,
    /// Of a snapshot its sequence number, of a value its revision.
    pub(super) number: u64,
    pub(super) time_ms: u64,
    /// Which write it came with.
    pub(super) token: Token,
    /// Of a value; empty for none.
    pub(super) tag: String,
    /// Of a snapshot, if it is known.
    pub(super) anchor: Option<SequenceNumber>,
    /// The payload without its bytes.
    pub(super) about: Payload,
    pub(super) body: Body,
}

/// What stands under the checksum besides the body.
struct Header {
    time_ms: u64,
    token: Token,
    about: Payload,
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

    pub(super) fn parse_part(self) -> ParsePart {
        match self {
            Self::Snapshot => keys::parse_part,
            Self::State => keys::parse_state_part,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::State => "value",
        }
    }

    pub(super) fn kept(self) -> Kept {
        match self {
            Self::Snapshot => Kept::Snapshot,
            Self::State => Kept::Value,
        }
    }

    /// The number that an item tells, which may not open; 0 for none.
    pub(super) fn number_in(self, item: &Item) -> u64 {
        let names = match self {
            Self::Snapshot => ["n", "n"],
            Self::State => [REVISION, REVISION_OF_PARTS],
        };
        let number = names.into_iter().find_map(|name| item.get(name)?.as_u64());
        number.unwrap_or(0)
    }

    pub(super) fn orphan(self) -> &'static str {
        match self {
            Self::Snapshot => "a part of a snapshot that is not there",
            Self::State => "a part of a value that is not there",
        }
    }
}

/// The payload without its bytes, and those.
fn divide(payload: &Payload) -> Result<(Payload, Body)> {
    let bytes = payload.bytes.len();
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a payload has at most {PAYLOAD_BYTES_MAX} bytes. bytes=`{bytes}`"
        )));
    }
    let body = Body::Here(BodyBytes::plain(payload.bytes.clone()));
    let mut about = payload.clone();
    about.bytes.clear();
    Ok((about, body))
}

impl Sealed {
    pub(super) fn of_snapshot(snapshot: &Snapshot, token: Token) -> Result<Self> {
        let (about, body) = divide(&snapshot.payload)?;
        Ok(Self {
            kind: Kind::Snapshot,
            id: snapshot.persistence_id.clone(),
            number: snapshot.sequence_number.get(),
            time_ms: snapshot.time_ms,
            token,
            tag: String::new(),
            anchor: snapshot.anchor,
            about,
            body,
        })
    }

    pub(super) fn of_state(state: &State, token: Token) -> Result<Self> {
        let (about, body) = match &state.value {
            Some(value) => divide(value)?,
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
            about,
            body,
        })
    }

    /// The items to be written.
    pub(super) fn write(&self) -> Result<Written> {
        let with_body = |body| {
            Self {
                body,
                ..self.clone()
            }
            .to_item()
        };
        match &self.body {
            Body::Here(body) => body.clone().write(&Form {
                item: &with_body,
                part_key: &|checksum, index| self.part_key(checksum, index),
                time_ms: self.time_ms,
                item_bytes_max: ITEM_BYTES_MAX,
            }),
            _ => Ok(self.to_item().into()),
        }
    }

    fn to_item(&self) -> Item {
        let key = self.kind.key(&self.id, self.number);
        let bytes = frame(&key, &self.body, |out| self.write_header(out));
        let mut item = keys::item_of(&key).with(BLOB, bytes);
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

    /// What is to be seen of a value from outside, and what is not.
    fn attributes(&self) -> [(&'static str, Option<Value>); 4] {
        let is_state = self.kind == Kind::State;
        let revision = is_state.then(|| Value::from(self.number));
        let (whole, in_parts) = match self.is_in_parts() {
            true => (None, revision),
            false => (revision, None),
        };
        let tag = (!self.tag.is_empty()).then(|| Value::from(self.tag.as_str()));
        [
            (REVISION, whole),
            (REVISION_OF_PARTS, in_parts),
            (TAG, tag),
            (DELETED, self.is_deleted().then(|| Value::from(true))),
        ]
    }

    fn write_header(&self, out: &mut Out<'_>) -> Encoded {
        let is_state = self.kind == Kind::State;
        out.array(if is_state { 8 } else { 6 })?.u64(self.time_ms)?;
        out.bytes(&self.token.to_bytes())?;
        write_codec(out, &self.about.codec)?;
        out.str(&self.about.manifest)?.u32(self.about.schema)?;
        match self.body {
            Body::Parts(record) => record.write(out)?,
            _ => out.null()?.ok()?,
        }
        match is_state {
            true => out.u64(self.number)?.str(&self.tag)?.ok(),
            false => Ok(()),
        }
    }

    /// The snapshot that is sealed in an item.
    pub(super) fn snapshot(id: &PersistenceId, item: &Item) -> Result<Self> {
        let number = item.get("n").and_then(Value::as_u64).unwrap_or(0);
        let mut sealed = Self::read(Kind::Snapshot, id, number, item)?;
        let anchor = item.get(ANCHOR).and_then(Value::as_u64);
        let anchor = anchor.filter(|anchor| *anchor <= number);
        sealed.anchor = anchor.and_then(SequenceNumber::new);
        Ok(sealed)
    }

    /// The value that is sealed in an item.
    pub(super) fn state(id: &PersistenceId, item: &Item) -> Result<Self> {
        Self::read(Kind::State, id, 0, item)
    }

    fn read(kind: Kind, id: &PersistenceId, number: u64, item: &Item) -> Result<Self> {
        let key = kind.key(id, number);
        let damaged =
            |how: &str| Error::corrupt(format!("stored {} {how}. key=`{key}`", kind.name()));
        let bytes = item.get(BLOB).and_then(Value::as_bytes);
        let bytes = bytes.ok_or_else(|| damaged("is missing"))?;
        let (header, body) = unframe((kind.name(), &key), bytes, read_header)?;
        let (number, tag) = match (kind, header.label, &body) {
            (Kind::Snapshot, None, Body::Here(_) | Body::Parts(_)) => (number, String::new()),
            (Kind::State, Some(label), body) if *body != Body::LeftOut => label,
            _ => return Err(damaged("contradicts itself")),
        };
        let sealed = Self {
            kind,
            id: id.clone(),
            number,
            time_ms: header.time_ms,
            token: header.token,
            tag,
            anchor: None,
            about: header.about,
            body,
        };
        let mut attributes = sealed.attributes().into_iter();
        let is_so = attributes
            .all(|(name, value)| kind == Kind::Snapshot || item.get(name) == value.as_ref());
        match is_so {
            true => Ok(sealed),
            false => Err(damaged("has attributes that are not its own")),
        }
    }

    fn part_key(&self, checksum: u32, index: u32) -> Key {
        let (token, number) = (self.token, self.number);
        let of = PartsOf {
            token,
            number,
            checksum,
        };
        match self.kind {
            Kind::Snapshot => keys::part(&self.id, of, index),
            Kind::State => keys::state_part(&self.id, of, index),
        }
    }

    /// The keys of its parts.
    pub(super) fn part_keys(&self) -> Vec<Key> {
        let Body::Parts(record) = self.body else {
            return Vec::new();
        };
        let indexes = 0..record.parts;
        indexes
            .map(|index| self.part_key(record.checksum, index))
            .collect()
    }

    pub(super) fn is_in_parts(&self) -> bool {
        matches!(self.body, Body::Parts(_))
    }

    fn is_deleted(&self) -> bool {
        self.body == Body::Deleted
    }
}

fn read_header(input: &mut Decoder<'_>) -> Read<(Header, Option<PartsRecord>)> {
    let wrong = minicbor::decode::Error::message;
    let places = input.array()?;
    if !matches!(places, Some(6 | 8)) {
        return Err(wrong("header of another length"));
    }
    let time_ms = input.u64()?;
    let token = <[u8; Token::BYTES]>::try_from(input.bytes()?);
    let token = Token::from_bytes(token.map_err(|_| wrong("token of another length"))?);
    let about = Payload::new(read_codec(input)?, Vec::new());
    let about = about.manifest(input.str()?).schema(input.u32()?);
    let parts = match input.datatype()? {
        Type::Null => input.null().map(|()| None)?,
        _ => Some(PartsRecord::read(input)?),
    };
    let label = match places {
        Some(8) => Some((input.u64()?, input.str()?.to_owned())),
        _ => None,
    };
    let header = Header {
        time_ms,
        token,
        about,
        label,
    };
    Ok((header, parts))
}

/// That a value of this revision is there, in parts or not.
pub(super) fn at_revision(revision: Revision, is_in_parts: bool) -> Condition {
    let name = match is_in_parts {
        true => REVISION_OF_PARTS,
        false => REVISION,
    };
    Condition::Equals(name.to_owned(), revision.into())
}

/// That what is sealed in an item is still there.
pub(super) fn unchanged(item: &Item) -> Condition {
    match item.get(BLOB) {
        Some(blob) => Condition::Equals(BLOB.to_owned(), blob.clone()),
        None => Condition::Absent,
    }
}

#[cfg(test)]
#[path = "sealed_tests.rs"]
mod tests;
