//! Reads: queries, scans and their pages.

use std::fmt;

use super::{Cost, Item, KeyPart};

/// Read consistency.
///
/// ```
/// use annals::items::{Consistency, Cost, Query};
///
/// assert_eq!(Query::of("cart-1").consistency, Consistency::Strong);
/// let cheap = Query::of("cart-1").eventually();
/// assert_eq!(Cost::of_read(4_096, cheap.consistency).read_units(), 0.5);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Sees every write that was acknowledged before the read began.
    #[default]
    Strong,
    /// May be stale, at half the price. Global indexes have no other.
    Eventual,
}

/// The order of a query's results.
///
/// See [`Query`] for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Smallest sort key first.
    #[default]
    Ascending,
    /// Largest sort key first.
    Descending,
}

/// A range of sort keys: the comparisons of DynamoDB.
///
/// ```
/// use annals::items::{KeyPart, Query, SortRange};
///
/// let range = SortRange::Between(10u64.into(), 19u64.into());
/// assert!(range.contains(Some(&KeyPart::from(19u64))));
/// assert!(!range.contains(Some(&KeyPart::from(20u64))));
/// assert_eq!(Query::of("cart-1").within(range.clone()).range, range);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SortRange {
    /// Every sort key.
    #[default]
    All,
    /// Equal.
    Equal(KeyPart),
    /// Greater or equal.
    AtLeast(KeyPart),
    /// Greater.
    Above(KeyPart),
    /// Less or equal.
    AtMost(KeyPart),
    /// Less.
    Below(KeyPart),
    /// From the first to the second, both included.
    Between(KeyPart, KeyPart),
    /// Text or bytes with this prefix.
    BeginsWith(KeyPart),
}

impl fmt::Display for SortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("any"),
            Self::Equal(want) => write!(f, "{want}"),
            Self::AtLeast(low) => write!(f, "{low} or more"),
            Self::Above(low) => write!(f, "more than {low}"),
            Self::AtMost(high) => write!(f, "{high} or less"),
            Self::Below(high) => write!(f, "less than {high}"),
            // The highest sequence number: no limit.
            Self::Between(low, high) if high.to_string() == i64::MAX.to_string() => {
                write!(f, "{low} or more")
            }
            Self::Between(low, high) => write!(f, "{low} to {high}"),
            Self::BeginsWith(prefix) => write!(f, "beginning with {prefix}"),
        }
    }
}

impl SortRange {
    /// Whether a sort key is in the range.
    pub fn contains(&self, sort: Option<&KeyPart>) -> bool {
        let Some(sort) = sort else {
            return *self == Self::All;
        };
        match self {
            Self::All => true,
            Self::Equal(want) => sort == want,
            Self::AtLeast(low) => sort >= low,
            Self::Above(low) => sort > low,
            Self::AtMost(high) => sort <= high,
            Self::Below(high) => sort < high,
            Self::Between(low, high) => sort >= low && sort <= high,
            Self::BeginsWith(prefix) => match (sort, prefix) {
                (KeyPart::S(text), KeyPart::S(prefix)) => text.starts_with(prefix.as_str()),
                (KeyPart::B(bytes), KeyPart::B(prefix)) => bytes.starts_with(prefix),
                _ => false,
            },
        }
    }

    /// The sort keys it compares with.
    pub fn bounds(&self) -> impl Iterator<Item = &KeyPart> {
        let (first, second) = match self {
            Self::All => (None, None),
            Self::Equal(a) | Self::AtLeast(a) | Self::Above(a) | Self::AtMost(a) => (Some(a), None),
            Self::Below(a) | Self::BeginsWith(a) => (Some(a), None),
            Self::Between(a, b) => (Some(a), Some(b)),
        };
        first.into_iter().chain(second)
    }
}

/// A position in a paged read: the key attributes of the last item of a page. Opaque to readers.
///
/// ```
/// use annals::items::{Item, Scan, Write};
///
/// # use annals::items::{Items, KeyAttribute, KeySchema, TableSpec};
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let items = Memory::new();
/// # items.create_table(&table, Default::default()).await?;
/// let note = |id| Write::Put(Item::new().with("id", id));
/// items.write(&table, vec![note("a"), note("b")]).await?;
///
/// let first = items.scan(&table, Scan::whole().limit(1)).await?;
/// let cursor = first.next.expect("there is more");
/// let second = items.scan(&table, Scan::whole().after(cursor)).await?;
/// assert_eq!((first.items.len(), second.items.len()), (1, 1));
/// assert_ne!(first.items, second.items);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(Item);

impl Cursor {
    /// The position after the item with these key attributes. For implementers of
    /// [`Items`](super::Items).
    pub fn new(key_attributes: Item) -> Self {
        Self(key_attributes)
    }

    /// The key attributes. For implementers of [`Items`](super::Items).
    pub fn key_attributes(&self) -> &Item {
        &self.0
    }
}

/// A query for one page of a partition, in order.
///
/// ```
/// use annals::items::{Direction, Query};
///
/// let newest = Query::of("cart-1").descending().limit(1);
/// assert_eq!(newest.direction, Direction::Descending);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Query {
    /// The index to read; `None` for the table itself.
    pub index: Option<String>,
    /// The partition.
    pub partition: KeyPart,
    /// The sort keys.
    pub range: SortRange,
    /// The order.
    pub direction: Direction,
    /// Maximum items of a page, at least 1.
    pub limit: Option<u32>,
    /// Where the previous page ended.
    pub after: Option<Cursor>,
    /// The consistency.
    pub consistency: Consistency,
}

