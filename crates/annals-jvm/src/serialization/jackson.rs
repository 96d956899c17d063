//! Jackson's envelope of JSON and CBOR: compression, and a version in the manifest.
//!
//! Guarantees: compressed bytes decompress to the same bytes, here and on the JVM, whatever its
//! settings; never to more than [`BYTES_MAX`]. Lengths and checksums are checked.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use annals::{Error, Result};

/// The maximum size of a decompressed payload: that of an append. An item of 400 KB could
/// decompress to a thousand times as much.
pub(super) const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Jackson compresses larger JSON by default. So do we: items cost by their size, and both sides
/// recognise a compressed payload by its first bytes.
pub(super) const GZIP_ABOVE_BYTES: usize = 32 * 1024;
/// For payloads that Jackson does not compress by default.
pub(super) const NEVER: usize = usize::MAX;

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];
/// Followed by the length, unpacked, in 4 bytes, big-endian, and one LZ4 block.
const LZ4_MAGIC: [u8; 4] = [0x87, 0xD9, 0x6D, 0xF6];
/// The maximum compression ratio of an LZ4 block.
const LZ4_GROWTH_MAX: usize = 255;

/// Whether the JVM would treat bytes as compressed.
fn looks_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&GZIP_MAGIC) || bytes.starts_with(&LZ4_MAGIC)
}

/// The bytes, compressed if they are more than `above`, or would be treated as compressed: a CBOR
/// array can start like LZ4.
pub(super) fn pack(bytes: &Bytes, above: usize) -> Result<Bytes> {
    if bytes.len() > BYTES_MAX {
        return Err(
            Error::invalid(format!("a payload has at most {BYTES_MAX} bytes"))
                .fact("bytes", bytes.len()),
        );
    }
    if bytes.len() <= above && !looks_packed(bytes) {
        return Ok(bytes.clone());
    }
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    let packed = packer.write_all(bytes).and_then(|()| packer.finish());
    let packed =
        packed.map_err(|cause| Error::invalid("a payload cannot be compressed").because(cause));
    Ok(packed?.into())
}

/// The bytes, decompressed if they are compressed.
pub(super) fn unpack(bytes: Bytes) -> Result<Bytes> {
    if bytes.starts_with(&GZIP_MAGIC) {
        gunzip(&bytes)
    } else if let Some(framed) = bytes.strip_prefix(&LZ4_MAGIC) {
        unlz4(framed)
    } else {
        Ok(bytes)
    }
}

fn too_large() -> Error {
    Error::corrupt(format!(
        "compressed bytes unpack to more than {BYTES_MAX} bytes"
    ))
}

fn gunzip(bytes: &[u8]) -> Result<Bytes> {
    let mut unpacked = Vec::new();
    let one_more = BYTES_MAX as u64 + 1;
    let read = MultiGzDecoder::new(bytes)
        .take(one_more)
        .read_to_end(&mut unpacked);
    read.map_err(|cause| Error::corrupt("gzip bytes are damaged").because(cause))?;
    if unpacked.len() > BYTES_MAX {
        return Err(too_large());
    }
    Ok(unpacked.into())
}

fn unlz4(framed: &[u8]) -> Result<Bytes> {
    let damaged = || Error::corrupt("LZ4 bytes are damaged");
    let (len, block) = framed.split_first_chunk().ok_or_else(damaged)?;
    let len = usize::try_from(u32::from_be_bytes(*len)).map_err(|e| damaged().because(e))?;
    if len > BYTES_MAX {
        return Err(too_large());
    }
    if len / LZ4_GROWTH_MAX > block.len() {
        return Err(damaged());
    }
    let mut unpacked = vec![0; len];
    let found = lz4_flex::block::decompress_into(block, &mut unpacked);
    if found.map_err(|e| damaged().because(e))? != len {
        return Err(damaged());
    }
    Ok(unpacked.into())
}

/// The class, and the number after the last `#`. Without a number Jackson assumes 1; here it is 0,
/// so that the manifest is written back unchanged. A number that Jackson would write differently
/// stays in the manifest.
pub(super) fn split_manifest(manifest: String) -> (String, u32) {
    let split = manifest.rsplit_once('#').and_then(|(class, number)| {
        let schema = number.parse::<i32>().ok().filter(|schema| *schema > 0)?;
        let is_same = schema.to_string() == number;
        is_same.then(|| (class.to_owned(), schema.unsigned_abs()))
    });
    split.unwrap_or((manifest, 0))
}

/// The class with its number, if it has one.
pub(super) fn join_manifest(class: &str, schema: u32) -> Result<String> {
    if i32::try_from(schema).is_err() {
        return Err(
            Error::invalid(format!("this layout has schema numbers up to {}", i32::MAX))
                .fact("schema", schema),
        );
    }
    Ok(match schema {
        0 => class.to_owned(),
        schema => format!("{class}#{schema}"),
    })
}

#[cfg(test)]
#[path = "jackson_tests.rs"]
mod tests;
