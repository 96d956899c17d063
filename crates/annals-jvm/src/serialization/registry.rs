//! Serializer ids of the JVM and their codecs (`docs/format.md`).
//!
//! Guarantees: a codec that was read from an id is written under that id, except 32, which is an old
//! id of 31, and Java's strings, which are text. Assumes that Akka and Pekko have the same ids.

use annals::Scalar;
use annals::{Codec, Error, Result};

pub(super) const NULL: i32 = 0;
pub(super) const JAVA: i32 = 1;
pub(super) const PROTOBUF: i32 = 2;
pub(super) const BYTES: i32 = 4;
pub(super) const SNAPSHOT: i32 = 8;
pub(super) const LONG: i32 = 18;
pub(super) const INT: i32 = 19;
pub(super) const TEXT: i32 = 20;
pub(super) const BYTE_STRING: i32 = 21;
pub(super) const JSON: i32 = 31;
/// Akka up to 2.6.4 called it CBOR and wrote JSON.
pub(super) const JSON_CALLED_CBOR: i32 = 32;
pub(super) const CBOR: i32 = 33;
pub(super) const BOOLEAN: i32 = 35;

/// The prefix of a serializer id in the name of a codec.
const NUMBERED: &str = "akka:";

/// The codec of a serializer, if it is known.
pub(super) fn codec_of(id: i32) -> Option<Codec> {
    let scalar = |scalar: Scalar| Codec::Other(scalar.name().to_owned());
    Some(match id {
        PROTOBUF => Codec::Protobuf,
        BYTES => Codec::Bytes,
        LONG => scalar(Scalar::Long),
        INT => scalar(Scalar::Int),
        TEXT => Codec::Text,
        JSON | JSON_CALLED_CBOR => Codec::Json,
        CBOR => Codec::Cbor,
        BOOLEAN => scalar(Scalar::Boolean),
        _ => return None,
    })
}

/// The codec of an unknown serializer, named by its id.
pub(super) fn numbered(id: i32) -> Codec {
    Codec::Other(format!("{NUMBERED}{id}"))
}

/// The serializer that writes a codec.
pub(super) fn id_of(codec: &Codec) -> Result<i32> {
    Ok(match codec {
        Codec::Bytes => BYTES,
        Codec::Json => JSON,
        Codec::Text => TEXT,
        Codec::Cbor => CBOR,
        Codec::Protobuf => PROTOBUF,
        Codec::Other(name) => match Scalar::named(name) {
            Some(Scalar::Long) => LONG,
            Some(Scalar::Int) => INT,
            Some(Scalar::Boolean) => BOOLEAN,
            None => number_in(name)?,
        },
    })
}

fn number_in(name: &str) -> Result<i32> {
    let number = name.strip_prefix(NUMBERED);
    let number = number.and_then(|number| number.parse().ok());
    // Another spelling of the number would not round-trip.
    let number = number.filter(|id| numbered(*id) == Codec::Other(name.to_owned()));
    let id = number.ok_or_else(|| {
        Error::invalid(format!(
            "this layout has no serializer for the codec; use bytes, json, text, cbor, protobuf, long, int or boolean, or {NUMBERED}N for the serializer with the id N"
        ))
        .fact("codec", name)
    })?;
    match codec_of(id) {
        None => Ok(id),
        Some(codec) => Err(Error::invalid(format!(
            "the serializer with this id has the name {codec}"
        ))
        .fact("codec", name)),
    }
}

/// Whether it is one of Jackson's: bytes may be compressed, and the manifest may end in a number.
pub(super) fn is_jackson(id: i32) -> bool {
    matches!(id, JSON | JSON_CALLED_CBOR | CBOR)
}

/// Whether the serializer accepts a manifest.
pub(super) fn takes_manifest(id: i32) -> bool {
    !matches!(
        id,
        NULL | JAVA | BYTES | SNAPSHOT | LONG | INT | TEXT | BYTE_STRING | BOOLEAN
    )
}

/// What is wrong with bytes as those of a codec.
pub(super) fn fault(codec: &Codec, bytes: &[u8]) -> Option<&'static str> {
    match codec {
        Codec::Json | Codec::Text => {
            let is_text = std::str::from_utf8(bytes).is_ok();
            (!is_text).then_some("is not UTF-8")
        }
        Codec::Other(name) => match Scalar::named(name)? {
            scalar if scalar.to_json(bytes).is_some() => None,
            Scalar::Long => Some("is not the 8 bytes of a long"),
            Scalar::Int => Some("is not the 4 bytes of an int"),
            Scalar::Boolean => Some("is not the one byte, 0 or 1, of a boolean"),
        },
        Codec::Bytes | Codec::Cbor | Codec::Protobuf => None,
    }
}
