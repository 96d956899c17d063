//! A store whose global indexes lag, as DynamoDB's do: a write is visible in them some time after
//! it is visible in the table.
//!
//! Guarantees: each write reaches the indexes once, writes of one item in order; reads of the table
//! and of local indexes are as consistent as in the inner store.
//! Never: measures time. The lag is a number of later calls, drawn from a seed, or lasts until
//! [`LagHook::catch_up`].

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::hooked::{Answered, Call, Hook, Hooked};
use annals::items::{Items, Key, Query, Scope, TableName, TableSpec, Write};
use annals::memory::Memory;
use annals::store::Verb;
use annals::{Random, Result};

/// How long indexes lag.
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
/// // The lag is at most ten calls.
/// let found = items.query(&table, Query::of("Ann").on("by-name").eventually()).await?;
/// assert_eq!(found.items.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum Lag {
    /// By up to this many later calls, at random.
    Calls(u64, Random),
    /// Until [`LagHook::catch_up`].
    Held,
}

/// Writes that the indexes do not have yet.
#[derive(Debug, Default)]
struct Late {
    calls: u64,
    /// By the call at which each is due, then in order.
    writes: BTreeMap<(u64, u64), (Arc<TableSpec>, Write)>,
    /// When the last write of each item is due.
    due: HashMap<(TableName, Key), u64>,
    specs: HashMap<TableName, Arc<TableSpec>>,
    count: u64,
}

/// A store whose global indexes lag.
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
pub type Lagging = Hooked<LagHook>;

/// Delays the indexes of a [`Lagging`] store.
#[derive(Debug)]
pub struct LagHook {
    /// The content of the indexes.
    past: Memory,
    lag: Lag,
    late: Mutex<Late>,
}

impl Lagging {
    /// The store `inner`, which must have no tables yet.
    pub fn new(inner: Arc<dyn Items>, lag: Lag) -> Self {
        let hook = LagHook {
            past: Memory::new(),
            lag,
            late: Mutex::default(),
        };
        Self::over(inner, hook)
    }
}

impl LagHook {
    fn late(&self) -> MutexGuard<'_, Late> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies all pending writes to the indexes.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn catch_up(&self) -> Result<()> {
        self.arrive(u64::MAX).await
    }

    /// Records a write to the table.
    fn note(&self, table: &TableSpec, write: Write) -> Result<()> {
        let key = match &write {
            Write::Put(item) => table.key_of(item)?,
            Write::Delete(key) => key.clone(),
        };
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
        Ok(())
    }

    /// Counts a call, and applies the writes that are due.
    async fn tick(&self) -> Result<()> {
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

    /// Drops the pending writes of a dropped table.
    fn forget(&self, name: &TableName) {
        let mut late = self.late();
        late.writes.retain(|_, (table, _)| table.name() != name);
        late.due.retain(|(table, _), _| table != name);
        late.specs.remove(name);
    }
}

#[async_trait]
impl Hook for LagHook {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        if call.verb() != Verb::Tables {
            self.tick().await?;
        }
        if matches!(&call, Call::Query(table, query) if asks_late(table, query)) {
            return call.send(&self.past).await;
        }
        let answer = call.clone().send(inner).await?;
        match call {
            Call::Put(table, item, _) => self.note(table, Write::Put(item))?,
            Call::Delete(table, key, _) => self.note(table, Write::Delete(key))?,
            Call::Write(table, writes) => {
                for write in writes {
                    self.note(table, write)?;
                }
            }
            Call::DropTable(name) => {
                self.forget(name);
                self.past.drop_table(name).await?;
            }
            Call::CreateTable(spec, billing) => self.past.create_table(spec, billing).await?,
            Call::Get(..)
            | Call::Query(..)
            | Call::Scan(..)
            | Call::ReadChanges(..)
            | Call::DescribeTable(_) => {}
        }
        Ok(answer)
    }
}

/// Whether a query reads a global index.
fn asks_late(table: &TableSpec, query: &Query) -> bool {
    let index = query.index.as_ref();
    let index = index.and_then(|name| table.index(name).ok());
    index.is_some_and(|index| index.scope == Scope::Global)
}
