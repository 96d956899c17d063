//! The reference store: tables as sorted maps, small and obvious rather than fast.
//!
//! Guarantees: the behaviour that every other store is compared with. Nothing outlives the process.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::items::check::{
    check_condition, check_cursor, check_item, check_key, check_query, check_scan, check_spec,
    check_writes, missing_table, table_exists,
};
use crate::items::{
    BatchError, Billing, Change, ChangePage, Changed, Changes, Condition, Cost, Direction, Got,
    History, Item, Items, Key, LastChange, Page, PageBudget, PageBuilder, Query, Scan, Segment,
    TableName, TableSpec, Write, WriteError, after_the_end, cursor_after, index_entry, item_size,
};
use crate::{Clock, Error, Random, Result, SystemClock};

/// A store in the memory of this process.
///
/// ```
/// use annals::items::{Condition, Item, Items, KeyAttribute, KeySchema, TableSpec};
/// use annals::memory::Memory;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let items = Memory::new();
/// items.create_table(&table, Default::default()).await?;
///
/// let note = Item::new().with("id", "a");
/// items.put(&table, note.clone(), Condition::Absent).await?;
/// assert!(items.put(&table, note, Condition::Absent).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Memory {
    tables: Mutex<HashMap<TableName, Table>>,
    /// The number of the history: random, as each store has its own.
    history: u32,
    last: watch::Sender<LastChange>,
    clock: SystemClock,
}

#[derive(Debug)]
struct Table {
    spec: TableSpec,
    items: BTreeMap<Key, Item>,
    /// By position, without values: only that of the last put of an item is kept, in `items`. Other
    /// stores erase the others later.
    changes: BTreeMap<u64, KeyChange>,
    /// The position of the store's last change, while this table is being changed.
    last: u64,
    /// The position of the last put of each item.
    positions: HashMap<Key, u64>,
    /// The entries of each index, ordered by the index's key, then by the table's.
    indexes: Vec<BTreeSet<(Key, Key)>>,
}

#[derive(Debug)]
struct KeyChange {
    key: Key,
    has_replaced: bool,
    is_deleted: bool,
}

impl Table {
    fn new(spec: TableSpec) -> Self {
        Self {
            changes: BTreeMap::new(),
            last: 0,
            positions: HashMap::new(),
            indexes: vec![BTreeSet::new(); spec.indexes().len()],
            items: BTreeMap::new(),
            spec,
        }
    }

    /// Checks an item before anything changes, by the stored spec: the caller's may lack indexes.
    fn check(&self, item: &Item) -> Result<()> {
        check_item(&self.spec, item).map(|_| ())
    }

    /// Replaces the item of a key in the table and its indexes; returns the units.
    fn replace(&mut self, key: Key, new: Option<Item>) -> Result<Cost> {
        let old = self.items.remove(&key);
        for (index, entries) in self.spec.indexes().iter().zip(&mut self.indexes) {
            let entry_key = |item: &Option<Item>| match item {
                Some(item) => index.key.key_of(item),
                None => Ok(None),
            };
            if let Some(entry) = entry_key(&old)? {
                entries.remove(&(entry, key.clone()));
            }
            if let Some(entry) = entry_key(&new)? {
                entries.insert((entry, key.clone()));
            }
        }
        let cost = Cost::of_write(&self.spec, old.as_ref(), new.as_ref());
        self.last += 1;
        let change = KeyChange {
            key: key.clone(),
            has_replaced: old.is_some(),
            is_deleted: new.is_none(),
        };
        self.changes.insert(self.last, change);
        if let Some(new) = new {
            self.positions.insert(key.clone(), self.last);
            self.items.insert(key, new);
        }
        Ok(cost)
    }

    /// The changes after a position, in order.
    fn changes_after(&self, after: u64) -> impl Iterator<Item = Change> {
        let changes = self.changes.range(after + 1..);
        changes.map(|(position, change)| {
            let is_last = self.positions.get(&change.key) == Some(position);
            let kept = self.items.get(&change.key).filter(|_| is_last);
            let now = match kept {
                _ if change.is_deleted => Changed::Deleted,
                Some(item) => Changed::Put(item.clone()),
                None => Changed::Erased,
            };
            Change::new(*position, change.key.clone(), change.has_replaced, now)
        })
    }

    fn replace_if(
        &mut self,
        key: Key,
        new: Option<Item>,
        condition: &Condition,
    ) -> Result<Cost, WriteError> {
        let existing = self.items.get(&key);
        if condition.holds(existing) {
            return Ok(self.replace(key, new)?.in_requests(1));
        }
        let sizes = Cost::of_sizes(existing.map(item_size), new.as_ref().map(item_size));
        Err(WriteError::Refused {
            existing: existing.cloned().map(Box::new),
            cost: sizes.in_requests(1),
        })
    }

