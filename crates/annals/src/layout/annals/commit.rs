//! Commits: the events of one append, as one item, or as an item and its chunks; and their bytes
//! (`docs/format.md`).
//!
//! Guarantees: a commit decodes unchanged, and damage is detected. However much of a commit is
//! deleted, its sequence numbers stay the same. No I/O.

use std::sync::Arc;

use bytes::Bytes;
use minicbor::Decoder;
use minicbor::data::Type;

use super::body::{
    Body, BodyBytes, ChunkSummary, Encoded, ItemForm, KeyChecksum, Out, Read, WriteSet, read_frame,
    units, write_frame,
};
use super::events::{
    decode_events, encode_events, not_events, read_event, take_event, write_event,
};
use super::keys::{self, Bucket, ChunkOwner, Span};
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Item, Key, item_size};
use crate::snapshot::Snapshot;
use crate::{Error, Event, NewEvent, Payload, PersistenceId, Result, SequenceNumber, Token};

/// Maximum bytes of the events of one append, which is held in memory.
pub(super) const COMMIT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum events of one append. It limits how many buckets a commit can span, and so how far back
/// the commit of a sequence number can start.
pub(super) const COMMIT_EVENTS_MAX: usize = 100_000;
/// Bytes that every commit leaves in its item for the fields that a deletion adds.
const RESERVE_BYTES: usize = 64;

/// Events that a list of the events of a commit has room for at first.
const EVENTS_AT_FIRST: usize = 256;

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
        CommitReader::new(id.clone(), span).read(item)
    }

    /// Encodes the commit as an item.
    pub(super) fn to_item(&self, span: Span) -> Item {
        let key = keys::commit(&self.id, self.first, span);
        let bytes = encode(&self.stored, &key);
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
        let bytes = encode_events(events);
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
    pub(super) fn events(mut self) -> Result<Vec<Event>> {
        let count = usize::try_from(self.stored.header.count).unwrap_or(usize::MAX);
        // The count is only checked while the events are decoded.
        let mut events = Vec::with_capacity(count.min(EVENTS_AT_FIRST));
        self.drain_events(&mut events, |_| true)?;
        Ok(events)
    }

    /// Moves the wanted events to others, and drops the rest. Chunks must have been joined before.
    pub(super) fn drain_events(
        &mut self,
        events: &mut Vec<Event>,
        mut is_wanted: impl FnMut(SequenceNumber) -> bool,
    ) -> Result<()> {
        let Body::Inline(body) = &mut self.stored.body else {
            return Ok(());
        };
        let mut bytes = std::mem::take(body).decompressed(COMMIT_BYTES_MAX)?;
        let header = &self.stored.header;
        let mut index = skipped(header, &bytes)?;
        // Shared by all events.
        let shared = |text: &Option<String>| text.as_deref().map(Arc::<str>::from);
        let causation = shared(&header.causation);
        let correlation = shared(&header.correlation);
        while !bytes.is_empty() {
            let mut data = NewEvent::default();
            take_event(&mut bytes, &mut data).map_err(not_events)?;
            let number = self.first.plus(index);
            let number = number
                .filter(|_| index < header.count)
                .ok_or_else(|| Error::corrupt("a stored commit has no events or too many"))?;
            if index >= header.gone && is_wanted(number) {
                events.push(Event {
                    persistence_id: self.id.clone(),
                    sequence_number: number,
                    time_ms: header.time_ms,
                    token: header.token,
                    causation: causation.clone(),
                    correlation: correlation.clone(),
                    data,
                });
            }
            index += 1;
        }
        match index == header.count {
            true => Ok(()),
            false => Err(lacks_events()),
        }
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
        let kept: Vec<NewEvent> = self
            .clone()
            .events()?
            .into_iter()
            .map(|event| event.data)
            .collect();
        small.stored.body = Body::Inline(BodyBytes::plain(encode_events(&kept)));
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

/// How many of the first events the body lacks: deleted ones were removed from it, or are still in it.
fn skipped(header: &Header, bytes: &Bytes) -> Result<u64> {
    if header.gone == 0 {
        return Ok(0);
    }
    let events = decode_events(bytes)?.len() as u64;
    let skipped = header.count.checked_sub(events);
    let skipped = skipped.filter(|skipped| *skipped <= header.gone);
    skipped.ok_or_else(lacks_events)
}

fn lacks_events() -> Error {
    Error::corrupt("a stored commit lacks events")
}

/// Decodes commits of one id.
pub(super) struct CommitReader {
    id: PersistenceId,
    span: Span,
    /// The checksum of the last commit's partition: usually, it is the next one's.
    partition: Option<(Bucket, KeyChecksum)>,
}

impl CommitReader {
    pub(super) fn new(id: PersistenceId, span: Span) -> Self {
        let partition = None;
        Self {
            id,
            span,
            partition,
        }
    }

    /// A reader for commits whose keys have this partition, which is one of the id.
    pub(super) fn within(mut self, bucket: Bucket, partition: &str) -> Self {
        self.partition = Some((bucket, KeyChecksum::of_partition(partition)));
        self
    }

    /// Decodes the commit of an item.
    pub(super) fn read(&mut self, item: &Item) -> Result<Commit> {
        let first = item.u64("n").and_then(SequenceNumber::new);
        let first = first.ok_or_else(|| self.unreadable("has no sequence number"))?;
        let bytes = item.bytes(COMMIT_BYTES);
        let bytes = bytes.ok_or_else(|| self.unreadable("is not a commit"))?;
        let stored = decode(bytes, self.key_checksum(first));
        Ok(Commit {
            stored: stored.map_err(|error| error.fact("id", &self.id).fact("number", first))?,
            id: self.id.clone(),
            first,
        })
    }

    /// The checksum of the key of the commit that starts at a sequence number.
    fn key_checksum(&mut self, first: SequenceNumber) -> KeyChecksum {
        let bucket = self.span.bucket(first);
        let known = self.partition.take().filter(|(known, _)| *known == bucket);
        let (_, partition) = self.partition.insert(known.unwrap_or_else(|| {
            let partition = keys::commits(&self.id, bucket);
            (bucket, KeyChecksum::of_partition(&partition))
        }));
        partition.sorted(first.get())
    }

    fn unreadable(&self, what: &str) -> Error {
        Error::corrupt(format!("item in the journal {what}")).fact("id", &self.id)
    }
}

/// A commit's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The number of sequence numbers.
    pub(super) count: u64,
    pub(super) time_ms: u64,
    pub(super) token: Token,
    /// How many of the first events are deleted.
    pub(super) gone: u64,
    /// The low watermark: everything up to it is deleted. Only on the very first commit.
    pub(super) low: Option<SequenceNumber>,
    pub(super) causation: Option<String>,
    pub(super) correlation: Option<String>,
    /// The state after its events, if it is stored inline.
    pub(super) snapshot: Option<Payload>,
}

/// A commit as stored under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredCommit {
    pub(super) header: Header,
    pub(super) body: Body,
}

