//! A check's own table, with shorthands to use it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{Stream, TryStreamExt};

use annals::items::limits::PAGE_BYTES_MAX;
use annals::items::{
    Billing, Condition, Cost, IndexSpec, Item, Items, Key, KeyAttribute, KeySchema, KeyType, Page,
    Query, Scan, TableName, TableSpec, Value, WriteError, item_size, query_pages, scan_pages,
};
use annals::{Clock, Error, ErrorKind, Random, Result, SystemClock};

/// How often a read of a global index is repeated until it has caught up, and the pause between.
/// A store without lag never waits.
const TRIES_MAX: usize = 250;
const PAUSE: Duration = Duration::from_millis(20);
/// More pages than any check reads; a store whose cursors loop reaches this.
const PAGES_MAX: usize = 200;

/// A name that no other check, run or process uses.
pub(super) fn unused_name() -> TableName {
    static SUFFIX: OnceLock<u64> = OnceLock::new();
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    let suffix = SUFFIX.get_or_init(|| Random::from_machine().bits());
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let name = format!("annals-conformance-{n}-{suffix:016x}");
    name.parse().expect("a name of letters and digits")
}

pub(super) fn index_name(name: &str) -> TableName {
    name.parse().expect("an index name")
}

/// The key most checks use: a text partition `p` and a sort attribute `s`.
pub(super) fn sorted(sort: KeyType) -> KeySchema {
    KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::new("s", sort))
}

/// A text partition `p` alone.
pub(super) fn unsorted() -> KeySchema {
    KeySchema::new(KeyAttribute::text("p"))
}

/// The item `p`, `s` of a table with a sort key.
pub(super) fn item(partition: &str, sort: impl Into<Value>) -> Item {
    Item::new().with("p", partition).with("s", sort)
}

/// `item` with an attribute `v` that brings it to exactly `bytes`.
pub(super) fn filled(item: Item, bytes: usize) -> Item {
    let item = item.with("v", "");
    let missing = bytes.checked_sub(item_size(&item));
    let text = "x".repeat(missing.expect("the item is smaller than it should become"));
    let item = item.with("v", text);
    assert_eq!(item_size(&item), bytes, "the item has the size asked for");
    item
}

pub(super) struct Scratch {
    pub(super) items: Arc<dyn Items>,
    pub(super) spec: Arc<TableSpec>,
}

impl Scratch {
    /// A new table with this key.
    pub(super) async fn new(items: &Arc<dyn Items>, key: KeySchema) -> Self {
        Self::indexed(items, key, []).await
    }

    /// A new table with this key and these indexes.
    pub(super) async fn indexed(
        items: &Arc<dyn Items>,
        key: KeySchema,
        indexes: impl IntoIterator<Item = IndexSpec>,
    ) -> Self {
        let mut spec = TableSpec::new(unused_name(), key).expect("a table");
        for index in indexes {
            spec = spec.with_index(index).expect("an index");
        }
        let created = items.create_table(&spec, Billing::OnDemand).await;
        created.expect("create_table");
        Self {
            items: items.clone(),
            spec: Arc::new(spec),
        }
    }

    pub(super) async fn drop(self) {
        let dropped = self.items.drop_table(self.spec.name()).await;
        assert!(dropped.expect("drop_table"), "the table was there");
    }

    pub(super) async fn put(&self, item: Item) -> Cost {
        let put = self.put_if(item, Condition::Always).await;
        put.expect("put")
    }

    pub(super) async fn put_if(
        &self,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.items.put(&self.spec, item, condition).await
    }

    pub(super) async fn delete(&self, key: Key) -> Cost {
        let deleted = self.delete_if(key, Condition::Always).await;
        deleted.expect("delete")
    }

    pub(super) async fn delete_if(
        &self,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.items.delete(&self.spec, key, condition).await
    }

    pub(super) async fn get(&self, key: Key) -> Option<Item> {
        let got = self.items.get(&self.spec, vec![key]).await.expect("get");
        assert_eq!(got.items.len(), 1, "one key, one answer");
        got.items.into_iter().next().flatten()
    }

