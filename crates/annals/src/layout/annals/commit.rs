//! Commits: the events of one append, as one item, or as an item and its parts.
//!
//! Promises: however much of a commit is deleted, the numbers it takes stay the same.
//! Never: reads or writes the store.

use std::sync::Arc;

use super::blob::{self, Blob, Header};
use super::body::{Body, BodyBytes, Form, PartsRecord, Written, units};
use super::keys::{self, PartsOf, Span};
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Item, Key, Value, item_size};
use crate::snapshot::Snapshot;
use crate::{Error, Event, NewEvent, PersistenceId, Result, SequenceNumber, Token};

/// The most bytes of events one append may have: it is held in memory whole.
pub(super) const COMMIT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most events one append may have. It bounds how many buckets a commit can span, and so how
/// far back the commit that takes a number may start.
pub(super) const COMMIT_EVENTS_MAX: usize = 100_000;
/// Room that every commit leaves in its item for what a deletion may have to note on it.
const RESERVE_BYTES: usize = 64;

/// The attribute that holds a commit's bytes.
pub(super) const BLOB: &str = "c";

/// A commit as it stands in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) id: PersistenceId,
    pub(super) first: SequenceNumber,
    pub(super) blob: Blob,
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
        keys::item_of(&key).with(BLOB, bytes)
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
        let body = Body::Here(BodyBytes::plain(bytes));
        let blob = Blob { header, body };
        Ok(Self {
            id: id.clone(),
            first,
            blob,
        })
    }

    /// The items to be written, and whether the snapshot rides along: it does where there is room
    /// that is paid for anyway, and is left out where there is not.
    pub(super) fn write(mut self, span: Span) -> Result<(Written, bool)> {
        let (id, snapshot) = (self.id.clone(), self.blob.header.snapshot.take());
        let mut written = self.write_events(span)?;
        if snapshot.is_none() || !written.parts.is_empty() {
            return Ok((written, false));
        }
        let mut riding = Self::from_item(&written.item, &id, span)?;
        riding.blob.header.snapshot = snapshot;
        let item = riding.to_item(span);
        let rides = item_size(&item) <= ITEM_BYTES_MAX - RESERVE_BYTES
            && units(&item) == units(&written.item);
        if rides {
            written.item = item;
        }
        Ok((written, rides))
    }

    fn write_events(self, span: Span) -> Result<Written> {
        let Body::Here(body) = &self.blob.body else {
            return Ok(self.to_item(span).into());
        };
        let with_body = |body| {
            let header = self.blob.header.clone();
            let blob = Blob { header, body };
            let (id, first) = (self.id.clone(), self.first);
            Self { id, first, blob }.to_item(span)
        };
        body.clone().write(&Form {
            item: &with_body,
            part_key: &|checksum, index| self.part_key(checksum, index),
            time_ms: self.blob.header.time_ms,
            item_bytes_max: ITEM_BYTES_MAX - RESERVE_BYTES,
        })
    }

    fn part_key(&self, checksum: u32, index: u32) -> Key {
        let (token, number) = (self.token(), self.first.get());
        let of = PartsOf {
            token,
            number,
            checksum,
        };
        keys::part(&self.id, of, index)
    }

    /// What it knows of its parts, if it has any.
    pub(super) fn parts(&self) -> Option<PartsRecord> {
        match self.blob.body {
            Body::Parts(record) => Some(record),
            _ => None,
        }
    }

    /// The keys of its parts, if it has any.
    pub(super) fn part_keys(&self) -> Vec<Key> {
        let keys = self.parts().map(|record| {
            let indexes = 0..record.parts;
            indexes.map(move |index| self.part_key(record.checksum, index))
        });
        keys.into_iter().flatten().collect()
    }

    /// Its events that are still there, in order. Parts must have been put together before.
    pub(super) fn events(&self) -> Result<Vec<Event>> {
        let Body::Here(body) = &self.blob.body else {
            return Ok(Vec::new());
        };
        let header = &self.blob.header;
        let bytes = body.clone().unpacked(COMMIT_BYTES_MAX)?;
        let events = blob::decode_events(&bytes)?;
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
        small.blob.body = Body::Here(BodyBytes::plain(blob::encode_events(&kept)));
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
