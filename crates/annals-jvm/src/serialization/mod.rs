//! Payloads as the JVM's serializers write them.
//!
//! Guarantees: a payload whose [`Written::carries`] is true reads back the same. Bytes of a serializer
//! without a codec here pass through unchanged, with their id and manifest. The JVM's serializer of
//! an id can read what is written under it. Decompression is bounded. Assumes the default serializer
//! ids of Akka and Pekko.

mod jackson;
mod java;
mod registry;
mod shape;

use bytes::Bytes;

pub(crate) use shape::malformed;

use annals::{Codec, Error, Payload, Result};

/// Bytes as a serializer of the JVM writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Serialized {
    /// The serializer id.
    pub(crate) id: i32,
    /// The serializer's manifest; may be empty.
    pub(crate) manifest: String,
    pub(crate) bytes: Bytes,
}

/// A payload, serialized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) serialized: Serialized,
    /// Whether [`read`] returns manifest and schema version of the payload. If not, the layout stores
    /// them in its own attributes.
    pub(crate) carries: bool,
}

/// The payload that was serialized.
///
/// # Errors
/// `Corrupt` if the bytes are invalid for their serializer.
pub(crate) fn read(serialized: Serialized) -> Result<Payload> {
    let Serialized {
        id,
        manifest,
        bytes,
    } = serialized;
    let corrupt = |fault: &str| {
        Error::corrupt(format!("a serialized payload {fault}"))
            .fact("serializer", id)
            .fact("manifest", &manifest)
    };
    let (codec, bytes) = match registry::codec_of(id) {
        Some(codec) if registry::is_jackson(id) => {
            let bytes = jackson::unpack(bytes).map_err(|e| corrupt("does not unpack").because(e));
            (codec, bytes?)
        }
        Some(codec) => (codec, bytes),
        None if id == registry::JAVA => match java::string(&bytes) {
            Ok(Some(text)) => (Codec::Text, text.into()),
            Ok(None) => (registry::numbered(id), bytes),
            Err(cause) => return Err(corrupt("does not parse").because(cause)),
        },
        None => (registry::numbered(id), bytes),
    };
    if let Some(fault) = registry::fault(&codec, &bytes) {
        return Err(corrupt(fault));
    }
    let (manifest, schema) = read_manifest(id, manifest);
    Ok(Payload::new(codec, bytes).manifest(manifest).schema(schema))
}

/// Serializes a payload as the JVM would.
///
/// # Errors
/// `Invalid` if the codec has no serializer, or the serializer could not read the bytes.
pub(crate) fn write(payload: &Payload) -> Result<Written> {
    let codec = &payload.codec;
    let id = registry::id_of(codec)?;
    let invalid = |fault: &str| {
        Error::invalid(format!("a payload {fault}, so this layout cannot store it"))
            .fact("codec", codec)
    };
    if let Some(fault) = registry::fault(codec, &payload.bytes) {
        return Err(invalid(fault));
    }
    let manifest = write_manifest(id, payload)?;
    let mut carries =
        read_manifest(id, manifest.clone()) == (payload.manifest.clone(), payload.schema);
    let bytes = match id {
        registry::JSON => jackson::pack(&payload.bytes, jackson::GZIP_ABOVE_BYTES)?,
        registry::CBOR => jackson::pack(&payload.bytes, jackson::NEVER)?,
        _ => payload.bytes.clone(),
    };
    if id == registry::JAVA {
        // A string reads back as text, so the codec changes.
        let string = java::string(&bytes);
        carries &= string
            .map_err(|e| invalid("does not parse").because(e))?
            .is_none();
    }
    Ok(Written {
        serialized: Serialized {
            id,
            manifest,
            bytes,
        },
        carries,
    })
}

/// Splits a serializer's manifest into manifest and schema version.
fn read_manifest(id: i32, manifest: String) -> (String, u32) {
    if registry::is_jackson(id) {
        jackson::split_manifest(manifest)
    } else {
        (manifest, 0)
    }
}

/// The manifest as a serializer expects it.
fn write_manifest(id: i32, payload: &Payload) -> Result<String> {
    if registry::is_jackson(id) {
        return jackson::join_manifest(&payload.manifest, payload.schema);
    }
    if !registry::takes_manifest(id) {
        // The JVM would look for a class of this name, and fail.
        return Ok(String::new());
    }
    if id == registry::PROTOBUF && payload.manifest.is_empty() {
        return Err(Error::invalid(
            "this layout needs the class of a protocol buffers message; set the manifest to the name of its class",
        ));
    }
    Ok(payload.manifest.clone())
}

#[cfg(test)]
#[path = "serialization_tests.rs"]
mod tests;
