//! The engine's keys: bytes that sort as in DynamoDB. The bytes of items are in `items/encoding.rs`.
//!
//! Guarantees: key bytes compare as their keys do; no key of a table or index is a prefix of another;
//! the keys of a partition are adjacent; equal ranges of the hash hold equal shares of the partitions.
//! The bytes are part of the stored format (`docs/format.md`) and never change.

use std::ops::Bound;

use super::index::Kind;
pub(super) use crate::items::encoding::{decode_item, encode_item, read_item, stored_size};
use crate::items::{Direction, Key, KeyPart, KeySchema, KeyType, Number, Segment, SortRange};
use crate::{Error, Result};

/// Bytes of a partition's hash at the beginning of its keys.
const HASH_BYTES: usize = 2;
const HASHES: u64 = 1 << (8 * HASH_BYTES);

/// Terminates text and bytes. Zero bytes inside are escaped to `00 FF`, which sorts after it.
const END: [u8; 2] = [0x00, 0x01];

/// A range of the engine's keys.
pub(super) type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Enough bytes for most keys and their prefix.
const KEY_CAPACITY: usize = 96;
/// Maximum digits of a mantissa.
const DIGITS_MAX: usize = 39;

/// The prefix of a table's items.
pub(super) fn items_prefix(table: u32) -> Vec<u8> {
    prefix(Kind::Item, table)
}

/// The prefix of the entries of a table's index.
pub(super) fn entries_prefix(table: u32, index: u8) -> Vec<u8> {
    let mut bytes = prefix(Kind::Entry, table);
    bytes.push(index);
    bytes
}

fn prefix(kind: Kind, table: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(KEY_CAPACITY);
    bytes.push(kind as u8);
    bytes.extend_from_slice(&table.to_be_bytes());
    bytes
}

/// Appends bytes to a prefix.
pub(super) fn prefixed(mut prefix: Vec<u8>, bytes: &[u8]) -> Vec<u8> {
    prefix.extend_from_slice(bytes);
    prefix
}

/// A range within a prefix.
pub(super) fn inside(prefix: &[u8], (start, end): KeyRange) -> KeyRange {
    let with = |bytes: Vec<u8>| prefixed(prefix.to_vec(), &bytes);
    let start = match start {
        Bound::Included(bytes) => Bound::Included(with(bytes)),
        Bound::Excluded(bytes) => Bound::Excluded(with(bytes)),
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
    };
    let end = match end {
        Bound::Included(bytes) => Bound::Included(with(bytes)),
        Bound::Excluded(bytes) => Bound::Excluded(with(bytes)),
        Bound::Unbounded => after_prefix(prefix.to_vec()),
    };
    (start, end)
}

/// The range of all keys with a prefix.
pub(super) fn all(prefix: &[u8]) -> KeyRange {
    inside(prefix, (Bound::Unbounded, Bound::Unbounded))
}

/// Whether this is the key of an item.
pub(super) fn is_item(key: &[u8]) -> bool {
    key.first() == Some(&(Kind::Item as u8))
}

/// The table of the key of an item or an index entry.
pub(super) fn table_of(key: &[u8]) -> Option<u32> {
    let (kind, rest) = key.split_first()?;
    let has_table = [Kind::Item as u8, Kind::Entry as u8].contains(kind);
    let number = rest.first_chunk().filter(|_| has_table)?;
    Some(u32::from_be_bytes(*number))
}

/// The bytes of a key in a table.
pub(super) fn key_bytes(key: &Key) -> Vec<u8> {
    with_key(Vec::with_capacity(KEY_CAPACITY), key)
}

/// The key of these bytes, which [`key_bytes`] made.
pub(super) fn decode_key(schema: &KeySchema, bytes: &[u8]) -> Result<Key> {
    let parse = || {
        let mut attributes = schema.attributes();
        let mut rest = bytes.get(HASH_BYTES..)?;
        let partition = take_part(attributes.next()?.key_type, &mut rest)?;
        let sort = match attributes.next() {
            Some(sort) => Some(take_part(sort.key_type, &mut rest)?),
            None => None,
        };
        rest.is_empty().then_some(Key { partition, sort })
    };
    parse().ok_or_else(|| Error::corrupt("a key in the log does not parse; restore a backup"))
}

