//! Compressed segments: what a sealed segment becomes.
//!
//! ```text
//!   0  checksum   u64   of the rest of the header
//!   8  magic      8 B   "annalsLZ"
//!  16  version    u64   1
//!  24  mark       u64   the store's
//!  32  number     u64   of the segment
//!  40  first      u64   the position of its first change
//!  48  previous   u64   the checksum of the last frame before it; the mark in the first segment
//!  56  end        u64   the offset after its last frame, before it was compressed
//!  64  next       u64   the position after its last change
//!  72  last       u64   the checksum of its last frame
//!  80  erased     u64   the highest position that superseded a change that is erased here; 0: none is
//!  88  blocks     u64   how many
//!  96  index      u64   the offset of the index of the blocks
//! 104  length     u64   of the file
//! 112  block       0  checksum  u64   of the rest of the block, seeded with mark and number
//!                  8  offset    u64   of its bytes in the segment
//!                 16  raw       u32   bytes in the segment
//!                 20  stored    u32   bytes that follow
//!                 24  the bytes: one zstd frame
//!      …
//!      index       0  checksum  u64   of the rest of the index, seeded with mark and number
//!                  8  of each block: its offset in this file, and that of its bytes in the segment,
//!                     u64 each
//! ```
//! Numbers are little-endian.
//!
//! Guarantees: bytes that are read are what was written, or the error is `Corrupt`. Every byte of the
//! file is covered by a checksum. Places in the log mean the same before and after.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::files;
use super::frame::Fields;
use super::segment::{self, Unusable};
use super::{Place, Position};
use crate::Result;

/// Bytes before the first block.
pub(super) const HEADER: usize = 112;
/// Bytes of a block before what is compressed.
const BLOCK_HEADER: usize = 24;
/// Bytes of a segment in one block. Smaller: they compress less. Larger: more is read for one frame.
pub(super) const BLOCK: usize = 256 * 1024;
const MAGIC: &[u8; 8] = b"annalsLZ";
const VERSION: u64 = 1;
const LEVEL: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) mark: u64,
    pub(super) number: u64,
    pub(super) first: Position,
    pub(super) previous: u64,
    pub(super) end: u64,
    pub(super) next: Position,
    pub(super) last: u64,
    pub(super) erased: Position,
    pub(super) blocks: u64,
    pub(super) index: u64,
    pub(super) length: u64,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers = [
            VERSION,
            self.mark,
            self.number,
            self.first.0,
            self.previous,
            self.end,
            self.next.0,
            self.last,
            self.erased.0,
            self.blocks,
            self.index,
            self.length,
        ];
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        let rest: Vec<u8> = MAGIC.iter().copied().chain(numbers).collect();
        with_checksum(xxh3_64(&rest), rest)
    }

    /// Whether these are the first bytes of a compressed segment.
    pub(super) fn is_here(bytes: &[u8]) -> bool {
        bytes.get(8..16) == Some(MAGIC)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unusable> {
        let damaged = Unusable::Damaged;
        let bytes = bytes.get(..HEADER).ok_or(damaged)?;
        let (checksum, rest) = bytes.split_first_chunk().ok_or(damaged)?;
        if xxh3_64(rest) != u64::from_le_bytes(*checksum) {
            return Err(damaged);
        }
        let mut fields = Fields(rest.strip_prefix(MAGIC).ok_or(damaged)?);
        match fields.u64().ok_or(damaged)? {
            VERSION => {}
            other => return Err(Unusable::Newer(other)),
        }
        let mut next = || fields.u64().ok_or(damaged);
        Ok(Self {
            mark: next()?,
            number: next()?,
            first: Position(next()?),
            previous: next()?,
            end: next()?,
            next: Position(next()?),
            last: next()?,
            erased: Position(next()?),
            blocks: next()?,
            index: next()?,
            length: next()?,
        })
    }

    /// The place after the last frame.
    pub(super) fn end_place(&self) -> Place {
        Place {
            segment: self.number,
            offset: self.end,
            position: self.next,
            previous: self.last,
        }
    }
}

fn with_checksum(checksum: u64, rest: Vec<u8>) -> Vec<u8> {
    let mut bytes = checksum.to_le_bytes().to_vec();
    bytes.extend(rest);
    bytes
}

