//! The store handle, and the decorator inside it that counts every call, adds error context and makes
//! spans.
//!
//! Guarantees: calls and results pass unchanged, except for the context of errors. A call is counted
//! when it ends; a call dropped before its end is not counted. A span never holds a key or an item.
//! Calls outside a span get none: background work would otherwise produce many traces of its own.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::counts::{Count, Counts, Tally, Verb};
use super::error_context::ErrorContext;
use crate::items::{
    self, BatchError, Billing, ChangePage, Changed, Changes, Condition, Cost, Got, History, Item,
    ItemStream, Items, Key, Page, PageBudget, PageStream, Query, Scan, TableName, TableSpec, Write,
    WriteError, item_size,
};
use crate::{Clock, Error, ErrorKind, Random, Result, SystemClock};

/// A store of items with a clock, randomness, counters and spans.
///
/// Dereferences to [`Items`]. Clones share the store and its counters.
///
/// ```
/// use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableSpec};
/// use annals::memory::Memory;
/// use annals::store::{Store, Verb};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let store = Store::new(Memory::new());
/// store.create_table(&table, Default::default()).await?;
///
/// let before = store.counts();
/// store.put(&table, Item::new().with("id", "a"), Condition::Absent).await?;
/// let spent = store.counts() - before;
/// assert_eq!(spent.of(Verb::Put).cost.write_units, 1);
/// assert_eq!(spent.total().bytes_written, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    observed: Arc<Observed>,
    /// The same, for streams of pages.
    items: Arc<dyn Items>,
    clock: Arc<dyn Clock>,
    random: Random,
}

impl Store {
    /// Wraps a store, with the system's clock and randomness.
    pub fn new(items: impl Items) -> Self {
        Self::from_items(Arc::new(items))
    }

