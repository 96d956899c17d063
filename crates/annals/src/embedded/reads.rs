//! Reads: points, ranges and shares, each from one consistent picture of the engine.

use std::collections::HashMap;

use fjall::{Keyspace, Readable, Snapshot};

use super::catalog::{Table, Trees};
use super::order::{self, KeyRange};
use super::{Engine, codec, fault, stored_key};
use crate::items::{
    CheckedQuery, Consistency, Cost, Direction, Got, IndexSpec, Item, Key, Page, PageBuilder,
    Query, Scan, check_cursor, cursor_after, index_entry,
};
use crate::{Error, Result};

pub(super) fn get(engine: &Engine, table: &Table, keys: &[Key]) -> Result<Got> {
    // Read without one, an item could be seen before others of its group, and before a query.
    let snapshot = engine.db.snapshot();
    let mut read: HashMap<&Key, Option<Item>> = HashMap::with_capacity(keys.len());
    let mut cost = Cost::ZERO;
    for key in keys {
        if read.contains_key(key) {
            continue;
        }
        let stored = snapshot.get(&engine.catalog.trees.items, stored_key(table, key));
        let stored = stored.map_err(fault::on_read)?;
        let size = stored.as_deref().map(codec::stored_size).transpose()?;
        cost += Cost::of_read(size.unwrap_or(0), Consistency::Strong);
        read.insert(key, stored.as_deref().map(codec::decode).transpose()?);
    }
    cost.requests = Cost::get_requests(read.len());
    let items = match keys {
        // The common case moves the item out instead of copying it.
        [only] => vec![read.remove(only).flatten()],
        many => many
            .iter()
            .map(|key| read.get(key).cloned().flatten())
            .collect(),
    };
    Ok(Got { items, cost })
}

pub(super) fn query(engine: &Engine, table: &Table, query: &Query) -> Result<Page> {
    let spec = &table.spec;
    let checked = crate::items::check_query(spec, query)?;
    let mut range = order::query_range(&query.partition, &query.range);
    if let Some(cursor) = &query.after {
        let (place, key) = check_cursor(spec, checked.schema, cursor)?;
        let last = match &query.index {
            None => order::key_bytes(&key),
            Some(_) => order::entry_bytes(&place, &stored_key(table, &key)),
        };
        range = order::resume(range, last, query.direction);
    }
    let walk = Walk {
        snapshot: engine.db.snapshot(),
        trees: &engine.catalog.trees,
        table,
        query,
        range,
    };
    let page = match &query.index {
        None => walk.items()?,
        Some(name) => walk.entries(spec.index(name)?)?,
    };
    Ok(close(page, table, checked))
}

fn close(page: PageBuilder, table: &Table, checked: CheckedQuery<'_>) -> Page {
    page.finish(checked.consistency, |last| {
        cursor_after(&table.spec, checked.schema, last)
    })
}

/// What to walk, which way and how far.
struct Walk<'a> {
    snapshot: Snapshot,
    trees: &'a Trees,
    table: &'a Table,
    query: &'a Query,
    range: KeyRange,
}

impl Walk<'_> {
    /// The values in the order asked for, until `take` wants no more.
    fn each(
        &self,
        keyspace: &Keyspace,
        prefix: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        let range = order::inside(prefix, self.range.clone());
        let mut entries = self.snapshot.range(keyspace, range);
        loop {
            let next = match self.query.direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            let Some(entry) = next else {
                return Ok(());
            };
            if !take(&entry.value().map_err(fault::on_read)?)? {
                return Ok(());
            }
        }
    }

    fn items(&self) -> Result<PageBuilder> {
        let mut page = PageBuilder::new(self.query.limit);
        let prefix = order::items_prefix(self.table.number);
        self.each(&self.trees.items, &prefix, |bytes| {
            Ok(page.offer(codec::decode(bytes)?))
        })?;
        Ok(page)
    }

    fn entries(&self, index: &IndexSpec) -> Result<PageBuilder> {
        let spec = &self.table.spec;
        let mut numbers = spec.indexes().iter().zip(0..);
        let number = numbers.find_map(|(other, number)| (other == index).then_some(number));
        let number = number.unwrap_or(u8::MAX);
        let prefix = order::entries_prefix(self.table.number, number);
        let mut page = PageBuilder::new(self.query.limit);
        self.each(&self.trees.entries, &prefix, |item_key| {
            let bytes = self.snapshot.get(&self.trees.items, item_key);
            let bytes = bytes.map_err(fault::on_read)?;
            let item = bytes.as_deref().map(codec::decode).transpose()?;
            match item.and_then(|item| index_entry(spec, index, item)) {
                Some(seen) => Ok(page.offer(seen)),
                None => Err(Error::corrupt(format!(
                    "index names an item that is not there. table=`{}`, index=`{}`",
                    spec.name(),
                    index.name
                ))),
            }
        })?;
        Ok(page)
    }
}

pub(super) fn scan(engine: &Engine, table: &Table, scan: &Scan) -> Result<Page> {
    let spec = &table.spec;
    let mut range = order::segment_range(scan.segment);
    if let Some(cursor) = &scan.after {
        let (key, _) = check_cursor(spec, spec.key(), cursor)?;
        range = order::resume(range, order::key_bytes(&key), Direction::Ascending);
    }
    let mut page = PageBuilder::new(scan.limit);
    let range = order::inside(&order::items_prefix(table.number), range);
    for entry in engine
        .db
        .snapshot()
        .range(&engine.catalog.trees.items, range)
    {
        let bytes = entry.value().map_err(fault::on_read)?;
        if !page.offer(codec::decode(&bytes)?) {
            break;
        }
    }
    Ok(page.finish(scan.consistency, |last| {
        cursor_after(spec, spec.key(), last)
    }))
}
