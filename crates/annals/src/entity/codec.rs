//! Codecs: how values are encoded as bytes.
//!
//! | `format = ` | Codec | Encodes | On the layouts shared with the JVM |
//! | --- | --- | --- | --- |
//! | `"json"` (default) | [`Json`] | serde types | Jackson JSON |
//! | `"cbor"` | [`Cbor`] | serde types | Jackson CBOR |
//! | `"protobuf"` | `Protobuf`, with the feature `protobuf` | prost messages | protocol buffers; the manifest must be the class name |
//! | `"text"` | [`Text`] | a newtype over a string | the string serializer |
//! | `"bytes"` | [`Bytes`] | a newtype over bytes | the byte array serializer |
//! | a type | a custom [`ValueCodec`] | what it supports | by its codec's name |
//!
//! Guarantees: a written value reads back; bytes that do not decode are `Corrupt`. Manifest and schema
//! number belong to the type, not to the codec.

use ::bytes::Bytes as Buffer;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::payload::SerdeFormat;
use crate::{Codec, Error, Payload, Result};

/// Encodes and decodes values of type `T`.
///
/// Name a custom codec in the derives by its type. This one matches a serializer of a JVM service by
/// its number: on the layouts `akka` and `j5ik2o` that serializer reads the bytes, and gets the
/// manifest with them.
///
/// ```
/// use annals::entity::EntityEvent;
/// use annals::entity::codec::ValueCodec;
/// use annals::{Codec, Error, Payload, Result};
/// use bytes::Bytes;
///
/// /// Serializer 1042 of our JVM services: a big-endian number.
/// struct BigEndian;
///
/// impl ValueCodec<u64> for BigEndian {
///     fn codec() -> Codec {
///         Codec::Other("akka:1042".into())
///     }
///
///     fn write(value: &u64) -> Result<Bytes> {
///         Ok(Bytes::copy_from_slice(&value.to_be_bytes()))
///     }
///
///     fn read(payload: &Payload) -> Result<u64> {
///         let bytes = payload.bytes.as_ref().try_into();
///         let bytes = bytes.map_err(|cause| Error::corrupt("not 8 bytes").because(cause))?;
///         Ok(u64::from_be_bytes(bytes))
///     }
/// }
///
/// #[derive(EntityEvent, PartialEq, Debug)]
/// #[event(format = BigEndian)]
/// enum AccountEvent {
///     #[event(name = "com.example.Deposited")]
///     Deposited(u64),
/// }
///
/// let event = AccountEvent::Deposited(10).to_event()?;
/// assert_eq!(event.codec.to_string(), "akka:1042");
/// assert_eq!(event.manifest, "com.example.Deposited");
/// assert_eq!(AccountEvent::from_event(&event)?, Some(AccountEvent::Deposited(10)));
/// # Ok::<(), annals::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the codec `{Self}` cannot encode `{T}`",
    note = "`Json` and `Cbor` need serde's `Serialize` and `Deserialize`; `Protobuf` needs a prost message and the feature `protobuf` of annals; `Text` and `Bytes` need a newtype over a string or bytes",
    note = "for any other type, implement `annals::entity::codec::ValueCodec<{T}>` for a codec of your own"
)]
pub trait ValueCodec<T> {
    /// The codec name stored with the bytes.
    fn codec() -> Codec;

    /// Encode a value.
    ///
    /// # Errors
    /// `Invalid` if the format cannot represent it.
    fn write(value: &T) -> Result<Buffer>;

    /// Decode a payload. Its codec is usually this one; it may be an older one that this codec can
    /// still read.
    ///
    /// # Errors
    /// `Corrupt` if the payload does not decode.
    fn read(payload: &Payload) -> Result<T>;
}

/// JSON through serde. Reads CBOR as well.
///
/// ```
/// use annals::Codec;
/// use annals::entity::EntityEvent;
///
/// #[derive(serde::Serialize, serde::Deserialize, EntityEvent)]
/// #[event(format = "json")] // the default
/// enum AccountEvent {
///     Deposited { amount: u64 },
/// }
///
/// let event = AccountEvent::Deposited { amount: 10 }.to_event()?;
/// assert_eq!(event.codec, Codec::Json);
/// assert_eq!(event.payload, r#"{"amount":10}"#);
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> ValueCodec<T> for Json {
    fn codec() -> Codec {
        Codec::Json
    }

    fn write(value: &T) -> Result<Buffer> {
        Ok(SerdeFormat::Json.write(value)?.bytes)
    }

    fn read(payload: &Payload) -> Result<T> {
        SerdeFormat::read(payload)
    }
}

/// CBOR through serde. Reads JSON as well.
///
/// ```
/// use annals::Codec;
/// use annals::entity::EntityEvent;
///
/// #[derive(serde::Serialize, serde::Deserialize, EntityEvent)]
/// #[event(format = "cbor")]
/// enum AccountEvent {
///     Deposited { amount: u64 },
/// }
///
/// let event = AccountEvent::Deposited { amount: 10 }.to_event()?;
/// assert_eq!(event.codec, Codec::Cbor);
/// assert_eq!(event.payload, b"\xA1\x66amount\x0A".as_slice());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cbor;

