//! Frames: the changes of one group, with a header.
//!
//! ```text
//!  0  checksum   u64   of all that follows, seeded with the mark
//!  8  mark       u64   the store's
//! 16  previous   u64   the checksum of the frame before
//! 24  first      u64   the position of the first change
//! 32  count      u32   changes
//! 36  length     u32   bytes of the changes
//! 40  time       u64   when the frame was written: ms since the Unix epoch, by the machine's clock
//! 48  changes          each: length of the key, length of the value plus one or 0 for a deletion, by
//!                      how many positions it follows the change that it supersedes or 0 if there is
//!                      none (LEB128), key, value
//!     zeros            up to a multiple of 8 bytes
//! ```
//! Numbers are little-endian.
//!
//! In a compressed segment, the key and the value of a superseded change may be erased: they are zeros
//! of the same length. Of an item only the value is, so that a reader of all changes knows whose it was.
//! No key begins with a zero, and no value of an item. The frame keeps its checksum, which the next
//! frame names; the checksum of the block covers the zeros.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Place, Position};
use crate::embedded::codec::is_item;

/// Bytes before the changes.
pub(super) const HEADER: usize = 48;
/// Frames begin at multiples of this.
pub(super) const ALIGN: usize = 8;
/// Bytes that a frame takes in the log besides its changes, at most.
pub(in super::super) const FRAME_ROOM: u64 = (HEADER + ALIGN) as u64;
/// Bytes that a change takes besides its key and value, at most: three numbers.
pub(in super::super) const CHANGE_ROOM: u64 = 3 * 10;

/// One key that was put or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Change<'a> {
    pub(in super::super) position: Position,
    pub(in super::super) key: &'a [u8],
    /// `None`: deleted.
    pub(in super::super) value: Option<&'a [u8]>,
    /// The earlier change of the same key, whose value this one replaces or deletes.
    pub(in super::super) supersedes: Option<Position>,
}

impl Change<'_> {
    /// Whether the value is no longer in the log.
    pub(in super::super) fn is_erased(&self) -> bool {
        match is_item(self.key) {
            true => self.value.is_some_and(|value| value.first() == Some(&0)),
            false => self.key.first() == Some(&0),
        }
    }
}

/// The frame of a group that is being collected.
#[derive(Debug)]
pub(in super::super) struct Frame {
    bytes: Vec<u8>,
    first: Position,
    count: u32,
    /// Bytes of the log's room that were promised for it.
    promised: u64,
}

impl Frame {
    /// An empty frame whose first change has this position.
    pub(in super::super) fn at(first: Position) -> Self {
        Self {
            bytes: vec![0; HEADER],
            first,
            count: 0,
            promised: 0,
        }
    }

    /// So many bytes of the log's room were promised for changes of this frame.
    pub(in super::super) fn promise(&mut self, bytes: u64) {
        self.promised += bytes;
    }

    pub(super) fn promised(&self) -> u64 {
        self.promised
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The position of the next change.
    pub(in super::super) fn end(&self) -> Position {
        self.first.plus(self.count.into())
    }

    /// Bytes of the changes so far.
    pub(in super::super) fn len(&self) -> usize {
        self.bytes.len() - HEADER
    }

    /// Adds a change, which supersedes an earlier one of its key or none.
    pub(in super::super) fn push(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        supersedes: Option<Position>,
    ) {
        let distance = supersedes.map_or(0, |earlier| self.end().0.saturating_sub(earlier.0));
        push_number(&mut self.bytes, key.len() as u64);
        push_number(
            &mut self.bytes,
            value.map_or(0, |value| value.len() as u64 + 1),
        );
        push_number(&mut self.bytes, distance);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.count += 1;
    }

    /// The bytes to write at a place, and the frame's checksum.
    pub(super) fn seal(&mut self, mark: u64, previous: u64, time_ms: u64) -> (&[u8], u64) {
        let length = self.len() as u32;
        self.bytes
            .resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        let fields = [
            &mark.to_le_bytes()[..],
            &previous.to_le_bytes(),
            &self.first.0.to_le_bytes(),
            &self.count.to_le_bytes(),
            &length.to_le_bytes(),
            &time_ms.to_le_bytes(),
        ];
        let fields = fields.into_iter().flatten();
        for (byte, field) in self.bytes.iter_mut().skip(8).zip(fields) {
            *byte = *field;
        }
        let checksum = checksum(mark, self.bytes.get(8..).unwrap_or_default());
        for (byte, sum) in self.bytes.iter_mut().zip(checksum.to_le_bytes()) {
            *byte = sum;
        }
        (&self.bytes, checksum)
    }
}

fn checksum(mark: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, mark)
}

/// The fields of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) checksum: u64,
    pub(super) previous: u64,
    pub(super) first: Position,
    pub(super) count: u32,
    pub(super) length: usize,
    pub(super) time_ms: u64,
}

impl Header {
    /// Parses a header with the store's mark. Only [`Self::check`] knows whether it is right.
    pub(super) fn parse(bytes: &[u8], mark: u64) -> Option<Self> {
        let mut fields = Fields(bytes);
        let checksum = fields.u64()?;
        if fields.u64()? != mark {
            return None;
        }
        Some(Self {
            checksum,
            previous: fields.u64()?,
            first: Position(fields.u64()?),
            count: fields.u32()?,
            length: usize::try_from(fields.u32()?).ok()?,
            time_ms: fields.u64()?,
        })
    }

