//! A store whose global indexes answer late, as DynamoDB's do: a write shows in them some time
//! after it shows in the table.
//!
//! Promises: each write arrives at the indexes once, those of one item in their order; reads of the
//! table, and of local indexes, are as fresh as the store's own.
//! Never: measures time. What is late is late by so many later calls, drawn from a seed, or until
//! it is told to catch up.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use annals::items::{
    BatchError, Billing, Condition, Cost, Got, Item, Items, Key, Page, Query, Scan, Scope,
    TableName, TableSpec, Write, WriteError,
};
use annals::memory::Memory;
use annals::{Random, Result};

/// How late indexes are.
///
/// ```
/// use annals::Random;
/// use annals::items::{Condition, Item, Items, Key, Query};
/// use annals_testkit::lagging::{Lag, Lagging};
///
/// # use annals::items::{IndexSpec, KeyAttribute, KeySchema, TableSpec};
/// # use annals::memory::Memory;
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let by_name = KeySchema::new(KeyAttribute::text("name"));
/// # let table = TableSpec::new("people".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let table = table.with_index(IndexSpec::global("by-name".parse()?, by_name))?;
/// let items = Lagging::new(Arc::new(Memory::new()), Lag::Calls(10, Random::seeded(7)));
/// # items.create_table(&table, Default::default()).await?;
/// let ann = Item::new().with("id", "1").with("name", "Ann");
/// items.put(&table, ann, Condition::Absent).await?;
/// for _ in 0..10 {
///     items.get(&table, vec![Key::new("1")]).await?;
/// }
/// // By now it has come, whatever was drawn.
/// let found = items.query(&table, Query::of("Ann").on("by-name").eventually()).await?;
/// assert_eq!(found.items.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum Lag {
    /// By up to so many later calls, by chance.
    Calls(u64, Random),
    /// Until [`Lagging::catch_up`].
    Held,
}

/// Writes that have not arrived.
#[derive(Debug, Default)]
struct Late {
    calls: u64,
    /// By the call that brings each, then in their order.
    writes: BTreeMap<(u64, u64), (Arc<TableSpec>, Write)>,
    /// When the last write of each item arrives.
    due: HashMap<(TableName, Key), u64>,
    specs: HashMap<TableName, Arc<TableSpec>>,
    count: u64,
}

/// A store whose global indexes answer late.
///
/// ```
/// use annals::items::{
///     Condition, IndexSpec, Item, Items, KeyAttribute, KeySchema, Query, TableSpec,
/// };
/// use annals_testkit::lagging::{Lag, Lagging};
/// use annals::memory::Memory;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let by_name = IndexSpec::global("by-name".parse()?, KeySchema::new(KeyAttribute::text("name")));
/// let table = TableSpec::new("people".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let table = table.with_index(by_name)?;
/// let items = Lagging::new(Arc::new(Memory::new()), Lag::Held);
/// items.create_table(&table, Default::default()).await?;
///
/// let ann = Item::new().with("id", "1").with("name", "Ann");
/// items.put(&table, ann, Condition::Absent).await?;
/// let asked = || items.query(&table, Query::of("Ann").on("by-name").eventually());
/// assert!(asked().await?.items.is_empty());
/// items.catch_up().await?;
/// assert_eq!(asked().await?.items.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Lagging {
    inner: Arc<dyn Items>,
    /// What the indexes know.
    past: Memory,
    lag: Lag,
    late: Mutex<Late>,
}

impl Lagging {
    /// Over a store that has no tables yet.
    pub fn new(inner: Arc<dyn Items>, lag: Lag) -> Self {
        Self {
            inner,
            past: Memory::new(),
            lag,
            late: Mutex::default(),
        }
    }

    fn late(&self) -> MutexGuard<'_, Late> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets every write arrive.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn catch_up(&self) -> Result<()> {
        self.arrive(u64::MAX).await
    }

    /// Notes a write that landed.
    fn note(&self, table: &TableSpec, key: Key, write: Write) {
        let mut late = self.late();
        let Late {
            calls,
            writes,
            due,
            specs,
            count,
        } = &mut *late;
        let drawn = match &self.lag {
            Lag::Held => u64::MAX,
            Lag::Calls(most, random) => *calls + random.below(most + 1),
        };
        let name = table.name().clone();
        let spec = specs.entry(name.clone());
        let spec = spec.or_insert_with(|| Arc::new(table.clone())).clone();
        // Not before an earlier write of the same item.
        let due = due.entry((name, key)).or_default();
        *due = drawn.max(*due);
        *count += 1;
        writes.insert((*due, *count), (spec, write));
    }

    /// A call: what is due by it arrives.
    async fn call(&self) -> Result<()> {
        let now = {
            let mut late = self.late();
            late.calls += 1;
            late.calls
        };
        match self.lag {
            Lag::Held => Ok(()),
            Lag::Calls(..) => self.arrive(now).await,
        }
    }

    async fn arrive(&self, now: u64) -> Result<()> {
        let due = {
            let mut late = self.late();
            let later = match now.checked_add(1) {
                Some(next) => late.writes.split_off(&(next, 0)),
                None => BTreeMap::new(),
            };
            std::mem::replace(&mut late.writes, later)
        };
        for (spec, write) in due.into_values() {
            self.past.write(&spec, vec![write]).await?;
        }
        Ok(())
    }

    /// Whether a query asks a global index.
    fn asks_late(table: &TableSpec, query: &Query) -> bool {
        let index = query.index.as_ref();
        let index = index.and_then(|name| table.index(name).ok());
        index.is_some_and(|index| index.scope == Scope::Global)
    }
}

#[async_trait]
impl Items for Lagging {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        self.call().await?;
        self.inner.get(table, keys).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.call().await?;
        let cost = self.inner.put(table, item.clone(), condition).await?;
        self.note(table, table.key_of(&item)?, Write::Put(item));
        Ok(cost)
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.call().await?;
        let cost = self.inner.delete(table, key.clone(), condition).await?;
        self.note(table, key.clone(), Write::Delete(key));
        Ok(cost)
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        let call = self.call().await;
        call.map_err(|cause| BatchError {
            remaining: writes.clone(),
            cost: Cost::default(),
            cause,
        })?;
        let cost = self.inner.write(table, writes.clone()).await?;
        for write in writes {
            let key = match &write {
                Write::Put(item) => table.key_of(item),
                Write::Delete(key) => Ok(key.clone()),
            };
            if let Ok(key) = key {
                self.note(table, key, write);
            }
        }
        Ok(cost)
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        self.call().await?;
        match Self::asks_late(table, &query) {
            true => self.past.query(table, query).await,
            false => self.inner.query(table, query).await,
        }
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        self.call().await?;
        self.inner.scan(table, scan).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        self.inner.create_table(spec, billing).await?;
        self.past.create_table(spec, billing).await
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        self.inner.describe_table(name).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        {
            let mut late = self.late();
            late.writes.retain(|_, (table, _)| table.name() != name);
            late.due.retain(|(table, _), _| table != name);
            late.specs.remove(name);
        }
        self.past.drop_table(name).await?;
        self.inner.drop_table(name).await
    }
}
