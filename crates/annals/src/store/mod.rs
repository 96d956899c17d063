//! The store handle: a store of items with the clock, randomness, counters and spans that every
//! caller needs beside it.
//!
//! Guarantees: every error says which request, table and keys it is about; every call is counted
//! when it ends; a call made inside a span gets a span of its own. Stores implement the bare verbs
//! of [`Items`] and do none of this themselves.
//!
//! # Metrics
//!
//! Every [`Store`] feeds the recorder of the `metrics` crate that is installed when it is made.
//! These are all the names:
//!
//! | counter | label | counts |
//! |---|---|---|
//! | [`REQUESTS`] | `verb` | requests to the store |
//! | [`WRITE_UNITS`] | | write units consumed |
//! | [`READ_UNITS`] | | read units consumed; a half is carried until it is a whole |
//! | [`REFUSED`] | | conditional writes whose condition did not hold |
//! | [`FAILED`] | | calls that failed otherwise |

mod counts;
mod error_context;
mod metrics;
mod observed;

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;

pub use counts::{Count, Counts, Verb};
pub use metrics::{FAILED, READ_UNITS, REFUSED, REQUESTS, WRITE_UNITS};

use self::observed::Observed;
use crate::items::{self, Item, Items, Page, Query, Scan, TableSpec};
use crate::{Clock, Random, Result, SystemClock};

/// Pages of a store, in order. An error ends it.
pub type PageStream = Pin<Box<dyn Stream<Item = Result<Page>> + Send>>;
/// Items of a store, in order. An error ends it.
pub type ItemStream = Pin<Box<dyn Stream<Item = Result<Item>> + Send>>;

/// A store of items, with everything its callers need: a clock, randomness, counters and spans.
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
    /// The same, as callers that stream pages keep it.
    items: Arc<dyn Items>,
    clock: Arc<dyn Clock>,
    random: Random,
}

impl Store {
    /// On a store of items, with the machine's clock and randomness.
    pub fn new(items: impl Items) -> Self {
        Self::from_items(Arc::new(items))
    }

    /// As [`new`](Self::new), on a store that is shared already.
    pub fn from_items(items: Arc<dyn Items>) -> Self {
        let observed = Arc::new(Observed::new(items));
        Self {
            items: observed.clone(),
            observed,
            clock: Arc::new(SystemClock::new()),
            random: Random::from_machine(),
        }
    }

    /// The same store with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same store with another source of randomness.
    #[must_use]
    pub fn with_random(mut self, random: Random) -> Self {
        self.random = random;
        self
    }

    /// The store, observed: what is done through it is counted and traced.
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

    /// What was counted so far. Take two and subtract to measure what happened between.
    pub fn counts(&self) -> Counts {
        self.observed.counts()
    }

    /// What was counted so far, counting from zero again. The metrics are not reset.
    pub fn take_counts(&self) -> Counts {
        self.observed.take_counts()
    }
}

/// Reads of any number of pages: the loops of [`crate::items`], on this store.
impl Store {
    /// Every page of a query.
    pub fn query_pages(&self, table: &Arc<TableSpec>, query: Query) -> PageStream {
        Box::pin(items::query_pages(self.items.clone(), table.clone(), query))
    }

    /// Every page of a scan.
    pub fn scan_pages(&self, table: &Arc<TableSpec>, scan: Scan) -> PageStream {
        Box::pin(items::scan_pages(self.items.clone(), table.clone(), scan))
    }

    /// Every item of a query, in order.
    pub fn query_all(&self, table: &Arc<TableSpec>, query: Query) -> ItemStream {
        Box::pin(items::query_all(self.items.clone(), table.clone(), query))
    }

    /// Every item of a scan.
    pub fn scan_all(&self, table: &Arc<TableSpec>, scan: Scan) -> ItemStream {
        Box::pin(items::scan_all(self.items.clone(), table.clone(), scan))
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
