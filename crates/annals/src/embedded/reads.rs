//! Gets, queries and scans, each from one snapshot of the index. A page can be read in steps.

use std::collections::HashMap;
use std::sync::Arc;

use lsm_tree::Slice;

use super::catalog::Table;
use super::changes::stored_key;
use super::codec;
use super::index::{Index, Snapshot, Values};
use crate::items::check::{check_cursor, check_query};
use crate::items::{
    Consistency, Cost, Direction, Got, IndexSpec, Item, Key, Page, PageBuilder, Query, Scan,
    TableSpec, cursor_after, index_entry, item_size,
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

/// A page that is being read.
pub(super) struct PageRead {
    values: Values,
    snapshot: Snapshot,
    table: Arc<Table>,
    direction: Direction,
    /// The index whose entries are read, and not the items themselves.
    index: Option<IndexSpec>,
    consistency: Consistency,
    page: PageBuilder,
}

impl PageRead {
    pub(super) fn query(index: &Index, table: Arc<Table>, query: &Query) -> Result<Self> {
        let spec = &table.spec;
        let checked = check_query(spec, query)?;
        let mut range = codec::query_range(&query.partition, &query.range);
        if let Some(cursor) = &query.after {
            let (entry, key) = check_cursor(spec, checked.schema, cursor)?;
            let last = match &query.index {
                None => codec::key_bytes(&key),
                Some(_) => codec::entry_bytes(&entry, &stored_key(&table, &key)),
            };
            range = codec::resume(range, last, query.direction);
        }
        let by = query.index.as_deref().map(|name| spec.index(name));
        let by = by.transpose()?.cloned();
        let prefix = match &by {
            None => codec::items_prefix(table.number),
            Some(by) => codec::entries_prefix(table.number, number_of(spec, by)),
        };
        let snapshot = index.snapshot();
        Ok(Self {
            values: snapshot.values(codec::inside(&prefix, range)),
            snapshot,
            direction: query.direction,
            index: by,
            consistency: checked.consistency,
            page: PageBuilder::new(query.limit),
            table,
        })
    }

    pub(super) fn scan(index: &Index, table: Arc<Table>, scan: &Scan) -> Result<Self> {
        let spec = &table.spec;
        let mut range = codec::segment_range(scan.segment);
        if let Some(cursor) = &scan.after {
            let (key, _) = check_cursor(spec, spec.key(), cursor)?;
            range = codec::resume(range, codec::key_bytes(&key), Direction::Ascending);
        }
        let prefix = codec::items_prefix(table.number);
        let snapshot = index.snapshot();
        Ok(Self {
            values: snapshot.values(codec::inside(&prefix, range)),
            snapshot,
            direction: Direction::Ascending,
            index: None,
            consistency: scan.consistency,
            page: PageBuilder::new(scan.limit),
            table,
        })
    }

    /// Reads on until the page has so many bytes; returns whether it is complete.
    pub(super) fn fill(&mut self, bytes: usize) -> Result<bool> {
        while self.page.bytes() < bytes {
            let next = match self.direction {
                Direction::Ascending => self.values.next(),
                Direction::Descending => self.values.next_back(),
            };
            let Some(value) = next.transpose()? else {
                return Ok(true);
            };
            let item = match &self.index {
                None => item_of(value)?,
                Some(index) => self.entry(index, &value)?,
            };
            if !self.page.offer(item) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The entry of an index for the item with this key.
    fn entry(&self, index: &IndexSpec, item_key: &[u8]) -> Result<Item> {
        let spec = &self.table.spec;
        let item = self.snapshot.get(item_key)?.map(item_of).transpose()?;
        let entry = item.and_then(|item| index_entry(spec, index, item));
        entry.ok_or_else(|| {
            Error::corrupt(
                "an index entry has no item; keep a copy of the folder and restore a backup",
            )
            .fact("table", spec.name())
            .fact("index", &index.name)
        })
    }

    pub(super) fn finish(self) -> Page {
        let spec = &self.table.spec;
        let schema = self.index.as_ref().map_or(spec.key(), |index| &index.key);
        let cursor = |last: &Item| cursor_after(spec, schema, last);
        self.page.finish(self.consistency, cursor)
    }
}

/// The number of an index of a table.
fn number_of(spec: &TableSpec, index: &IndexSpec) -> u8 {
    let mut numbers = spec.indexes().iter().zip(0..);
    let number = numbers.find_map(|(other, number)| (other == index).then_some(number));
    number.unwrap_or(u8::MAX)
}