/// Encodes a commit for `key`.
pub(super) fn encode(commit: &StoredCommit, key: &Key) -> Vec<u8> {
    write_frame(key, &commit.body, |out| write_header(out, commit))
}

/// Decodes the commit stored under `key`.
fn decode(bytes: Bytes, key: KeyChecksum) -> Result<StoredCommit> {
    let (header, body) = read_frame("commit", key, bytes, read_header)?;
    Ok(StoredCommit { header, body })
}

/// Three fields, then optional ones; unset optional fields at the end are omitted.
fn write_header(out: &mut Out<'_>, commit: &StoredCommit) -> Encoded {
    let header = &commit.header;
    let chunks = match &commit.body {
        Body::Chunked(chunks) => Some(chunks),
        _ => None,
    };
    let is_set = [
        header.gone > 0,
        header.low.is_some(),
        chunks.is_some(),
        header.causation.is_some(),
        header.correlation.is_some(),
        header.snapshot.is_some(),
    ];
    let optional = is_set
        .iter()
        .rposition(|is_set| *is_set)
        .map_or(0, |last| last + 1);
    out.array(3 + optional as u64)?;
    out.u64(header.count)?.u64(header.time_ms)?;
    out.bytes(&header.token.to_bytes())?;
    for field in 0..optional {
        match field {
            0 => out.u64(header.gone)?,
            1 => match header.low {
                Some(low) => out.u64(low.get())?,
                None => out.null()?,
            },
            2 => match chunks {
                Some(chunks) => {
                    chunks.write(out)?;
                    &mut *out
                }
                None => out.null()?,
            },
            3 => write_text(out, header.causation.as_deref())?,
            4 => write_text(out, header.correlation.as_deref())?,
            _ => {
                if let Some(snapshot) = header.snapshot.clone() {
                    write_event(out, &snapshot.into())?;
                }
                &mut *out
            }
        };
    }
    Ok(())
}

fn write_text<'e, 'a>(
    out: &'e mut Out<'a>,
    text: Option<&str>,
) -> std::result::Result<&'e mut Out<'a>, minicbor::encode::Error<std::convert::Infallible>> {
    match text {
        Some(text) => out.str(text),
        None => out.null(),
    }
}

fn read_header(input: &mut Decoder<'_>, bytes: &Bytes) -> Read<(Header, Option<ChunkSummary>)> {
    let wrong = minicbor::decode::Error::message;
    let fields = input.array()?.ok_or_else(|| wrong("length is not given"))?;
    if !(3..=9).contains(&fields) {
        return Err(wrong("header of another length"));
    }
    let (count, time_ms) = (input.u64()?, input.u64()?);
    let token = <[u8; Token::BYTES]>::try_from(input.bytes()?);
    let token = token.map_err(|_| wrong("token of another length"))?;
    let mut header = Header {
        count,
        time_ms,
        token: Token::from_bytes(token),
        gone: 0,
        low: None,
        causation: None,
        correlation: None,
        snapshot: None,
    };
    let mut chunks = None;
    for field in 3..fields {
        match field {
            3 => header.gone = input.u64()?,
            _ if input.datatype()? == Type::Null => input.null()?,
            4 => header.low = SequenceNumber::new(input.u64()?),
            5 => chunks = Some(ChunkSummary::read(input)?),
            6 => header.causation = Some(input.str()?.to_owned()),
            7 => header.correlation = Some(input.str()?.to_owned()),
            _ => header.snapshot = Some(read_event(input, bytes)?.into()),
        }
    }
    Ok((header, chunks))
}
