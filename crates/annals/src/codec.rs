//! Codec names: how the bytes of a payload are encoded, and how to show them as JSON.
//!
//! Guarantees: a codec's name parses back to the codec. Bytes are shown as their codec says, never
//! guessed.

use std::fmt;
use std::str::FromStr;

use serde_json::Value as Json;

/// How the bytes of a payload are encoded.
///
/// ```
/// use annals::{Codec, NewEvent};
///
/// let event = NewEvent::new(Codec::Json, r#"{"amount":10}"#);
/// assert_eq!(event.codec.to_string(), "json");
/// assert_eq!(event.codec.to_json(&event.payload).unwrap()["amount"], 10);
///
/// // An unknown codec keeps its name.
/// let theirs: Codec = "avro".parse()?;
/// assert_eq!(theirs, Codec::Other("avro".into()));
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Bytes that only the application can read.
    #[default]
    Bytes,
    /// JSON.
    Json,
    /// UTF-8 text.
    Text,
    /// CBOR.
    Cbor,
    /// Protocol buffers.
    Protobuf,
    /// Another codec, by name.
    Other(String),
}

impl Codec {
    /// The name, which parses back to the codec.
    ///
    /// ```
    /// use annals::Codec;
    ///
    /// assert_eq!(Codec::Json.name(), "json");
    /// assert_eq!(Codec::Other("avro".into()).name(), "avro");
    /// ```
    pub fn name(&self) -> &str {
        match self {
            Self::Bytes => "bytes",
            Self::Json => "json",
            Self::Text => "text",
            Self::Cbor => "cbor",
            Self::Protobuf => "protobuf",
            Self::Other(name) => name,
        }
    }

    /// Show bytes as JSON: JSON itself, text, and the JVM scalars `long`, `int` and `boolean`. `None` for
    /// other codecs, and if the bytes do not decode.
    ///
    /// ```
    /// use annals::Codec;
    ///
    /// let long = Codec::Other("long".into());
    /// assert_eq!(long.to_json(&[42, 0, 0, 0, 0, 0, 0, 0]).unwrap(), 42);
    /// assert!(Codec::Bytes.to_json(&[42]).is_none());
    /// ```
    pub fn to_json(&self, bytes: &[u8]) -> Option<Json> {
        match self {
            Self::Json => serde_json::from_slice(bytes).ok(),
            Self::Text => std::str::from_utf8(bytes).ok().map(Json::from),
            Self::Other(name) => Scalar::named(name)?.to_json(bytes),
            Self::Bytes | Self::Cbor | Self::Protobuf => None,
        }
    }

    /// Encode JSON that [`to_json`](Self::to_json) shows. `None` for other codecs, and if the codec cannot
    /// represent the value.
    ///
    /// ```
    /// use annals::Codec;
    ///
    /// let int = Codec::Other("int".into());
    /// assert_eq!(int.bytes_of(&42.into()).unwrap(), [42, 0, 0, 0]);
    /// assert!(int.bytes_of(&(1u64 << 31).into()).is_none());
    /// ```
    pub fn bytes_of(&self, value: &Json) -> Option<Vec<u8>> {
        match self {
            Self::Json => Some(value.to_string().into_bytes()),
            Self::Text => value.as_str().map(|text| text.as_bytes().to_vec()),
            Self::Other(name) => Scalar::named(name)?.bytes_of(value),
            Self::Bytes | Self::Cbor | Self::Protobuf => None,
        }
    }

    /// Whether its bytes can be shown as JSON and encoded from it.
    pub fn has_values(&self) -> bool {
        match self {
            Self::Json | Self::Text => true,
            Self::Other(name) => Scalar::named(name).is_some(),
            Self::Bytes | Self::Cbor | Self::Protobuf => false,
        }
    }
}

/// A scalar as the JVM's serializers write it; each is a codec by name.
///
/// ```
/// use annals::Scalar;
///
/// let int = Scalar::named("int").unwrap();
/// assert_eq!(int.to_json(&[42, 0, 0, 0]).unwrap(), 42);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// 8 bytes, little-endian.
    Long,
    /// 4 bytes, little-endian.
    Int,
    /// One byte, 0 or 1.
    Boolean,
}

