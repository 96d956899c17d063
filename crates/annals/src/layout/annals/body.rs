//! Bodies: the payload bytes of a commit, a snapshot or a value, inline in the item or in chunks.
//!
//! Guarantees: compression is used if it saves write units. A body that is too large for an item is
//! split into chunks, which are ignored without the item that refers to them. Chunks join to the same
//! bytes or not at all; a CRC-32 detects damage. No I/O.

use bytes::Bytes;
use minicbor::Decoder;

use super::frame::{Encoded, Out, Read};
use super::frame::{compress, decompress};
use super::keys;
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Cost, Item, Key, item_size};
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
