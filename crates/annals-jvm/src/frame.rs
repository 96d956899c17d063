//! A snapshot in one attribute: a header with serializer and manifest before the bytes.
//!
//! Guarantees: the bytes that Akka and Pekko write. Manifests are kept as stored, even if Pekko would
//! translate the class name.

use bytes::Bytes;

use super::serialization::Serialized;
use annals::{Error, Result};

/// The serializer id.
const ID_BYTES: usize = 4;
/// The start of a frame of Akka 2.3: a header serialized by Java.
const JAVA_MAGIC: [u8; ID_BYTES] = [0xAC, 0xED, 0x00, 0x05];

/// The length of the header, the header, the payload; numbers little-endian.
pub(crate) fn encode(serialized: &Serialized) -> Result<Vec<u8>> {
    let manifest = serialized.manifest.as_bytes();
    let len = i32::try_from(ID_BYTES + manifest.len());
    let len = len.map_err(|cause| Error::invalid("a manifest is too long").because(cause))?;
    let parts = [
        &len.to_le_bytes(),
        &serialized.id.to_le_bytes(),
        manifest,
        &serialized.bytes,
    ];
    Ok(parts.concat())
}

/// # Errors
/// `Corrupt` if the bytes are not a frame, or one of Akka 2.3.
pub(crate) fn decode(frame: &Bytes) -> Result<Serialized> {
    let damaged = |what: &str| Error::corrupt(format!("a stored snapshot {what}"));
    let cut = || damaged("is cut short");
    let (len, rest) = frame.split_first_chunk().ok_or_else(cut)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|e| cut().because(e))?;
    let (header, bytes) = rest.split_at_checked(len).ok_or_else(cut)?;
    let (id, manifest) = header
        .split_first_chunk()
        .ok_or_else(|| damaged("lacks its serializer id"))?;
    if *id == JAVA_MAGIC {
        return Err(damaged(
            "was written by Akka 2.3, which Pekko does not read either; delete it, and it is rebuilt from the events",
        ));
    }
    let manifest = std::str::from_utf8(manifest);
    Ok(Serialized {
        id: i32::from_le_bytes(*id),
        manifest: manifest
            .map_err(|e| damaged("has a manifest that is not UTF-8").because(e))?
            .to_owned(),
        bytes: frame.slice_ref(bytes),
    })
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
