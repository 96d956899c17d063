//! The frame of stored bytes: format, kind, header, body and checksum; and compression.
//!
//! Guarantees: damaged bytes, and bytes under another key, are `Corrupt`. Formats are only added,
//! never changed (`docs/format.md`). A CRC-32 detects damage, not forgery. The frame does not know
//! the content of a header.

use minicbor::{Decoder, Encoder};

use super::body::{Body, BodyBytes, ChunkSummary};
use crate::items::{Key, KeyPart};
use crate::{Error, Result};

pub(super) type Out<'a> = Encoder<&'a mut Vec<u8>>;
pub(super) type Encoded =
    std::result::Result<(), minicbor::encode::Error<std::convert::Infallible>>;
pub(super) type Read<T> = std::result::Result<T, minicbor::decode::Error>;

const FORMAT: u8 = 1;
const CHECKSUM_BYTES: usize = 4;
/// Capacity for the format, the kind, a header of the usual size and the checksum.
const FRAME_CAPACITY: usize = 64;

/// The second byte: the kind of the body.
const KIND_PLAIN: u8 = 0;
const KIND_ZSTD: u8 = 1;
const KIND_CHUNKED: u8 = 2;
const KIND_DELETED: u8 = 3;
const KIND_SKIPPED: u8 = 4;

/// The bytes to be stored under `key`.
pub(super) fn write_frame(
    key: &Key,
    body: &Body,
    write_header: impl FnOnce(&mut Out<'_>) -> Encoded,
) -> Vec<u8> {
    let (kind, body): (u8, &[u8]) = match body {
        Body::Inline(body) if body.is_zstd => (KIND_ZSTD, &body.bytes),
        Body::Inline(body) => (KIND_PLAIN, &body.bytes),
        Body::Chunked(_) => (KIND_CHUNKED, &[]),
        Body::Deleted => (KIND_DELETED, &[]),
        Body::Skipped => (KIND_SKIPPED, &[]),
    };
    let mut bytes = Vec::with_capacity(FRAME_CAPACITY + body.len());
    bytes.extend_from_slice(&[FORMAT, kind]);
    let written = write_header(&mut Encoder::new(&mut bytes));
    // Writing to memory cannot fail.
    debug_assert!(written.is_ok());
    bytes.extend_from_slice(body);
    let checksum = checksum(key, &bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    bytes
}

/// The header and body of the bytes stored under `key`. The header has the summary of chunks, if there
/// are any.
pub(super) fn read_frame<H>(
    what: &str,
    key: &Key,
    bytes: &[u8],
    read_header: impl FnOnce(&mut Decoder<'_>) -> Read<(H, Option<ChunkSummary>)>,
) -> Result<(H, Body)> {
    let damaged = |how: &str| Error::corrupt(format!("stored {what} {how}")).fact("key", key);
    let split = bytes.len().checked_sub(CHECKSUM_BYTES);
    let (framed, stored) = split
        .and_then(|at| bytes.split_at_checked(at))
        .ok_or_else(|| damaged("is cut short"))?;
    if checksum(key, framed).to_be_bytes() != *stored {
        return Err(damaged("does not match its checksum"));
    }
    let [FORMAT, kind, rest @ ..] = framed else {
        return Err(damaged("has an unknown format; update annals"));
    };
    let mut input = Decoder::new(rest);
    let read = read_header(&mut input);
    let (header, chunks) = read.map_err(|e| damaged("does not parse").because(e))?;
    let body = rest.get(input.position()..).unwrap_or_default();
    let inline = |is_zstd| {
        Body::Inline(BodyBytes {
            bytes: body.to_vec().into(),
            is_zstd,
        })
    };
    let body = match (*kind, chunks, body) {
        (KIND_PLAIN, None, _) => inline(false),
        (KIND_ZSTD, None, _) => inline(true),
        (KIND_CHUNKED, Some(chunks), []) => Body::Chunked(chunks),
        (KIND_DELETED, None, []) => Body::Deleted,
        (KIND_SKIPPED, None, []) => Body::Skipped,
        _ => return Err(damaged("is inconsistent")),
    };
    Ok((header, body))
}

/// A cheap level; higher ones save little more.
const ZSTD_LEVEL: i32 = 3;

/// Compresses bytes.
pub(super) fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let compressed = zstd::bulk::compress(bytes, ZSTD_LEVEL);
    compressed.map_err(|cause| Error::invalid("a payload cannot be compressed").because(cause))
}

/// Decompresses at most `bytes_max` bytes. The zstd frame has their number.
pub(super) fn decompress(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
    let broken = || Error::corrupt("a stored payload does not decompress");
    let size = zstd::zstd_safe::get_frame_content_size(bytes);
    let size = size.ok().flatten();
    let size = size.and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| *size <= bytes_max);
    zstd::bulk::decompress(bytes, size.ok_or_else(broken)?).map_err(|e| broken().because(e))
}

/// The checksum over key and bytes: under another key, the bytes are damaged.
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
