//! Gets, queries and scans, each from one snapshot of the index.

use std::collections::HashMap;

use lsm_tree::Slice;

use super::catalog::Table;
use super::changes::stored_key;
use super::codec::{self, KeyRange};
use super::index::{Index, Snapshot};
use crate::items::check::{CheckedQuery, check_cursor, check_query};
use crate::items::{
    Consistency, Cost, Direction, Got, IndexSpec, Item, Key, Page, PageBuilder, Query, Scan,
    cursor_after, index_entry, item_size,
};
use crate::{Error, Result};

/// The item of a value of the index; it shares the value's bytes.
fn item_of(value: Slice) -> Result<Item> {
    codec::read_item(value.into())
}

pub(super) fn get(index: &Index, table: &Table, keys: &[Key]) -> Result<Got> {
    // Without a snapshot, an item could be visible before others of its group.
    let snapshot = index.snapshot();
    let mut read: HashMap<&Key, Option<Item>> = HashMap::with_capacity(keys.len());
    let mut cost = Cost::ZERO;
    for key in keys {
        if read.contains_key(key) {
            continue;
        }
        let stored = snapshot.get(&stored_key(table, key))?;
        let item = stored.map(item_of).transpose()?;
        let size = item.as_ref().map_or(0, item_size);
        cost += Cost::of_read(size, Consistency::Strong);
        read.insert(key, item);
    }
    cost.requests = Cost::get_requests(read.len());
    let items = match keys {
        // The common case: move the item instead of copying it.
        [only] => vec![read.remove(only).flatten()],
        many => many
            .iter()
            .map(|key| read.get(key).cloned().flatten())
            .collect(),
    };
    Ok(Got { items, cost })
}

pub(super) fn query(index: &Index, table: &Table, query: &Query) -> Result<Page> {
    let spec = &table.spec;
    let checked = check_query(spec, query)?;
    let mut range = codec::query_range(&query.partition, &query.range);
    if let Some(cursor) = &query.after {
        let (entry, key) = check_cursor(spec, checked.schema, cursor)?;
        let last = match &query.index {
            None => codec::key_bytes(&key),
            Some(_) => codec::entry_bytes(&entry, &stored_key(table, &key)),
        };
        range = codec::resume(range, last, query.direction);
    }
    let read = QueryRead {
        snapshot: index.snapshot(),
        table,
        query,
        range,
    };
    let page = match &query.index {
        None => read.items()?,
        Some(name) => read.entries(spec.index(name)?)?,
    };
    Ok(finish(page, table, checked))
}

fn finish(page: PageBuilder, table: &Table, checked: CheckedQuery<'_>) -> Page {
    page.finish(checked.consistency, |last| {
        cursor_after(&table.spec, checked.schema, last)
    })
}

/// A query in progress.
struct QueryRead<'a> {
    snapshot: Snapshot<'a>,
    table: &'a Table,
    query: &'a Query,
    range: KeyRange,
}

impl QueryRead<'_> {
    /// Passes the values in order to `take`, until it returns false.
    fn each(&self, prefix: &[u8], mut take: impl FnMut(Slice) -> Result<bool>) -> Result<()> {
        let range = codec::inside(prefix, self.range.clone());
        let mut entries = self.snapshot.values(range);
        loop {
            let next = match self.query.direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            let Some(entry) = next else {
                return Ok(());
            };
            if !take(entry?)? {
                return Ok(());
            }
        }
    }

    fn items(&self) -> Result<PageBuilder> {
        let mut page = PageBuilder::new(self.query.limit);
        let prefix = codec::items_prefix(self.table.number);
        self.each(&prefix, |value| Ok(page.offer(item_of(value)?)))?;
        Ok(page)
    }

    fn entries(&self, index: &IndexSpec) -> Result<PageBuilder> {
        let spec = &self.table.spec;
        let mut numbers = spec.indexes().iter().zip(0..);
        let number = numbers.find_map(|(other, number)| (other == index).then_some(number));
        let number = number.unwrap_or(u8::MAX);
        let prefix = codec::entries_prefix(self.table.number, number);
        let mut page = PageBuilder::new(self.query.limit);
        self.each(&prefix, |item_key| {
            let value = self.snapshot.get(&item_key)?;
            let item = value.map(item_of).transpose()?;
            match item.and_then(|item| index_entry(spec, index, item)) {
                Some(entry) => Ok(page.offer(entry)),
                None => Err(Error::corrupt(
                    "an index entry has no item; keep a copy of the folder and restore a backup",
                )
                .fact("table", spec.name())
                .fact("index", &index.name)),
            }
        })?;
        Ok(page)
    }
}

pub(super) fn scan(index: &Index, table: &Table, scan: &Scan) -> Result<Page> {
    let spec = &table.spec;
    let mut range = codec::segment_range(scan.segment);
    if let Some(cursor) = &scan.after {
        let (key, _) = check_cursor(spec, spec.key(), cursor)?;
        range = codec::resume(range, codec::key_bytes(&key), Direction::Ascending);
    }
    let mut page = PageBuilder::new(scan.limit);
    let range = codec::inside(&codec::items_prefix(table.number), range);
    for value in index.snapshot().values(range) {
        if !page.offer(item_of(value?)?) {
            break;
        }
    }
    Ok(page.finish(scan.consistency, |last| {
        cursor_after(spec, spec.key(), last)
    }))
}