fn take_part(key_type: KeyType, rest: &mut &[u8]) -> Option<KeyPart> {
    Some(match key_type {
        KeyType::S => KeyPart::S(String::from_utf8(take_escaped(rest)?).ok()?),
        KeyType::B => KeyPart::B(take_escaped(rest)?.into()),
        KeyType::N => KeyPart::N(take_number(rest)?),
    })
}

fn take_escaped(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut raw = Vec::with_capacity(rest.len());
    loop {
        let zero = rest.iter().position(|byte| *byte == 0)?;
        let (before, after) = rest.split_at_checked(zero)?;
        raw.extend_from_slice(before);
        let (pair, after) = after.split_first_chunk::<2>()?;
        *rest = after;
        match *pair {
            END => return Some(raw),
            [_, 0xFF] => raw.push(0),
            _ => return None,
        }
    }
}

/// The number of the bytes that [`push_number`] wrote.
fn take_number(rest: &mut &[u8]) -> Option<Number> {
    let (sign, after) = rest.split_first()?;
    *rest = after;
    let flip = match sign {
        1 => 0xFF,
        2 => return Some(Number::ZERO),
        3 => 0,
        _ => return None,
    };
    let (magnitude, after) = rest.split_first()?;
    let end = after.iter().position(|byte| byte ^ flip == 0)?;
    let (pairs, after) = after.split_at_checked(end)?;
    *rest = after.get(1..)?;
    let pairs = pairs.iter().map(|byte| i128::from((byte ^ flip) - 1));
    let mantissa = pairs.clone().try_fold(0i128, |number, pair| {
        number.checked_mul(100)?.checked_add(pair)
    })?;
    let digits = 2 * i32::try_from(pairs.len()).ok()?;
    let exponent = i32::from(magnitude ^ flip) - 129 - digits;
    let mantissa = if flip == 0 { mantissa } else { -mantissa };
    Number::from_parts(mantissa, i16::try_from(exponent).ok()?).ok()
}

/// Appends a key to bytes.
pub(super) fn with_key(mut bytes: Vec<u8>, key: &Key) -> Vec<u8> {
    push_partition(&mut bytes, &key.partition);
    if let Some(sort) = &key.sort {
        push_part(&mut bytes, sort);
    }
    bytes
}

/// The bytes of an index entry: its key in the index, then the item's key.
pub(super) fn entry_bytes(entry: &Key, item_key: &[u8]) -> Vec<u8> {
    prefixed(key_bytes(entry), item_key)
}

fn partition_bytes(partition: &KeyPart) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(KEY_CAPACITY);
    push_partition(&mut bytes, partition);
    bytes
}

