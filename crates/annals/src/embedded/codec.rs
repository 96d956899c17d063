//! The engine's bytes: keys that sort as in DynamoDB, and items as a format byte, their size and CBOR.
//!
//! Guarantees: key bytes compare as their keys do; no key of a table or index is a prefix of another;
//! the keys of a partition are adjacent; equal ranges of the hash hold equal shares of the partitions.
//! An item decodes unchanged; bytes that are not an item are `Corrupt`, never another item. The bytes
//! are part of the stored format (`docs/format.md`): key bytes never change, and every earlier format
//! of items can be read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;
use minicbor::data::{Tag, Type};
use minicbor::{Decoder, Encoder};

use super::index::Kind;
use crate::items::{Direction, Item, Key, KeyPart, Number, Segment, SortRange, Value};
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

/// The first byte of a stored item.
const FORMAT: u8 = 1;
/// The format byte and the size, big-endian.
const HEADER_BYTES: usize = 5;

/// CBOR's registered tags for bignums, decimal fractions and sets.
const TAG_POSITIVE: Tag = Tag::new(2);
const TAG_NEGATIVE: Tag = Tag::new(3);
const TAG_DECIMAL: Tag = Tag::new(4);
const TAG_SET: Tag = Tag::new(258);

/// Values nest at most 32 levels; deeper bytes are not ours.
const DEPTH_MAX: usize = 40;

type Out<'a> = Encoder<&'a mut Vec<u8>>;
type Written<'a> = std::result::Result<(), minicbor::encode::Error<std::convert::Infallible>>;
type Read<T> = std::result::Result<T, minicbor::decode::Error>;

/// Encodes an item whose size is known.
pub(super) fn encode_item(item: &Item, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + size + 4 * item.len() + 8);
    bytes.push(FORMAT);
    bytes.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
    let mut out = Encoder::new(&mut bytes);
    let written = write_map(&mut out, item.len(), item.iter());
    // Writing to memory cannot fail.
    debug_assert!(written.is_ok());
    bytes
}

fn write_map<'a, 'v>(
    out: &mut Out<'a>,
    len: usize,
    members: impl Iterator<Item = (&'v str, &'v Value)>,
) -> Written<'a> {
    out.map(len as u64)?;
    for (name, value) in members {
        out.str(name)?;
        write_value(out, value)?;
    }
    Ok(())
}

fn write_value<'a>(out: &mut Out<'a>, value: &Value) -> Written<'a> {
    match value {
        Value::S(text) => out.str(text)?.ok(),
        Value::N(number) => write_number(out, *number),
        Value::B(bytes) => out.bytes(bytes)?.ok(),
        Value::Bool(truth) => out.bool(*truth)?.ok(),
        Value::Null => out.null()?.ok(),
        Value::L(list) => {
            out.array(list.len() as u64)?;
            list.iter().try_for_each(|member| write_value(out, member))
        }
        Value::M(map) => write_map(out, map.len(), map.iter().map(|(n, v)| (n.as_str(), v))),
        Value::Ss(set) => {
            out.tag(TAG_SET)?.array(set.len() as u64)?;
            set.iter().try_for_each(|text| out.str(text)?.ok())
        }
        Value::Ns(set) => {
            out.tag(TAG_SET)?.array(set.len() as u64)?;
            set.iter().try_for_each(|number| write_number(out, *number))
        }
        Value::Bs(set) => {
            out.tag(TAG_SET)?.array(set.len() as u64)?;
            set.iter().try_for_each(|bytes| out.bytes(bytes)?.ok())
        }
    }
}

fn write_number<'a>(out: &mut Out<'a>, number: Number) -> Written<'a> {
    if let Some(n) = number.to_u64() {
        return out.u64(n)?.ok();
    }
    if let Some(n) = number.to_i64() {
        return out.i64(n)?.ok();
    }
    let (mantissa, exponent) = number.parts();
    out.tag(TAG_DECIMAL)?.array(2)?.i16(exponent)?;
    if let Ok(n) = i64::try_from(mantissa) {
        return out.i64(n)?.ok();
    }
    // A negative bignum is -1 minus its bytes.
    let (tag, magnitude) = match mantissa {
        0.. => (TAG_POSITIVE, mantissa.unsigned_abs()),
        _ => (TAG_NEGATIVE, mantissa.unsigned_abs() - 1),
    };
    out.tag(tag)?.bytes(&magnitude.to_be_bytes())?.ok()
}

