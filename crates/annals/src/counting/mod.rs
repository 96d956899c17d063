//! Any store, counting what is asked of it: calls, requests, capacity units and bytes.
//!
//! Promises: passes everything on unchanged, and counts a call when it has ended, all its figures
//! at once. Cheap enough to leave on: one short lock a call, and nothing is copied.
//! Trusts: the cost that the store answers.
//! Never: counts a call that was dropped before its end.
//!
//! # Metrics
//!
//! Every [`Counting`] also feeds the recorder of the `metrics` crate that is installed when it is
//! made. These are all the names there are:
//!
//! | counter | label | counts |
//! |---|---|---|
//! | [`REQUESTS`] | `verb` | requests to the store |
//! | [`WRITE_UNITS`] | | write units consumed |
//! | [`READ_UNITS`] | | read units consumed; a half is carried until it is a whole |
//! | [`REFUSED`] | | conditional writes whose condition did not hold |
//! | [`FAILED`] | | calls that failed otherwise |

mod counts;
mod meters;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;

use crate::Result;
use crate::items::{
    BatchError, Billing, Condition, Cost, Got, Item, Items, Key, Page, Query, Scan, TableName,
    TableSpec, Write, WriteError, item_size,
};
use meters::Meters;

pub use counts::{Count, Counts, Verb};
pub use meters::{FAILED, READ_UNITS, REFUSED, REQUESTS, WRITE_UNITS};

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
    /// A half read unit that no metric has been told of yet.
    has_half: bool,
}

/// Any store, counting.
///
/// ```
/// use annals::counting::{Counting, Verb};
/// use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableSpec};
/// use annals::memory::Memory;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let items = Counting::new(Arc::new(Memory::new()));
/// items.create_table(&table, Default::default()).await?;
///
/// let before = items.counts();
/// items.put(&table, Item::new().with("id", "a"), Condition::Absent).await?;
/// let spent = items.counts() - before;
/// assert_eq!(spent.of(Verb::Put).cost.write_units, 1);
/// assert_eq!(spent.total().bytes_written, 3);
/// # Ok(())
/// # }
/// ```
pub struct Counting {
    inner: Arc<dyn Items>,
    tally: Mutex<Tally>,
    meters: Meters,
}

impl Counting {
    /// The store `inner`, counting from zero.
    pub fn new(inner: Arc<dyn Items>) -> Self {
        Self {
            inner,
            tally: Mutex::default(),
            meters: Meters::new(),
        }
    }

    /// What was counted so far. Take two and subtract to measure what happened between.
    pub fn counts(&self) -> Counts {
        self.tally().counts
    }

    /// What was counted so far, counting from zero again. The metrics go on.
    pub fn take(&self) -> Counts {
        std::mem::take(&mut self.tally().counts)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn add(&self, verb: Verb, count: Count) {
        let read_units = {
            let mut tally = self.tally();
            *tally.counts.of_mut(verb) += count;
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

    fn add_pages(&self, verb: Verb, result: &Result<Page>) {
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

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counting").field(&self.inner).finish()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Items for Counting {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        let result = self.inner.get(table, keys).await;
        let count = match &result {
            Ok(got) => Count::call(got.cost).read(got.items.iter().flatten()),
            Err(_) => Count::failure(Cost::request()),
        };
        self.add(Verb::Get, count);
        result
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let bytes = bytes_of(&item);
        let result = self.inner.put(table, item, condition).await;
        self.add_conditional(Verb::Put, &result, bytes);
        result
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        let result = self.inner.delete(table, key, condition).await;
        self.add_conditional(Verb::Delete, &result, 0);
        result
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        let bytes = bytes_put(&writes);
        let result = self.inner.write(table, writes).await;
        let count = match &result {
            Ok(cost) => Count::call(*cost).wrote(bytes),
            Err(error) => {
                let confirmed = bytes.saturating_sub(bytes_put(&error.remaining));
                Count::failure(error.cost).wrote(confirmed)
            }
        };
        self.add(Verb::Write, count);
        result
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        let result = self.inner.query(table, query).await;
        self.add_pages(Verb::Query, &result);
        result
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        let result = self.inner.scan(table, scan).await;
        self.add_pages(Verb::Scan, &result);
        result
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        let result = self.inner.create_table(spec, billing).await;
        self.add_tables(&result);
        result
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        let result = self.inner.describe_table(name).await;
        self.add_tables(&result);
        result
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        let result = self.inner.drop_table(name).await;
        self.add_tables(&result);
        result
    }
}
