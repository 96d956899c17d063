//! Reading the rows of a view: by key, by prefix and range, and in the order that the view declares.
//!
//! Guarantees: a row that was read includes every event up to the view's position. Lists show each row
//! once; on DynamoDB they may be a moment older than a read by key.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, TryStreamExt};

use super::control::{self, Control};
use super::record::Records;
use super::row::StoredRow;
use super::table::{BY_KEY, BY_ORDER, BuildKey};
use super::view::View;
use crate::entity::Stored;
use crate::items::{Cursor, Item, KeyPart, Query, SortRange, Write};
use crate::{Error, Payload, Result, ResultStream};

/// How long the number of the live build is remembered. A retired build keeps its rows for longer.
const BUILD_REMEMBERED: Duration = Duration::from_secs(1);
const PAGE_ROWS: u32 = 100;
const PAGE_ROWS_MAX: u32 = 1_000;

/// The rows of a view, to read. [`Projections::rows`](super::Projections::rows) opens them in a program
/// that does not run the view.
///
/// ```
/// # use annals::entity::{EntityEvent, Stored};
/// # use annals::feed::Filter;
/// # use annals::projection::{Fed, View, descending};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, EntityEvent)]
/// # enum CartEvent { Added { cents: u64 } }
/// # struct Carts;
/// # #[derive(Default, Debug, PartialEq, Serialize, Deserialize, Stored)]
/// # struct Cart { cents: u64 }
/// # impl View for Carts {
/// #     const NAME: &'static str = "carts";
/// #     type Event = CartEvent;
/// #     type Row = Cart;
/// #     fn source() -> Filter { Filter::new().category("Cart") }
/// #     fn key(event: &Fed<CartEvent>) -> Option<String> { Some(event.entity().to_owned()) }
/// #     fn apply(row: Option<Cart>, event: &Fed<CartEvent>) -> Option<Cart> {
/// #         let CartEvent::Added { cents } = event.event;
/// #         Some(Cart { cents: row.unwrap_or_default().cents + cents })
/// #     }
/// #     fn order(cart: &Cart) -> Option<String> { Some(descending(cart.cents)) }
/// # }
/// # use annals::journal::Expected;
/// # use annals::layout::AnnalsLayout;
/// # use annals::{Annals, memory::Memory};
/// use futures::TryStreamExt;
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let annals = Annals::create(Memory::new(), &AnnalsLayout::default()).await?;
/// # for (id, cents) in [("Cart|41", 100), ("Cart|42", 300), ("Cart|7", 200)] {
/// #     let added = CartEvent::Added { cents }.to_event()?;
/// #     annals.journal().append(&id.parse()?, Expected::Empty, added).await?;
/// # }
/// let carts = annals.projections().view::<Carts>().start().await?;
/// carts.caught_up().await?;
///
/// let first = carts.list().prefix("4").limit(1).page().await?;
/// assert_eq!(first.rows[0].0, "41");
/// let second = carts.list().prefix("4").after(first.next).page().await?;
/// assert_eq!(second.rows[0].0, "42");
///
/// // `Carts::order` is `descending(cart.cents)`: the largest first.
/// let by_size: Vec<(String, Cart)> = carts.ordered().all().try_collect().await?;
/// let keys: Vec<&str> = by_size.iter().map(|(key, _)| key.as_str()).collect();
/// assert_eq!(keys, ["42", "7", "41"]);
/// # carts.stop().await;
/// # Ok(())
/// # }
/// ```
pub struct Rows<V> {
    records: Records,
    build: Arc<Mutex<Option<(Duration, BuildKey)>>>,
    view: PhantomData<fn() -> V>,
}

impl<V> Clone for Rows<V> {
    fn clone(&self) -> Self {
        Self {
            records: self.records.clone(),
            build: self.build.clone(),
            view: PhantomData,
        }
    }
}

impl<V> fmt::Debug for Rows<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

impl<V: View> Rows<V> {
    pub(super) fn new(records: Records) -> Self {
        Self {
            records,
            build: Arc::default(),
            view: PhantomData,
        }
    }

    /// Gets a row.
    ///
    /// # Errors
    /// `Invalid` if the view was never started, or its row type changed without a new revision.
    pub async fn get(&self, key: &str) -> Result<Option<V::Row>> {
        let build = self.build().await?;
        self.get_in(&build, key).await
    }

