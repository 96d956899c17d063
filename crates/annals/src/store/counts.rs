//! Counters of store calls, and the same as metrics.
//!
//! Guarantees: all figures of a call are added at once, when it has ended.

use std::ops::{Add, AddAssign, Sub};
use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::Counter;

use crate::Result;
#[cfg(doc)]
use crate::items::{Changes, Items};
use crate::items::{Cost, Item, Page, WriteError, item_size};

/// The operations of a store.
///
/// ```
/// use annals::store::{Counts, Verb};
///
/// let counts = Counts::default();
/// for verb in Verb::ALL {
///     println!("{}: {} requests", verb.name(), counts.of(verb).cost.requests);
/// }
/// assert_eq!(Verb::Query.name(), "query");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// [`Items::get`].
    Get,
    /// [`Items::put`].
    Put,
    /// [`Items::delete`].
    Delete,
    /// [`Items::write`].
    Write,
    /// [`Items::query`].
    Query,
    /// [`Items::scan`].
    Scan,
    /// [`Changes::read_changes`].
    Changes,
    /// [`Items::create_table`], [`Items::describe_table`] and [`Items::drop_table`].
    Tables,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 8] = [
        Self::Get,
        Self::Put,
        Self::Delete,
        Self::Write,
        Self::Query,
        Self::Scan,
        Self::Changes,
        Self::Tables,
    ];

    /// The name in lower case, as in the label of the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Write => "write",
            Self::Query => "query",
            Self::Scan => "scan",
            Self::Changes => "changes",
            Self::Tables => "tables",
        }
    }
}

/// The counters of one verb or of all.
///
/// ```
/// use annals::store::{Store, Verb};
/// use annals::items::{Condition, Item};
///
/// # use annals::items::{Items, KeyAttribute, KeySchema, TableSpec};
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let items = Memory::new();
/// # items.create_table(&table, Default::default()).await?;
/// # let items = Store::new(items);
/// items.put(&table, Item::new().with("id", "a"), Condition::Absent).await?;
/// let again = items.put(&table, Item::new().with("id", "a"), Condition::Absent).await;
/// assert!(again.is_err());
///
/// let puts = items.counts().of(Verb::Put);
/// assert_eq!((puts.calls, puts.refused, puts.failed), (2, 1, 0));
/// assert_eq!(puts.bytes_written, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// Completed calls, also failed ones.
    pub calls: u64,
    /// Requests and capacity units. A failed call of unknown cost counts as one request.
    pub cost: Cost,
    /// Bytes of returned items, also those of refused writes.
    pub bytes_read: u64,
    /// Bytes of items that were put.
    pub bytes_written: u64,
    /// Conditional writes that were refused.
    pub refused: u64,
    /// Failed calls.
    pub failed: u64,
}

impl Count {
    pub(super) fn call(cost: Cost) -> Self {
        Self {
            calls: 1,
            cost,
            ..Self::default()
        }
    }

    pub(super) fn failure(cost: Cost) -> Self {
        Self {
            failed: 1,
            ..Self::call(cost)
        }
    }

    pub(super) fn read<'a>(mut self, items: impl IntoIterator<Item = &'a Item>) -> Self {
        self.bytes_read = items.into_iter().map(|item| item_size(item) as u64).sum();
        self
    }

    pub(super) fn wrote(mut self, bytes: u64) -> Self {
        self.bytes_written = bytes;
        self
    }
}

impl Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            cost: self.cost + other.cost,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Count {
    type Output = Self;

    /// The difference to an earlier count, at least zero
    /// ([`Store::take_counts`](super::Store::take_counts) resets counters).
    fn sub(self, earlier: Self) -> Self {
        let (cost, before) = (self.cost, earlier.cost);
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            cost: Cost {
                requests: cost.requests.saturating_sub(before.requests),
                write_units: cost.write_units.saturating_sub(before.write_units),
                read_half_units: cost.read_half_units.saturating_sub(before.read_half_units),
            },
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            refused: self.refused.saturating_sub(earlier.refused),
            failed: self.failed.saturating_sub(earlier.failed),
        }
    }
}