fn push_partition(bytes: &mut Vec<u8>, partition: &KeyPart) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; HASH_BYTES]);
    push_part(bytes, partition);
    let hashed = bytes.iter().skip(start + HASH_BYTES);
    let hash = hashed.fold(FNV_BASIS, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)
    });
    // The low bits of FNV-1a mix least, so fold all bits into the two bytes.
    let folded = (hash ^ (hash >> 16) ^ (hash >> 32) ^ (hash >> 48)) as u16;
    for (byte, hashed) in bytes.iter_mut().skip(start).zip(folded.to_be_bytes()) {
        *byte = hashed;
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn push_part(bytes: &mut Vec<u8>, part: &KeyPart) {
    match part {
        KeyPart::S(text) => push_escaped(bytes, text.as_bytes(), &END),
        KeyPart::B(raw) => push_escaped(bytes, raw, &END),
        KeyPart::N(number) => push_number(bytes, *number),
    }
}

fn push_escaped(bytes: &mut Vec<u8>, raw: &[u8], end: &[u8]) {
    for byte in raw {
        bytes.push(*byte);
        if *byte == 0 {
            bytes.push(0xFF);
        }
    }
    bytes.extend_from_slice(end);
}

/// Sign, magnitude, then pairs of digits, each plus one so that the terminating zero sorts first. All
/// but the sign is inverted for negative numbers.
fn push_number(bytes: &mut Vec<u8>, number: Number) {
    let (mantissa, exponent) = number.parts();
    bytes.push(match mantissa.signum() {
        -1 => 1,
        0 => 2,
        _ => 3,
    });
    if mantissa == 0 {
        return;
    }
    let start = bytes.len();
    let (mut buffer, mut len, mut rest) = ([0; DIGITS_MAX], 0, mantissa.unsigned_abs());
    for digit in buffer.iter_mut().rev() {
        (*digit, rest, len) = ((rest % 10) as u8, rest / 10, len + 1);
        if rest == 0 {
            break;
        }
    }
    let digits = buffer.get(DIGITS_MAX - len..).unwrap_or_default();
    // The first digit is between 10^-130 and 10^125: with this bias, between 0 and 255.
    let magnitude = len as i32 + i32::from(exponent) + 129;
    bytes.push(magnitude.clamp(0, 255) as u8);
    for pair in digits.chunks(2) {
        bytes.push(match *pair {
            [tens, ones] => tens * 10 + ones + 1,
            [tens] => tens * 10 + 1,
            _ => 1,
        });
    }
    bytes.push(0);
    if mantissa < 0 {
        bytes.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

/// The end of the range of all keys that begin with `prefix`.
fn after_prefix(mut prefix: Vec<u8>) -> Bound<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < 0xFF {
            prefix.push(last + 1);
            return Bound::Excluded(prefix);
        }
    }
    Bound::Unbounded
}

/// The keys of a partition whose sort key is in the range.
pub(super) fn query_range(partition: &KeyPart, range: &SortRange) -> KeyRange {
    let base = partition_bytes(partition);
    let at = |part: &KeyPart| {
        let mut bytes = base.clone();
        push_part(&mut bytes, part);
        bytes
    };
    let from_start = || Bound::Included(base.clone());
    let to_end = || after_prefix(base.clone());
    match range {
        SortRange::All => (from_start(), to_end()),
        SortRange::Equal(part) => (Bound::Included(at(part)), after_prefix(at(part))),
        SortRange::AtLeast(low) => (Bound::Included(at(low)), to_end()),
        SortRange::Above(low) => (start_at(after_prefix(at(low))), to_end()),
        SortRange::AtMost(high) => (from_start(), after_prefix(at(high))),
        SortRange::Below(high) => (from_start(), Bound::Excluded(at(high))),
        SortRange::Between(low, high) => (Bound::Included(at(low)), after_prefix(at(high))),
        SortRange::BeginsWith(prefix) => {
            let mut bytes = base.clone();
            match prefix {
                KeyPart::S(text) => push_escaped(&mut bytes, text.as_bytes(), &[]),
                KeyPart::B(raw) => push_escaped(&mut bytes, raw, &[]),
                KeyPart::N(number) => push_number(&mut bytes, *number),
            }
            (Bound::Included(bytes.clone()), after_prefix(bytes))
        }
    }
}

/// An exclusive end as the start of what follows.
fn start_at(end: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    match end {
        Bound::Excluded(bytes) => Bound::Included(bytes),
        other => other,
    }
}

/// The keys of a segment of a table.
pub(super) fn segment_range(segment: Segment) -> KeyRange {
    let start_of = |index: u32| u64::from(index) * HASHES / u64::from(segment.of.max(1));
    let bytes = |hash: u64| (hash as u16).to_be_bytes().to_vec();
    let end = start_of(segment.index.saturating_add(1));
    let end = if end < HASHES {
        Bound::Excluded(bytes(end))
    } else {
        Bound::Unbounded
    };
    (Bound::Included(bytes(start_of(segment.index))), end)
}

/// The rest of a range after `last`.
pub(super) fn resume(range: KeyRange, last: Vec<u8>, direction: Direction) -> KeyRange {
    let (start, end) = range;
    match direction {
        Direction::Ascending if is_before(&start, &last) => (Bound::Excluded(last), end),
        Direction::Descending if is_after(&end, &last) => (start, Bound::Excluded(last)),
        _ => (start, end),
    }
}

fn is_before(start: &Bound<Vec<u8>>, last: &[u8]) -> bool {
    match start {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes.as_slice() <= last,
        Bound::Unbounded => true,
    }
}

fn is_after(end: &Bound<Vec<u8>>, last: &[u8]) -> bool {
    match end {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes.as_slice() >= last,
        Bound::Unbounded => true,
    }
}

#[cfg(test)]
#[path = "codec_key_tests.rs"]
mod key_tests;
