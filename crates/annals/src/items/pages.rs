//! The one loop over pages, and how local stores fill a page.
//!
//! Guarantees: pages are read in order to the last one; the first error ends the stream. No other
//! code follows a cursor.

use std::sync::Arc;

use futures::stream::{self, TryStreamExt};

use super::limits::PAGE_BYTES_MAX;
use super::{
    Consistency, Cost, Cursor, Item, Items, KeySchema, Page, Query, Scan, TableSpec, item_size,
};
use crate::{Result, ResultStream};

/// A paged read.
#[derive(Clone, Debug)]
enum Read {
    Query(Query),
    Scan(Scan),
}

impl Read {
    async fn page(self, items: &dyn Items, table: &TableSpec) -> Result<(Page, Option<Self>)> {
        let mut page = match self.clone() {
            Self::Query(query) => items.query(table, query).await?,
            Self::Scan(scan) => items.scan(table, scan).await?,
        };
        let next = page.next.take().filter(|_| !self.is_done(table, &page));
        let next = next.map(|cursor| match self {
            Self::Query(query) => Self::Query(query.after(cursor)),
            Self::Scan(scan) => Self::Scan(scan.after(cursor)),
        });
        Ok((page, next))
    }

    /// Whether `page` is the last, whatever its cursor says: a partition without sort keys holds one
    /// item. Saves a request for an empty page.
    fn is_done(&self, table: &TableSpec, page: &Page) -> bool {
        let has_one_item = match self {
            Self::Query(query) => query.index.is_none() && table.key().sort.is_none(),
            Self::Scan(_) => false,
        };
        has_one_item && !page.items.is_empty()
    }
}

/// A stream of pages, in order. An error ends it.
///
/// See [`Page`] for an example of a page.
pub type PageStream = ResultStream<Page>;
/// A stream of items, in order. An error ends it.
///
/// See [`query_all`] for an example.
pub type ItemStream = ResultStream<Item>;

fn pages(items: Arc<dyn Items>, table: Arc<TableSpec>, read: Read) -> PageStream {
    let stream = stream::try_unfold(Some(read), move |read| {
        let (items, table) = (items.clone(), table.clone());
        async move {
            match read {
                None => Ok(None),
                Some(read) => read.page(&*items, &table).await.map(Some),
            }
        }
    });
    PageStream::new(stream)
}

/// Streams every page of a query. `next` is followed and always `None`.
pub fn query_pages(items: Arc<dyn Items>, table: Arc<TableSpec>, query: Query) -> PageStream {
    pages(items, table, Read::Query(query))
}

/// Streams every page of a scan. `next` is followed and always `None`.
pub fn scan_pages(items: Arc<dyn Items>, table: Arc<TableSpec>, scan: Scan) -> PageStream {
    pages(items, table, Read::Scan(scan))
}

/// Streams every item of a query, in order.
///
/// ```
/// use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, Query, TableSpec, query_all};
/// use annals::memory::Memory;
/// use futures::TryStreamExt;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
/// let table = Arc::new(TableSpec::new("events".parse()?, key)?);
/// let items: Arc<dyn Items> = Arc::new(Memory::new());
/// items.create_table(&table, Default::default()).await?;
/// for n in 1..=3u64 {
///     let item = Item::new().with("p", "cart-1").with("n", n);
///     items.put(&table, item, Condition::Absent).await?;
/// }
/// let all: Vec<Item> = query_all(items, table, Query::of("cart-1")).try_collect().await?;
/// assert_eq!(all.len(), 3);
/// # Ok(())
/// # }
/// ```
pub fn query_all(items: Arc<dyn Items>, table: Arc<TableSpec>, query: Query) -> ItemStream {
    flatten(query_pages(items, table, query))
}

/// Streams every item of a scan, in any order.
pub fn scan_all(items: Arc<dyn Items>, table: Arc<TableSpec>, scan: Scan) -> ItemStream {
    flatten(scan_pages(items, table, scan))
}

fn flatten(pages: PageStream) -> ItemStream {
    ItemStream::of_batches(pages.map_ok(|page| page.items))
}

/// Items that a page has room for at first.
const ITEMS_AT_FIRST: usize = 32;

/// A page under construction in a local store, limited by DynamoDB's rules.
#[derive(Debug)]
pub(crate) struct PageBuilder {
    items: Vec<Item>,
    bytes: usize,
    items_max: usize,
    is_full: bool,
}

impl PageBuilder {
    pub(crate) fn new(limit: Option<u32>) -> Self {
        let items_max = limit.map_or(usize::MAX, |limit| limit as usize);
        Self {
            items: Vec::with_capacity(items_max.min(ITEMS_AT_FIRST)),
            bytes: 0,
            items_max,
            is_full: false,
        }
    }

    /// Bytes of its items.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the item if it fits. Returns whether there is room for another.
    pub(crate) fn offer(&mut self, item: Item) -> bool {
        let size = item_size(&item);
        if !self.items.is_empty() && self.bytes + size > PAGE_BYTES_MAX {
            self.is_full = true;
            return false;
        }
        self.bytes += size;
        self.items.push(item);
        self.is_full = self.items.len() >= self.items_max;
        !self.is_full
    }

    /// Completes the page; `cursor` makes the cursor after its last item, if there may be more.
    pub(crate) fn finish(
        self,
        consistency: Consistency,
        cursor: impl FnOnce(&Item) -> Cursor,
    ) -> Page {
        let last = self.items.last().filter(|_| self.is_full);
        Page {
            next: last.map(cursor),
            cost: Cost::of_read(self.bytes, consistency).in_requests(1),
            items: self.items,
        }
    }
}

/// The cursor after `item` in a read by `schema`: its keys there and in the table.
pub(crate) fn cursor_after(table: &TableSpec, schema: &KeySchema, item: &Item) -> Cursor {
    let attributes = table.key().attributes().chain(schema.attributes());
    let keys = attributes.filter_map(|attribute| {
        let value = item.get(&attribute.name)?;
        Some((attribute.name.as_str(), value.clone()))
    });
    Cursor::new(keys.collect())
}
