//! An item as it was read: its bytes, and the attributes in them when they are asked for.
//!
//! Guarantees: the bytes are an item. They are checked once, when they are read, without an allocation;
//! nothing fails later. An attribute has the same value in the bytes as in the map.
//!
//! The check is this file's own walk over CBOR: it accepts what `encoding.rs` writes, and nothing that
//! `encoding.rs` cannot decode.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use minicbor::Decoder;
use minicbor::decode::Error;

use super::encoding::{
    DEPTH_MAX, HEADER_BYTES, Read, TAG_DECIMAL, TAG_SET, decode_map, read_number,
};
use super::{Number, Value};

/// The attributes of an item.
pub(super) type Attributes = BTreeMap<String, Value>;

/// An item in its stored bytes.
#[derive(Clone)]
pub(crate) struct StoredItem {
    bytes: Bytes,
    size: usize,
    /// Decoded when the map is asked for.
    map: OnceLock<Box<Attributes>>,
}

impl StoredItem {
    /// The item of these bytes, whose header has the size.
    pub(super) fn new(bytes: Bytes, size: usize) -> Read<Self> {
        let mut walk = Walk::new(&bytes);
        walk.map(0)?;
        if !walk.rest.is_empty() {
            return Err(Error::message("bytes after the end"));
        }
        Ok(Self {
            bytes,
            size,
            map: OnceLock::new(),
        })
    }

    /// Its size by DynamoDB's rules.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The bytes as they are stored.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The attributes by name.
    pub(super) fn map(&self) -> &Attributes {
        self.map.get_or_init(|| Box::new(self.decoded()))
    }

    pub(super) fn into_map(mut self) -> Attributes {
        let map = self.map.take();
        map.map_or_else(|| self.decoded(), |map| *map)
    }

    fn decoded(&self) -> Attributes {
        match decode_map(self.bytes.get(HEADER_BYTES..).unwrap_or_default()) {
            Ok(map) => map,
            // A bug: the walk has accepted more than the decoder does.
            Err(cause) => unreachable!("the item was checked when it was read: {cause}"),
        }
    }

    /// The text of an attribute, if it is one.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let mut walk = self.find(name)?;
        let head = walk.head().ok()?;
        match head.major {
            TEXT => walk.text(head).ok(),
            _ => None,
        }
    }

    /// The bytes of an attribute, if it is a byte string. They share the item's.
    pub(super) fn byte_string(&self, name: &str) -> Option<Bytes> {
        let mut walk = self.find(name)?;
        let head = walk.head().ok()?;
        match head.major {
            BYTES => Some(self.bytes.slice_ref(walk.take(head).ok()?)),
            _ => None,
        }
    }

    /// The number of an attribute, if it is one and an unsigned integer.
    pub(super) fn u64(&self, name: &str) -> Option<u64> {
        let mut walk = self.find(name)?;
        let start = walk.rest;
        let head = walk.head().ok()?;
        match head.major {
            UNSIGNED => Some(head.argument),
            TAG if head.argument != TAG_SET.as_u64() => read_number(&mut Decoder::new(start))
                .ok()
                .and_then(Number::to_u64),
            _ => None,
        }
    }

    /// The value of an attribute. Names are in order, so the search ends early.
    fn find(&self, name: &str) -> Option<Walk<'_>> {
        let mut walk = Walk::new(&self.bytes);
        let members = walk.head().ok()?.argument;
        for _ in 0..members {
            let head = walk.head().ok()?;
            let found = walk.take(head).ok()?;
            if !is_before(found, name.as_bytes()) {
                return (found == name.as_bytes()).then_some(walk);
            }
            walk.value(1).ok()?;
        }
        None
    }
}

/// CBOR's major types.
const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;
/// False, true and null.
const SIMPLES: [u64; 3] = [20, 21, 22];

/// The beginning of a CBOR value: its type and its number, length or tag.
#[derive(Clone, Copy)]
struct Head {
    major: u8,
    argument: u64,
}

/// Whether a name sorts before another. Most names are one byte long; for those, calling the general
/// comparison takes longer than comparing.
#[inline]
fn is_before(name: &[u8], other: &[u8]) -> bool {
    match (name, other) {
        ([name], [other]) => name < other,
        (name, other) => name < other,
    }
}

/// Whether a name is UTF-8; as [`is_before`], with a short way for most names.
#[inline]
fn is_text(name: &[u8]) -> bool {
    match name {
        [only] => only.is_ascii(),
        name => std::str::from_utf8(name).is_ok(),
    }
}

