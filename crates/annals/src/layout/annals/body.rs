//! The bytes of a commit, a snapshot or a value: a frame of format, kind, header, body and checksum,
//! and the body inline in the item or in chunks.
//!
//! Guarantees: damaged bytes, and bytes under another key, are `Corrupt`; a CRC-32 detects damage, not
//! forgery. Compression is used if it saves write units. A body that is too large for an item is split
//! into chunks, which are ignored without the item that refers to them and join to the same bytes or
//! not at all. Formats are only added, never changed (`docs/format.md`). No I/O.

use std::cell::RefCell;
use std::io;

use bytes::{Buf, Bytes};
use minicbor::{Decoder, Encoder};
use zstd::bulk::{Compressor, Decompressor};

use super::keys;
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Cost, Item, Key, KeyPart, item_size};
use crate::{Error, Result};

/// The bytes of a chunk, and when it was written, in milliseconds since the Unix epoch.
const CHUNK: &str = "b";
pub(super) const CHUNK_TIME: &str = "t";
/// Bytes of a chunk: there is room for its key and attribute names.
const CHUNK_BYTES: usize = ITEM_BYTES_MAX - 4 * 1024;

/// The location of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// In the item.
    Inline(BodyBytes),
    /// In chunks.
    Chunked(ChunkSummary),
    /// Deleted.
    Deleted,
    /// A commit of skipped sequence numbers: there never were any bytes.
    Skipped,
}

/// The bytes, compressed or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BodyBytes {
    pub(super) bytes: Bytes,
    pub(super) is_zstd: bool,
}

/// Number, size and checksum of chunks, so that a missing or damaged one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkSummary {
    pub(super) count: u32,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
    pub(super) is_zstd: bool,
}

/// How to build the items of a body.
pub(super) struct ItemForm<'a> {
    /// Builds the item with this body.
    pub(super) item: &'a dyn Fn(Body) -> Item,
    /// Builds the key of a chunk from the checksum of all and its index.
    pub(super) chunk_key: &'a dyn Fn(u32, u32) -> Key,
    pub(super) time_ms: u64,
    /// Maximum bytes of the item.
    pub(super) item_bytes_max: usize,
}

/// Items to write: the chunks before the item that refers to them.
#[derive(Debug)]
pub(super) struct WriteSet {
    pub(super) item: Item,
    pub(super) chunks: Vec<Item>,
}

impl From<Item> for WriteSet {
    fn from(item: Item) -> Self {
        let chunks = Vec::new();
        Self { item, chunks }
    }
}

impl BodyBytes {
    pub(super) fn plain(bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            is_zstd: false,
        }
    }

    /// The items: compressed if that saves a write unit, split if it is too large.
    pub(super) fn write(self, form: &ItemForm<'_>) -> Result<WriteSet> {
        let inline = |body: &Self| (form.item)(Body::Inline(body.clone()));
        let (mut best, mut item) = (self.clone(), inline(&self));
        if units(&item) > 1 {
            let compressed = Self {
                bytes: compress(&self.bytes)?.into(),
                is_zstd: true,
            };
            let small = inline(&compressed);
            if units(&small) < units(&item) {
                (best, item) = (compressed, small);
            }
        }
        match item_size(&item) <= form.item_bytes_max {
            true => Ok(item.into()),
            false => best.split(form),
        }
    }

    fn split(self, form: &ItemForm<'_>) -> Result<WriteSet> {
        let count = u32::try_from(self.bytes.len().div_ceil(CHUNK_BYTES))
            .map_err(|e| Error::invalid("a payload has too many chunks; store less").because(e))?;
        let summary = ChunkSummary {
            count,
            bytes: self.bytes.len() as u64,
            checksum: crc32fast::hash(&self.bytes),
            is_zstd: self.is_zstd,
        };
        let pieces = self.bytes.chunks(CHUNK_BYTES).zip(0..);
        let chunks = pieces.map(|(piece, index)| {
            keys::item_of(&(form.chunk_key)(summary.checksum, index))
                .with(CHUNK, self.bytes.slice_ref(piece))
                .with(CHUNK_TIME, form.time_ms)
        });
        Ok(WriteSet {
            chunks: chunks.collect(),
            item: (form.item)(Body::Chunked(summary)),
        })
    }

    /// The decompressed bytes, at most `bytes_max`.
    pub(super) fn decompressed(self, bytes_max: usize) -> Result<Bytes> {
        match self.is_zstd {
            true => Ok(decompress(&self.bytes, bytes_max)?.into()),
            false => Ok(self.bytes),
        }
    }
}

