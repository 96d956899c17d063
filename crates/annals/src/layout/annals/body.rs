//! Bodies: the bytes that a commit, a snapshot or a value is about, in its item or cut into parts.
//!
//! Promises: an item of the least write units that compression allows; a body that is too large for
//! an item is cut into parts, which mean nothing without the item that speaks for them. What was cut
//! is put together the same, or not at all.
//! Trusts: a CRC-32 to tell damage.
//! Never: reads or writes the store.

use bytes::Bytes;
use minicbor::Decoder;

use super::frame::{Encoded, Out, Read};
use super::frame::{pack, unpack};
use super::keys;
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Cost, Item, Key, item_size};
use crate::{Error, Result};

/// What a part holds, and when it was written, in milliseconds since the Unix epoch.
const PART: &str = "b";
pub(super) const PART_TIME: &str = "t";
/// How much a part holds: there is room for its key and the names of its attributes.
const PART_BYTES: usize = ITEM_BYTES_MAX - 4 * 1024;

/// Where the bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Here.
    Here(BodyBytes),
    /// In items of their own.
    Parts(PartsRecord),
    /// Nowhere: they were deleted.
    Deleted,
    /// Nowhere: there never were any. Of commits alone.
    LeftOut,
}

/// The bytes, packed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BodyBytes {
    pub(super) bytes: Bytes,
    pub(super) is_zstd: bool,
}

/// What is known of parts, so that a missing or damaged one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartsRecord {
    pub(super) parts: u32,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
    pub(super) is_zstd: bool,
}

/// What a body becomes items with.
pub(super) struct Form<'a> {
    /// The item that has this body.
    pub(super) item: &'a dyn Fn(Body) -> Item,
    /// Where a part lives, by the checksum of all and its index.
    pub(super) part_key: &'a dyn Fn(u32, u32) -> Key,
    pub(super) time_ms: u64,
    /// The most bytes of the item.
    pub(super) item_bytes_max: usize,
}

/// Items to be written: the parts before the item that speaks for them.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) item: Item,
    pub(super) parts: Vec<Item>,
}

impl From<Item> for Written {
    fn from(item: Item) -> Self {
        let parts = Vec::new();
        Self { item, parts }
    }
}

impl BodyBytes {
    pub(super) fn plain(bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            is_zstd: false,
        }
    }

    /// As items: compressed where that saves a unit, cut where it must be.
    pub(super) fn write(self, form: &Form<'_>) -> Result<Written> {
        let here = |body: &Self| (form.item)(Body::Here(body.clone()));
        let (mut best, mut item) = (self.clone(), here(&self));
        if units(&item) > 1 {
            let packed = Self {
                bytes: pack(&self.bytes)?.into(),
                is_zstd: true,
            };
            let small = here(&packed);
            if units(&small) < units(&item) {
                (best, item) = (packed, small);
            }
        }
        match item_size(&item) <= form.item_bytes_max {
            true => Ok(item.into()),
            false => best.cut(form),
        }
    }

    fn cut(self, form: &Form<'_>) -> Result<Written> {
        let count = u32::try_from(self.bytes.len().div_ceil(PART_BYTES))
            .map_err(|e| Error::invalid("too many parts").because(e))?;
        let record = PartsRecord {
            parts: count,
            bytes: self.bytes.len() as u64,
            checksum: crc32fast::hash(&self.bytes),
            is_zstd: self.is_zstd,
        };
        let pieces = self.bytes.chunks(PART_BYTES).zip(0..);
        let parts = pieces.map(|(piece, index)| {
            keys::item_of(&(form.part_key)(record.checksum, index))
                .with(PART, self.bytes.slice_ref(piece))
                .with(PART_TIME, form.time_ms)
        });
        Ok(Written {
            parts: parts.collect(),
            item: (form.item)(Body::Parts(record)),
        })
    }

    /// The bytes as they were before they were packed, at most so many.
    pub(super) fn unpacked(self, bytes_max: usize) -> Result<Bytes> {
        match self.is_zstd {
            true => Ok(unpack(&self.bytes, bytes_max)?.into()),
            false => Ok(self.bytes),
        }
    }
}

impl PartsRecord {
    /// The bytes of the parts that were found; none where one is missing or damaged.
    pub(super) fn join(self, found: &[Option<Item>]) -> Option<BodyBytes> {
        let mut bytes = Vec::new();
        for part in found {
            bytes.extend_from_slice(part.as_ref()?.get(PART)?.as_bytes()?);
        }
        let is_whole = bytes.len() as u64 == self.bytes && crc32fast::hash(&bytes) == self.checksum;
        is_whole.then_some(BodyBytes {
            bytes: bytes.into(),
            is_zstd: self.is_zstd,
        })
    }

    pub(super) fn write(self, out: &mut Out<'_>) -> Encoded {
        out.array(4)?.u32(self.parts)?.u64(self.bytes)?;
        out.u32(self.checksum)?.bool(self.is_zstd)?.ok()
    }

    pub(super) fn read(input: &mut Decoder<'_>) -> Read<Self> {
        if input.array()? != Some(4) {
            return Err(minicbor::decode::Error::message(
                "parts with another length",
            ));
        }
        Ok(Self {
            parts: input.u32()?,
            bytes: input.u64()?,
            checksum: input.u32()?,
            is_zstd: input.bool()?,
        })
    }
}

/// What an item costs to write.
pub(super) fn units(item: &Item) -> u64 {
    Cost::of_sizes(None, Some(item_size(item))).write_units
}
