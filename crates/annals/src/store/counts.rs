//! Counters of store calls, as plain data.

use std::ops::{Add, AddAssign, Sub};

#[cfg(doc)]
use crate::items::Items;
use crate::items::{Cost, Item, item_size};

/// What can be asked of a store.
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

    /// The verb in lower case, as the label of the metrics has it.
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

/// What was counted, of one verb or of all.
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
    /// Calls that ended, well or not.
    pub calls: u64,
    /// Requests and capacity units. A call that failed without saying counts one request.
    pub cost: Cost,
    /// Bytes of items that came back, also those that a refusal showed.
    pub bytes_read: u64,
    /// Bytes of items that were put.
    pub bytes_written: u64,
    /// Conditional writes whose condition did not hold.
    pub refused: u64,
    /// Calls that failed otherwise.
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

    /// What came after `earlier`. A later count is never smaller; where it is (somebody called
    /// [`Store::take_counts`](super::Store::take_counts) between), nothing comes after.
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

/// What was counted, verb by verb.
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
pub struct Counts {
    get: Count,
    put: Count,
    delete: Count,
    write: Count,
    query: Count,
    scan: Count,
    tables: Count,
}

impl Counts {
    /// What was counted of one verb.
    pub fn of(&self, verb: Verb) -> Count {
        match verb {
            Verb::Get => self.get,
            Verb::Put => self.put,
            Verb::Delete => self.delete,
            Verb::Write => self.write,
            Verb::Query => self.query,
            Verb::Scan => self.scan,
            Verb::Tables => self.tables,
        }
    }

    /// What was counted of all verbs together.
    pub fn total(&self) -> Count {
        let each = Verb::ALL.into_iter().map(|verb| self.of(verb));
        each.fold(Count::default(), Add::add)
    }

    pub(super) fn of_mut(&mut self, verb: Verb) -> &mut Count {
        match verb {
            Verb::Get => &mut self.get,
            Verb::Put => &mut self.put,
            Verb::Delete => &mut self.delete,
            Verb::Write => &mut self.write,
            Verb::Query => &mut self.query,
            Verb::Scan => &mut self.scan,
            Verb::Tables => &mut self.tables,
        }
    }
}

impl Sub for Counts {
    type Output = Self;

    /// What was counted after `earlier`.
    fn sub(mut self, earlier: Self) -> Self {
        for verb in Verb::ALL {
            *self.of_mut(verb) = self.of(verb) - earlier.of(verb);
        }
        self
    }
}
