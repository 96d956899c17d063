//! The catalog of tables. Their items and index entries share one tree; keys begin with the table's
//! number.
//!
//! Guarantees: a table exists as soon as its record is on stable storage, and is gone as soon as the
//! record is. A number is never reused, so what is left of a dropped table is never seen; it goes when
//! files of the index are merged.

use std::collections::HashMap;
use std::io;
use std::panic::RefUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use lsm_tree::Slice;
use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};
use serde::{Deserialize, Serialize};

use super::codec;
use super::index::{Erasure, Kind, Snapshot};
use crate::items::check::{check_spec, missing_table, table_exists};
use crate::items::{
    IndexSpec, KeyAttribute, KeySchema, KeyType, Projection, Scope, TableName, TableSpec,
};
use crate::{Error, Result};

/// Table names have at least three characters, so this one is free.
const NEXT_NUMBER: &str = "#";

/// A table, and the number that its keys begin with.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) number: u32,
    pub(super) spec: TableSpec,
}

/// The tables that exist.
#[derive(Debug, Default)]
pub(super) struct Catalog(RwLock<Tables>);

#[derive(Debug, Default)]
struct Tables {
    by_name: HashMap<TableName, Arc<Table>>,
    /// Smaller numbers are of tables that exist or existed.
    next_number: u32,
}

impl Catalog {
    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the records of all tables. Returns what the decider knows.
    pub(super) fn load(&self, snapshot: &Snapshot) -> Result<Decided> {
        let mut tables = Tables {
            by_name: HashMap::new(),
            next_number: 1,
        };
        let next_number = record_key(NEXT_NUMBER);
        for entry in snapshot.entries(codec::all(&[Kind::Table as u8])) {
            let (key, bytes) = entry?;
            if key == next_number {
                tables.next_number = decode_number(&bytes)?;
                continue;
            }
            let table = decode(&bytes)?;
            let name = table.spec.name().clone();
            tables.by_name.insert(name, Arc::new(table));
        }
        let decided = Decided {
            by_name: tables.by_name.clone(),
            next_number: tables.next_number,
        };
        *self.write() = tables;
        Ok(decided)
    }

    pub(super) fn find(&self, name: &TableName) -> Option<Arc<Table>> {
        self.read().by_name.get(name).cloned()
    }

    /// The stored table of `spec`.
    pub(super) fn table(&self, spec: &TableSpec) -> Result<Arc<Table>> {
        let table = self
            .find(spec.name())
            .ok_or_else(|| missing_table(spec.name()))?;
        check_spec(spec, &table.spec)?;
        Ok(table)
    }

    /// Shows a table whose record is durable.
    pub(super) fn publish(&self, table: Arc<Table>) {
        let mut tables = self.write();
        tables.next_number = tables.next_number.max(table.number.saturating_add(1));
        tables.by_name.insert(table.spec.name().clone(), table);
    }

    /// The numbers of the tables that exist.
    pub(super) fn numbers(&self) -> Numbers {
        let tables = self.read();
        Numbers {
            existing: tables.by_name.values().map(|table| table.number).collect(),
            next: tables.next_number,
        }
    }

    /// Hides a table whose record is durably gone.
    pub(super) fn forget(&self, name: &TableName) {
        self.write().by_name.remove(name);
    }
}

/// The tables as the decider knows them: also those whose records are not durable yet.
#[derive(Clone)]
pub(super) struct Decided {
    by_name: HashMap<TableName, Arc<Table>>,
    next_number: u32,
}

impl Decided {
    /// Whether this table still exists, and not a later one of its name.
    pub(super) fn has(&self, table: &Table) -> bool {
        let found = self.by_name.get(table.spec.name());
        found.is_some_and(|found| found.number == table.number)
    }

    /// Creates a table; returns its records.
    pub(super) fn create(&mut self, spec: TableSpec) -> Result<(Arc<Table>, [Record; 2])> {
        if self.by_name.contains_key(spec.name()) {
            return Err(table_exists(spec.name()));
        }
        let number = self.next_number;
        let following = number.checked_add(1);
        let following = following.ok_or_else(|| Error::invalid("table numbers are used up"))?;
        let table = record_key(spec.name().as_str());
        let records = [
            (table, Some(encode(number, &spec)?.into())),
            (
                record_key(NEXT_NUMBER),
                Some(Slice::from(following.to_be_bytes())),
            ),
        ];
        let table = Arc::new(Table { number, spec });
        self.next_number = following;
        self.by_name
            .insert(table.spec.name().clone(), table.clone());
        Ok((table, records))
    }

    /// Drops a table; returns the key of its record.
    pub(super) fn remove(&mut self, name: &TableName) -> Option<Slice> {
        self.by_name.remove(name).map(|_| record_key(name.as_str()))
    }
}

/// The number and the table that a change of the log records, if it records one.
pub(super) fn record(key: &[u8], value: Option<&[u8]>) -> Option<(u32, TableSpec)> {
    let name = key.strip_prefix(&[Kind::Table as u8])?;
    if name == NEXT_NUMBER.as_bytes() {
        return None;
    }
    let table = decode(value?).ok()?;
    Some((table.number, table.spec))
}

/// The key of a record, and what it becomes.
pub(super) type Record = (Slice, Option<Slice>);

