//! Any store, with a span around each call that is made for a request or a sweep.
//!
//! Promises: passes everything on unchanged.
//! Never: has a key or an item in a span. Makes a span for what happens in the background, such as
//! looking for what tails wait for: those would be traces of their own, and many.

use std::fmt::{self, Display};
use std::future::Future;
use std::sync::Arc;

use annals::items::{
    BatchError, Billing, Condition, Cost, Got, Item, Items, Key, Page, Query, Scan, TableName,
    TableSpec, Write, WriteError,
};
use annals::{ErrorKind, Result};
use async_trait::async_trait;
use tracing::field::Empty;
use tracing::{Instrument, Span};

/// Whether anybody wants spans.
pub(super) fn is_wanted() -> bool {
    tracing::span_enabled!(tracing::Level::DEBUG)
}

/// Any store, with spans.
pub(super) struct Traced(Arc<dyn Items>);

impl Traced {
    pub(super) fn new(inner: Arc<dyn Items>) -> Self {
        Self(inner)
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Traced").field(&self.0).finish()
    }
}

/// The call, in a span of its verb and table; whether it failed is what `failure` says.
async fn traced<T, E>(
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
        fail(&span, &format_args!("{kind:?}"));
    }
    outcome
}

/// Marks what a span stands for as failed, with what kind of error it was.
pub(super) fn fail(span: &Span, kind: &dyn Display) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", tracing::field::display(kind));
}

fn kind(error: &annals::Error) -> Option<ErrorKind> {
    Some(error.kind())
}

/// A condition that does not hold is an answer.
fn kind_of_write(error: &WriteError) -> Option<ErrorKind> {
    match error {
        WriteError::Failed(error) => Some(error.kind()),
        WriteError::Refused { .. } => None,
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Items for Traced {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        let call = self.0.get(table, keys);
        traced("get", table.name(), call, kind).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let call = self.0.put(table, item, condition);
        traced("put", table.name(), call, kind_of_write).await
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let call = self.0.delete(table, key, condition);
        traced("delete", table.name(), call, kind_of_write).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        let call = self.0.write(table, writes);
        traced("write", table.name(), call, |it| kind(&it.cause)).await
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        let call = self.0.query(table, query);
        traced("query", table.name(), call, kind).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        let call = self.0.scan(table, scan);
        traced("scan", table.name(), call, kind).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        let call = self.0.create_table(spec, billing);
        traced("create_table", spec.name(), call, kind).await
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        let call = self.0.describe_table(name);
        traced("describe_table", name, call, kind).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        let call = self.0.drop_table(name);
        traced("drop_table", name, call, kind).await
    }
}
