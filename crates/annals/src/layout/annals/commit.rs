//! Commits: the events of one append, as one item, or as an item and its parts.
//!
//! Promises: an item of the least write units that compression allows; a commit that is too large
//! for an item is cut into parts, which are written first and mean nothing without it. However
//! much of a commit is deleted, the numbers it takes stay the same.
//! Never: reads or writes the store.

use std::sync::Arc;

use super::blob::{self, Blob, Body, BodyBytes, Header, PartsRecord};
use super::keys::{self, PartsOf, Span};
use super::packing::{pack, unpack};
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Cost, Item, Key, Value, item_size};
use crate::snapshot::Snapshot;
use crate::{Error, Event, NewEvent, PersistenceId, Result, SequenceNumber, Token};

/// The most bytes of events one append may have: it is held in memory whole.
pub(super) const COMMIT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most events one append may have. It bounds how many buckets a commit can span, and so how
/// far back the commit that takes a number may start.
pub(super) const COMMIT_EVENTS_MAX: usize = 100_000;
/// Room that every commit leaves in its item for what a deletion may have to note on it.
const RESERVE_BYTES: usize = 64;
/// Room for a part's key and attribute names in an item.
const PART_BYTES: usize = ITEM_BYTES_MAX - 4 * 1024;

/// The attribute that holds a commit's bytes, and the one that holds a part's.
pub(super) const BLOB: &str = "c";
const PART: &str = "b";
/// On a part: when it was written, in milliseconds since the Unix epoch.
pub(super) const PART_TIME: &str = "t";

/// A commit as it stands in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) id: PersistenceId,
    pub(super) first: SequenceNumber,
    pub(super) blob: Blob,
}

/// A commit as items.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) item: Item,
    /// To be written before the item.
    pub(super) parts: Vec<Item>,
    /// Whether a snapshot rides along.
    pub(super) has_snapshot: bool,
}

impl Commit {
    /// The number of its last event.
    pub(super) fn last(&self) -> Result<SequenceNumber> {
        let places = self.blob.header.count.checked_sub(1);
        let last = places.and_then(|places| self.first.plus(places));
        last.ok_or_else(|| {
            let (id, first) = (&self.id, self.first);
            Error::corrupt(format!(
                "stored commit ends nowhere. id=`{id}`, number=`{first}`"
            ))
        })
    }

    pub(super) fn token(&self) -> Token {
        self.blob.header.token
    }

    /// Everything up to this number is deleted, as the very first commit tells.
    pub(super) fn low(&self) -> Option<SequenceNumber> {
        self.blob.header.low
    }

    /// The commit in an item of the journal.
    pub(super) fn from_item(item: &Item, id: &PersistenceId, span: Span) -> Result<Self> {
        let unreadable =
            |what: &str| Error::corrupt(format!("item in the journal {what}. id=`{id}`"));
        let number = item
            .get("n")
            .and_then(Value::as_u64)
            .and_then(SequenceNumber::new);
        let first = number.ok_or_else(|| unreadable("has no sequence number"))?;
        let bytes = item.get(BLOB).and_then(Value::as_bytes);
        let bytes = bytes.ok_or_else(|| unreadable("is not a commit"))?;
        let blob = blob::decode(bytes, &keys::commit(id, first, span))?;
        Ok(Self {
            id: id.clone(),
            first,
            blob,
        })
    }

    /// The item that stands for this commit.
    pub(super) fn to_item(&self, span: Span) -> Item {
        let key = keys::commit(&self.id, self.first, span);
        let bytes = blob::encode(&self.blob, &key);
        keyed(&key).with(BLOB, bytes)
    }

    /// The commit of new events, compressed where that saves a unit, cut where it must be.
    pub(super) fn of_events(
        id: &PersistenceId,
        first: SequenceNumber,
        header: Header,
        events: &[NewEvent],
    ) -> Result<Self> {
        if events.len() > COMMIT_EVENTS_MAX {
            let events = events.len();
            return Err(Error::invalid(format!(
                "an append has at most {COMMIT_EVENTS_MAX} events; split it. id=`{id}`, events=`{events}`"
            )));
        }
        let bytes = blob::encode_events(events);
        if bytes.len() > COMMIT_BYTES_MAX {
            let bytes = bytes.len();
            return Err(Error::invalid(format!(
                "an append has at most {COMMIT_BYTES_MAX} bytes; split it. id=`{id}`, bytes=`{bytes}`"
            )));
        }
        let body = BodyBytes {
            bytes,
            is_zstd: false,
        };
        let blob = Blob {
            header,
            body: Body::Here(body),
        };
        Ok(Self {
            id: id.clone(),
            first,
            blob,
        })
    }

