//! The store handle: a store of items with a clock, randomness, counters and spans.
//!
//! Guarantees: every error names its request, table and keys; every call is counted when it ends; a
//! call inside a span gets a span of its own. Implementations of [`Items`] need none of this.
//!
//! # Metrics
//!
//! Every [`Store`] reports to the recorder of the `metrics` crate that is installed when the store is
//! opened:
//!
//! | counter | label | counts |
//! |---|---|---|
//! | [`REQUESTS`] | `verb` | requests to the store |
//! | [`WRITE_UNITS`] | | write units consumed |
//! | [`READ_UNITS`] | | read units consumed; halves are added up to whole units |
//! | [`REFUSED`] | | conditional writes that were refused |
//! | [`FAILED`] | | calls that failed |

mod counts;
mod error_context;
mod metrics;
mod observed;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

pub use counts::{Count, Counts, Verb};
pub use metrics::{FAILED, READ_UNITS, REFUSED, REQUESTS, WRITE_UNITS};

use self::observed::Observed;
use crate::items::{self, ItemStream, Items, PageStream, Query, Scan, TableSpec};
use crate::{Clock, Random, SystemClock};

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
        let observed = Arc::new(Observed::new(items));
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
        self.observed.counts()
    }

    /// The counters so far, which restart from zero. The metrics are not reset.
    pub fn take_counts(&self) -> Counts {
        self.observed.take_counts()
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