    /// Gets a row of a build.
    pub(super) async fn get_in(&self, build: &BuildKey, key: &str) -> Result<Option<V::Row>> {
        let mut found = self.get_all(build, &[key.to_owned()]).await?;
        Ok(found.pop().map(|(_, row)| row))
    }

    /// The rows by key.
    pub fn list(&self) -> RowQuery<V> {
        RowQuery::new(self, false)
    }

    /// The rows in the order that the view declares ([`View::order`]). Rows without a place in it are
    /// left out.
    pub fn ordered(&self) -> RowQuery<V> {
        RowQuery::new(self, true)
    }

    async fn get_all(&self, build: &BuildKey, keys: &[String]) -> Result<Vec<(String, V::Row)>> {
        let found = keys.iter().map(|key| build.row(key)).collect();
        let found = self.records.store.get(&self.records.table, found).await?;
        let mut rows = Vec::with_capacity(keys.len());
        for (key, item) in keys.iter().zip(&found.items) {
            let row = item.as_ref().map(StoredRow::from_item).transpose()?;
            if let Some(value) = row.and_then(|row| row.value) {
                rows.push((key.clone(), decode::<V>(&value)?));
            }
        }
        Ok(rows)
    }

    /// The build whose rows this program reads.
    async fn build(&self) -> Result<BuildKey> {
        let now = self.records.store.clock().monotonic();
        let remembered = self.build.lock().unwrap_or_else(|e| e.into_inner()).clone();
        if let Some((since, build)) = remembered
            && now.saturating_sub(since) < BUILD_REMEMBERED
        {
            return Ok(build);
        }
        let control = Control::load(&self.records, V::NAME).await?;
        let found = control
            .as_ref()
            .and_then(|control| control.read_by(V::REVISION));
        let build = found.ok_or_else(|| {
            Error::invalid("this revision of the view was never started; start it first")
                .fact("projection", V::NAME)
                .fact("revision", V::REVISION)
        });
        let build = control::key_of(V::NAME, build?);
        *self.build.lock().unwrap_or_else(|e| e.into_inner()) = Some((now, build.clone()));
        Ok(build)
    }
}

/// A list of rows: which, and in which order.
///
/// See [`Rows`] for an example.
#[must_use = "nothing is read before `page` or `all` is called"]
pub struct RowQuery<V> {
    rows: Rows<V>,
    is_ordered: bool,
    range: SortRange,
    is_descending: bool,
    limit: u32,
    after: Option<String>,
}

impl<V> fmt::Debug for RowQuery<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowQuery")
            .field("is_ordered", &self.is_ordered)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// A page of rows.
///
/// See [`Rows`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowPage<R> {
    /// Keys and rows, in order.
    pub rows: Vec<(String, R)>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<String>,
}

impl<V: View> RowQuery<V> {
    fn new(rows: &Rows<V>, is_ordered: bool) -> Self {
        Self {
            rows: rows.clone(),
            is_ordered,
            range: SortRange::All,
            is_descending: false,
            limit: PAGE_ROWS,
            after: None,
        }
    }

