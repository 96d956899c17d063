//! Payloads of snapshots and durable state: bytes, and how to read them.

use bytes::Bytes;

use crate::{Codec, NewEvent};

/// The application's bytes, and what says how to read them.
///
/// ```
/// use annals::{Codec, Payload};
///
/// let payload = Payload::new(Codec::Json, r#"{"balance":10}"#).manifest("Account").schema(2);
/// assert_eq!(payload.manifest, "Account");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The bytes.
    pub bytes: Bytes,
    /// How to read them.
    pub codec: Codec,
    /// The name that says what they are; may be empty.
    pub manifest: String,
    /// The number of the shape they have.
    pub schema: u32,
}

impl Payload {
    /// Bytes of a codec.
    pub fn new(codec: Codec, bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            codec,
            ..Self::default()
        }
    }

    /// With this manifest.
    #[must_use]
    pub fn manifest(mut self, manifest: impl Into<String>) -> Self {
        self.manifest = manifest.into();
        self
    }

    /// With this schema number.
    #[must_use]
    pub fn schema(mut self, schema: u32) -> Self {
        self.schema = schema;
        self
    }
}

/// A payload alone.
impl From<NewEvent> for Payload {
    fn from(event: NewEvent) -> Self {
        Self {
            bytes: event.payload,
            codec: event.codec,
            manifest: event.manifest,
            schema: event.schema,
        }
    }
}

/// An event of nothing but a payload.
impl From<Payload> for NewEvent {
    fn from(payload: Payload) -> Self {
        Self {
            payload: payload.bytes,
            codec: payload.codec,
            manifest: payload.manifest,
            schema: payload.schema,
            ..Self::default()
        }
    }
}
