//! Persistence ids and sequence numbers.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Error, Result, ResultStream};

/// A stream of persistence ids, each once. It ends after an error.
///
/// ```
/// use annals::PersistenceId;
/// use annals::IdStream;
/// use futures::TryStreamExt;
///
/// # use annals::Annals;
/// # use annals::memory::Memory;
/// # use annals::layout::AnnalsLayout;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # let event = annals::NewEvent::new(annals::Codec::Text, "opened");
/// # for id in ["Cart|42", "Account|1"] {
/// #     let (id, expected) = (id.parse()?, annals::journal::Expected::Empty);
/// #     annals.journal().append(&id, expected, event.clone()).await?;
/// # }
/// let carts: IdStream = annals.journal().persistence_ids("Cart|");
/// let carts: Vec<PersistenceId> = carts.try_collect().await?;
/// assert_eq!(carts, ["Cart|42".parse()?]);
/// # Ok(())
/// # }
/// ```
pub type IdStream = ResultStream<PersistenceId>;

/// The maximum size of a persistence id in bytes: a partition key has 2,048, and layouts add to it.
pub const PERSISTENCE_ID_BYTES_MAX: usize = 2_000;

/// Identifies an entity: any text of 1 to 2,000 bytes, by convention `EntityType|entity-id`.
///
/// Its size is checked when it is parsed, so it always fits a partition key.
///
/// ```
/// use annals::PersistenceId;
///
/// let id: PersistenceId = "Cart|42".parse()?;
/// assert_eq!(id.as_str(), "Cart|42");
/// assert!("".parse::<PersistenceId>().is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PersistenceId(Arc<str>);

impl PersistenceId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PersistenceId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > PERSISTENCE_ID_BYTES_MAX {
            let bytes = text.len();
            return Err(Error::invalid(format!(
                "a persistence id must have 1 to {PERSISTENCE_ID_BYTES_MAX} bytes"
            ))
            .fact("bytes", bytes));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for PersistenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PersistenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PersistenceId({})", self.0)
    }
}

/// The position of an event within its persistence id: from 1, each used once.
///
/// ```
/// use annals::SequenceNumber;
///
/// let first = SequenceNumber::FIRST;
/// assert_eq!(first.get(), 1);
/// assert_eq!(first.next().map(SequenceNumber::get), Some(2));
/// assert!(SequenceNumber::new(0).is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(NonZeroU64);

impl SequenceNumber {
    /// The first sequence number.
    pub const FIRST: Self = Self(NonZeroU64::MIN);
    /// The last sequence number: the largest signed 64-bit number, as on the JVM.
    pub const LAST: Self = match NonZeroU64::new(i64::MAX as u64) {
        Some(last) => Self(last),
        None => Self::FIRST,
    };

    /// The number, unless it is zero or past [`LAST`](Self::LAST).
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(inner) if number <= i64::MAX as u64 => Some(Self(inner)),
            _ => None,
        }
    }

    /// The number as an integer.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The number after this one.
    pub fn next(self) -> Option<Self> {
        self.plus(1)
    }

    /// The number `places` later.
    pub fn plus(self, places: u64) -> Option<Self> {
        self.get().checked_add(places).and_then(Self::new)
    }
}

impl FromStr for SequenceNumber {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = text.parse().ok().and_then(Self::new);
        number.ok_or_else(|| {
            Error::invalid(format!(
                "a sequence number must be a whole number from 1 to {}",
                Self::LAST
            ))
            .fact("number", text)
        })
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
