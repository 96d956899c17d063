//! The bytes of items: a format byte, their size and CBOR (`docs/format.md`).
//!
//! Guarantees: an item decodes unchanged; bytes that are not an item are `Corrupt`, never another item.
//! Every earlier format can be read.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use minicbor::data::{Tag, Type};
use minicbor::{Decoder, Encoder};

use super::stored::StoredItem;
use super::{Item, Number, Value};
use crate::{Error, Result};

/// The first byte of a stored item.
const FORMAT: u8 = 1;
/// The format byte and the size, big-endian.
pub(super) const HEADER_BYTES: usize = 5;

/// CBOR's registered tags for bignums, decimal fractions and sets.
const TAG_POSITIVE: Tag = Tag::new(2);
const TAG_NEGATIVE: Tag = Tag::new(3);
pub(super) const TAG_DECIMAL: Tag = Tag::new(4);
pub(super) const TAG_SET: Tag = Tag::new(258);

/// Values nest at most 32 levels; deeper bytes are not ours.
pub(super) const DEPTH_MAX: usize = 40;

type Out<'a> = Encoder<&'a mut Vec<u8>>;
type Written<'a> = std::result::Result<(), minicbor::encode::Error<std::convert::Infallible>>;
pub(super) type Read<T> = std::result::Result<T, minicbor::decode::Error>;

/// Encodes an item whose size is known. One that was read and not changed keeps its bytes.
pub(crate) fn encode_item(item: &Item, size: usize) -> Vec<u8> {
    if let Some(stored) = item.stored() {
        return stored.bytes().to_vec();
    }
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
pub(crate) fn stored_size(bytes: &[u8]) -> Result<usize> {
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
pub(crate) fn decode_item(bytes: &[u8]) -> Result<Item> {
    stored_size(bytes)?;
    let map = decode_map(bytes.get(HEADER_BYTES..).unwrap_or_default());
    map.map(Item::from_map).map_err(damaged)
}

/// The item of stored bytes, which are checked now and decoded when the attributes are asked for.
pub(crate) fn read_item(bytes: Bytes) -> Result<Item> {
    let size = stored_size(&bytes)?;
    StoredItem::new(bytes, size)
        .map(Item::from_stored)
        .map_err(damaged)
}

fn damaged(cause: minicbor::decode::Error) -> Error {
    Error::corrupt("stored item does not parse").because(cause)
}

/// Decodes what follows the header.
pub(super) fn decode_map(body: &[u8]) -> Read<BTreeMap<String, Value>> {
    let mut input = Decoder::new(body);
    let map = read_map(&mut input, 0)?;
    match input.position() == body.len() {
        true => Ok(map),
        false => Err(minicbor::decode::Error::message("bytes after the end")),
    }
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

pub(super) fn read_number(input: &mut Decoder<'_>) -> Read<Number> {
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
#[path = "encoding_tests.rs"]
mod tests;