/// Reads CBOR without keeping anything.
struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    /// Begins after the header of an item.
    fn new(bytes: &'a [u8]) -> Self {
        let rest = bytes.get(HEADER_BYTES..).unwrap_or_default();
        Self { rest }
    }

    #[inline]
    fn head(&mut self) -> Read<Head> {
        let (first, rest) = self.rest.split_first().ok_or_else(Error::end_of_input)?;
        self.rest = rest;
        let argument = match first & 0x1F {
            small @ 0..24 => u64::from(small),
            24 => self.array().map(|[byte]| u64::from(byte))?,
            25 => self.array().map(u16::from_be_bytes)?.into(),
            26 => self.array().map(u32::from_be_bytes)?.into(),
            27 => self.array().map(u64::from_be_bytes)?,
            _ => return Err(Error::message("length is not given")),
        };
        let major = first >> 5;
        // These are one byte: a longer form is something else.
        if major == SIMPLE && first & 0x1F > 23 {
            return Err(Error::message("not a value of an item"));
        }
        Ok(Head { major, argument })
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (array, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(Error::end_of_input)?;
        self.rest = rest;
        Ok(*array)
    }

    /// The bytes of a text or byte string.
    #[inline]
    fn take(&mut self, head: Head) -> Read<&'a [u8]> {
        let len = usize::try_from(head.argument).map_err(|_| Error::end_of_input())?;
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(Error::end_of_input)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn text(&mut self, head: Head) -> Read<&'a str> {
        let text = std::str::from_utf8(self.take(head)?);
        text.map_err(|_| Error::message("text is not UTF-8"))
    }

    /// A map.
    fn map(&mut self, depth: usize) -> Read<()> {
        let head = self.head()?;
        match head.major {
            MAP => self.members(head, depth),
            _ => Err(Error::message("not a map")),
        }
    }

    /// The members of a map: their names are in order, each once.
    fn members(&mut self, map: Head, depth: usize) -> Read<()> {
        let mut previous: Option<&[u8]> = None;
        for _ in 0..map.argument {
            let head = self.head()?;
            let name = match head.major {
                TEXT => self.take(head)?,
                _ => return Err(Error::message("a name is not a text")),
            };
            if !is_text(name) {
                return Err(Error::message("text is not UTF-8"));
            }
            if previous.is_some_and(|previous| !is_before(previous, name)) {
                return Err(Error::message("names are not in order"));
            }
            previous = Some(name);
            self.value(depth + 1)?;
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Read<()> {
        if depth > DEPTH_MAX {
            return Err(Error::message("nested too deep"));
        }
        let start = self.rest;
        let head = self.head()?;
        match head.major {
            UNSIGNED | NEGATIVE => Ok(()),
            BYTES => self.take(head).map(drop),
            TEXT => self.text(head).map(drop),
            ARRAY => (0..head.argument).try_for_each(|_| self.value(depth + 1)),
            MAP => self.members(head, depth),
            TAG if head.argument == TAG_SET.as_u64() => self.set(),
            TAG => self.decimal(start),
            _ if SIMPLES.contains(&head.argument) => Ok(()),
            _ => Err(Error::message("not a value of an item")),
        }
    }

    /// A number that is no integer of 64 bits, which starts at its tag.
    fn decimal(&mut self, start: &'a [u8]) -> Read<()> {
        let mut input = Decoder::new(start);
        read_number(&mut input)?;
        self.rest = start.get(input.position()..).unwrap_or_default();
        Ok(())
    }

    /// The members of a set, which are of one type.
    fn set(&mut self) -> Read<()> {
        let set = self.head()?;
        if set.major != ARRAY || set.argument == 0 {
            return Err(Error::message("not a set"));
        }
        let mut first = None;
        for _ in 0..set.argument {
            let start = self.rest;
            let head = self.head()?;
            let kind = match head.major {
                UNSIGNED | NEGATIVE | TAG => TAG,
                other => other,
            };
            if *first.get_or_insert(kind) != kind {
                return Err(Error::message("a set of several types"));
            }
            match head.major {
                UNSIGNED | NEGATIVE => {}
                BYTES => self.take(head).map(drop)?,
                TEXT => self.text(head).map(drop)?,
                TAG if head.argument == TAG_DECIMAL.as_u64() => self.decimal(start)?,
                _ => return Err(Error::message("not a member of a set")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
