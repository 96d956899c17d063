//! The changes of a store in the order in which they became durable, for stores that keep them.
//!
//! Guarantees: a change has one position, given when it becomes durable, and keeps it. Nothing is ever
//! inserted before a position that was read. Two readers see the same changes, except that a value
//! which was replaced or deleted since may be erased.

use async_trait::async_trait;

use super::{Cost, Item, Key, TableSpec};
use crate::Result;

/// A change of an item.
///
/// See [`Changes`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Its position among the changes of the store. They grow, but are not dense: other tables have
    /// changes, too.
    pub position: u64,
    /// The key of the item.
    pub key: Key,
    /// Whether there was an item with this key.
    pub has_replaced: bool,
    /// What the item became.
    pub now: Changed,
}

impl Change {
    /// A change, as a store returns it.
    pub fn new(position: u64, key: Key, has_replaced: bool, now: Changed) -> Self {
        Self {
            position,
            key,
            has_replaced,
            now,
        }
    }
}

/// What an item became.
///
/// See [`Changes`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It was put.
    Put(Item),
    /// It was put. It was replaced or deleted later, and this value of it was erased since.
    Erased,
    /// It was deleted.
    Deleted,
}

/// The last change of a store.
///
/// See [`Changes`] for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastChange {
    /// Its position; 0 if there is none.
    pub position: u64,
    /// When it became durable, in milliseconds since the Unix epoch; 0 if that is unknown.
    pub time_ms: u64,
}

impl LastChange {
    /// The last change, as a store returns it.
    pub fn new(position: u64, time_ms: u64) -> Self {
        Self { position, time_ms }
    }
}

/// The history of a store.
///
/// See [`Changes`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct History {
    /// Identifies it. A position of another history means other changes, unless that is an origin.
    pub number: u32,
    /// The histories that this one continues, the oldest first.
    pub origins: Vec<Origin>,
    /// Its last change, of any table.
    pub last: LastChange,
}

/// A history that another one continues, as after the restore of a backup.
///
/// See [`Changes`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Identifies the earlier history.
    pub number: u32,
    /// Up to this position, both histories have the same changes.
    pub last: u64,
}

impl History {
    /// A history that continues no other, as a store returns it.
    pub fn new(number: u32, last: LastChange) -> Self {
        Self {
            number,
            origins: Vec::new(),
            last,
        }
    }

    /// The same, continuing earlier histories, the oldest first.
    #[must_use]
    pub fn continuing(mut self, origins: Vec<Origin>) -> Self {
        self.origins = origins;
        self
    }
}

/// Some changes of one table.
///
/// See [`Changes`] for an example.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ChangePage {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// Every change of the table up to this position was returned.
    pub upto: LastChange,
    /// The last change of the store, of any table.
    pub last: LastChange,
    /// Requests and units.
    pub cost: Cost,
}

impl ChangePage {
    /// A page, as a store returns it.
    pub fn new(changes: Vec<Change>, upto: LastChange, last: LastChange, cost: Cost) -> Self {
        Self {
            changes,
            upto,
            last,
            cost,
        }
    }
}

/// How much a page of changes may hold. It has at least one change, if there is one, unless `changes`
/// is 0.
///
/// See [`Changes`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBudget {
    /// Changes.
    pub changes: usize,
    /// Bytes of items.
    pub bytes: usize,
}

impl Default for PageBudget {
    fn default() -> Self {
        Self {
            changes: 4_096,
            bytes: 1024 * 1024,
        }
    }
}

/// The changes of a store, in the order in which they became durable. [`Items::changes`] returns it, on
/// stores that have it.
///
/// [`Items::changes`]: super::Items::changes
///
/// ```
/// use annals::items::{Changed, Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec};
/// use annals::memory::Memory;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let items = Memory::new();
/// items.create_table(&table, Default::default()).await?;
/// let note = Item::new().with("id", "a");
/// items.put(&table, note.clone(), Condition::Absent).await?;
///
/// let changes = items.changes().expect("this store keeps its changes");
/// let page = changes.read_changes(&table, 0, Default::default()).await?;
/// assert_eq!(page.changes[0].key, Key::new("a"));
/// assert_eq!(page.changes[0].now, Changed::Put(note));
/// assert_eq!(page.upto, page.last);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Changes: Send + Sync {
    /// Which history this is, and how far it has come.
    async fn history(&self) -> Result<History>;

    /// Reads changes of a table after a position; 0 is before the first.
    ///
    /// # Errors
    /// `Invalid` if the position is after the last change.
    async fn read_changes(
        &self,
        table: &TableSpec,
        after: u64,
        budget: PageBudget,
    ) -> Result<ChangePage>;

    /// Waits until there is a change after a position. Waits forever if none can come, as in a store
    /// that was opened for reading.
    async fn wait_for_change(&self, after: u64) -> Result<()>;
}

/// The error about a position that this history does not have.
pub(crate) fn after_the_end(after: u64, last: u64) -> crate::Error {
    crate::Error::invalid(
        "the position is after the last change: it is of another store, or of a backup's original. read from the start",
    )
    .fact("position", after)
    .fact("last", last)
}