/// The counters of every verb.
///
/// ```
/// use annals::store::{Store, Verb};
/// use annals::journal::Expected;
/// use annals::{Codec, NewEvent};
///
/// # use annals::Annals;
/// # use annals::layout::AnnalsLayout;
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let store = Store::new(Memory::new());
/// let annals = Annals::create(&store, &AnnalsLayout::default()).await?;
/// annals.journal().prepare().await?;
///
/// let before = store.counts();
/// let opened = NewEvent::new(Codec::Text, "opened");
/// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, opened).await?;
/// let spent = store.counts() - before;
/// assert_eq!(spent.of(Verb::Put).cost.write_units, 1);
/// assert_eq!(spent.total().cost.requests, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([Count; Verb::ALL.len()]);

impl Counts {
    /// The counters of one verb.
    pub fn of(&self, verb: Verb) -> Count {
        self.0.get(verb as usize).copied().unwrap_or_default()
    }

    /// The sum of all verbs.
    pub fn total(&self) -> Count {
        self.0.into_iter().fold(Count::default(), Add::add)
    }

    fn add(&mut self, verb: Verb, count: Count) {
        if let Some(counted) = self.0.get_mut(verb as usize) {
            *counted += count;
        }
    }
}

impl Sub for Counts {
    type Output = Self;

    /// The difference to earlier counts.
    fn sub(mut self, earlier: Self) -> Self {
        for (count, earlier) in self.0.iter_mut().zip(earlier.0) {
            *count = *count - earlier;
        }
        self
    }
}

/// The counters of a store, and the handles of its metrics.
pub(super) struct Tally {
    counted: Mutex<Counted>,
    meters: Meters,
}

#[derive(Default)]
struct Counted {
    counts: Counts,
    /// A half read unit that the metrics do not include yet.
    has_half: bool,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            counted: Mutex::default(),
            meters: Meters::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts
    }

    pub(super) fn take_counts(&self) -> Counts {
        std::mem::take(&mut self.lock().counts)
    }

    pub(super) fn add(&self, verb: Verb, count: Count) {
        let read_units = {
            let mut counted = self.lock();
            counted.counts.add(verb, count);
            let halves = count.cost.read_half_units + u64::from(counted.has_half);
            counted.has_half = halves % 2 == 1;
            halves / 2
        };
        self.meters.add(verb, count, read_units);
    }

    pub(super) fn add_conditional(
        &self,
        verb: Verb,
        result: &Result<Cost, WriteError>,
        bytes: u64,
    ) {
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

    pub(super) fn add_page(&self, verb: Verb, result: &Result<Page>) {
        let count = match result {
            Ok(page) => Count::call(page.cost).read(&page.items),
            Err(_) => Count::failure(Cost::request()),
        };
        self.add(verb, count);
    }

    pub(super) fn add_tables<T>(&self, result: &Result<T>) {
        let count = match result {
            Ok(_) => Count::call(Cost::request()),
            Err(_) => Count::failure(Cost::request()),
        };
        self.add(Verb::Tables, count);
    }
}

/// The metric of requests, by `verb`.
pub const REQUESTS: &str = "annals_requests_total";
/// The metric of write units.
pub const WRITE_UNITS: &str = "annals_write_units_total";
/// The metric of read units.
pub const READ_UNITS: &str = "annals_read_units_total";
/// The metric of refused conditional writes.
pub const REFUSED: &str = "annals_refused_total";
/// The metric of failed calls.
pub const FAILED: &str = "annals_failed_total";

/// The handles into the `metrics` crate, looked up once.
struct Meters {
    requests: [Counter; Verb::ALL.len()],
    write_units: Counter,
    read_units: Counter,
    refused: Counter,
    failed: Counter,
}

impl Meters {
    fn new() -> Self {
        metrics::describe_counter!(REQUESTS, "requests to the store of items");
        metrics::describe_counter!(WRITE_UNITS, "write units consumed");
        metrics::describe_counter!(READ_UNITS, "read units consumed");
        metrics::describe_counter!(REFUSED, "writes whose condition did not hold");
        metrics::describe_counter!(FAILED, "calls to the store that failed");
        Self {
            requests: Verb::ALL.map(|verb| metrics::counter!(REQUESTS, "verb" => verb.name())),
            write_units: metrics::counter!(WRITE_UNITS),
            read_units: metrics::counter!(READ_UNITS),
            refused: metrics::counter!(REFUSED),
            failed: metrics::counter!(FAILED),
        }
    }

    fn add(&self, verb: Verb, count: Count, read_units: u64) {
        if let Some(requests) = self.requests.get(verb as usize) {
            requests.increment(count.cost.requests);
        }
        self.write_units.increment(count.cost.write_units);
        self.read_units.increment(read_units);
        self.refused.increment(count.refused);
        self.failed.increment(count.failed);
    }
}