fn record_key(name: &str) -> Slice {
    codec::prefixed(vec![Kind::Table as u8], name.as_bytes()).into()
}

fn decode_number(bytes: &[u8]) -> Result<u32> {
    let bytes = <[u8; 4]>::try_from(bytes);
    let bytes = bytes.map_err(|e| Error::corrupt("catalog counter is damaged").because(e))?;
    Ok(u32::from_be_bytes(bytes))
}

/// Leaves out the keys of dropped tables when files of the index are merged.
pub(super) struct WithoutDropped {
    pub(super) catalog: Arc<Catalog>,
    pub(super) erasure: Arc<Erasure>,
}

/// A lock that a panic poisoned is used all the same.
impl RefUnwindSafe for WithoutDropped {}

impl Factory for WithoutDropped {
    fn name(&self) -> &str {
        "annals-dropped-tables"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Filter {
            numbers: self.catalog.numbers(),
            erasure: Some(self.erasure.clone()).filter(|erasure| erasure.is_running()),
        })
    }
}

/// The tables at one point in time. A number below `next` that does not exist was dropped.
pub(super) struct Numbers {
    existing: Vec<u32>,
    next: u32,
}

impl Numbers {
    pub(super) fn is_dropped(&self, number: u32) -> bool {
        number < self.next && !self.existing.contains(&number)
    }
}

struct Filter {
    numbers: Numbers,
    erasure: Option<Arc<Erasure>>,
}

impl CompactionFilter for Filter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        if self.erasure.as_ref().is_some_and(|it| it.is_stopped()) {
            // An error is the only way to stop. The files that exist stay.
            return Err(io::Error::from(io::ErrorKind::Interrupted).into());
        }
        let table = codec::table_of(item.key());
        Ok(
            match table.is_some_and(|number| self.numbers.is_dropped(number)) {
                true => Verdict::Destroy,
                false => Verdict::Keep,
            },
        )
    }
}

/// A table's stored record. Separate from `TableSpec`, so that either can change alone.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StoredTable {
    number: u32,
    name: String,
    key: Vec<(String, char)>,
    indexes: Vec<StoredIndex>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StoredIndex {
    name: String,
    local: bool,
    key: Vec<(String, char)>,
    /// Absent: all attributes. Otherwise these, besides the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    carries: Option<Vec<String>>,
}

fn encode(number: u32, spec: &TableSpec) -> Result<Vec<u8>> {
    let indexes = spec.indexes().iter().map(|index| StoredIndex {
        name: index.name.to_string(),
        local: index.scope == Scope::Local,
        key: encode_key(&index.key),
        carries: match &index.projection {
            Projection::All => None,
            Projection::KeysOnly => Some(Vec::new()),
            Projection::Include(names) => Some(names.clone()),
        },
    });
    let record = StoredTable {
        number,
        name: spec.name().to_string(),
        key: encode_key(spec.key()),
        indexes: indexes.collect(),
    };
    let bytes = serde_json::to_vec(&record);
    bytes.map_err(|e| Error::invalid("table cannot be recorded").because(e))
}

fn encode_key(key: &KeySchema) -> Vec<(String, char)> {
    let attributes = key.attributes().map(|attribute| {
        let letter = match attribute.key_type {
            KeyType::S => 'S',
            KeyType::N => 'N',
            KeyType::B => 'B',
        };
        (attribute.name.clone(), letter)
    });
    attributes.collect()
}

fn decode(bytes: &[u8]) -> Result<Table> {
    let damaged = |cause: Box<dyn std::error::Error + Send + Sync>| {
        Error::corrupt("a table's record does not parse; restore a backup").because(cause)
    };
    let record: StoredTable = serde_json::from_slice(bytes).map_err(|e| damaged(e.into()))?;
    let spec = || -> Result<TableSpec> {
        let mut spec = TableSpec::new(record.name.parse()?, decode_key(&record.key)?)?;
        for index in &record.indexes {
            let (name, key) = (index.name.parse()?, decode_key(&index.key)?);
            let projection = match &index.carries {
                None => Projection::All,
                Some(names) if names.is_empty() => Projection::KeysOnly,
                Some(names) => Projection::Include(names.clone()),
            };
            let index = match index.local {
                true => IndexSpec::local(name, key),
                false => IndexSpec::global(name, key),
            };
            spec = spec.with_index(index.projecting(projection))?;
        }
        Ok(spec)
    };
    Ok(Table {
        number: record.number,
        spec: spec().map_err(|e| damaged(e.into()))?,
    })
}

fn decode_key(attributes: &[(String, char)]) -> Result<KeySchema> {
    let attribute = |(name, letter): &(String, char)| {
        let key_type = match letter {
            'S' => KeyType::S,
            'N' => KeyType::N,
            'B' => KeyType::B,
            other => return Err(Error::corrupt("unknown key type").fact("type", other)),
        };
        Ok(KeyAttribute::new(name, key_type))
    };
    match attributes {
        [partition] => Ok(KeySchema::new(attribute(partition)?)),
        [partition, sort] => Ok(KeySchema::new(attribute(partition)?).sorted(attribute(sort)?)),
        _ => Err(Error::corrupt("a key has one or two attributes")),
    }
}