impl Scalar {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Long, Self::Int, Self::Boolean];

    /// The codec's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Int => "int",
            Self::Boolean => "boolean",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scalar| scalar.name() == name)
    }

    /// The value; `None` if the bytes do not decode.
    pub fn to_json(self, bytes: &[u8]) -> Option<Json> {
        match self {
            Self::Long => Some(i64::from_le_bytes(bytes.try_into().ok()?).into()),
            Self::Int => Some(i32::from_le_bytes(bytes.try_into().ok()?).into()),
            Self::Boolean => match bytes {
                [0] => Some(false.into()),
                [1] => Some(true.into()),
                _ => None,
            },
        }
    }

    /// The bytes of a value; `None` if it has another type or is out of range.
    fn bytes_of(self, value: &Json) -> Option<Vec<u8>> {
        match self {
            Self::Long => Some(value.as_i64()?.to_le_bytes().to_vec()),
            Self::Int => {
                let int = i32::try_from(value.as_i64()?).ok()?;
                Some(int.to_le_bytes().to_vec())
            }
            Self::Boolean => Some(vec![u8::from(value.as_bool()?)]),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = std::convert::Infallible;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "bytes" => Self::Bytes,
            "json" => Self::Json,
            "text" => Self::Text,
            "cbor" => Self::Cbor,
            "protobuf" => Self::Protobuf,
            other => Self::Other(other.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jvm_scalars_are_shown_as_json() {
        let shown = |name: &str, bytes: &[u8]| {
            let json = Codec::Other(name.to_owned()).to_json(bytes);
            json.map(|json| json.to_string())
        };
        assert_eq!(shown("long", &[0xFE; 8]).unwrap(), "-72340172838076674");
        assert_eq!(shown("int", &[1, 2, 0, 0]).unwrap(), "513");
        assert_eq!(shown("boolean", &[1]).unwrap(), "true");
        assert_eq!(shown("boolean", &[0]).unwrap(), "false");
    }

    #[test]
    fn shown_values_encode_to_the_same_bytes() {
        for (name, bytes) in [
            ("json", &b"{\"n\":1}"[..]),
            ("text", "ünï\n".as_bytes()),
            ("long", &i64::MIN.to_le_bytes()),
            ("int", &i32::MAX.to_le_bytes()),
            ("boolean", &[1]),
        ] {
            let codec: Codec = name.parse().unwrap();
            assert!(codec.has_values(), "{name}");
            let shown = codec.to_json(bytes).unwrap();
            assert_eq!(codec.bytes_of(&shown).unwrap(), bytes, "{name}");
        }
    }

    #[test]
    fn values_that_a_codec_cannot_represent_are_refused() {
        for (name, value) in [
            ("long", "9223372036854775808"),
            ("long", "1.5"),
            ("long", "\"1\""),
            ("int", "-2147483649"),
            ("int", "true"),
            ("boolean", "1"),
            ("text", "1"),
            ("bytes", "\"AA==\""),
            ("mine", "1"),
        ] {
            let codec: Codec = name.parse().unwrap();
            let value: Json = serde_json::from_str(value).unwrap();
            assert_eq!(codec.bytes_of(&value), None, "{name} {value}");
        }
    }

    #[test]
    fn bytes_that_do_not_decode_are_not_shown() {
        let other = |name: &str| Codec::Other(name.to_owned());
        for (codec, bytes) in [
            (other("long"), &[0; 7][..]),
            (other("long"), &[0; 9]),
            (other("int"), &[0; 8]),
            (other("int"), &[]),
            (other("boolean"), &[2]),
            (other("boolean"), &[]),
            (other("mine"), b"{}"),
            (Codec::Json, b"{"),
            (Codec::Text, &[0xFF]),
            (Codec::Bytes, b"{}"),
        ] {
            assert_eq!(codec.to_json(bytes), None, "{codec}");
        }
    }
}
