//! The decorator inside a [`Store`](super::Store): counts every call, adds error context, and makes
//! spans.
//!
//! Guarantees: calls and results pass unchanged, except for the context of errors. A call is counted
//! when it ends, all its figures at once; a call dropped before its end is not counted. A span never
//! holds a key or an item. Calls outside a span get none: background work would otherwise produce
//! many traces of its own.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::counts::{Count, Counts, Verb};
use super::error_context::ErrorContext;
use super::metrics::Meters;
use crate::items::{
    BatchError, Billing, Condition, Cost, Got, Item, Items, Key, Page, Query, Scan, TableName,
    TableSpec, Write, WriteError, item_size,
};
use crate::{ErrorKind, Result};

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

#[derive(Debug, Default)]
struct Tally {
    counts: Counts,
    /// A half read unit that the metrics do not include yet.
    has_half: bool,
}

pub(super) struct Observed {
    inner: Arc<dyn Items>,
    tally: Mutex<Tally>,
    meters: Meters,
}

impl Observed {
    pub(super) fn new(inner: Arc<dyn Items>) -> Self {
        Self {
            inner,
            tally: Mutex::default(),
            meters: Meters::new(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.tally().counts
    }

    pub(super) fn take_counts(&self) -> Counts {
        std::mem::take(&mut self.tally().counts)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn add(&self, verb: Verb, count: Count) {
        let read_units = {
            let mut tally = self.tally();
            tally.counts.add(verb, count);
            let halves = count.cost.read_half_units + u64::from(tally.has_half);
            tally.has_half = halves % 2 == 1;
            halves / 2
        };
        self.meters.add(verb, count, read_units);
    }

    fn add_conditional(&self, verb: Verb, result: &Result<Cost, WriteError>, bytes: u64) {
        let count = match result {
            Ok(cost) => Count::call(*cost).wrote(bytes),
            Err(WriteError::Refused { existing, cost }) => Count {
                refused: 1,
                ..Count::call(*cost).read(existing.as_deref())
            },
            Err(WriteError::Failed(_)) => Count::failure(Cost::request()),
        };
        self.add(verb, count);
    }

    fn add_page(&self, verb: Verb, result: &Result<Page>) {
        let count = match result {
            Ok(page) => Count::call(page.cost).read(&page.items),
            Err(_) => Count::failure(Cost::request()),
        };
        self.add(verb, count);
    }

    fn add_tables<T>(&self, result: &Result<T>) {
        let count = match result {
            Ok(_) => Count::call(Cost::request()),
            Err(_) => Count::failure(Cost::request()),
        };
        self.add(Verb::Tables, count);
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
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
    let name = |f: &mut fmt::Formatter<'_>| write!(f, "{verb} {table}");
    let span = tracing::debug_span!(
        "store",
        otel.name = %fmt::from_fn(name),
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
        self.add(Verb::Get, count);
        result.map_err(|error| context.annotate(error))
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let bytes = bytes_of(&item);
        let context = ErrorContext::put(table, &item);
        let call = self.inner.put(table, item, condition);
        let result = in_span("put", table.name(), call, kind_of_write).await;
        self.add_conditional(Verb::Put, &result, bytes);
        result.map_err(|error| context.annotate_write(error))
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
        self.add_conditional(Verb::Delete, &result, 0);
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
        self.add(Verb::Write, count);
        result.map_err(|mut error| {
            error.cause = ErrorContext::write(table, &error.remaining).annotate(error.cause);
            error
        })
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        let context = ErrorContext::query(table, &query);
        let call = self.inner.query(table, query);
        let result = in_span("query", table.name(), call, kind).await;
        self.add_page(Verb::Query, &result);
        result.map_err(|error| context.annotate(error))
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        let call = self.inner.scan(table, scan);
        let result = in_span("scan", table.name(), call, kind).await;
        self.add_page(Verb::Scan, &result);
        result.map_err(|error| ErrorContext::table("scan", table.name()).annotate(error))
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        let call = self.inner.create_table(spec, billing);
        let result = in_span("create_table", spec.name(), call, kind).await;
        self.add_tables(&result);
        result.map_err(|error| ErrorContext::table("create_table", spec.name()).annotate(error))
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        let call = self.inner.describe_table(name);
        let result = in_span("describe_table", name, call, kind).await;
        self.add_tables(&result);
        result.map_err(|error| ErrorContext::table("describe_table", name).annotate(error))
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        let call = self.inner.drop_table(name);
        let result = in_span("drop_table", name, call, kind).await;
        self.add_tables(&result);
        result.map_err(|error| ErrorContext::table("drop_table", name).annotate(error))
    }
}
