//! Commits: the events of one append, as one item, or as an item and its chunks.
//!
//! Guarantees: however much of a commit is deleted, its sequence numbers stay the same. No I/O.

use std::sync::Arc;

use super::body::{Body, BodyBytes, ChunkSummary, ItemForm, WriteSet, units};
use super::commit_codec::{self, Header, StoredCommit};
use super::keys::{self, ChunkOwner, Span};
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Item, Key, Value, item_size};
use crate::snapshot::Snapshot;
use crate::{Error, Event, NewEvent, PersistenceId, Result, SequenceNumber, Token};

/// Maximum bytes of the events of one append, which is held in memory.
pub(super) const COMMIT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum events of one append. It limits how many buckets a commit can span, and so how far back
/// the commit of a sequence number can start.
pub(super) const COMMIT_EVENTS_MAX: usize = 100_000;
/// Bytes that every commit leaves in its item for the fields that a deletion adds.
const RESERVE_BYTES: usize = 64;

/// The attribute of a commit's bytes.
pub(super) const COMMIT_BYTES: &str = "c";

/// A commit in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) id: PersistenceId,
    pub(super) first: SequenceNumber,
    pub(super) stored: StoredCommit,
}

impl Commit {
    /// The sequence number of the last event.
    pub(super) fn last(&self) -> Result<SequenceNumber> {
        let others = self.stored.header.count.checked_sub(1);
        let last = others.and_then(|others| self.first.plus(others));
        last.ok_or_else(|| {
            let (id, first) = (&self.id, self.first);
            Error::corrupt("a stored commit has no events or too many")
                .fact("id", id)
                .fact("number", first)
        })
    }

    pub(super) fn token(&self) -> Token {
        self.stored.header.token
    }

    /// The low watermark, on the very first commit: everything up to it is deleted.
    pub(super) fn low(&self) -> Option<SequenceNumber> {
        self.stored.header.low
    }

    /// Decodes the commit of an item.
    pub(super) fn from_item(item: &Item, id: &PersistenceId, span: Span) -> Result<Self> {
        let unreadable =
            |what: &str| Error::corrupt(format!("item in the journal {what}")).fact("id", id);
        let number = item
            .get("n")
            .and_then(Value::as_u64)
            .and_then(SequenceNumber::new);
        let first = number.ok_or_else(|| unreadable("has no sequence number"))?;
        let bytes = item.get(COMMIT_BYTES).and_then(Value::as_bytes);
        let bytes = bytes.ok_or_else(|| unreadable("is not a commit"))?;
        let stored = commit_codec::decode(bytes, &keys::commit(id, first, span))?;
        Ok(Self {
            id: id.clone(),
            first,
            stored,
        })
    }

    /// Encodes the commit as an item.
    pub(super) fn to_item(&self, span: Span) -> Item {
        let key = keys::commit(&self.id, self.first, span);
        let bytes = commit_codec::encode(&self.stored, &key);
        keys::item_of(&key).with(COMMIT_BYTES, bytes)
    }

    /// The commit of new events.
    pub(super) fn of_events(
        id: &PersistenceId,
        first: SequenceNumber,
        header: Header,
        events: &[NewEvent],
    ) -> Result<Self> {
        if events.len() > COMMIT_EVENTS_MAX {
            let events = events.len();
            return Err(Error::invalid(format!(
                "an append has at most {COMMIT_EVENTS_MAX} events; split it"
            ))
            .fact("id", id)
            .fact("events", events));
        }
        let bytes = commit_codec::encode_events(events);
        if bytes.len() > COMMIT_BYTES_MAX {
            let bytes = bytes.len();
            return Err(Error::invalid(format!(
                "an append has at most {COMMIT_BYTES_MAX} bytes; split it"
            ))
            .fact("id", id)
            .fact("bytes", bytes));
        }
        let body = Body::Inline(BodyBytes::plain(bytes));
        let stored = StoredCommit { header, body };
        Ok(Self {
            id: id.clone(),
            first,
            stored,
        })
    }

    /// The items to write, and whether the snapshot is stored inline: only if it fits into the write
    /// units that the events need anyway.
    pub(super) fn write(mut self, span: Span) -> Result<(WriteSet, bool)> {
        let (id, snapshot) = (self.id.clone(), self.stored.header.snapshot.take());
        let mut written = self.write_events(span)?;
        if snapshot.is_none() || !written.chunks.is_empty() {
            return Ok((written, false));
        }
        let mut inline = Self::from_item(&written.item, &id, span)?;
        inline.stored.header.snapshot = snapshot;
        let item = inline.to_item(span);
        let fits = item_size(&item) <= ITEM_BYTES_MAX - RESERVE_BYTES
            && units(&item) == units(&written.item);
        if fits {
            written.item = item;
        }
        Ok((written, fits))
    }

