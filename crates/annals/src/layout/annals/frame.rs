//! The frame around everything that is stored as bytes: format, kind, header, body, checksum; and
//! their compression.
//!
//! Promises: any damage to the bytes, and bytes found under another's key, are told as `Corrupt`.
//! Formats are only ever added (`docs/format.md`).
//! Trusts: a CRC-32 to tell damage; it is no defence against forgery.
//! Never: knows what is in a header.

use minicbor::{Decoder, Encoder};

use super::body::{Body, BodyBytes, PartsRecord};
use crate::items::{Key, KeyPart};
use crate::{Error, Result};

pub(super) type Out<'a> = Encoder<&'a mut Vec<u8>>;
pub(super) type Encoded =
    std::result::Result<(), minicbor::encode::Error<std::convert::Infallible>>;
pub(super) type Read<T> = std::result::Result<T, minicbor::decode::Error>;

const FORMAT: u8 = 1;
const CHECKSUM_BYTES: usize = 4;
/// Room for the format, the kind, a header of the usual size and the checksum.
const ROOM_BYTES: usize = 64;

/// What the second byte says about the body.
const KIND_PLAIN: u8 = 0;
const KIND_ZSTD: u8 = 1;
const KIND_PARTS: u8 = 2;
const KIND_DELETED: u8 = 3;
const KIND_LEFT_OUT: u8 = 4;

/// The bytes to be stored under `key`.
pub(super) fn frame(
    key: &Key,
    body: &Body,
    write_header: impl FnOnce(&mut Out<'_>) -> Encoded,
) -> Vec<u8> {
    let (kind, body): (u8, &[u8]) = match body {
        Body::Here(body) if body.is_zstd => (KIND_ZSTD, &body.bytes),
        Body::Here(body) => (KIND_PLAIN, &body.bytes),
        Body::Parts(_) => (KIND_PARTS, &[]),
        Body::Deleted => (KIND_DELETED, &[]),
        Body::LeftOut => (KIND_LEFT_OUT, &[]),
    };
    let mut bytes = Vec::with_capacity(ROOM_BYTES + body.len());
    bytes.extend_from_slice(&[FORMAT, kind]);
    let written = write_header(&mut Encoder::new(&mut bytes));
    // Writing to memory has no way to fail.
    debug_assert!(written.is_ok());
    bytes.extend_from_slice(body);
    let checksum = checksum(key, &bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Header and body of the bytes that were stored under `key`. A header tells of the parts, if there
/// are any.
pub(super) fn unframe<H>(
    (what, key): (&str, &Key),
    bytes: &[u8],
    read_header: impl FnOnce(&mut Decoder<'_>) -> Read<(H, Option<PartsRecord>)>,
) -> Result<(H, Body)> {
    let damaged = |how: &str| Error::corrupt(format!("stored {what} {how}. key=`{key}`"));
    let split = bytes.len().checked_sub(CHECKSUM_BYTES);
    let (framed, stored) = split
        .and_then(|at| bytes.split_at_checked(at))
        .ok_or_else(|| damaged("is cut short"))?;
    if checksum(key, framed).to_be_bytes() != *stored {
        return Err(damaged("does not match its checksum"));
    }
    let [FORMAT, kind, rest @ ..] = framed else {
        return Err(damaged(
            "has a format this annals does not know; update annals",
        ));
    };
    let mut input = Decoder::new(rest);
    let read = read_header(&mut input);
    let (header, parts) = read.map_err(|e| damaged("does not parse").because(e))?;
    let body = rest.get(input.position()..).unwrap_or_default();
    let here = |is_zstd| {
        Body::Here(BodyBytes {
            bytes: body.to_vec().into(),
            is_zstd,
        })
    };
    let body = match (*kind, parts, body) {
        (KIND_PLAIN, None, _) => here(false),
        (KIND_ZSTD, None, _) => here(true),
        (KIND_PARTS, Some(parts), []) => Body::Parts(parts),
        (KIND_DELETED, None, []) => Body::Deleted,
        (KIND_LEFT_OUT, None, []) => Body::LeftOut,
        _ => return Err(damaged("contradicts itself")),
    };
    Ok((header, body))
}

/// A level that costs little; a higher one would save little more.
const ZSTD_LEVEL: i32 = 3;

/// The bytes, compressed.
pub(super) fn pack(bytes: &[u8]) -> Result<Vec<u8>> {
    let packed = zstd::bulk::compress(bytes, ZSTD_LEVEL);
    packed.map_err(|cause| Error::invalid("a payload cannot be compressed").because(cause))
}

/// The bytes that were compressed, at most so many. The frame tells how many they are.
pub(super) fn unpack(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
    let broken = || Error::corrupt("a stored payload does not unpack");
    let size = zstd::zstd_safe::get_frame_content_size(bytes);
    let size = size.ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| *size <= bytes_max);
    zstd::bulk::decompress(bytes, size.ok_or_else(broken)?).map_err(|e| broken().because(e))
}

/// What ties bytes to the key they are stored under: under another, they are damage.
pub(super) fn checksum(key: &Key, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    if let KeyPart::S(partition) = &key.partition {
        hasher.update(partition.as_bytes());
    }
    if let Some(KeyPart::N(number)) = &key.sort {
        hasher.update(&number.to_u64().unwrap_or(0).to_be_bytes());
    }
    hasher.update(bytes);
    hasher.finalize()
}
