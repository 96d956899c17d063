//! A store that removes one of the log's guards, to show that each is needed.
//!
//! A batch that is acknowledged before it is stored is stored with the next call, if that succeeds. It
//! has the effect of a deletion or a checkpoint that does not wait for the write before it.

use std::sync::{Arc, Mutex};

use annals::items::{
    BatchError, Billing, Condition, Cost, Got, Item, Items, Key, Page, Query, Scan, TableName,
    TableSpec, Value, Write, WriteError,
};
use annals_testkit::faulty::Faulty;
use async_trait::async_trait;

use super::LATENESS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing is removed.
    Kept,
    /// A record leaves the buffer before its event is known to be stored.
    DeletedFirst,
    /// An event is stored before its slot is in the index.
    StoredFirst,
    /// A checkpoint is saved before its events are in the buffer.
    SavedFirst,
    /// Sweeps store no claims.
    Unclaimed,
    /// A horizon is published that the sweep did not reach.
    HorizonAhead,
}

/// The store of one process.
#[derive(Debug)]
pub(super) struct Tampered {
    inner: Arc<Faulty>,
    guard: Guard,
    late: Mutex<Option<(TableSpec, Vec<Write>)>>,
}

fn is_system(item: &Item) -> bool {
    let partition = item.get("event_time_slot").and_then(Value::as_str);
    partition.is_some_and(|partition| partition.starts_with("annals#"))
}

impl Tampered {
    pub(super) fn new(inner: Arc<Faulty>, guard: Guard) -> Self {
        Self {
            inner,
            guard,
            late: Mutex::default(),
        }
    }

    /// Whether a batch is acknowledged before it is stored.
    fn is_hasty(&self, table: &TableSpec, writes: &[Write]) -> bool {
        let is_event_table = table.name().as_str() == "annals-log";
        let system = |write: &Write| matches!(write, Write::Put(item) if is_system(item));
        let is_put = writes.iter().all(|write| matches!(write, Write::Put(_)));
        match self.guard {
            Guard::Kept | Guard::HorizonAhead | Guard::Unclaimed => false,
            Guard::DeletedFirst => is_event_table && is_put && !writes.iter().any(system),
            Guard::StoredFirst => is_event_table && writes.iter().all(system),
            Guard::SavedFirst => table.name().as_str() == "annals-buffer" && is_put,
        }
    }

    async fn catch_up(&self) {
        let late = self.late.lock().unwrap().take();
        if let Some((table, writes)) = late {
            let _ = self.inner.write(&table, writes).await;
        }
    }
}

#[async_trait]
impl Items for Tampered {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> annals::Result<Got> {
        self.catch_up().await;
        self.inner.get(table, keys).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        mut item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.catch_up().await;
        let partition = item.get("event_time_slot").and_then(Value::as_str);
        if self.guard == Guard::Unclaimed && partition == Some("annals#sweeping") {
            return Ok(Cost::request());
        }
        let sort = item.get("event_id").and_then(Value::as_str);
        if self.guard == Guard::HorizonAhead && is_system(&item) && sort == Some("horizon") {
            let time = item.get("time").and_then(Value::as_u64).unwrap();
            item.insert("time", time + 3 * LATENESS);
        }
        self.inner.put(table, item, condition).await
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.inner.delete(table, key, condition).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        if self.is_hasty(table, &writes) {
            self.catch_up().await;
            *self.late.lock().unwrap() = Some((table.clone(), writes));
            return Ok(Cost::request());
        }
        // This batch first, then the one before it.
        let written = self.inner.write(table, writes).await;
        self.catch_up().await;
        written
    }

    async fn query(&self, table: &TableSpec, query: Query) -> annals::Result<Page> {
        self.inner.query(table, query).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> annals::Result<Page> {
        self.inner.scan(table, scan).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> annals::Result<()> {
        self.inner.create_table(spec, billing).await
    }

    async fn describe_table(&self, name: &TableName) -> annals::Result<Option<TableSpec>> {
        self.inner.describe_table(name).await
    }

    async fn drop_table(&self, name: &TableName) -> annals::Result<bool> {
        self.inner.drop_table(name).await
    }
}