impl Query {
    /// Reads a whole partition, ascending, strongly consistent.
    pub fn of(partition: impl Into<KeyPart>) -> Self {
        Self {
            index: None,
            partition: partition.into(),
            range: SortRange::All,
            direction: Direction::Ascending,
            limit: None,
            after: None,
            consistency: Consistency::Strong,
        }
    }

    /// Reads an index.
    #[must_use]
    pub fn on(mut self, index: impl Into<String>) -> Self {
        self.index = Some(index.into());
        self
    }

    /// Limits the sort keys.
    #[must_use]
    pub fn within(mut self, range: SortRange) -> Self {
        self.range = range;
        self
    }

    /// Returns the largest sort key first.
    #[must_use]
    pub fn descending(mut self) -> Self {
        self.direction = Direction::Descending;
        self
    }

    /// Sets the maximum items of a page.
    #[must_use]
    pub fn limit(mut self, items: u32) -> Self {
        self.limit = Some(items);
        self
    }

    /// Continues after another page.
    #[must_use]
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Reads at half the price, perhaps stale data.
    #[must_use]
    pub fn eventually(mut self) -> Self {
        self.consistency = Consistency::Eventual;
        self
    }
}

/// A segment of a table, for a parallel scan.
///
/// ```
/// use annals::items::{Item, Scan, Segment, Write};
///
/// # use annals::items::{Items, KeyAttribute, KeySchema, TableSpec};
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let items = Memory::new();
/// # items.create_table(&table, Default::default()).await?;
/// let put = |n: u64| Write::Put(Item::new().with("id", n.to_string()));
/// items.write(&table, (0..10).map(put).collect()).await?;
///
/// // Each item is in one segment.
/// let mut found = 0;
/// for index in 0..2 {
///     let segment = Scan::segment(Segment { index, of: 2 });
///     found += items.scan(&table, segment).await?.items.len();
/// }
/// assert_eq!(found, 10);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The index, from 0.
    pub index: u32,
    /// The number of segments.
    pub of: u32,
}

impl Segment {
    /// The whole table.
    pub const WHOLE: Self = Self { index: 0, of: 1 };
}

/// A scan for one page of a table, in any order.
///
/// ```
/// use annals::items::{Condition, Item, Scan};
///
/// # use annals::items::{Items, KeyAttribute, KeySchema, TableSpec};
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let items = Memory::new();
/// # items.create_table(&table, Default::default()).await?;
/// items.put(&table, Item::new().with("id", "a"), Condition::Always).await?;
/// let page = items.scan(&table, Scan::whole()).await?;
/// assert_eq!(page.items, [Item::new().with("id", "a")]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scan {
    /// The segment of the table.
    pub segment: Segment,
    /// Maximum items of a page, at least 1.
    pub limit: Option<u32>,
    /// Where the previous page ended.
    pub after: Option<Cursor>,
    /// The consistency.
    pub consistency: Consistency,
}

impl Scan {
    /// Scans the whole table, strongly consistent.
    pub fn whole() -> Self {
        Self::segment(Segment::WHOLE)
    }

    /// Scans a segment of the table, strongly consistent.
    pub fn segment(segment: Segment) -> Self {
        Self {
            segment,
            limit: None,
            after: None,
            consistency: Consistency::Strong,
        }
    }

    /// Sets the maximum items of a page.
    #[must_use]
    pub fn limit(mut self, items: u32) -> Self {
        self.limit = Some(items);
        self
    }

    /// Continues after another page.
    #[must_use]
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }
}

/// The result of one request of a query or scan.
///
/// A page may be empty and still not be the last.
///
/// ```
/// use annals::items::{Item, Scan, Write};
///
/// # use annals::items::{Items, KeyAttribute, KeySchema, TableSpec};
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let items = Memory::new();
/// # items.create_table(&table, Default::default()).await?;
/// let put = |n: u64| Write::Put(Item::new().with("id", n.to_string()));
/// items.write(&table, (0..5).map(put).collect()).await?;
///
/// let (mut scan, mut found) = (Scan::whole().limit(2), 0);
/// loop {
///     let page = items.scan(&table, scan).await?;
///     found += page.items.len();
///     match page.next {
///         Some(cursor) => scan = Scan::whole().limit(2).after(cursor),
///         None => break,
///     }
/// }
/// assert_eq!(found, 5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Page {
    /// The items.
    pub items: Vec<Item>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<Cursor>,
    /// The cost.
    pub cost: Cost,
}

impl Page {
    /// A page, for stores.
    pub fn new(items: Vec<Item>, next: Option<Cursor>, cost: Cost) -> Self {
        Self { items, next, cost }
    }
}

/// The result of [`Items::get`](super::Items::get).
///
/// ```
/// use annals::items::{Condition, Item, Key};
///
/// # use annals::items::{Items, KeyAttribute, KeySchema, TableSpec};
/// # use annals::memory::Memory;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// # let items = Memory::new();
/// # items.create_table(&table, Default::default()).await?;
/// items.put(&table, Item::new().with("id", "a"), Condition::Always).await?;
/// let got = items.get(&table, vec![Key::new("a"), Key::new("b")]).await?;
/// assert_eq!(got.items, [Some(Item::new().with("id", "a")), None]);
/// assert_eq!(got.cost.read_units(), 2.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Got {
    /// The item of each key, in the order of the keys.
    pub items: Vec<Option<Item>>,
    /// The cost.
    pub cost: Cost,
}

impl Got {
    /// The result of a `get`, for stores.
    pub fn new(items: Vec<Option<Item>>, cost: Cost) -> Self {
        Self { items, cost }
    }
}