impl ChunkSummary {
    /// Joins the chunks; `None` if one is missing or damaged.
    pub(super) fn join(self, found: &[Option<Item>]) -> Option<BodyBytes> {
        let mut bytes = Vec::new();
        for chunk in found {
            bytes.extend_from_slice(chunk.as_ref()?.get(CHUNK)?.as_bytes()?);
        }
        let is_whole = bytes.len() as u64 == self.bytes && crc32fast::hash(&bytes) == self.checksum;
        is_whole.then_some(BodyBytes {
            bytes: bytes.into(),
            is_zstd: self.is_zstd,
        })
    }

    pub(super) fn write(self, out: &mut Out<'_>) -> Encoded {
        out.array(4)?.u32(self.count)?.u64(self.bytes)?;
        out.u32(self.checksum)?.bool(self.is_zstd)?.ok()
    }

    pub(super) fn read(input: &mut Decoder<'_>) -> Read<Self> {
        if input.array()? != Some(4) {
            return Err(minicbor::decode::Error::message(
                "chunk summary of another length",
            ));
        }
        Ok(Self {
            count: input.u32()?,
            bytes: input.u64()?,
            checksum: input.u32()?,
            is_zstd: input.bool()?,
        })
    }
}

/// The write units of an item.
pub(super) fn units(item: &Item) -> u64 {
    Cost::of_sizes(None, Some(item_size(item))).write_units
}

pub(super) type Out<'a> = Encoder<&'a mut Vec<u8>>;
pub(super) type Encoded =
    std::result::Result<(), minicbor::encode::Error<std::convert::Infallible>>;
pub(super) type Read<T> = std::result::Result<T, minicbor::decode::Error>;

const FORMAT: u8 = 1;
const CHECKSUM_BYTES: usize = 4;
/// Capacity for the format, the kind, a header of the usual size and the checksum.
const FRAME_CAPACITY: usize = 64;

/// The second byte: the kind of the body.
const KIND_PLAIN: u8 = 0;
const KIND_ZSTD: u8 = 1;
const KIND_CHUNKED: u8 = 2;
const KIND_DELETED: u8 = 3;
const KIND_SKIPPED: u8 = 4;