    /// The keys of one partition, in ascending order: by the table or index that is read, and in
    /// the table.
    fn keys_of(&self, query: &Query) -> Result<Vec<(&Key, &Key)>> {
        let first = Key::new(query.partition.clone());
        let is_inside = |key: &Key| key.partition == query.partition;
        let is_wanted = |key: &Key| query.range.contains(key.sort.as_ref());
        let Some(name) = &query.index else {
            let rows = self
                .items
                .range(first..)
                .take_while(|(key, _)| is_inside(key));
            let rows = rows.filter(|(key, _)| is_wanted(key));
            return Ok(rows.map(|(key, _)| (key, key)).collect());
        };
        let index = self.spec.index(name)?;
        let mut found = self.spec.indexes().iter().zip(&self.indexes);
        let entries = found
            .find(|(spec, _)| *spec == index)
            .map(|(_, entries)| entries);
        let smallest = Key::new("");
        let entries = entries
            .into_iter()
            .flat_map(|set| set.range((first.clone(), smallest.clone())..));
        let entries = entries.take_while(|(entry, _)| is_inside(entry));
        let entries = entries.filter(|(entry, _)| is_wanted(entry));
        Ok(entries.map(|(entry, key)| (entry, key)).collect())
    }

    /// The item of `key` as the table or index of a query holds it.
    fn item_for(&self, query: &Query, key: &Key) -> Result<Option<Item>> {
        let item = self.items.get(key);
        Ok(match &query.index {
            None => item.cloned(),
            Some(name) => {
                let index = self.spec.index(name)?;
                item.and_then(|item| index_entry(&self.spec, index, item.clone()))
            }
        })
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            tables: Mutex::default(),
            history: Random::from_machine().bits() as u32,
            last: watch::Sender::default(),
            clock: SystemClock::new(),
        }
    }
}

impl Memory {
    /// A store without tables.
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<TableName, Table>> {
        self.tables.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn with<T, E: From<Error>>(
        &self,
        spec: &TableSpec,
        act: impl FnOnce(&mut Table) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut tables = self.tables();
        let table = tables
            .get_mut(spec.name())
            .ok_or_else(|| missing_table(spec.name()))?;
        check_spec(spec, &table.spec)?;
        act(table)
    }

    /// Changes a table.
    fn change<T, E: From<Error>>(
        &self,
        spec: &TableSpec,
        act: impl FnOnce(&mut Table) -> Result<T, E>,
    ) -> Result<T, E> {
        self.with(spec, |table| {
            // Under the lock of the tables, so positions are given in order.
            let before = self.last.borrow().position;
            table.last = before;
            let outcome = act(table);
            if table.last > before {
                let time_ms = self.clock.now_ms();
                self.last.send_replace(LastChange::new(table.last, time_ms));
            }
            outcome
        })
    }
}

/// Whether a key's partition is in a segment: by a stable, evenly distributed hash.
fn is_in_segment(key: &Key, segment: Segment) -> bool {
    let text = key.partition.to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash % u64::from(segment.of) == u64::from(segment.index)
}

/// The methods of [`Items`], without `async`.
impl Memory {
    fn get_all(&self, table: &TableSpec, keys: &[Key]) -> Result<Got> {
        keys.iter().try_for_each(|key| check_key(table, key))?;
        if keys.is_empty() {
            return Ok(Got::default());
        }
        self.with(table, |table| {
            let found: Vec<_> = keys
                .iter()
                .map(|key| table.items.get(key).cloned())
                .collect();
            let mut seen = HashSet::new();
            let different = keys.iter().zip(&found).filter(|(key, _)| seen.insert(*key));
            let sizes = different.map(|(_, item)| item.as_ref().map_or(0, item_size));
            let units: Cost = sizes.map(|s| Cost::of_read(s, Default::default())).sum();
            Ok(Got {
                cost: units.in_requests(Cost::get_requests(seen.len())),
                items: found,
            })
        })
    }

    fn put_one(
        &self,
        table: &TableSpec,
        item: &Item,
        condition: &Condition,
    ) -> Result<Cost, WriteError> {
        let key = check_item(table, item)?.key;
        check_condition(condition)?;
        self.change(table, |table| {
            table.check(item)?;
            table.replace_if(key, Some(item.clone()), condition)
        })
    }

    fn delete_one(
        &self,
        table: &TableSpec,
        key: &Key,
        condition: &Condition,
    ) -> Result<Cost, WriteError> {
        check_key(table, key)?;
        check_condition(condition)?;
        self.change(table, |table| {
            table.replace_if(key.clone(), None, condition)
        })
    }

