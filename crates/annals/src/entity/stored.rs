//! How events, states and values become payloads, and back.
//!
//! Promises: what was written reads back; the codec is recorded with each payload, so one journal
//! may hold several. What does not decode is `Corrupt`, and says what it was.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::{Codec, Error, NewEvent, Payload, Result};

/// What is stored as one payload: the state of an entity, a durable value.
///
/// Derived for every serde type (`#[derive(Stored)]`, as JSON, or `#[stored(format = "cbor",
/// schema = 2)]`), for messages of protocol buffers, for text and bytes, and for what has a
/// [codec](super::codec) of its own; by hand for everything else:
///
/// ```
/// use annals::entity::Stored;
/// use annals::{Codec, Error, Payload, Result};
///
/// struct Counter(u64);
///
/// impl Stored for Counter {
///     fn to_payload(&self) -> Result<Payload> {
///         Ok(Payload::new(Codec::Bytes, self.0.to_be_bytes().to_vec()))
///     }
///
///     fn from_payload(payload: &Payload) -> Result<Self> {
///         let bytes = payload.bytes.as_ref().try_into();
///         let bytes = bytes.map_err(|cause| Error::corrupt("no counter").because(cause))?;
///         Ok(Self(u64::from_be_bytes(bytes)))
///     }
/// }
/// # let payload = Counter(7).to_payload().unwrap();
/// # assert_eq!(Counter::from_payload(&payload).unwrap().0, 7);
/// ```
pub trait Stored: Sized {
    /// The payload.
    ///
    /// # Errors
    /// `Invalid` where the format cannot hold it.
    fn to_payload(&self) -> Result<Payload>;

    /// What a payload holds.
    ///
    /// # Errors
    /// `Corrupt` where it does not decode, or is of another shape.
    fn from_payload(payload: &Payload) -> Result<Self>;
}

/// An event of an entity: usually an enum, one variant for each thing that can happen.
///
/// Derived for every serde enum (`#[derive(EntityEvent)]`): the variant's name is the manifest and
/// its fields are the payload, so `Deposited { amount: 10 }` is stored as `Deposited` and
/// `{"amount":10}`, which is what a reader in another language expects. Variants that hold a message
/// of protocol buffers, text, bytes or what has a [codec](super::codec) of its own are derived too.
/// By hand for everything else:
///
/// ```
/// use annals::entity::EntityEvent;
/// use annals::{Codec, Error, NewEvent, Result};
///
/// struct Beat(u8);
///
/// impl EntityEvent for Beat {
///     fn to_event(&self) -> Result<NewEvent> {
///         Ok(NewEvent::new(Codec::Bytes, vec![self.0]).manifest("Beat"))
///     }
///
///     fn from_event(event: &NewEvent) -> Result<Option<Self>> {
///         match (event.manifest.as_str(), event.payload.as_ref()) {
///             ("Beat", [n]) => Ok(Some(Self(*n))),
///             ("Beat", _) => Err(Error::corrupt("a beat has one byte")),
///             _ => Ok(None),
///         }
///     }
/// }
/// # let event = Beat(7).to_event().unwrap();
/// # assert_eq!(Beat::from_event(&event).unwrap().unwrap().0, 7);
/// # assert!(Beat::from_event(&event.manifest("Other")).unwrap().is_none());
/// ```
pub trait EntityEvent: Sized + Send + Sync + 'static {
    /// The event as it is appended.
    ///
    /// # Errors
    /// `Invalid` where the format cannot hold it.
    fn to_event(&self) -> Result<NewEvent>;

    /// What a stored event holds; `None` where it is none of these.
    ///
    /// # Errors
    /// `Corrupt` where it does not decode.
    fn from_event(event: &NewEvent) -> Result<Option<Self>>;
}

/// A format that serde writes, for what implements [`Stored`] or [`EntityEvent`] by hand.
///
/// ```
/// use annals::entity::Format;
///
/// let payload = Format::Cbor.write(&(1, "a"))?;
/// assert_eq!(payload.bytes, [0x82, 0x01, 0x61, b'a'].as_slice());
/// let value: (u8, String) = Format::read(&payload)?;
/// assert_eq!(value, (1, "a".to_owned()));
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// JSON: to be read by everybody.
    #[default]
    Json,
    /// CBOR: smaller, and still with names.
    Cbor,
}

impl Format {
    /// The codec that a payload of it has.
    pub fn codec(self) -> Codec {
        match self {
            Self::Json => Codec::Json,
            Self::Cbor => Codec::Cbor,
        }
    }

    /// The format of a codec.
    ///
    /// # Errors
    /// `Corrupt` where serde does not read it.
    pub fn of(codec: &Codec) -> Result<Self> {
        match codec {
            Codec::Json => Ok(Self::Json),
            Codec::Cbor => Ok(Self::Cbor),
            other => Err(Error::corrupt(format!(
                "serde does not read this codec; implement the reading by hand. codec=`{other}`"
            ))),
        }
    }

    /// The payload of a value.
    ///
    /// # Errors
    /// `Invalid` where the format cannot hold it.
    pub fn write<T: Serialize + ?Sized>(self, value: &T) -> Result<Payload> {
        let invalid = || Error::invalid("a value cannot be written");
        let bytes = match self {
            Self::Json => serde_json::to_vec(value).map_err(|cause| invalid().because(cause))?,
            Self::Cbor => minicbor_serde::to_vec(value).map_err(|e| invalid().because(e))?,
        };
        Ok(Payload::new(self.codec(), bytes))
    }

    /// What a payload of any format holds.
    ///
    /// # Errors
    /// `Corrupt` where it does not decode.
    pub fn read<T: DeserializeOwned>(payload: &Payload) -> Result<T> {
        Self::read_seed(payload, PhantomData)
    }

    /// What a seed makes of a payload of any format, which is to have nothing behind it.
    pub(super) fn read_seed<T>(
        payload: &Payload,
        seed: impl for<'de> DeserializeSeed<'de, Value = T>,
    ) -> Result<T> {
        let corrupt = || Error::corrupt("a payload does not decode");
        let bytes = &payload.bytes;
        match Self::of(&payload.codec)? {
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
                    false => Err(corrupt().because("there are bytes behind it")),
                }
            }
        }
    }
}