/// The bytes to be stored under `key`.
pub(super) fn write_frame(
    key: &Key,
    body: &Body,
    write_header: impl FnOnce(&mut Out<'_>) -> Encoded,
) -> Vec<u8> {
    let (kind, body): (u8, &[u8]) = match body {
        Body::Inline(body) if body.is_zstd => (KIND_ZSTD, &body.bytes),
        Body::Inline(body) => (KIND_PLAIN, &body.bytes),
        Body::Chunked(_) => (KIND_CHUNKED, &[]),
        Body::Deleted => (KIND_DELETED, &[]),
        Body::Skipped => (KIND_SKIPPED, &[]),
    };
    let mut bytes = Vec::with_capacity(FRAME_CAPACITY + body.len());
    bytes.extend_from_slice(&[FORMAT, kind]);
    let written = write_header(&mut Encoder::new(&mut bytes));
    // Writing to memory cannot fail.
    debug_assert!(written.is_ok());
    bytes.extend_from_slice(body);
    let checksum = checksum(key, &bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    bytes
}

/// The header and body of the bytes stored under `key`; the body shares them. The header has the
/// summary of chunks, if there are any.
pub(super) fn read_frame<H>(
    what: &str,
    key: KeyChecksum,
    mut bytes: Bytes,
    read_header: impl FnOnce(&mut Decoder<'_>, &Bytes) -> Read<(H, Option<ChunkSummary>)>,
) -> Result<(H, Body)> {
    let damaged = |how: &str| Error::corrupt(format!("stored {what} {how}"));
    let split = bytes.len().checked_sub(CHECKSUM_BYTES);
    let (framed, stored) = split
        .and_then(|at| bytes.split_at_checked(at))
        .ok_or_else(|| damaged("is cut short"))?;
    if key.over(framed).to_be_bytes() != *stored {
        return Err(damaged("does not match its checksum"));
    }
    let [FORMAT, kind, rest @ ..] = framed else {
        return Err(damaged("has an unknown format; update annals"));
    };
    let mut input = Decoder::new(rest);
    let read = read_header(&mut input, &bytes);
    let (header, chunks) = read.map_err(|e| damaged("does not parse").because(e))?;
    let body = rest.get(input.position()..).unwrap_or_default();
    let (kind, end, len) = (*kind, framed.len(), body.len());
    let inline = |is_zstd| {
        // Cut, and not sliced: nothing else shares them.
        bytes.truncate(end);
        bytes.advance(end - len);
        Body::Inline(BodyBytes { bytes, is_zstd })
    };
    let body = match (kind, chunks, len) {
        (KIND_PLAIN, None, _) => inline(false),
        (KIND_ZSTD, None, _) => inline(true),
        (KIND_CHUNKED, Some(chunks), 0) => Body::Chunked(chunks),
        (KIND_DELETED, None, 0) => Body::Deleted,
        (KIND_SKIPPED, None, 0) => Body::Skipped,
        _ => return Err(damaged("is inconsistent")),
    };
    Ok((header, body))
}

/// A cheap level; higher ones save little more.
const ZSTD_LEVEL: i32 = 3;

thread_local! {
    // Each takes longer to make than to compress a few KiB.
    static COMPRESSOR: RefCell<io::Result<Compressor<'static>>> =
        RefCell::new(Compressor::new(ZSTD_LEVEL));
    static DECOMPRESSOR: RefCell<io::Result<Decompressor<'static>>> =
        RefCell::new(Decompressor::new());
}

/// Uses the thread's compressor or decompressor.
fn with<T, R>(
    it: &RefCell<io::Result<T>>,
    run: impl FnOnce(&mut T) -> io::Result<R>,
) -> io::Result<R> {
    match &mut *it.borrow_mut() {
        Ok(it) => run(it),
        Err(cause) => Err(io::Error::new(cause.kind(), cause.to_string())),
    }
}

/// Compresses bytes.
pub(super) fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let compressed = COMPRESSOR.with(|it| with(it, |it| it.compress(bytes)));
    compressed.map_err(|cause| Error::invalid("a payload cannot be compressed").because(cause))
}

/// Decompresses at most `bytes_max` bytes. The zstd frame has their number.
pub(super) fn decompress(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
    let broken = || Error::corrupt("a stored payload does not decompress");
    let size = zstd::zstd_safe::get_frame_content_size(bytes);
    let size = size.ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| *size <= bytes_max);
    let size = size.ok_or_else(broken)?;
    let decompressed = DECOMPRESSOR.with(|it| with(it, |it| it.decompress(bytes, size)));
    decompressed.map_err(|e| broken().because(e))
}

/// The checksum over a key, to be continued over the bytes stored under it: under another key, they
/// are damaged.
#[derive(Clone)]
pub(super) struct KeyChecksum(crc32fast::Hasher);

impl KeyChecksum {
    /// That of a partition, to be continued with a sort key.
    pub(super) fn of_partition(partition: &str) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(partition.as_bytes());
        Self(hasher)
    }

    /// That of a key in this partition.
    pub(super) fn sorted(&self, number: u64) -> Self {
        let mut hasher = self.0.clone();
        hasher.update(&number.to_be_bytes());
        Self(hasher)
    }

    fn over(mut self, bytes: &[u8]) -> u32 {
        self.0.update(bytes);
        self.0.finalize()
    }
}

impl From<&Key> for KeyChecksum {
    fn from(key: &Key) -> Self {
        let partition = match &key.partition {
            KeyPart::S(partition) => Self::of_partition(partition),
            _ => Self(crc32fast::Hasher::new()),
        };
        match &key.sort {
            Some(KeyPart::N(number)) => partition.sorted(number.to_u64().unwrap_or(0)),
            _ => partition,
        }
    }
}

/// The checksum over key and bytes.
fn checksum(key: &Key, bytes: &[u8]) -> u32 {
    KeyChecksum::from(key).over(bytes)
}
