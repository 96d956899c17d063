//! The header of a segment, and the names of segments.
//!
//! ```text
//!  0  checksum   u64   of the rest of the header
//!  8  magic      8 B   "annalsLG"
//! 16  version    u64   1
//! 24  mark       u64   the store's
//! 32  number     u64   of the segment
//! 40  first      u64   the position of its first change
//! 48  previous   u64   the checksum of the last frame before it; the mark in the first segment
//! 56  length     u64   of the file
//! ```
//! Numbers are little-endian. A compressed segment has another header (`compressed.rs`), and the same
//! name.

use xxhash_rust::xxh3::xxh3_64;

use super::frame::Fields;
use super::{Place, Position};

/// Bytes before the first frame.
pub(super) const HEADER: usize = 64;
const MAGIC: &[u8; 8] = b"annalsLG";
const VERSION: u64 = 1;
/// The end of a segment's name.
const ENDING: &str = ".log";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) mark: u64,
    pub(super) number: u64,
    pub(super) first: Position,
    pub(super) previous: u64,
    pub(super) length: u64,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    Damaged,
    /// Its version is newer than this code.
    Newer(u64),
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(MAGIC);
        let numbers = [
            VERSION,
            self.mark,
            self.number,
            self.first.0,
            self.previous,
            self.length,
        ];
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let checksum = xxh3_64(bytes.get(8..).unwrap_or_default());
        for (byte, sum) in bytes.iter_mut().zip(checksum.to_le_bytes()) {
            *byte = sum;
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Unusable> {
        let damaged = Unusable::Damaged;
        let (checksum, rest) = bytes.split_first_chunk().ok_or(damaged)?;
        if xxh3_64(rest) != u64::from_le_bytes(*checksum) {
            return Err(damaged);
        }
        let rest = rest.strip_prefix(MAGIC).ok_or(damaged)?;
        let mut fields = Fields(rest);
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
            length: next()?,
        })
    }

    /// The place of the segment's first frame.
    pub(super) fn start(&self) -> Place {
        Place {
            segment: self.number,
            offset: HEADER as u64,
            position: self.first,
            previous: self.previous,
        }
    }
}

/// The name of a segment's file.
pub(super) fn name(number: u64) -> String {
    format!("{number:016}{ENDING}")
}

/// The number of the segment with this file name.
pub(super) fn number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(ENDING)?.parse().ok()?;
    (self::name(number) == name).then_some(number)
}

const MIB: u64 = 1024 * 1024;
/// The length of the first segment.
pub(super) const FIRST_LENGTH: u64 = MIB;

/// The length of the segment after one of which so much is used: small in a small store, so that a
/// folder of a few events stays small, then sixty-four MiB.
pub(super) fn length_after(used: u64) -> u64 {
    let wanted = used.saturating_mul(4).min(64 * MIB);
    wanted.next_power_of_two().max(FIRST_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_OF_TWO: Header = Header {
        mark: 11,
        number: 2,
        first: Position(500),
        previous: 77,
        length: 1 << 20,
    };

    #[test]
    fn a_header_reads_back_and_every_flipped_bit_is_noticed() {
        let bytes = HEADER_OF_TWO.encode();
        assert_eq!(bytes.len(), HEADER);
        assert_eq!(Header::decode(&bytes), Ok(HEADER_OF_TWO));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Header::decode(&damaged),
                Err(Unusable::Damaged),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn segments_grow_with_what_they_hold() {
        assert_eq!(length_after(100), MIB);
        assert_eq!(length_after(MIB), 4 * MIB);
        assert_eq!(length_after(4 * MIB - 1000), 16 * MIB);
        assert_eq!(length_after(64 * MIB), 64 * MIB);
        assert_eq!(length_after(u64::MAX / 4), 64 * MIB);
    }

    #[test]
    fn names_read_back_and_others_are_not_segments() {
        assert_eq!(number(&name(7)), Some(7));
        for other in ["next", "7.log", "0000000000000007.log.old", "x.log"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
