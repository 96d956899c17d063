//! Events: what an application appends, and what it gets back.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Codec, PersistenceId, Random, SequenceNumber};

/// What is to be appended: a payload and what is known about it.
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
pub struct NewEvent {
    /// The application's bytes.
    pub payload: Bytes,
    /// How to read them.
    pub codec: Codec,
    /// The name that says what they are; may be empty.
    pub manifest: String,
    /// The number of the shape they have, counted up as the application changes it.
    pub schema: u32,
    /// What to find them by.
    pub tags: Vec<String>,
    /// Anything else, by name.
    pub metadata: BTreeMap<String, String>,
}

impl NewEvent {
    /// An event with nothing but its payload.
    pub fn new(codec: Codec, payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
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

    /// With one more tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// With one more piece of metadata.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }
}

/// What tells one append from every other, so that one whose answer was lost is recognised.
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
/// // The answer was lost, so it is appended again: nothing happens twice.
/// let again = journal.append(&id, Expected::Empty, append).await?;
/// assert_eq!(again, appended);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; Token::BYTES]);

impl Token {
    /// How many bytes a token has.
    pub const BYTES: usize = 8;

    /// A token that nobody else draws.
    pub fn draw(random: &Random) -> Self {
        Self(random.bits().to_be_bytes())
    }

    /// A token from its bytes.
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

/// One stored fact.
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
pub struct Event {
    /// Whose it is.
    pub persistence_id: PersistenceId,
    /// Its place among them.
    pub sequence_number: SequenceNumber,
    /// When it was appended, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// Which append it came with.
    pub token: Token,
    /// What caused that append, if it said so; shared by its events.
    pub causation: Option<Arc<str>>,
    /// What that append belongs to, if it said so; shared by its events.
    pub correlation: Option<Arc<str>>,
    /// What was appended.
    pub data: NewEvent,
}