    /// Only rows whose key (or place in the order) begins so.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        let prefix = prefix.into();
        self.range = match prefix.is_empty() {
            true => SortRange::All,
            false => SortRange::BeginsWith(prefix.into()),
        };
        self
    }

    /// Only rows from one key (or place in the order) to before another.
    pub fn range(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        let (from, to): (String, String) = (from.into(), to.into());
        // A store's range includes its end. No key that is shorter than the end and precedes it is lost:
        // a row at the end itself is left out when the page is read.
        self.range = SortRange::Between(from.into(), to.into());
        self
    }

    /// The last first.
    pub fn descending(mut self) -> Self {
        self.is_descending = true;
        self
    }

    /// The most rows of a page, 1 to 1,000; 100 by default.
    pub fn limit(mut self, rows: u32) -> Self {
        self.limit = rows.clamp(1, PAGE_ROWS_MAX);
        self
    }

    /// Continues after another page.
    pub fn after(mut self, next: impl Into<Option<String>>) -> Self {
        self.after = next.into();
        self
    }

    /// Reads a page.
    ///
    /// # Errors
    /// As [`Rows::get`].
    pub async fn page(self) -> Result<RowPage<V::Row>> {
        let build = self.rows.build().await?;
        let (index, sort) = match self.is_ordered {
            true => (BY_ORDER, "o"),
            false => (BY_KEY, "k"),
        };
        if is_empty_range(&self.range) {
            return Ok(RowPage {
                rows: Vec::new(),
                next: None,
            });
        }
        let mut query = Query::of(build.rows())
            .on(index)
            .within(self.range.clone())
            .eventually()
            .limit(self.limit);
        if self.is_descending {
            query = query.descending();
        }
        if let Some(after) = &self.after {
            query = query.after(self.cursor(&build, after)?);
        }
        let (store, table) = (&self.rows.records.store, &self.rows.records.table);
        let page = store.query(table, query).await?;
        let is_last = page.next.is_none();
        let last = page.items.last().and_then(|item| item.text(sort));
        let next = last.filter(|_| !is_last).map(str::to_owned);
        let keys = page
            .items
            .iter()
            .filter(|item| !self.is_end(item.text(sort)));
        let keys = keys.filter_map(key_in);
        let keys: Vec<String> = keys.collect();
        let rows = self.rows.get_all(&build, &keys).await?;
        Ok(RowPage { rows, next })
    }

    /// All rows, page by page.
    pub fn all(self) -> ResultStream<(String, V::Row)> {
        let pages = stream::try_unfold(Some(self), |query| async move {
            let Some(query) = query else {
                return Ok::<_, Error>(None);
            };
            let rest = Self {
                rows: query.rows.clone(),
                range: query.range.clone(),
                after: None,
                ..query
            };
            let page = query.page().await?;
            let rest = page.next.map(|next| rest.after(next));
            Ok(Some((page.rows, rest)))
        });
        let rows = pages.map_ok(|rows| stream::iter(rows.into_iter().map(Ok)));
        ResultStream::new(rows.try_flatten())
    }

    /// Whether a row is at the end of the range, which does not belong to it.
    fn is_end(&self, sort: Option<&str>) -> bool {
        match (&self.range, sort) {
            (SortRange::Between(_, KeyPart::S(end)), Some(sort)) => sort == end,
            _ => false,
        }
    }

    /// The position after the row that ended a page.
    fn cursor(&self, build: &BuildKey, after: &str) -> Result<Cursor> {
        let wrong = || {
            Error::invalid("a page continues where another one ended; pass on its `next`")
                .fact("after", after)
        };
        let key = match self.is_ordered {
            false => after,
            true => after.split_once('\0').ok_or_else(wrong)?.1,
        };
        if key.is_empty() {
            return Err(wrong());
        }
        let row = super::table::item_of(&build.row(key));
        Ok(Cursor::new(match self.is_ordered {
            false => row.with("q", build.rows()).with("k", after),
            true => row.with("u", build.rows()).with("o", after),
        }))
    }
}

fn is_empty_range(range: &SortRange) -> bool {
    matches!(range, SortRange::Between(from, to) if from >= to)
}

/// The key of the row that an entry of an index names.
fn key_in(entry: &Item) -> Option<String> {
    let partition = entry.text("p")?;
    let mut parts = partition.splitn(4, ':');
    parts.nth(3).map(str::to_owned)
}

/// Decodes a row.
pub(super) fn decode<V: View>(value: &Payload) -> Result<V::Row> {
    V::Row::from_payload(value).map_err(|cause| {
        Error::new(
            cause.kind(),
            "a row does not decode: its type changed. raise REVISION of the view, so that it is built anew",
        )
        .fact("projection", V::NAME)
        .because(cause)
    })
}

/// Deletes all rows and tombstones of a build. Repeatable.
pub(super) async fn drop_all(records: &Records, build: &BuildKey) -> Result<()> {
    for partition in [build.rows(), build.tombstones()] {
        let query = Query::of(partition).on(BY_KEY).eventually();
        let mut pages = records.store.query_pages(&records.table, query);
        while let Some(page) = pages.try_next().await? {
            let keys = page.items.iter().filter_map(key_in);
            let deletes = keys.map(|key| Write::Delete(build.row(&key))).collect();
            records.store.write(&records.table, deletes).await?;
        }
    }
    Ok(())
}

/// A number as a place in an order: smaller ones first.
///
/// ```
/// use annals::projection::ascending;
///
/// assert!(ascending(9) < ascending(10));
/// ```
pub fn ascending(number: u64) -> String {
    format!("{number:020}")
}

/// A number as a place in an order: larger ones first.
///
/// ```
/// use annals::projection::descending;
///
/// assert!(descending(10) < descending(9));
/// ```
pub fn descending(number: u64) -> String {
    ascending(u64::MAX - number)
}
