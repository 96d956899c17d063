//! Writes: conditions, puts and deletes, and their errors.

use super::{Cost, Item, Key, Value};
use crate::Error;

/// The condition of a write.
///
/// ```
/// use annals::items::{Condition, Item};
///
/// let stored = Item::new().with("id", "a").with("revision", 2u64);
/// assert!(!Condition::Absent.holds(Some(&stored)));
/// assert!(Condition::Equals("revision".into(), 2u64.into()).holds(Some(&stored)));
/// assert!(!Condition::Equals("revision".into(), 2u64.into()).holds(None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// None: always write.
    Always,
    /// There is no item.
    Absent,
    /// There is an item, and its attribute has this value.
    Equals(String, Value),
}

impl Condition {
    /// Whether the condition holds for the existing item.
    pub fn holds(&self, existing: Option<&Item>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => existing.is_none(),
            Self::Equals(name, value) => existing.and_then(|item| item.get(name)) == Some(value),
        }
    }
}

/// A write of a batch.
///
/// ```
/// use annals::items::{Item, Key, Write};
///
/// # use annals::items::{Items, KeyAttribute, KeySchema, TableSpec};
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let items = Memory::new();
/// # items.create_table(&table, Default::default()).await?;
/// items.write(&table, vec![Write::Put(Item::new().with("id", "a"))]).await?;
/// items
///     .write(&table, vec![Write::Put(Item::new().with("id", "b")), Write::Delete(Key::new("a"))])
///     .await?;
/// let got = items.get(&table, vec![Key::new("a"), Key::new("b")]).await?;
/// assert_eq!(got.items, [None, Some(Item::new().with("id", "b"))]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Put this item, replacing an existing one.
    Put(Item),
    /// Delete the item of this key, if there is one.
    Delete(Key),
}

/// The error of a conditional write.
///
/// ```
/// use annals::items::{Condition, Item, WriteError};
///
/// # use annals::items::{Items, KeyAttribute, KeySchema, TableSpec};
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let items = Memory::new();
/// # items.create_table(&table, Default::default()).await?;
/// let mine = Item::new().with("id", "a").with("by", "me");
/// items.put(&table, mine.clone(), Condition::Absent).await?;
///
/// let yours = Item::new().with("id", "a").with("by", "you");
/// match items.put(&table, yours, Condition::Absent).await {
///     Err(WriteError::Refused { existing, .. }) => assert_eq!(existing.as_deref(), Some(&mine)),
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The condition did not hold.
    ///
    /// If a response was lost and the write retried, the existing item may be our own: put a token
    /// into the item and compare it.
    #[error("condition does not hold")]
    Refused {
        /// The existing item, if there is one.
        existing: Option<Box<Item>>,
        /// The cost of the refused write.
        cost: Cost,
    },
    /// The store failed; the error's kind says whether the write may have succeeded.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Failed(error) => error,
            refused @ WriteError::Refused { .. } => {
                Error::conflict("another writer was first; reload and decide again")
                    .because(refused)
            }
        }
    }
}

/// The error of a batch of writes: `remaining` are not confirmed, but may have succeeded.
///
/// ```
/// use annals::Result;
/// use annals::items::{BatchError, Item, Items, TableSpec, Write};
///
/// /// Writes all, retrying the remaining writes once.
/// async fn write_all(items: &dyn Items, table: &TableSpec, writes: Vec<Write>) -> Result<()> {
///     match items.write(table, writes).await {
///         Ok(_) => Ok(()),
///         Err(BatchError { remaining, .. }) => Ok(items.write(table, remaining).await.map(drop)?),
///     }
/// }
/// # use annals_testkit::faulty::{Faults, Faulty};
/// # use annals::items::{Key, KeyAttribute, KeySchema};
/// # use annals::{Random, memory::Memory};
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let memory = Arc::new(Memory::new());
/// # memory.create_table(&table, Default::default()).await?;
/// # let note = || vec![Write::Put(Item::new().with("id", "a"))];
/// # write_all(&*memory, &table, note()).await?;
/// # assert!(memory.get(&table, vec![Key::new("a")]).await?.items[0].is_some());
/// # let always = Faults { error: 1_000, ..Faults::none() };
/// # let faulty = Faulty::new(memory, Random::seeded(7), always);
/// # assert!(write_all(&faulty, &table, note()).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{} writes of the batch remain", remaining.len())]
#[non_exhaustive]
pub struct BatchError {
    /// The writes that were not confirmed. Safe to repeat.
    pub remaining: Vec<Write>,
    /// The cost so far.
    pub cost: Cost,
    /// The cause.
    #[source]
    pub cause: Error,
}

impl BatchError {
    /// A batch of which these writes remain, for stores.
    pub fn new(remaining: Vec<Write>, cost: Cost, cause: Error) -> Self {
        Self {
            remaining,
            cost,
            cause,
        }
    }
}

impl From<BatchError> for Error {
    fn from(error: BatchError) -> Self {
        let message = format!("{error}; the rest is written");
        Error::new(error.cause.kind(), message).because(error.cause)
    }
}