    /// The items to be written. A snapshot rides along where there is room that is paid for
    /// anyway, and is left out where there is not.
    pub(super) fn write(mut self, span: Span) -> Result<Written> {
        let (id, snapshot) = (self.id.clone(), self.blob.header.snapshot.take());
        let mut written = self.write_events(span)?;
        if snapshot.is_none() || !written.parts.is_empty() {
            return Ok(written);
        }
        let mut riding = Self::from_item(&written.item, &id, span)?;
        riding.blob.header.snapshot = snapshot;
        let item = riding.to_item(span);
        let has_room = item_size(&item) <= ITEM_BYTES_MAX - RESERVE_BYTES;
        if has_room && units(&item) == units(&written.item) {
            (written.item, written.has_snapshot) = (item, true);
        }
        Ok(written)
    }

    fn write_events(mut self, span: Span) -> Result<Written> {
        let plain = self.to_item(span);
        let whole = |item: Item| Written {
            item,
            parts: Vec::new(),
            has_snapshot: false,
        };
        if units(&plain) == 1 {
            return Ok(whole(plain));
        }
        let Body::Here(body) = &self.blob.body else {
            return Ok(whole(plain));
        };
        let packed = pack(&body.bytes)?;
        let body = body.clone();
        let packed = BodyBytes {
            bytes: packed,
            is_zstd: true,
        };
        self.blob.body = Body::Here(packed.clone());
        let small = self.to_item(span);
        let (item, body) = if units(&small) < units(&plain) {
            (small, packed)
        } else {
            (plain, body)
        };
        if item_size(&item) <= ITEM_BYTES_MAX - RESERVE_BYTES {
            return Ok(whole(item));
        }
        self.cut(body, span)
    }

    fn cut(mut self, body: BodyBytes, span: Span) -> Result<Written> {
        let record = PartsRecord {
            parts: u32::try_from(body.bytes.len().div_ceil(PART_BYTES))
                .map_err(|e| Error::invalid("too many parts").because(e))?,
            bytes: body.bytes.len() as u64,
            checksum: crc32fast::hash(&body.bytes),
            is_zstd: body.is_zstd,
        };
        self.blob.body = Body::Parts(record);
        let chunks = body.bytes.chunks(PART_BYTES);
        let parts = self
            .part_keys()
            .into_iter()
            .zip(chunks)
            .map(|(key, chunk)| {
                keyed(&key)
                    .with(PART, chunk.to_vec())
                    .with(PART_TIME, self.blob.header.time_ms)
            });
        let parts = parts.collect();
        Ok(Written {
            item: self.to_item(span),
            parts,
            has_snapshot: false,
        })
    }

    /// The keys of its parts, if it has any.
    pub(super) fn part_keys(&self) -> Vec<Key> {
        let Body::Parts(record) = &self.blob.body else {
            return Vec::new();
        };
        let of = PartsOf {
            token: self.token(),
            first: self.first,
            checksum: record.checksum,
        };
        let indexes = 0..record.parts;
        indexes
            .map(|index| keys::part(&self.id, of, index))
            .collect()
    }

    /// This commit with the bytes of its parts put together.
    pub(super) fn with_parts(mut self, found: Vec<Option<Item>>) -> Result<Self> {
        let Body::Parts(record) = self.blob.body else {
            return Ok(self);
        };
        let lost = || {
            let (id, first) = (&self.id, self.first);
            Error::corrupt(format!(
                "a part of a commit is missing or damaged. id=`{id}`, number=`{first}`"
            ))
        };
        let mut bytes = Vec::new();
        for part in found {
            let part = part.as_ref().and_then(|part| part.get(PART)?.as_bytes());
            bytes.extend_from_slice(part.ok_or_else(lost)?);
        }
        if bytes.len() as u64 != record.bytes || crc32fast::hash(&bytes) != record.checksum {
            return Err(lost());
        }
        self.blob.body = Body::Here(BodyBytes {
            bytes,
            is_zstd: record.is_zstd,
        });
        Ok(self)
    }

