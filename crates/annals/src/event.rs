//! Events: what an application appends and replays.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::{Codec, Payload, PersistenceId, Random, Result, SequenceNumber};

/// An event to append: a payload with manifest, schema number, tags and metadata.
///
/// ```
/// use annals::{Codec, NewEvent};
///
/// let event = NewEvent::new(Codec::Json, r#"{"amount":10}"#)
///     .manifest("Deposited")
///     .tag("vip")
///     .metadata("by", "alice");
/// assert_eq!(event.manifest, "Deposited");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewEvent {
    /// The application's bytes. Those of an event that was read share memory with their neighbours, on
    /// the embedded store a block of about 4 KiB: copy them if you keep few of many for long.
    pub payload: Bytes,
    /// How they are encoded.
    pub codec: Codec,
    /// The name of the event type; may be empty.
    pub manifest: String,
    /// The schema number of the event type.
    pub schema: u32,
    /// Tags to find the event by.
    pub tags: Vec<String>,
    /// Anything else, by name.
    pub metadata: BTreeMap<String, String>,
}

impl NewEvent {
    /// An event with only a payload.
    pub fn new(codec: Codec, payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
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

    /// Add a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Add metadata.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Decode a JSON or CBOR payload with serde.
    ///
    /// # Errors
    /// `Corrupt` if the codec is another one, or the bytes do not decode.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        Payload::new(self.codec.clone(), self.payload.clone()).decode()
    }
}

/// The payload of an event, without tags and metadata.
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

/// An event without tags and metadata.
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

/// Identifies an append, so that a retry after a lost response is recognised.
///
/// ```
/// use annals::journal::{Append, Expected};
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let journal = annals.journal();
/// let id = "Cart|42".parse()?;
/// let token = journal.token();
/// let append = Append::from(NewEvent::new(Codec::Text, "opened")).token(token);
/// let appended = journal.append(&id, Expected::Empty, append.clone()).await?;
///
/// // The response was lost, so the append is repeated. Nothing is written twice.
/// let again = journal.append(&id, Expected::Empty, append).await?;
/// assert_eq!(again, appended);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; Token::BYTES]);

impl Token {
    /// The size of a token in bytes.
    pub const BYTES: usize = 8;

    /// Draw a random token.
    pub fn draw(random: &Random) -> Self {
        Self(random.bits().to_be_bytes())
    }

    /// The token with these bytes.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

/// A stored event.
///
/// ```
/// use annals::journal::{Expected, Window};
/// use annals::{Codec, Event, NewEvent};
/// use futures::TryStreamExt;
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let journal = annals.journal();
/// let id = "Cart|42".parse()?;
/// let opened = NewEvent::new(Codec::Text, "by alice").manifest("Opened");
/// journal.append(&id, Expected::Empty, opened.clone()).await?;
///
/// let events: Vec<Event> = journal.replay(&id, Window::ALL).try_collect().await?;
/// assert_eq!(events[0].persistence_id, id);
/// assert_eq!(events[0].sequence_number.get(), 1);
/// assert_eq!(events[0].data, opened);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The persistence id.
    pub persistence_id: PersistenceId,
    /// The sequence number within the persistence id.
    pub sequence_number: SequenceNumber,
    /// When it was appended, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// The token of its append.
    pub token: Token,
    /// The causation id of its append, if any.
    pub causation: Option<Arc<str>>,
    /// The correlation id of its append, if any.
    pub correlation: Option<Arc<str>>,
    /// The event as it was appended.
    pub data: NewEvent,
}

impl Event {
    /// An event as a layout reads it. Time and ids are fields to set.
    pub fn new(id: PersistenceId, number: SequenceNumber, token: Token, data: NewEvent) -> Self {
        Self {
            persistence_id: id,
            sequence_number: number,
            time_ms: 0,
            token,
            causation: None,
            correlation: None,
            data,
        }
    }
}