/// The seed of the checksums of blocks: a block of another segment never passes.
fn seed(mark: u64, number: u64) -> u64 {
    mark ^ number.wrapping_add(1).rotate_left(32)
}

/// Compresses bytes of a segment to a block.
pub(super) fn block(mark: u64, number: u64, offset: u64, raw: &[u8]) -> std::io::Result<Vec<u8>> {
    let stored = zstd::bulk::compress(raw, LEVEL)?;
    let mut rest = offset.to_le_bytes().to_vec();
    rest.extend((raw.len() as u32).to_le_bytes());
    rest.extend((stored.len() as u32).to_le_bytes());
    rest.extend(stored);
    let checksum = xxh3_64_with_seed(&rest, seed(mark, number));
    Ok(with_checksum(checksum, rest))
}

/// The index of blocks: their offsets in the file and in the segment.
pub(super) fn index(mark: u64, number: u64, blocks: &[(u64, u64)]) -> Vec<u8> {
    let numbers = blocks.iter().flat_map(|(file, raw)| [*file, *raw]);
    let rest: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    with_checksum(xxh3_64_with_seed(&rest, seed(mark, number)), rest)
}

/// The blocks of a segment.
pub(super) struct Blocks {
    file: File,
    header: Header,
    /// Offsets in the file and in the segment, once they were read.
    index: Option<Vec<(u64, u64)>>,
}

impl Blocks {
    pub(super) fn new(file: File, header: Header) -> Self {
        Self {
            file,
            header,
            index: None,
        }
    }

    fn read(&self, offset: u64, len: usize, path: &Path) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map_err(files::failed("read the log", path))?;
        Ok(bytes)
    }

    fn index(&mut self, path: &Path) -> Result<&[(u64, u64)]> {
        if self.index.is_none() {
            self.index = Some(self.read_index(path)?);
        }
        Ok(self.index.as_deref().unwrap_or_default())
    }

    fn read_index(&self, path: &Path) -> Result<Vec<(u64, u64)>> {
        let damaged = || files::damaged("the index of a compressed segment is damaged", path);
        let len = self.header.length.checked_sub(self.header.index);
        let len = len.filter(|len| Some(*len) == self.header.blocks.checked_mul(16).map(|n| n + 8));
        let len = len.and_then(|len| usize::try_from(len).ok());
        let bytes = self.read(self.header.index, len.ok_or_else(damaged)?, path)?;
        let (checksum, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        let seed = seed(self.header.mark, self.header.number);
        if xxh3_64_with_seed(rest, seed) != u64::from_le_bytes(*checksum) {
            return Err(damaged());
        }
        let mut fields = Fields(rest);
        let mut blocks = Vec::with_capacity(rest.len() / 16);
        while let (Some(file), Some(raw)) = (fields.u64(), fields.u64()) {
            blocks.push((file, raw));
        }
        Ok(blocks)
    }

    /// The offset at which the block of this offset begins.
    pub(super) fn start_of(&mut self, offset: u64, path: &Path) -> Result<u64> {
        let (_, raw) = self.block_of(offset, path)?;
        Ok(raw)
    }

    fn block_of(&mut self, offset: u64, path: &Path) -> Result<(u64, u64)> {
        let blocks = self.index(path)?;
        let after = blocks.partition_point(|(_, raw)| *raw <= offset);
        let found = after.checked_sub(1).and_then(|at| blocks.get(at)).copied();
        found.ok_or_else(|| {
            files::damaged("a place is not in its segment", path).fact("offset", offset)
        })
    }

    /// Appends the bytes of the block that begins at an offset.
    pub(super) fn append(&mut self, offset: u64, to: &mut Vec<u8>, path: &Path) -> Result<()> {
        let (at, raw_offset) = self.block_of(offset, path)?;
        let damaged = || files::damaged("a block of the log is damaged", path).fact("offset", at);
        let header = self.read(at, BLOCK_HEADER, path)?;
        let (checksum, mut rest) = header.split_first_chunk::<8>().ok_or_else(damaged)?;
        let head = rest;
        let mut fields = Fields(rest);
        let (Some(begins), Some(raw), Some(stored)) = (fields.u64(), fields.u32(), fields.u32())
        else {
            return Err(damaged());
        };
        rest = fields.0;
        debug_assert!(rest.is_empty());
        let end = at + BLOCK_HEADER as u64 + u64::from(stored);
        if (begins, raw_offset) != (offset, offset) || end > self.header.index {
            return Err(damaged());
        }
        let bytes = self.read(at + BLOCK_HEADER as u64, stored as usize, path)?;
        let mut hash =
            xxhash_rust::xxh3::Xxh3::with_seed(seed(self.header.mark, self.header.number));
        hash.update(head);
        hash.update(&bytes);
        if hash.digest() != u64::from_le_bytes(*checksum) || raw as usize > BLOCK {
            return Err(damaged());
        }
        let raw_bytes = zstd::bulk::decompress(&bytes, raw as usize);
        let raw_bytes = raw_bytes.map_err(|cause| damaged().because(cause))?;
        if raw_bytes.len() != raw as usize || raw_bytes.is_empty() {
            return Err(damaged());
        }
        to.extend(raw_bytes);
        Ok(())
    }
}

