//! Compression and checksums: what every blob of this layout does with its bytes.

use crate::items::{Key, KeyPart};
use crate::{Error, Result};

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
