//! Codecs of values: how what an application stores becomes bytes, and back.
//!
//! | `format = ` | Codec | Writes | On the layouts shared with the JVM |
//! | --- | --- | --- | --- |
//! | `"json"`, the default | [`Json`] | what serde does | Jackson's JSON |
//! | `"cbor"` | [`Cbor`] | what serde does | Jackson's CBOR |
//! | `"protobuf"` | `Protobuf`, with the feature `protobuf` | messages of prost | protocol buffers; the manifest is to be the name of the class |
//! | `"text"` | [`Text`] | a newtype over a string | the string serializer |
//! | `"bytes"` | [`Bytes`] | a newtype over bytes | the byte array serializer |
//! | a type | a [`ValueCodec`] of one's own | what it can | by its codec's name |
//!
//! Promises: what was written reads back; what does not is `Corrupt`.
//! Never: chooses the manifest or the number of the shape; that is the type's.

use ::bytes::Bytes as Buffer;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Format;
use crate::{Codec, Error, Payload, Result};

/// A codec: writes and reads values of a type.
///
/// One of one's own goes into the derives by its type. Here with a serializer of the JVM side, by
/// its number: on the layouts `akka` and `j5ik2o` that serializer reads what is written here, and
/// the manifest is what it is told about the bytes.
///
/// ```
/// use annals::entity::EntityEvent;
/// use annals::entity::codec::ValueCodec;
/// use annals::{Codec, Error, Payload, Result};
/// use bytes::Bytes;
///
/// /// Serializer 1042 of our services on the JVM: a number, most significant byte first.
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
/// enum Happened {
///     #[event(name = "com.example.Deposited")]
///     Deposited(u64),
/// }
///
/// let event = Happened::Deposited(10).to_event()?;
/// assert_eq!(event.codec.to_string(), "akka:1042");
/// assert_eq!(event.manifest, "com.example.Deposited");
/// assert_eq!(Happened::from_event(&event)?, Some(Happened::Deposited(10)));
/// # Ok::<(), annals::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the codec `{Self}` does not write `{T}`",
    note = "`Json` and `Cbor` write what derives serde's `Serialize` and `Deserialize`; `Protobuf` messages of prost, with the feature `protobuf` of annals; `Text` and `Bytes` what derefs to a string or bytes, and is made of them"
)]
pub trait ValueCodec<T> {
    /// What is recorded with the bytes.
    fn codec() -> Codec;

    /// The bytes of a value.
    ///
    /// # Errors
    /// `Invalid` where they cannot hold it.
    fn write(value: &T) -> Result<Buffer>;

    /// The value in a payload, whose codec is usually this one's. It may be an older one: whoever
    /// knows that too can read it.
    ///
    /// # Errors
    /// `Corrupt` where it does not decode.
    fn read(payload: &Payload) -> Result<T>;
}

/// JSON, as serde writes it. Reads CBOR as well.
///
/// ```
/// use annals::Codec;
/// use annals::entity::EntityEvent;
///
/// #[derive(serde::Serialize, serde::Deserialize, EntityEvent)]
/// #[event(format = "json")] // as it is without a word
/// enum Happened {
///     Deposited { amount: u64 },
/// }
///
/// let event = Happened::Deposited { amount: 10 }.to_event()?;
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
        Ok(Format::Json.write(value)?.bytes)
    }

    fn read(payload: &Payload) -> Result<T> {
        Format::read(payload)
    }
}

/// CBOR, as serde writes it. Reads JSON as well.
///
/// ```
/// use annals::Codec;
/// use annals::entity::EntityEvent;
///
/// #[derive(serde::Serialize, serde::Deserialize, EntityEvent)]
/// #[event(format = "cbor")]
/// enum Happened {
///     Deposited { amount: u64 },
/// }
///
/// let event = Happened::Deposited { amount: 10 }.to_event()?;
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
        Ok(Format::Cbor.write(value)?.bytes)
    }

    fn read(payload: &Payload) -> Result<T> {
        Format::read(payload)
    }
}

/// Messages of protocol buffers, as prost writes them.
///
/// A variant holds a message, or nothing; a struct is one. Fields may be added, as protocol
/// buffers have it, without a new schema number.
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
/// enum Happened {
///     Deposited(Deposited),
///     Closed,
/// }
///
/// let deposited = Happened::Deposited(Deposited { amount: 10 });
/// let event = deposited.to_event()?;
/// assert_eq!((event.manifest.as_str(), event.payload.as_ref()), ("Deposited", &[0x08, 10][..]));
/// assert_eq!(Happened::from_event(&event)?, Some(deposited));
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
        message.map_err(|cause| Error::corrupt("a message does not decode").because(cause))
    }
}

/// Text in UTF-8, for newtypes over a string. Reads no other codec.
///
/// ```
/// use annals::Codec;
/// use annals::entity::EntityEvent;
///
/// #[derive(EntityEvent)]
/// #[event(format = "text")]
/// enum Happened {
///     Renamed(String),
/// }
///
/// let event = Happened::Renamed("Ann".into()).to_event()?;
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
        let text = text.map_err(|cause| Error::corrupt("it is not UTF-8").because(cause))?;
        Ok(text.into())
    }
}

/// Bytes as they are, for newtypes over `Vec<u8>` or [`Bytes`](::bytes::Bytes). Reads no other
/// codec.
///
/// ```
/// use annals::Codec;
/// use annals::entity::EntityEvent;
///
/// #[derive(EntityEvent)]
/// #[event(format = "bytes")]
/// enum Happened {
///     Photographed(Vec<u8>),
/// }
///
/// let event = Happened::Photographed(vec![1, 2]).to_event()?;
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

/// Bytes of another codec might decode, and mean something else.
fn check(payload: &Payload, own: &Codec) -> Result<()> {
    match &payload.codec {
        codec if codec == own => Ok(()),
        other => Err(Error::corrupt(format!(
            "it has another codec; an adapter can make it this one. codec=`{other}`, own=`{own}`"
        ))),
    }
}
