//! Payloads as items: sealed with a checksum over key and bytes, in parts where they are too
//! large for one item.
//!
//! Promises: what was sealed opens to the same payload under the same key, or is told as
//! `Corrupt`; the least write units that compression allows.

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

use super::packing::{checksum, pack, unpack};
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Condition, Cost, Item, Items, Key, TableSpec, Value, Write, item_size};
use crate::{Codec, Error, ErrorKind, Payload, Result, Token};

const FORMAT: u8 = 1;
const CHECKSUM_BYTES: usize = 4;
const BLOB: &str = "c";
const PART: &str = "b";
/// Room for a part's key and attribute names in an item.
const PART_BYTES: usize = ITEM_BYTES_MAX - 4 * 1024;
/// The most bytes of a payload: it is held in memory whole.
const PAYLOAD_BYTES_MAX: usize = 256 * 1024 * 1024;

type Read<T> = std::result::Result<T, minicbor::decode::Error>;

/// What is known of a payload without opening it.
#[derive(Clone, Debug)]
pub(super) struct Sealed {
    pub(super) time_ms: u64,
    token: Token,
    codec: Codec,
    manifest: String,
    schema: u32,
    is_zstd: bool,
    /// How many parts there are, how many bytes they have and their checksum; none: all is here.
    parts: Option<(u32, u64, u32)>,
    bytes: Vec<u8>,
}

/// Where parts live: a key for each token and index.
pub(super) type PartKey<'a> = &'a (dyn Fn(Token, u32) -> Key + Sync);

/// Items to be written: the parts before the item that speaks for them.
pub(super) struct Written {
    pub(super) item: Item,
    pub(super) parts: Vec<Item>,
}

/// Seals a payload into `item`, which has its key and whatever else belongs to it.
pub(super) fn seal(
    table: &TableSpec,
    item: Item,
    (payload, time_ms, token): (&Payload, u64, Token),
    part_key: PartKey<'_>,
) -> Result<Written> {
    if payload.bytes.len() > PAYLOAD_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a payload has at most {PAYLOAD_BYTES_MAX} bytes. bytes=`{}`",
            payload.bytes.len()
        )));
    }
    let key = table.key_of(&item)?;
    let mut sealed = Sealed {
        time_ms,
        token,
        codec: payload.codec.clone(),
        manifest: payload.manifest.clone(),
        schema: payload.schema,
        is_zstd: false,
        parts: None,
        bytes: payload.bytes.to_vec(),
    };
    let with_blob = |sealed: &Sealed| item.clone().with(BLOB, sealed.encode(&key));
    let units = |item: &Item| Cost::of_sizes(None, Some(item_size(item))).write_units;
    let mut best = with_blob(&sealed);
    if units(&best) > 1 {
        let packed = pack(&sealed.bytes)?;
        let small = Sealed {
            is_zstd: true,
            bytes: packed,
            ..sealed.clone()
        };
        let item = with_blob(&small);
        if units(&item) < units(&best) {
            (best, sealed) = (item, small);
        }
    }
    if item_size(&best) <= ITEM_BYTES_MAX {
        return Ok(Written {
            item: best,
            parts: Vec::new(),
        });
    }
    let body = std::mem::take(&mut sealed.bytes);
    let parts = body.chunks(PART_BYTES).zip(0u32..).map(|(chunk, index)| {
        table
            .key()
            .item_of(&part_key(token, index))
            .with(PART, chunk.to_vec())
    });
    let parts: Vec<Item> = parts.collect();
    let count =
        u32::try_from(parts.len()).map_err(|e| Error::invalid("too many parts").because(e))?;
    sealed.parts = Some((count, body.len() as u64, crc32fast::hash(&body)));
    Ok(Written {
        item: with_blob(&sealed),
        parts,
    })
}

impl Sealed {
    fn encode(&self, key: &Key) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        let written = self.write(&mut Encoder::new(&mut bytes));
        // Writing to memory has no way to fail.
        debug_assert!(written.is_ok());
        bytes.extend_from_slice(&self.bytes);
        let checksum = checksum(key, &bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        bytes
    }

    fn write(
        &self,
        out: &mut Encoder<&mut Vec<u8>>,
    ) -> std::result::Result<(), minicbor::encode::Error<std::convert::Infallible>> {
        out.array(7)?
            .u64(self.time_ms)?
            .bytes(&self.token.to_bytes())?;
        out.str(&self.codec.to_string())?.str(&self.manifest)?;
        out.u32(self.schema)?.bool(self.is_zstd)?;
        match self.parts {
            Some((parts, bytes, checksum)) => {
                out.array(3)?.u32(parts)?.u64(bytes)?.u32(checksum)?.ok()
            }
            None => out.null()?.ok(),
        }
    }