    /// As [`new`](Self::new), for a store that is already shared.
    pub fn from_items(items: Arc<dyn Items>) -> Self {
        let observed = Arc::new(Observed {
            inner: items,
            tally: Tally::new(),
        });
        Self {
            items: observed.clone(),
            observed,
            clock: Arc::new(SystemClock::new()),
            random: Random::from_machine(),
        }
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Replaces the source of randomness.
    #[must_use]
    pub fn with_random(mut self, random: Random) -> Self {
        self.random = random;
        self
    }

    /// The store; calls are counted and traced.
    pub fn items(&self) -> &Arc<dyn Items> {
        &self.items
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The source of randomness.
    pub fn random(&self) -> &Random {
        &self.random
    }

    /// The counters so far. Subtract two to measure what happened in between.
    pub fn counts(&self) -> Counts {
        self.observed.tally.counts()
    }

    /// The counters so far, which restart from zero. The metrics are not reset.
    pub fn take_counts(&self) -> Counts {
        self.observed.tally.take_counts()
    }
}

/// Paged reads.
impl Store {
    /// Streams every page of a query.
    pub fn query_pages(&self, table: &Arc<TableSpec>, query: Query) -> PageStream {
        items::query_pages(self.items.clone(), table.clone(), query)
    }

    /// Streams every page of a scan.
    pub fn scan_pages(&self, table: &Arc<TableSpec>, scan: Scan) -> PageStream {
        items::scan_pages(self.items.clone(), table.clone(), scan)
    }

    /// Streams every item of a query, in order.
    pub fn query_all(&self, table: &Arc<TableSpec>, query: Query) -> ItemStream {
        items::query_all(self.items.clone(), table.clone(), query)
    }

    /// Streams every item of a scan, in any order.
    pub fn scan_all(&self, table: &Arc<TableSpec>, scan: Scan) -> ItemStream {
        items::scan_all(self.items.clone(), table.clone(), scan)
    }
}

impl Deref for Store {
    type Target = dyn Items;

    fn deref(&self) -> &Self::Target {
        &*self.items
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.observed).finish()
    }
}

impl From<Arc<dyn Items>> for Store {
    fn from(items: Arc<dyn Items>) -> Self {
        Self::from_items(items)
    }
}

impl<T: Items> From<Arc<T>> for Store {
    fn from(items: Arc<T>) -> Self {
        Self::from_items(items)
    }
}

impl<T: Items> From<T> for Store {
    fn from(items: T) -> Self {
        Self::new(items)
    }
}

impl From<&Store> for Store {
    fn from(store: &Store) -> Self {
        store.clone()
    }
}

/// The decorator inside a [`Store`].
struct Observed {
    inner: Arc<dyn Items>,
    tally: Tally,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

fn bytes_of(item: &Item) -> u64 {
    item_size(item) as u64
}

fn bytes_put(writes: &[Write]) -> u64 {
    let sizes = writes.iter().map(|write| match write {
        Write::Put(item) => bytes_of(item),
        Write::Delete(_) => 0,
    });
    sizes.sum()
}

/// Runs a call in a span of its verb and table; `failure` is the kind of a failure.
async fn in_span<T, E>(
    verb: &'static str,
    table: &TableName,
    call: impl Future<Output = Result<T, E>>,
    failure: impl FnOnce(&E) -> Option<ErrorKind>,
) -> Result<T, E> {
    if Span::current().is_none() {
        return call.await;
    }
    let span = tracing::debug_span!(
        "store",
        otel.name = %format_args!("{verb} {table}"),
        otel.kind = "client",
        otel.status_code = Empty,
        db.operation.name = verb,
        db.collection.name = %table,
        error.type = Empty,
    );
    let outcome = call.instrument(span.clone()).await;
    if let Some(kind) = outcome.as_ref().err().and_then(failure) {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", tracing::field::debug(kind));
    }
    outcome
}

fn kind(error: &crate::Error) -> Option<ErrorKind> {
    Some(error.kind())
}

/// A refused write is a result, not a failure.
fn kind_of_write(error: &WriteError) -> Option<ErrorKind> {
    match error {
        WriteError::Failed(error) => Some(error.kind()),
        WriteError::Refused { .. } => None,
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Items for Observed {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        let context = ErrorContext::get(table, &keys);
        let call = self.inner.get(table, keys);
        let result = in_span("get", table.name(), call, kind).await;
        let count = match &result {
            Ok(got) => Count::call(got.cost).read(got.items.iter().flatten()),
            Err(_) => Count::failure(Cost::request()),
        };
        self.tally.add(Verb::Get, count);
        result.map_err(|error| context.annotate(error))
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let bytes = bytes_of(&item);
        let key = table.key().key_of(&item).ok().flatten();
        let call = self.inner.put(table, item, condition);
        let result = in_span("put", table.name(), call, kind_of_write).await;
        self.tally.add_conditional(Verb::Put, &result, bytes);
        result.map_err(|error| ErrorContext::put(table, key).annotate_write(error))
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let context = ErrorContext::delete(table, &key);
        let call = self.inner.delete(table, key, condition);
        let result = in_span("delete", table.name(), call, kind_of_write).await;
        self.tally.add_conditional(Verb::Delete, &result, 0);
        result.map_err(|error| context.annotate_write(error))
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        let bytes = bytes_put(&writes);
        let call = self.inner.write(table, writes);
        let result = in_span("write", table.name(), call, |error| kind(&error.cause)).await;
        let count = match &result {
            Ok(cost) => Count::call(*cost).wrote(bytes),
            Err(error) => {
                let confirmed = bytes.saturating_sub(bytes_put(&error.remaining));
                Count::failure(error.cost).wrote(confirmed)
            }
        };
        self.tally.add(Verb::Write, count);
        result.map_err(|mut error| {
            error.cause = ErrorContext::write(table, &error.remaining).annotate(error.cause);
            error
        })
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        let context = ErrorContext::query(table, &query);
        let call = self.inner.query(table, query);
        let result = in_span("query", table.name(), call, kind).await;
        self.tally.add_page(Verb::Query, &result);
        result.map_err(|error| context.annotate(error))
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        let call = self.inner.scan(table, scan);
        let result = in_span("scan", table.name(), call, kind).await;
        self.tally.add_page(Verb::Scan, &result);
        result.map_err(|error| ErrorContext::table("scan", table.name()).annotate(error))
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        let call = self.inner.create_table(spec, billing);
        let result = in_span("create_table", spec.name(), call, kind).await;
        self.tally.add_tables(&result);
        result.map_err(|error| ErrorContext::table("create_table", spec.name()).annotate(error))
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        let call = self.inner.describe_table(name);
        let result = in_span("describe_table", name, call, kind).await;
        self.tally.add_tables(&result);
        result.map_err(|error| ErrorContext::table("describe_table", name).annotate(error))
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        let call = self.inner.drop_table(name);
        let result = in_span("drop_table", name, call, kind).await;
        self.tally.add_tables(&result);
        result.map_err(|error| ErrorContext::table("drop_table", name).annotate(error))
    }

    fn changes(&self) -> Option<&dyn Changes> {
        self.inner.changes().map(|_| self as &dyn Changes)
    }
}

impl Observed {
    fn inner_changes(&self) -> Result<&dyn Changes> {
        let missing = || Error::invalid("this store does not keep its changes");
        self.inner.changes().ok_or_else(missing)
    }
}

#[async_trait]
impl Changes for Observed {
    async fn history(&self) -> Result<History> {
        self.inner_changes()?.history().await
    }

    async fn read_changes(
        &self,
        table: &TableSpec,
        after: u64,
        budget: PageBudget,
    ) -> Result<ChangePage> {
        let call = self.inner_changes()?.read_changes(table, after, budget);
        let result = in_span("changes", table.name(), call, kind).await;
        let count = match &result {
            Ok(page) => {
                let items = page.changes.iter().filter_map(|change| match &change.now {
                    Changed::Put(item) => Some(item),
                    Changed::Erased | Changed::Deleted => None,
                });
                Count::call(page.cost).read(items)
            }
            Err(_) => Count::failure(Cost::request()),
        };
        self.tally.add(Verb::Changes, count);
        result.map_err(|error| ErrorContext::table("changes", table.name()).annotate(error))
    }

    async fn wait_for_change(&self, after: u64) -> Result<()> {
        self.inner_changes()?.wait_for_change(after).await
    }
}