    /// Its events that are still there, in order. Parts must have been put together before.
    pub(super) fn events(&self) -> Result<Vec<Event>> {
        let Body::Here(body) = &self.blob.body else {
            return Ok(Vec::new());
        };
        let header = &self.blob.header;
        let events = match body.is_zstd {
            true => blob::decode_events(&unpack(&body.bytes, COMMIT_BYTES_MAX)?)?,
            false => blob::decode_events(&body.bytes)?,
        };
        // Deleted events have left the body, or are still in it and only passed over.
        let skipped = header.count.checked_sub(events.len() as u64);
        let skipped = skipped.filter(|skipped| *skipped <= header.gone);
        let skipped = skipped.ok_or_else(|| Error::corrupt("stored commit lacks events"))?;
        // Made once, whoever has how many events.
        let shared = |text: &Option<String>| text.as_deref().map(Arc::<str>::from);
        let causation = shared(&header.causation);
        let correlation = shared(&header.correlation);
        let numbered = events.into_iter().zip(skipped..);
        let numbered = numbered.filter(|(_, place)| *place >= header.gone);
        let numbered = numbered.map(|(data, place)| {
            let number = self.first.plus(place);
            let number = number.ok_or_else(|| Error::corrupt("stored commit ends nowhere"))?;
            Ok(Event {
                persistence_id: self.id.clone(),
                sequence_number: number,
                time_ms: header.time_ms,
                token: header.token,
                causation: causation.clone(),
                correlation: correlation.clone(),
                data,
            })
        });
        numbered.collect()
    }

    /// What is left of this commit when everything up to `to` is deleted: itself with those
    /// events passed over, or the mark that something stood here. The numbers stay taken.
    pub(super) fn without(&self, to: SequenceNumber) -> Result<Self> {
        let mut left = self.clone();
        let header = &mut left.blob.header;
        if self.is_deleted() {
            return Ok(left);
        }
        if self.last()? > to {
            let gone = (to.get() + 1).saturating_sub(self.first.get());
            header.gone = header.gone.max(gone);
            return Ok(left);
        }
        left.blob.body = Body::Deleted;
        header.gone = 0;
        (header.causation, header.correlation, header.snapshot) = (None, None, None);
        Ok(left)
    }

    /// The item for what is left of a commit, its deleted events taken out where that can be done.
    /// Parts stay as they are: they are this commit's for good.
    pub(super) fn shrunk(&self, span: Span) -> Result<Item> {
        if !matches!(self.blob.body, Body::Here(_)) {
            return Ok(self.to_item(span));
        }
        let mut small = self.clone();
        let kept: Vec<NewEvent> = self.events()?.into_iter().map(|event| event.data).collect();
        small.blob.body = Body::Here(BodyBytes {
            bytes: blob::encode_events(&kept),
            is_zstd: false,
        });
        let written = small.write_events(span)?;
        // Less may pack worse. Then all is left where it is, for which there always is room.
        Ok(match written.parts.is_empty() {
            true => written.item,
            false => self.to_item(span),
        })
    }

    /// The snapshot that rides in it.
    pub(super) fn snapshot(self) -> Result<Option<Snapshot>> {
        let number = self.last()?;
        let header = self.blob.header;
        Ok(header.snapshot.map(|payload| Snapshot {
            persistence_id: self.id,
            sequence_number: number,
            time_ms: header.time_ms,
            anchor: Some(self.first),
            payload,
        }))
    }

    /// Whether any of its events was deleted.
    pub(super) fn is_touched(&self) -> bool {
        self.is_deleted() || self.blob.header.gone > 0
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.blob.body == Body::Deleted
    }
}

fn units(item: &Item) -> u64 {
    Cost::of_sizes(None, Some(item_size(item))).write_units
}

/// An item that has its key and nothing else.
fn keyed(key: &Key) -> Item {
    let item = Item::new().with("p", key.partition.clone());
    match &key.sort {
        Some(sort) => item.with("n", sort.clone()),
        None => item,
    }
}