    pub(super) async fn page(&self, query: Query) -> Page {
        let page = self.items.query(&self.spec, query).await;
        page.expect("query")
    }

    /// All items of a query, from all pages.
    pub(super) async fn all(&self, query: Query) -> Vec<Item> {
        collect(query_pages(self.items.clone(), self.spec.clone(), query)).await
    }

    /// All items of a scan, from all pages.
    pub(super) async fn scanned(&self, scan: Scan) -> Vec<Item> {
        collect(scan_pages(self.items.clone(), self.spec.clone(), scan)).await
    }

    /// Everything in the table.
    pub(super) async fn contents(&self) -> Vec<Item> {
        self.scanned(Scan::whole()).await
    }

    /// The items in a global index, once `is_settled` accepts them or the attempts run out.
    pub(super) async fn settled(
        &self,
        query: &Query,
        is_settled: impl Fn(&[Item]) -> bool,
    ) -> Vec<Item> {
        let clock = SystemClock::new();
        let mut items = self.all(query.clone()).await;
        for _ in 1..TRIES_MAX {
            if is_settled(&items) {
                break;
            }
            clock.sleep(PAUSE).await;
            items = self.all(query.clone()).await;
        }
        items
    }
}

async fn collect(mut pages: impl Stream<Item = Result<Page>> + Unpin) -> Vec<Item> {
    let mut items = Vec::new();
    for _ in 0..PAGES_MAX {
        match pages.try_next().await.expect("a page") {
            Some(page) => items.extend(page.items),
            None => return items,
        }
    }
    panic!("{PAGES_MAX} pages and no end: {items:?}");
}

/// The values of one attribute, in the order of the items.
pub(super) fn column(items: &[Item], name: &str) -> Vec<Value> {
    let values = items.iter().map(|item| item.get(name).cloned());
    values
        .collect::<Option<_>>()
        .unwrap_or_else(|| panic!("every item has `{name}`: {items:?}"))
}

/// The texts of one attribute, in the order of the items.
pub(super) fn texts(items: &[Item], name: &str) -> Vec<String> {
    let values = column(items, name).into_iter();
    let texts = values.map(|value| value.as_str().map(str::to_owned));
    texts
        .collect::<Option<_>>()
        .unwrap_or_else(|| panic!("`{name}` is text: {items:?}"))
}

/// Asserts that every item was read once.
#[track_caller]
pub(super) fn assert_once_each(seen: &[String], want: &BTreeSet<String>) {
    let different: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(different, *want, "everything is seen");
    assert_eq!(seen.len(), want.len(), "nothing is seen twice: {seen:?}");
}

/// Asserts that a page is within the size limit, which only its last item may exceed.
#[track_caller]
pub(super) fn assert_page_size(items: &[Item]) {
    let (_, others) = items.split_last().unzip();
    let bytes: usize = others.unwrap_or_default().iter().map(item_size).sum();
    assert!(
        bytes <= PAGE_BYTES_MAX,
        "a page continued after {bytes} bytes"
    );
}

/// Asserts that a call failed with `Invalid`; returns the error.
#[track_caller]
pub(super) fn assert_invalid<T: fmt::Debug, E: Into<Error>>(
    result: Result<T, E>,
    what: &str,
) -> Error {
    let error: Error = match result {
        Ok(answer) => panic!("{what}: must be refused as invalid, but returned {answer:?}"),
        Err(error) => error.into(),
    };
    assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error:?}");
    error
}

/// Asserts that a condition was refused; returns the stored item and the cost.
#[track_caller]
pub(super) fn assert_refused(result: Result<Cost, WriteError>, what: &str) -> (Option<Item>, Cost) {
    match result {
        Err(WriteError::Refused { existing, cost }) => (existing.map(|item| *item), cost),
        other => panic!("{what}: the condition does not hold, but the call returned {other:?}"),
    }
}