impl<T: Serialize + DeserializeOwned> ValueCodec<T> for Cbor {
    fn codec() -> Codec {
        Codec::Cbor
    }

    fn write(value: &T) -> Result<Buffer> {
        Ok(SerdeFormat::Cbor.write(value)?.bytes)
    }

    fn read(payload: &Payload) -> Result<T> {
        SerdeFormat::read(payload)
    }
}

/// Protocol buffers through prost.
///
/// A variant holds a message or nothing; a struct is a message. Fields can be added under the rules
/// of protocol buffers, without a new schema number.
///
/// ```
/// use annals::entity::EntityEvent;
///
/// #[derive(prost::Message, Clone, PartialEq)]
/// struct Deposited {
///     #[prost(uint64, tag = "1")]
///     amount: u64,
/// }
///
/// #[derive(EntityEvent, PartialEq, Debug)]
/// #[event(format = "protobuf")]
/// enum AccountEvent {
///     Deposited(Deposited),
///     Closed,
/// }
///
/// let deposited = AccountEvent::Deposited(Deposited { amount: 10 });
/// let event = deposited.to_event()?;
/// assert_eq!((event.manifest.as_str(), event.payload.as_ref()), ("Deposited", &[0x08, 10][..]));
/// assert_eq!(AccountEvent::from_event(&event)?, Some(deposited));
/// # Ok::<(), annals::Error>(())
/// ```
#[cfg(feature = "protobuf")]
#[derive(Clone, Copy, Debug)]
pub struct Protobuf;

#[cfg(feature = "protobuf")]
impl<T: prost::Message + Default> ValueCodec<T> for Protobuf {
    fn codec() -> Codec {
        Codec::Protobuf
    }

    fn write(value: &T) -> Result<Buffer> {
        Ok(value.encode_to_vec().into())
    }

    fn read(payload: &Payload) -> Result<T> {
        check(payload, &Codec::Protobuf)?;
        let message = T::decode(payload.bytes.clone());
        message.map_err(|cause| {
            Error::corrupt("a protocol buffers message does not decode").because(cause)
        })
    }
}

/// UTF-8 text, for newtypes over a string. Reads no other codec.
///
/// ```
/// use annals::Codec;
/// use annals::entity::EntityEvent;
///
/// #[derive(EntityEvent)]
/// #[event(format = "text")]
/// enum AccountEvent {
///     Renamed(String),
/// }
///
/// let event = AccountEvent::Renamed("Ann".into()).to_event()?;
/// assert_eq!(event.codec, Codec::Text);
/// assert_eq!(event.payload, "Ann");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Text;

impl<T: AsRef<str> + From<String>> ValueCodec<T> for Text {
    fn codec() -> Codec {
        Codec::Text
    }

    fn write(value: &T) -> Result<Buffer> {
        Ok(Buffer::copy_from_slice(value.as_ref().as_bytes()))
    }

    fn read(payload: &Payload) -> Result<T> {
        check(payload, &Codec::Text)?;
        let text = String::from_utf8(payload.bytes.to_vec());
        let text =
            text.map_err(|cause| Error::corrupt("a text payload is not UTF-8").because(cause))?;
        Ok(text.into())
    }
}

/// Raw bytes, for newtypes over `Vec<u8>` or [`Bytes`](::bytes::Bytes). Reads no other codec.
///
/// ```
/// use annals::Codec;
/// use annals::entity::EntityEvent;
///
/// #[derive(EntityEvent)]
/// #[event(format = "bytes")]
/// enum AccountEvent {
///     Photographed(Vec<u8>),
/// }
///
/// let event = AccountEvent::Photographed(vec![1, 2]).to_event()?;
/// assert_eq!(event.codec, Codec::Bytes);
/// assert_eq!(event.payload, [1, 2].as_slice());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bytes;

impl<T: AsRef<[u8]> + From<Buffer>> ValueCodec<T> for Bytes {
    fn codec() -> Codec {
        Codec::Bytes
    }

    fn write(value: &T) -> Result<Buffer> {
        Ok(Buffer::copy_from_slice(value.as_ref()))
    }

    fn read(payload: &Payload) -> Result<T> {
        check(payload, &Codec::Bytes)?;
        Ok(payload.bytes.clone().into())
    }
}

/// Refuse bytes of another codec: they might decode and mean something else.
fn check(payload: &Payload, own: &Codec) -> Result<()> {
    match &payload.codec {
        codec if codec == own => Ok(()),
        other => Err(
            Error::corrupt("a payload has another codec; convert it with an adapter")
                .fact("codec", other)
                .fact("expected", own),
        ),
    }
}
