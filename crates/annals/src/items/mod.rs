//! The waist: tables of items, as DynamoDB has them and an engine on one machine can honestly
//! offer them. Everything above is written once over the verbs of [`Items`]; everything below
//! implements them.
//!
//! Promises: what one store answers, every store answers; `annals_testkit::conformance` checks it.
//! Trusts: that a [`TableSpec`] describes the table of its name. `annals tables check` finds out.
//! Never: contains a word about events. Never retries a refusal.

mod check;
mod cost;
mod item;
mod json;
mod number;
mod pages;
mod read;
mod size;
mod table;
mod value;
mod write;

pub mod limits;

use std::fmt;

use async_trait::async_trait;

use crate::Result;

pub use check::{
    Checked, CheckedQuery, check_condition, check_item, check_key, check_query, check_scan,
    check_writes, missing_table, table_exists,
};
pub use cost::Cost;
pub use item::{Item, Key, KeyPart};
pub use json::{item_from_json, item_to_json};
pub use number::Number;
pub use pages::{query_all, query_pages, scan_all, scan_pages};
pub use read::{Consistency, Cursor, Direction, Got, Page, Query, Scan, Segment, SortRange};
pub use size::{item_size, value_size};
pub use table::{
    Billing, IndexSpec, KeyAttribute, KeySchema, KeyType, Projection, Scope, TableName, TableSpec,
};
pub use value::Value;
pub use write::{BatchError, Condition, Write, WriteError};

pub(crate) use check::checked_writes;
pub(crate) use check::{agree, check_cursor};
pub(crate) use cost::{index_entry, index_entry_size};
pub(crate) use pages::{PageBuilder, cursor_after};

/// A store of items. Object-safe; used as `Arc<dyn Items>`.
///
/// Every verb checks its arguments before it does anything (see [`check_item`] and its
/// neighbours). A verb that fails with `Unavailable` has retried within its deadline already;
/// whether a write landed is then unknown. A [`Store`](crate::store::Store) adds to every error which
/// verb, table and keys it is about; an implementation need not.
///
/// Every verb about items answers what it cost: all its requests, retries included, and their
/// units. The verbs about tables answer no cost. DynamoDB charges nothing for them, and how many
/// requests they take is how often they look whether a table has come or gone, which is a matter
/// of time and not of the call.
///
/// ```
/// use annals::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, Query, TableSpec};
/// use annals::memory::Memory;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let items: Arc<dyn Items> = Arc::new(Memory::new()); // or any other store
/// let key = KeySchema::new(KeyAttribute::text("cart")).sorted(KeyAttribute::number("n"));
/// let table = TableSpec::new("lines".parse()?, key)?;
/// items.create_table(&table, Default::default()).await?;
///
/// let line = Item::new().with("cart", "42").with("n", 1u64).with("what", "a book");
/// let cost = items.put(&table, line.clone(), Condition::Absent).await?;
/// assert_eq!(cost.write_units, 1);
/// assert!(items.put(&table, line.clone(), Condition::Absent).await.is_err());
///
/// let got = items.get(&table, vec![Key::new("42").sorted(1u64)]).await?;
/// assert_eq!(got.items, [Some(line)]);
/// assert_eq!(items.query(&table, Query::of("42")).await?.items.len(), 1);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Items: fmt::Debug + Send + Sync + 'static {
    /// What the keys name, in the order of the keys. Strongly consistent.
    ///
    /// Any number of keys; a key given twice is read once and answered twice. No keys ask
    /// nothing of the store, not even whether there is such a table.
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got>;

    /// Puts one item, atomically, if the condition holds.
    ///
    /// # Errors
    /// [`WriteError::Refused`] with what is there, where the condition does not hold.
    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError>;

    /// Deletes one item, atomically, if the condition holds. Deleting what is not there is fine.
    ///
    /// # Errors
    /// [`WriteError::Refused`] with what is there, where the condition does not hold.
    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError>;

    /// Puts and deletes any number of items, each once, **not** atomically and unconditionally.
    /// No writes ask nothing of the store.
    ///
    /// # Errors
    /// [`BatchError`] names the writes that remain.
    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError>;

    /// One page of a partition, in order. See [`query_all`] for all of them.
    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page>;

    /// One page of a table, in any order. See [`scan_all`] for all of them.
    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page>;

    /// Creates a table and waits until it can be used.
    ///
    /// # Errors
    /// `Conflict` where a table of that name exists.
    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()>;

    /// What table has this name, if any.
    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>>;

    /// Deletes a table with everything in it and waits until it is gone. Answers whether there
    /// was one.
    async fn drop_table(&self, name: &TableName) -> Result<bool>;
}
