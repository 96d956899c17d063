//! The catalog of tables. All tables share two keyspaces of the engine, one for items and one for
//! index entries; keys begin with the table's number.
//!
//! Guarantees: a table exists as soon as its record is on stable storage, and is gone as soon as the
//! record is. What a crash leaves of a dropped table is removed at the next open. A number is never
//! reused. There are three keyspaces, never more or fewer: the engine reuses the number of a deleted
//! keyspace and may then take the new one for deleted (decision 7).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use serde::{Deserialize, Serialize};

use super::{MIB, codec, errors};
use crate::items::check::{check_spec, missing_table, table_exists};
use crate::items::{
    IndexSpec, KeyAttribute, KeySchema, KeyType, Projection, Scope, TableName, TableSpec,
};
use crate::{Error, Result};

const CATALOG: &str = "catalog";
const ITEMS: &str = "items";
const ENTRIES: &str = "entries";
/// Table names have at least three characters, so this one is free.
const NEXT_NUMBER: &[u8] = b"#";
/// Also free: how often the store was closed after a write.
const CLOSES: &[u8] = b"##";
/// Size of the engine's memtable of items; memory use varies by up to twice this size while the last
/// memtable is flushed. Half of the engine's default, at the same speed; a quarter would write half
/// as much again to the disk.
const ITEMS_MEMTABLE: u64 = 32 * MIB;
/// The same for index entries. They are small, so the engine's overhead is most of their size.
const ENTRIES_MEMTABLE: u64 = 8 * MIB;
/// Keys of a dropped table that are removed in one batch.
const REMOVE_BATCH: usize = 1_000;

/// A table, and the number that its keys begin with.
pub(super) struct Table {
    pub(super) number: u32,
    pub(super) spec: TableSpec,
}

/// The keyspaces that hold every table.
#[derive(Clone)]
pub(super) struct Trees {
    pub(super) items: Keyspace,
    pub(super) entries: Keyspace,
}

pub(super) struct Catalog {
    db: Database,
    records: Keyspace,
    pub(super) trees: Trees,
    tables: RwLock<HashMap<TableName, Arc<Table>>>,
}

