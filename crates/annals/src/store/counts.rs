//! Counters of store calls.

use std::ops::{Add, AddAssign, Sub};

#[cfg(doc)]
use crate::items::Items;
use crate::items::{Cost, Item, item_size};

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
    /// [`Items::create_table`], [`Items::describe_table`] and [`Items::drop_table`].
    Tables,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 7] = [
        Self::Get,
        Self::Put,
        Self::Delete,
        Self::Write,
        Self::Query,
        Self::Scan,
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

    pub(super) fn add(&mut self, verb: Verb, count: Count) {
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
