//! The interface of stores: tables of items, as in DynamoDB. Everything above is written once over the
//! methods of [`Items`]; every store below implements them.
//!
//! Guarantees: all stores return the same; `annals_testkit::conformance` checks it. Nothing here
//! knows about events. Relies on a [`TableSpec`] describing the table of its name, which
//! `annals tables check` verifies.

mod changes;
pub(crate) mod check;
mod cost;
pub(crate) mod encoding;
mod item;
mod json;
mod number;
mod pages;
mod read;
mod stored;
mod table;
mod value;
mod write;

pub mod limits;

use std::fmt;

use async_trait::async_trait;

use crate::Result;

pub use changes::{Change, ChangePage, Changed, Changes, History, LastChange, Origin, PageBudget};
pub use check::{
    Checked, CheckedQuery, check_condition, check_item, check_key, check_query, check_scan,
    check_writes, missing_table, table_exists,
};
pub use cost::{Cost, item_size, value_size};
pub use item::{Item, Key, KeyPart};
pub use json::{item_from_json, item_to_json, value_from_json, value_to_json};
pub use number::Number;
pub use pages::{ItemStream, PageStream, query_all, query_pages, scan_all, scan_pages};
pub use read::{Consistency, Cursor, Direction, Got, Page, Query, Scan, Segment, SortRange};
pub use table::{
    Billing, IndexSpec, KeyAttribute, KeySchema, KeyType, Projection, Scope, TableName, TableSpec,
};
pub use value::Value;
pub use write::{BatchError, Condition, Write, WriteError};

pub(crate) use changes::after_the_end;
pub(crate) use cost::{index_entry, index_entry_size};
pub(crate) use pages::{PageBuilder, cursor_after};

/// A store of items. Object-safe; used as `Arc<dyn Items>`.
///
/// Every method checks its arguments first ([`check_item`] and the like). A method that fails with `Unavailable` has
/// already retried within its deadline; whether a write succeeded is then unknown. A
/// [`Store`](crate::store::Store) adds the request, table and keys to every error, so implementations
/// need not.
///
/// Methods on items return their cost: all requests, retries included, and their capacity units.
/// Methods on tables return none: DynamoDB does not charge for them, and the number of requests only
/// depends on how long a table takes to appear or disappear.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    label = "`annals::items::Items` is not implemented for `{Self}`",
    note = "the stores are `annals::memory::Memory`, `annals::embedded::Embedded` and `annals_aws::DynamoDb`",
    note = "for a store of your own, implement `Items` and run the suites of `annals-testkit` on it"
)]
pub trait Items: fmt::Debug + Send + Sync + 'static {
    /// Gets items by key, in the order of the keys. Strongly consistent.
    ///
    /// Any number of keys; a key given twice is read once and returned twice. Without keys no
    /// request is made, so a missing table is not noticed.
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got>;

    /// Puts one item atomically, if the condition holds.
    ///
    /// # Errors
    /// [`WriteError::Refused`] with the existing item, if the condition does not hold.
    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError>;

    /// Deletes one item atomically, if the condition holds. A missing item is no error.
    ///
    /// # Errors
    /// [`WriteError::Refused`] with the existing item, if the condition does not hold.
    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError>;

    /// Puts and deletes any number of items, each key once, unconditionally and **not** atomically.
    /// Without writes no request is made.
    ///
    /// # Errors
    /// [`BatchError`] with the remaining writes.
    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError>;

    /// Reads one page of a partition, in order. See [`query_all`] for all pages.
    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page>;

    /// Reads one page of a table, in any order. See [`scan_all`] for all pages.
    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page>;

    /// Creates a table and waits until it is ready.
    ///
    /// # Errors
    /// `Conflict` if a table of that name exists.
    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()>;

    /// Describes a table; `None` if there is none of that name.
    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>>;

    /// Deletes a table with its items and waits until it is gone. Returns whether it existed.
    async fn drop_table(&self, name: &TableName) -> Result<bool>;

    /// The changes of the items, in the order in which they became durable; `None` if the store does
    /// not keep them.
    fn changes(&self) -> Option<&dyn Changes> {
        None
    }
}