impl Catalog {
    pub(super) fn open(db: &Database) -> fjall::Result<Result<Self>> {
        let existed = [CATALOG, ITEMS, ENTRIES].map(|name| db.keyspace_exists(name));
        let keyspace = |name, memtable| {
            let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable);
            db.keyspace(name, options)
        };
        // The engine would create a missing keyspace: tables would silently be empty.
        if existed != [false; 3] && existed != [true; 3] {
            let message = "the engine's files are incomplete; restore a backup";
            return Ok(Err(Error::corrupt(message)));
        }
        let records = keyspace(CATALOG, MIB)?;
        let mut tables = HashMap::new();
        for record in records.iter() {
            let (name, bytes) = record.into_inner()?;
            if [NEXT_NUMBER, CLOSES].contains(&&*name) {
                continue;
            }
            match decode(&bytes) {
                Ok(table) => tables.insert(table.spec.name().clone(), Arc::new(table)),
                Err(error) => return Ok(Err(error)),
            };
        }
        let catalog = Self {
            db: db.clone(),
            trees: Trees {
                items: keyspace(ITEMS, ITEMS_MEMTABLE)?,
                entries: keyspace(ENTRIES, ENTRIES_MEMTABLE)?,
            },
            records,
            tables: RwLock::new(tables),
        };
        // What cannot be removed now, perhaps because the disk is full, is removed at another open.
        let _ = catalog.remove_dropped();
        Ok(Ok(catalog))
    }

    /// How often the store was closed after a write, according to the engine.
    pub(super) fn closes(&self) -> fjall::Result<u64> {
        let found = self.records.get(CLOSES)?;
        let found = found.and_then(|bytes| Some(u64::from_be_bytes(*bytes.first_chunk()?)));
        Ok(found.unwrap_or(0))
    }

    /// Records durably, after all other writes, that the store is closed; returns how often it was.
    pub(super) fn close(&self) -> fjall::Result<u64> {
        let closes = self.closes()?.saturating_add(1);
        self.records.insert(CLOSES, closes.to_be_bytes())?;
        self.db.persist(PersistMode::SyncAll)?;
        Ok(closes)
    }

    /// Removes what is left of dropped tables.
    fn remove_dropped(&self) -> fjall::Result<()> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let exists = |number| tables.values().any(|table| table.number == number);
        for tree in [&self.trees.items, &self.trees.entries] {
            let mut from = Some(0);
            while let Some(start) = from {
                let Some(entry) = tree.range(codec::from_table(start)).next() else {
                    break;
                };
                let key = entry.key()?;
                let number = codec::table_of(&key).unwrap_or(start);
                if !exists(number) {
                    self.remove_all(tree, number)?;
                }
                from = number.checked_add(1);
            }
        }
        Ok(())
    }

    /// Removes every key of a table, a batch at a time. Not synced: what a crash brings back is
    /// removed at the next open.
    fn remove_all(&self, tree: &Keyspace, number: u32) -> fjall::Result<()> {
        let range = codec::all(&codec::items_prefix(number));
        let mut keys = tree.range(range);
        loop {
            let mut batch = self.db.batch();
            for entry in keys.by_ref().take(REMOVE_BATCH) {
                batch.remove(tree, entry.key()?);
            }
            if batch.is_empty() {
                return Ok(());
            }
            batch.commit()?;
        }
    }

    pub(super) fn find(&self, name: &TableName) -> Option<Arc<Table>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(name).cloned()
    }

    /// The stored table of `spec`.
    pub(super) fn table(&self, spec: &TableSpec) -> Result<Arc<Table>> {
        let table = self
            .find(spec.name())
            .ok_or_else(|| missing_table(spec.name()))?;
        check_spec(spec, &table.spec)?;
        Ok(table)
    }

    /// Whether this table still exists, and not a later one of its name.
    pub(super) fn has(&self, table: &Table) -> bool {
        let found = self.find(table.spec.name());
        found.is_some_and(|found| found.number == table.number)
    }

    /// Only the committer creates and drops tables, so that no write is in flight.
    pub(super) fn create(&self, spec: TableSpec) -> Result<()> {
        if self.find(spec.name()).is_some() {
            return Err(table_exists(spec.name()));
        }
        let number = self.next_number()?;
        let following = number.checked_add(1);
        let following = following.ok_or_else(|| Error::invalid("table numbers are used up"))?;
        let name = spec.name().clone();
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncAll));
        batch.insert(&self.records, name.as_str(), encode(number, &spec)?);
        batch.insert(&self.records, NEXT_NUMBER, following.to_be_bytes());
        batch.commit().map_err(errors::on_commit)?;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.insert(name, Arc::new(Table { number, spec }));
        Ok(())
    }

    pub(super) fn drop_table(&self, name: &TableName) -> Result<bool> {
        let Some(table) = self.find(name) else {
            return Ok(false);
        };
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncAll));
        batch.remove(&self.records, name.as_str());
        batch.commit().map_err(errors::on_commit)?;
        self.tables
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        // Gone for every caller; the engine's keys are removed now or at the next open.
        for tree in [&self.trees.items, &self.trees.entries] {
            let removed = self.remove_all(tree, table.number);
            removed.map_err(errors::on_commit)?;
        }
        Ok(true)
    }

    fn next_number(&self) -> Result<u32> {
        let stored = self.records.get(NEXT_NUMBER).map_err(errors::on_read)?;
        let Some(stored) = stored else {
            return Ok(1);
        };
        let bytes = <[u8; 4]>::try_from(&*stored);
        let bytes = bytes.map_err(|e| Error::corrupt("catalog counter is damaged").because(e))?;
        Ok(u32::from_be_bytes(bytes))
    }
}

/// A table's stored record. Separate from `TableSpec`, so that either can change alone.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Record {
    number: u32,
    name: String,
    key: Vec<(String, char)>,
    indexes: Vec<IndexRecord>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct IndexRecord {
    name: String,
    local: bool,
    key: Vec<(String, char)>,
    /// Absent: all attributes. Otherwise these, besides the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    carries: Option<Vec<String>>,
}

fn encode(number: u32, spec: &TableSpec) -> Result<Vec<u8>> {
    let indexes = spec.indexes().iter().map(|index| IndexRecord {
        name: index.name.to_string(),
        local: index.scope == Scope::Local,
        key: encode_key(&index.key),
        carries: match &index.projection {
            Projection::All => None,
            Projection::KeysOnly => Some(Vec::new()),
            Projection::Include(names) => Some(names.clone()),
        },
    });
    let record = Record {
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
    let record: Record = serde_json::from_slice(bytes).map_err(|e| damaged(e.into()))?;
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