    /// Bytes of the frame in the file.
    pub(super) fn frame_len(&self) -> usize {
        (HEADER + self.length).next_multiple_of(ALIGN)
    }

    /// Whether these are the bytes of the frame.
    pub(super) fn check(&self, bytes: &[u8], mark: u64) -> bool {
        bytes.len() == self.frame_len()
            && bytes
                .get(8..)
                .is_some_and(|rest| checksum(mark, rest) == self.checksum)
    }

    /// The position after the frame.
    pub(super) fn end(&self) -> Position {
        self.first.plus(self.count.into())
    }

    /// The place after this frame, which begins at `place`.
    pub(super) fn after(&self, place: Place) -> Place {
        Place {
            segment: place.segment,
            offset: place.offset + self.frame_len() as u64,
            position: self.end(),
            previous: self.checksum,
        }
    }
}

/// The changes of a frame that was checked; `None` if they do not parse.
pub(super) fn changes<'a>(header: &Header, frame: &'a [u8]) -> Option<Vec<Change<'a>>> {
    let spans = spans(header, frame)?;
    let change = |span: Span| {
        Some(Change {
            position: span.position,
            key: frame.get(span.key)?,
            value: match span.value {
                Some(value) => Some(frame.get(value)?),
                None => None,
            },
            supersedes: span.supersedes,
        })
    };
    spans.into_iter().map(change).collect()
}

/// Whether the frame has erased changes. Then its checksum is not that of its bytes.
pub(super) fn has_erased(header: &Header, frame: &[u8]) -> bool {
    let padding = frame.get(HEADER + header.length..).unwrap_or_default();
    padding.iter().all(|byte| *byte == 0)
        && changes(header, frame).is_some_and(|changes| changes.iter().any(Change::is_erased))
}

/// Where a change is in its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) position: Position,
    pub(super) key: Range<usize>,
    pub(super) value: Option<Range<usize>>,
    pub(super) supersedes: Option<Position>,
}

/// Where the changes of a frame are; `None` if they do not parse.
pub(super) fn spans(header: &Header, frame: &[u8]) -> Option<Vec<Span>> {
    let end = HEADER + header.length;
    let all = frame.get(..end)?;
    let mut at = HEADER;
    let mut position = header.first;
    let mut spans = Vec::with_capacity((header.count as usize).min(header.length));
    for _ in 0..header.count {
        let mut rest = all.get(at..)?;
        let key_len = usize::try_from(take_number(&mut rest)?).ok()?;
        let value_len = usize::try_from(take_number(&mut rest)?).ok()?;
        let distance = take_number(&mut rest)?;
        let key = end - rest.len()..(end - rest.len()).checked_add(key_len)?;
        at = key.end.checked_add(value_len.saturating_sub(1))?;
        let value = key.end..at;
        if at > end {
            return None;
        }
        let supersedes = match distance {
            0 => None,
            _ => Some(Position(position.0.checked_sub(distance)?)),
        };
        spans.push(Span {
            position,
            key,
            value: (value_len > 0).then_some(value),
            supersedes,
        });
        position = position.plus(1);
    }
    (at == end).then_some(spans)
}

/// Reads little-endian numbers one after the other.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    pub(super) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }
}

/// LEB128: seven bits a byte, the lowest first, the high bit set on all but the last.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: u64 = 0x1234_5678_9abc_def0;

    fn sealed() -> Vec<u8> {
        let mut frame = Frame::at(Position(7));
        frame.push(b"a", Some(b"one"), None);
        frame.push(b"b", None, Some(Position(3)));
        frame.push(&[b'k'; 200], Some(&[]), Some(Position(8)));
        frame.seal(MARK, 99, 1_700_000_000_123).0.to_vec()
    }

    #[test]
    fn a_frame_reads_back() {
        let bytes = sealed();
        let header = Header::parse(&bytes, MARK).unwrap();
        assert!(header.check(&bytes, MARK));
        assert_eq!(
            (header.previous, header.first, header.end()),
            (99, Position(7), Position(10))
        );
        assert_eq!(header.time_ms, 1_700_000_000_123);
        let long = [b'k'; 200];
        let want = [
            (7, &b"a"[..], Some(&b"one"[..]), None),
            (8, b"b", None, Some(3)),
            (9, &long, Some(&[]), Some(8)),
        ];
        let want = want.map(|(position, key, value, supersedes)| Change {
            position: Position(position),
            key,
            value,
            supersedes: supersedes.map(Position),
        });
        assert_eq!(changes(&header, &bytes).unwrap(), want);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let whole = sealed();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let is_right = Header::parse(&bytes, MARK).is_some_and(|header| {
                header.frame_len() == bytes.len() && header.check(&bytes, MARK)
            });
            assert!(!is_right, "bit {bit}");
        }
    }

    #[test]
    fn numbers_read_back() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX)] {
            let mut bytes = Vec::new();
            push_number(&mut bytes, number);
            let mut rest = bytes.as_slice();
            assert_eq!(take_number(&mut rest), Some(number));
            assert!(rest.is_empty());
        }
    }
}