    fn write_all(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        if writes.is_empty() {
            return Ok(Cost::ZERO);
        }
        let written = check_writes(table, &writes).and_then(|keys| {
            let requests = Cost::write_requests(writes.len());
            self.change(table, |table| {
                writes.iter().try_for_each(|write| match write {
                    Write::Put(item) => table.check(item),
                    Write::Delete(_) => Ok(()),
                })?;
                let each = keys
                    .into_iter()
                    .zip(&writes)
                    .map(|(key, write)| match write {
                        Write::Put(item) => table.replace(key, Some(item.clone())),
                        Write::Delete(_) => table.replace(key, None),
                    });
                Ok(each.sum::<Result<Cost>>()?.in_requests(requests))
            })
        });
        written.map_err(|cause| BatchError {
            remaining: writes,
            cost: Cost::ZERO,
            cause,
        })
    }

    fn query_page(&self, table: &TableSpec, query: &Query) -> Result<Page> {
        let checked = check_query(table, query)?;
        let after = query
            .after
            .as_ref()
            .map(|c| check_cursor(table, checked.schema, c));
        let after = after.transpose()?;
        let is_after = |entry: &Key, key: &Key| match (&after, query.direction) {
            (None, _) => true,
            (Some((at, at_key)), Direction::Ascending) => (entry, key) > (at, at_key),
            (Some((at, at_key)), Direction::Descending) => (entry, key) < (at, at_key),
        };
        let mut page = PageBuilder::new(query.limit);
        self.with(table, |table| {
            let mut keys = table.keys_of(query)?;
            if query.direction == Direction::Descending {
                keys.reverse();
            }
            keys.retain(|(entry, key)| is_after(entry, key));
            for (_, key) in keys {
                if let Some(item) = table.item_for(query, key)?
                    && !page.offer(item)
                {
                    break;
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(page.finish(checked.consistency, |last| {
            cursor_after(table, checked.schema, last)
        }))
    }

    fn scan_page(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        check_scan(table, &scan)?;
        let after = scan
            .after
            .as_ref()
            .map(|c| check_cursor(table, table.key(), c));
        let after = after.transpose()?.map(|(key, _)| key);
        let mut page = PageBuilder::new(scan.limit);
        self.with(table, |table| {
            let rows = table.items.iter();
            let rows = rows.filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
            for (_, item) in rows.filter(|(key, _)| is_in_segment(key, scan.segment)) {
                if !page.offer(item.clone()) {
                    break;
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(page.finish(scan.consistency, |last| {
            cursor_after(table, table.key(), last)
        }))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Items for Memory {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        self.get_all(table, &keys)
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.put_one(table, &item, &condition)
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.delete_one(table, &key, &condition)
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        self.write_all(table, writes)
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        self.query_page(table, &query)
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        self.scan_page(table, scan)
    }

    async fn create_table(&self, spec: &TableSpec, _billing: Billing) -> Result<()> {
        let mut tables = self.tables();
        if tables.contains_key(spec.name()) {
            return Err(table_exists(spec.name()));
        }
        tables.insert(spec.name().clone(), Table::new(spec.clone()));
        Ok(())
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        Ok(self.tables().get(name).map(|table| table.spec.clone()))
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        Ok(self.tables().remove(name).is_some())
    }

    fn changes(&self) -> Option<&dyn Changes> {
        Some(self)
    }
}

#[async_trait]
impl Changes for Memory {
    async fn history(&self) -> Result<History> {
        Ok(History::new(self.history, *self.last.borrow()))
    }

    async fn read_changes(
        &self,
        table: &TableSpec,
        after: u64,
        budget: PageBudget,
    ) -> Result<ChangePage> {
        self.with(table, |table| {
            let last = *self.last.borrow();
            if after > last.position {
                return Err(after_the_end(after, last.position));
            }
            let (mut changes, mut bytes, mut upto) = (Vec::new(), 0, last);
            for change in table.changes_after(after) {
                let has_enough_bytes = bytes >= budget.bytes && !changes.is_empty();
                if changes.len() >= budget.changes || has_enough_bytes {
                    // Everything before the next change was returned.
                    upto.position = change.position - 1;
                    break;
                }
                if let Changed::Put(item) = &change.now {
                    bytes += item_size(item);
                }
                changes.push(change);
            }
            let cost = Cost::of_read(bytes, Default::default()).in_requests(1);
            Ok(ChangePage::new(changes, upto, last, cost))
        })
    }

    async fn wait_for_change(&self, after: u64) -> Result<()> {
        let mut last = self.last.subscribe();
        let moved = last.wait_for(|last| last.position > after);
        // The sender is `self`.
        moved
            .await
            .map(drop)
            .map_err(|cause| Error::unavailable("the store is gone").because(cause))
    }
}