    fn write_events(self, span: Span) -> Result<WriteSet> {
        let Body::Inline(body) = &self.stored.body else {
            return Ok(self.to_item(span).into());
        };
        let with_body = |body| {
            let header = self.stored.header.clone();
            let stored = StoredCommit { header, body };
            let (id, first) = (self.id.clone(), self.first);
            Self { id, first, stored }.to_item(span)
        };
        body.clone().write(&ItemForm {
            item: &with_body,
            chunk_key: &|checksum, index| self.chunk_key(checksum, index),
            time_ms: self.stored.header.time_ms,
            item_bytes_max: ITEM_BYTES_MAX - RESERVE_BYTES,
        })
    }

    fn chunk_key(&self, checksum: u32, index: u32) -> Key {
        let (token, number) = (self.token(), self.first.get());
        let owner = ChunkOwner {
            token,
            number,
            checksum,
        };
        keys::chunk(&self.id, owner, index)
    }

    /// The summary of its chunks, if it has any.
    pub(super) fn chunk_summary(&self) -> Option<ChunkSummary> {
        match self.stored.body {
            Body::Chunked(summary) => Some(summary),
            _ => None,
        }
    }

    /// The keys of its chunks, if it has any.
    pub(super) fn chunk_keys(&self) -> Vec<Key> {
        let keys = self.chunk_summary().map(|summary| {
            let indexes = 0..summary.count;
            indexes.map(move |index| self.chunk_key(summary.checksum, index))
        });
        keys.into_iter().flatten().collect()
    }

    /// The events that are not deleted, in order. Chunks must have been joined before.
    pub(super) fn events(&self) -> Result<Vec<Event>> {
        let Body::Inline(body) = &self.stored.body else {
            return Ok(Vec::new());
        };
        let header = &self.stored.header;
        let bytes = body.clone().decompressed(COMMIT_BYTES_MAX)?;
        let events = commit_codec::decode_events(&bytes)?;
        // Deleted events were removed from the body, or are still in it and skipped.
        let skipped = header.count.checked_sub(events.len() as u64);
        let skipped = skipped.filter(|skipped| *skipped <= header.gone);
        let skipped = skipped.ok_or_else(|| Error::corrupt("a stored commit lacks events"))?;
        // Shared by all events.
        let shared = |text: &Option<String>| text.as_deref().map(Arc::<str>::from);
        let causation = shared(&header.causation);
        let correlation = shared(&header.correlation);
        let numbered = events.into_iter().zip(skipped..);
        let numbered = numbered.filter(|(_, index)| *index >= header.gone);
        let numbered = numbered.map(|(data, index)| {
            let number = self.first.plus(index);
            let number = number
                .ok_or_else(|| Error::corrupt("a stored commit has no events or too many"))?;
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

    /// This commit after everything up to `to` is deleted: with those events skipped, or a tombstone.
    /// Its sequence numbers stay used.
    pub(super) fn without(&self, to: SequenceNumber) -> Result<Self> {
        let mut left = self.clone();
        let header = &mut left.stored.header;
        if self.is_deleted() {
            return Ok(left);
        }
        if self.last()? > to {
            let gone = (to.get() + 1).saturating_sub(self.first.get());
            header.gone = header.gone.max(gone);
            return Ok(left);
        }
        left.stored.body = Body::Deleted;
        header.gone = 0;
        (header.causation, header.correlation, header.snapshot) = (None, None, None);
        Ok(left)
    }

    /// The item of a shortened commit, with the deleted events removed if possible. Chunks are never
    /// changed.
    pub(super) fn shrunk(&self, span: Span) -> Result<Item> {
        if !matches!(self.stored.body, Body::Inline(_)) {
            return Ok(self.to_item(span));
        }
        let mut small = self.clone();
        let kept: Vec<NewEvent> = self.events()?.into_iter().map(|event| event.data).collect();
        small.stored.body = Body::Inline(BodyBytes::plain(commit_codec::encode_events(&kept)));
        let written = small.write_events(span)?;
        // Fewer events may compress worse. Then nothing is removed, which always fits.
        Ok(match written.chunks.is_empty() {
            true => written.item,
            false => self.to_item(span),
        })
    }

    /// The inline snapshot.
    pub(super) fn snapshot(self) -> Result<Option<Snapshot>> {
        let number = self.last()?;
        let header = self.stored.header;
        Ok(header.snapshot.map(|payload| Snapshot {
            persistence_id: self.id,
            sequence_number: number,
            time_ms: header.time_ms,
            anchor: Some(self.first),
            payload,
        }))
    }

    /// Whether any of its events is deleted.
    pub(super) fn has_deleted_events(&self) -> bool {
        self.is_deleted() || self.stored.header.gone > 0
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.stored.body == Body::Deleted
    }
}