    /// What is sealed in an item.
    pub(super) fn of(table: &TableSpec, item: &Item) -> Result<Self> {
        let key = table.key_of(item)?;
        let damaged = |what: &str| Error::corrupt(format!("stored payload {what}. key=`{key}`"));
        let bytes = item.get(BLOB).and_then(Value::as_bytes);
        let bytes = bytes.ok_or_else(|| damaged("is missing"))?;
        let split = bytes.len().checked_sub(CHECKSUM_BYTES);
        let (framed, stored) = split
            .and_then(|at| bytes.split_at_checked(at))
            .ok_or_else(|| damaged("is cut short"))?;
        if checksum(&key, framed).to_be_bytes() != *stored {
            return Err(damaged("does not match its checksum"));
        }
        let [FORMAT, rest @ ..] = framed else {
            return Err(damaged(
                "has a format this annals does not know; update annals",
            ));
        };
        let mut input = Decoder::new(rest);
        let mut sealed =
            Self::read(&mut input).map_err(|e| damaged("does not parse").because(e))?;
        sealed.bytes = rest.get(input.position()..).unwrap_or_default().to_vec();
        Ok(sealed)
    }

    fn read(input: &mut Decoder<'_>) -> Read<Self> {
        let wrong = minicbor::decode::Error::message;
        if input.array()? != Some(7) {
            return Err(wrong("header of another length"));
        }
        let time_ms = input.u64()?;
        let token = <[u8; Token::BYTES]>::try_from(input.bytes()?);
        let token = Token::from_bytes(token.map_err(|_| wrong("token of another length"))?);
        let codec = input.str()?.parse().unwrap_or_default();
        let (manifest, schema) = (input.str()?.to_owned(), input.u32()?);
        let is_zstd = input.bool()?;
        let parts = if input.datatype()? == Type::Null {
            input.null()?;
            None
        } else {
            input.array()?;
            Some((input.u32()?, input.u64()?, input.u32()?))
        };
        Ok(Self {
            time_ms,
            token,
            codec,
            manifest,
            schema,
            is_zstd,
            parts,
            bytes: Vec::new(),
        })
    }

    /// Which write it came with.
    pub(super) fn token(&self) -> Token {
        self.token
    }

    /// The keys of its parts.
    pub(super) fn part_keys(&self, part_key: PartKey<'_>) -> Vec<Key> {
        let parts = self.parts.map_or(0, |(parts, _, _)| parts);
        (0..parts)
            .map(|index| part_key(self.token, index))
            .collect()
    }

    /// The payload, its parts fetched where it has any.
    pub(super) async fn open(
        self,
        items: &dyn Items,
        table: &TableSpec,
        part_key: PartKey<'_>,
    ) -> Result<Payload> {
        let damaged = || Error::corrupt("a part of a payload is missing or damaged");
        let mut bytes = self.bytes.clone();
        if let Some((_, len, checksum)) = self.parts {
            for part in items.get(table, self.part_keys(part_key)).await?.items {
                let part = part.as_ref().and_then(|part| part.get(PART)?.as_bytes());
                bytes.extend_from_slice(part.ok_or_else(damaged)?);
            }
            if bytes.len() as u64 != len || crc32fast::hash(&bytes) != checksum {
                return Err(damaged());
            }
        }
        if self.is_zstd {
            bytes = unpack(&bytes, PAYLOAD_BYTES_MAX)?;
        }
        Ok(Payload {
            bytes: bytes.into(),
            codec: self.codec,
            manifest: self.manifest,
            schema: self.schema,
        })
    }
}

/// That what is sealed in an item is still there.
pub(super) fn unchanged(item: &Item) -> Condition {
    match item.get(BLOB) {
        Some(blob) => Condition::Equals(BLOB.to_owned(), blob.clone()),
        None => Condition::Absent,
    }
}

/// What is there now where an item was, if that does not open any more: whoever replaces or
/// deletes a payload takes its parts as well.
///
/// # Errors
/// `lost`, where nothing has changed: then it is damaged.
pub(super) async fn reread(
    items: &dyn Items,
    table: &TableSpec,
    item: &Item,
    lost: Error,
) -> Result<Option<Item>> {
    if lost.kind() != ErrorKind::Corrupt {
        return Err(lost);
    }
    let found = items.get(table, vec![table.key_of(item)?]).await?.items;
    match found.into_iter().next().flatten() {
        Some(now) if now == *item => Err(lost),
        now => Ok(now),
    }
}

/// Writes, if there is anything to write: mostly there are no parts, and what is not asked of the
/// store cannot fail.
pub(super) async fn write(items: &dyn Items, table: &TableSpec, writes: Vec<Write>) -> Result<()> {
    if !writes.is_empty() {
        items.write(table, writes).await?;
    }
    Ok(())
}

/// Deletes of these keys.
pub(super) fn deletes(keys: Vec<Key>) -> Vec<Write> {
    keys.into_iter().map(Write::Delete).collect()
}

#[cfg(test)]
#[path = "sealed_tests.rs"]
mod tests;