/// What the header of a segment says, whether it is compressed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnyHeader {
    Raw(segment::Header),
    Compressed(Header),
}

impl AnyHeader {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unusable> {
        match Header::is_here(bytes) {
            true => Header::decode(bytes).map(Self::Compressed),
            false => {
                let bytes = bytes.get(..segment::HEADER).unwrap_or(bytes);
                segment::Header::decode(bytes).map(Self::Raw)
            }
        }
    }

    pub(super) fn mark(&self) -> u64 {
        match self {
            Self::Raw(header) => header.mark,
            Self::Compressed(header) => header.mark,
        }
    }

    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Raw(header) => header.number,
            Self::Compressed(header) => header.number,
        }
    }

    /// The length of the file.
    pub(super) fn file_len(&self) -> u64 {
        match self {
            Self::Raw(header) => header.length,
            Self::Compressed(header) => header.length,
        }
    }

    /// The offset after the last byte of the segment.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Raw(header) => header.length,
            Self::Compressed(header) => header.end,
        }
    }

    /// The place of the segment's first frame.
    pub(super) fn start(&self) -> Place {
        let (number, first, previous) = match self {
            Self::Raw(header) => (header.number, header.first, header.previous),
            Self::Compressed(header) => (header.number, header.first, header.previous),
        };
        Place {
            segment: number,
            offset: segment::HEADER as u64,
            position: first,
            previous,
        }
    }

    /// The header of a raw file with frames of this segment.
    pub(super) fn to_raw(self) -> segment::Header {
        match self {
            Self::Raw(header) => header,
            Self::Compressed(header) => segment::Header {
                mark: header.mark,
                number: header.number,
                first: header.first,
                previous: header.previous,
                length: segment::FIRST_LENGTH.max(header.end),
            },
        }
    }

    /// The highest position that superseded a change that is erased here.
    pub(super) fn erased(&self) -> Option<Position> {
        match self {
            Self::Compressed(header) => Some(header.erased).filter(|erased| erased.0 > 0),
            Self::Raw(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_TWO: Header = Header {
        mark: 11,
        number: 2,
        first: Position(500),
        previous: 77,
        end: 1 << 20,
        next: Position(900),
        last: 78,
        erased: Position(1000),
        blocks: 4,
        index: 5000,
        length: 5072,
    };

    #[test]
    fn a_header_reads_back_and_every_flipped_bit_is_noticed() {
        let bytes = OF_TWO.encode();
        assert_eq!(bytes.len(), HEADER);
        assert_eq!(AnyHeader::decode(&bytes), Ok(AnyHeader::Compressed(OF_TWO)));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                AnyHeader::decode(&damaged),
                Err(Unusable::Damaged),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_newer_version_is_told_apart_from_damage() {
        let mut bytes = OF_TWO.encode();
        bytes[16] = 2;
        let checksum = xxh3_64(&bytes[8..]);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(AnyHeader::decode(&bytes), Err(Unusable::Newer(2)));
    }
}
