//! Payloads of snapshots and durable state: bytes and their codec.

use std::marker::PhantomData;

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::{Codec, Error, Result};

/// The application's bytes, with their codec, manifest and schema number.
///
/// ```
/// use annals::{Codec, Payload};
///
/// let payload = Payload::new(Codec::Json, r#"{"balance":10}"#).manifest("Account").schema(2);
/// assert_eq!(payload.manifest, "Account");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Payload {
    /// The bytes.
    pub bytes: Bytes,
    /// How they are encoded.
    pub codec: Codec,
    /// The name of their type; may be empty.
    pub manifest: String,
    /// The schema number of their type.
    pub schema: u32,
}

impl Payload {
    /// A payload without manifest and schema number.
    pub fn new(codec: Codec, bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            codec,
            ..Self::default()
        }
    }

    /// Set the manifest.
    #[must_use]
    pub fn manifest(mut self, manifest: impl Into<String>) -> Self {
        self.manifest = manifest.into();
        self
    }

    /// Set the schema number.
    #[must_use]
    pub fn schema(mut self, schema: u32) -> Self {
        self.schema = schema;
        self
    }

    /// Decode JSON or CBOR with serde.
    ///
    /// ```
    /// use annals::{Codec, Payload};
    ///
    /// let payload = Payload::new(Codec::Json, r#"["a",1]"#);
    /// assert_eq!(payload.decode::<(String, u8)>()?, ("a".to_owned(), 1));
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Corrupt` if the codec is another one, or the bytes do not decode.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        SerdeFormat::read(self)
    }
}

/// The formats of serde.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerdeFormat {
    /// JSON: readable by everybody.
    Json,
    /// CBOR: smaller, and still self-describing.
    Cbor,
}

/// JSON has only text as keys of maps.
const NOT_JSON: &str = "a value cannot be encoded as JSON; change its type, or its format: `#[stored(format = \"cbor\")]` for a state, `#[event(format = \"cbor\")]` for events";

const NOT_CBOR: &str = "a value cannot be encoded as CBOR; change its type, or its format";

impl SerdeFormat {
    pub(crate) fn codec(self) -> Codec {
        match self {
            Self::Json => Codec::Json,
            Self::Cbor => Codec::Cbor,
        }
    }

    /// The format of a codec; `Corrupt` if serde does not read it.
    pub(crate) fn from_codec(codec: &Codec) -> Result<Self> {
        match codec {
            Codec::Json => Ok(Self::Json),
            Codec::Cbor => Ok(Self::Cbor),
            other => Err(Error::corrupt(
                "a serde type reads only json and cbor; convert the payload with an adapter",
            )
            .fact("codec", other)),
        }
    }

    pub(crate) fn write<T: Serialize + ?Sized>(self, value: &T) -> Result<Payload> {
        let bytes = match self {
            Self::Json => serde_json::to_vec(value)
                .map_err(|cause| Error::invalid(NOT_JSON).because(cause))?,
            Self::Cbor => minicbor_serde::to_vec(value)
                .map_err(|cause| Error::invalid(NOT_CBOR).because(cause))?,
        };
        Ok(Payload::new(self.codec(), bytes))
    }

    /// Decode a payload of either format.
    pub(crate) fn read<T: DeserializeOwned>(payload: &Payload) -> Result<T> {
        Self::read_seed(payload, PhantomData)
    }

    /// Decode a payload of either format with a seed. The payload must end with the value.
    pub(crate) fn read_seed<T>(
        payload: &Payload,
        seed: impl for<'de> DeserializeSeed<'de, Value = T>,
    ) -> Result<T> {
        let corrupt = || Error::corrupt("a payload does not decode");
        let bytes = &payload.bytes;
        match Self::from_codec(&payload.codec)? {
            Self::Json => {
                let mut content = serde_json::Deserializer::from_slice(bytes);
                let value = seed.deserialize(&mut content);
                let value = value.and_then(|value| content.end().map(|()| value));
                value.map_err(|cause| corrupt().because(cause))
            }
            Self::Cbor => {
                let mut content = minicbor_serde::Deserializer::new(bytes);
                let value = seed.deserialize(&mut content);
                let value = value.map_err(|cause| corrupt().because(cause))?;
                match content.decoder().position() == bytes.len() {
                    true => Ok(value),
                    false => Err(corrupt().because("bytes follow the value")),
                }
            }
        }
    }
}
