//! Reads: points, ranges and shares, each from one consistent picture of the engine.

use std::collections::HashMap;

use fjall::{Database, Readable, Snapshot};

use super::catalog::Table;
use super::order::{self, KeyRange};
use super::{codec, fault};
use crate::items::{
    CheckedQuery, Consistency, Cost, Direction, Got, Item, Key, Page, PageBuilder, Query, Scan,
    check_cursor, cursor_after, index_entry,
};
use crate::{Error, Result};

pub(super) fn get(db: &Database, table: &Table, keys: &[Key]) -> Result<Got> {
    // Read without one, an item could be seen before others of its group, and before a query.
    let snapshot = db.snapshot();
    let mut read: HashMap<&Key, Option<Item>> = HashMap::with_capacity(keys.len());
    let mut cost = Cost::ZERO;
    for key in keys {
        if read.contains_key(key) {
            continue;
        }
        let stored = snapshot.get(&table.items, order::key_bytes(key));
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

pub(super) fn query(db: &Database, table: &Table, query: &Query) -> Result<Page> {
    let spec = &table.spec;
    let checked = crate::items::check_query(spec, query)?;
    let mut range = order::query_range(&query.partition, &query.range);
    if let Some(cursor) = &query.after {
        let (place, key) = check_cursor(spec, checked.schema, cursor)?;
        let last = match &query.index {
            None => order::key_bytes(&key),
            Some(_) => order::entry_bytes(&place, &order::key_bytes(&key)),
        };
        range = order::resume(range, last, query.direction);
    }
    let snapshot = db.snapshot();
    let page = match &query.index {
        None => from_table(&snapshot, table, Walk { range, query })?,
        Some(name) => from_index(&snapshot, table, name, Walk { range, query })?,
    };
    Ok(close(page, table, checked))
}

fn close(page: PageBuilder, table: &Table, checked: CheckedQuery<'_>) -> Page {
    page.finish(checked.consistency, |last| {
        cursor_after(&table.spec, checked.schema, last)
    })
}

/// Which keys to walk, and which way and how far.
struct Walk<'a> {
    range: KeyRange,
    query: &'a Query,
}

impl Walk<'_> {
    /// The entries in the order asked for, until `take` wants no more.
    fn each(
        self,
        snapshot: &Snapshot,
        keyspace: &fjall::Keyspace,
        mut take: impl FnMut(fjall::Guard) -> Result<bool>,
    ) -> Result<()> {
        let mut entries = snapshot.range(keyspace, self.range);
        loop {
            let next = match self.query.direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            let Some(entry) = next else {
                return Ok(());
            };
            if !take(entry)? {
                return Ok(());
            }
        }
    }
}

fn from_table(snapshot: &Snapshot, table: &Table, walk: Walk<'_>) -> Result<PageBuilder> {
    let mut page = PageBuilder::new(walk.query.limit);
    walk.each(snapshot, &table.items, |entry| {
        let bytes = entry.value().map_err(fault::on_read)?;
        Ok(page.offer(codec::decode(&bytes)?))
    })?;
    Ok(page)
}

fn from_index(
    snapshot: &Snapshot,
    table: &Table,
    name: &str,
    walk: Walk<'_>,
) -> Result<PageBuilder> {
    let index = table.spec.index(name)?;
    let specs = table.spec.indexes().iter().zip(&table.indexes);
    let mut found = specs.filter(|(spec, _)| *spec == index);
    let Some((_, entries)) = found.next() else {
        return Err(Error::corrupt(format!(
            "index has no entries. index=`{name}`"
        )));
    };
    let mut page = PageBuilder::new(walk.query.limit);
    walk.each(snapshot, entries, |entry| {
        let item_key = entry.value().map_err(fault::on_read)?;
        let bytes = snapshot
            .get(&table.items, &item_key)
            .map_err(fault::on_read)?;
        let item = bytes.as_deref().map(codec::decode).transpose()?;
        let seen = item.and_then(|item| index_entry(&table.spec, index, &item));
        match seen {
            Some(seen) => Ok(page.offer(seen)),
            None => Err(Error::corrupt(format!(
                "index names an item that is not there. table=`{}`, index=`{name}`",
                table.spec.name()
            ))),
        }
    })?;
    Ok(page)
}

pub(super) fn scan(db: &Database, table: &Table, scan: &Scan) -> Result<Page> {
    let spec = &table.spec;
    let mut range = order::segment_range(scan.segment);
    if let Some(cursor) = &scan.after {
        let (key, _) = check_cursor(spec, spec.key(), cursor)?;
        range = order::resume(range, order::key_bytes(&key), Direction::Ascending);
    }
    let mut page = PageBuilder::new(scan.limit);
    for entry in db.snapshot().range(&table.items, range) {
        let bytes = entry.value().map_err(fault::on_read)?;
        if !page.offer(codec::decode(&bytes)?) {
            break;
        }
    }
    Ok(page.finish(scan.consistency, |last| {
        cursor_after(spec, spec.key(), last)
    }))
}