/// The size of the stored item, without decoding the rest.
pub(super) fn stored_size(bytes: &[u8]) -> Result<usize> {
    let header = bytes.first_chunk::<HEADER_BYTES>();
    match header {
        Some([FORMAT, size @ ..]) => Ok(u32::from_be_bytes(*size) as usize),
        Some([format, ..]) => Err(Error::corrupt(
            "stored item has an unknown format; update annals",
        )
        .fact("format", format)),
        None => Err(Error::corrupt("stored item is cut short")),
    }
}

/// Decodes a stored item.
pub(super) fn decode_item(bytes: &[u8]) -> Result<Item> {
    stored_size(bytes)?;
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let mut input = Decoder::new(body);
    let item = read_map(&mut input, 0).and_then(|map| {
        if input.position() == body.len() {
            return Ok(map.into_iter().collect());
        }
        Err(minicbor::decode::Error::message("bytes after the end"))
    });
    item.map_err(|e| Error::corrupt("stored item does not parse").because(e))
}

fn read_map(input: &mut Decoder<'_>, depth: usize) -> Read<BTreeMap<String, Value>> {
    let members = length(input.map()?)?;
    (0..members)
        .map(|_| Ok((input.str()?.to_owned(), read_value(input, depth + 1)?)))
        .collect()
}

fn read_value(input: &mut Decoder<'_>, depth: usize) -> Read<Value> {
    if depth > DEPTH_MAX {
        return Err(minicbor::decode::Error::message("nested too deep"));
    }
    Ok(match input.datatype()? {
        Type::String => Value::S(input.str()?.to_owned()),
        Type::Bytes => Value::B(Bytes::copy_from_slice(input.bytes()?)),
        Type::Bool => Value::Bool(input.bool()?),
        Type::Null => {
            input.null()?;
            Value::Null
        }
        Type::Array => {
            let members = length(input.array()?)?;
            let members = (0..members).map(|_| read_value(input, depth + 1));
            Value::L(members.collect::<Read<_>>()?)
        }
        Type::Map => Value::M(read_map(input, depth)?),
        Type::Tag if input.probe().tag()? == TAG_SET => {
            input.tag()?;
            read_set(input)?
        }
        _ => Value::N(read_number(input)?),
    })
}

fn read_set(input: &mut Decoder<'_>) -> Read<Value> {
    let members = length(input.array()?)?;
    Ok(match input.datatype()? {
        Type::String => {
            let set = (0..members).map(|_| Ok(input.str()?.to_owned()));
            Value::Ss(set.collect::<Read<BTreeSet<_>>>()?)
        }
        Type::Bytes => {
            let set = (0..members).map(|_| Ok(Bytes::copy_from_slice(input.bytes()?)));
            Value::Bs(set.collect::<Read<BTreeSet<_>>>()?)
        }
        _ => {
            let set = (0..members).map(|_| read_number(input));
            Value::Ns(set.collect::<Read<BTreeSet<_>>>()?)
        }
    })
}

fn read_number(input: &mut Decoder<'_>) -> Read<Number> {
    let invalid = |_| minicbor::decode::Error::message("number out of range");
    if input.datatype()? != Type::Tag {
        let n = i128::from(input.int()?);
        return Number::from_parts(n, 0).map_err(invalid);
    }
    if input.tag()? != TAG_DECIMAL || input.array()? != Some(2) {
        return Err(minicbor::decode::Error::message("not a number"));
    }
    let exponent = input.i16()?;
    let mantissa = match input.datatype()? {
        Type::Tag => {
            let tag = input.tag()?;
            let bytes = <[u8; 16]>::try_from(input.bytes()?)
                .map_err(|_| minicbor::decode::Error::message("bignum of another length"))?;
            let magnitude = i128::from_be_bytes(bytes);
            match tag {
                TAG_POSITIVE => magnitude,
                TAG_NEGATIVE => -1 - magnitude,
                _ => return Err(minicbor::decode::Error::message("not a bignum")),
            }
        }
        _ => i128::from(input.int()?),
    };
    Number::from_parts(mantissa, exponent).map_err(invalid)
}

fn length(announced: Option<u64>) -> Read<u64> {
    announced.ok_or_else(|| minicbor::decode::Error::message("length is not given"))
}

#[cfg(test)]
#[path = "codec_item_tests.rs"]
mod item_tests;
#[cfg(test)]
#[path = "codec_key_tests.rs"]
mod key_tests;
