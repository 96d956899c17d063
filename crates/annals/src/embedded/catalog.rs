//! Which tables there are, and the engine's keyspaces that hold them.
//!
//! Promises: a table is there once its record is on stable storage, and gone once the record is;
//! what a crash left half made or half removed is swept at the next opening. A table's number is
//! never used twice.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use serde::{Deserialize, Serialize};

use super::fault;
use super::folder::Folder;
use crate::items::{
    IndexSpec, KeyAttribute, KeySchema, KeyType, Projection, Scope, TableName, TableSpec, agree,
    missing_table, table_exists,
};
use crate::{Error, Result};

const CATALOG: &str = "catalog";
/// Table names have at least three characters, so this one is free.
const NEXT_NUMBER: &[u8] = b"#";

/// A table and where its items and index entries are.
pub(super) struct Table {
    pub(super) number: u64,
    pub(super) spec: TableSpec,
    pub(super) items: Keyspace,
    /// One for each index of the spec, in its order.
    pub(super) indexes: Vec<Keyspace>,
}

pub(super) struct Catalog {
    db: Database,
    records: Keyspace,
    tables: RwLock<HashMap<TableName, Arc<Table>>>,
}

impl Catalog {
    pub(super) fn open(db: &Database) -> fjall::Result<Result<Self>> {
        let records = db.keyspace(CATALOG, KeyspaceCreateOptions::default)?;
        let mut tables = HashMap::new();
        for record in records.iter() {
            let (name, bytes) = record.into_inner()?;
            if &*name == NEXT_NUMBER {
                continue;
            }
            let (number, spec) = match decode(&bytes) {
                Ok(record) => record,
                Err(error) => return Ok(Err(error)),
            };
            // Asked for, the engine would make a missing keyspace: an empty table, silently.
            if let Some(gone) = names(number, &spec).find(|name| !db.keyspace_exists(name)) {
                return Ok(Err(Error::corrupt(format!(
                    "files of a table are missing; restore a backup. table=`{}`, keyspace=`{gone}`",
                    spec.name()
                ))));
            }
            let table = attach(db, number, spec)?;
            tables.insert(table.spec.name().clone(), Arc::new(table));
        }
        let catalog = Self {
            db: db.clone(),
            records,
            tables: RwLock::new(tables),
        };
        // What cannot be swept now, on a full disk perhaps, is swept at another opening.
        let _ = catalog.sweep();
        Ok(Ok(catalog))
    }

    /// Removes keyspaces that no record names: their table was never complete, or is gone.
    fn sweep(&self) -> fjall::Result<()> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let kept = |name: &str| {
            let mut of_tables = tables
                .values()
                .flat_map(|table| names(table.number, &table.spec));
            name == CATALOG || of_tables.any(|of_table| of_table == name)
        };
        for name in self.db.list_keyspace_names() {
            if !kept(&name) {
                let stray = self.db.keyspace(&name, KeyspaceCreateOptions::default)?;
                self.db.delete_keyspace(stray)?;
            }
        }
        Ok(())
    }

    pub(super) fn find(&self, name: &TableName) -> Option<Arc<Table>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(name).cloned()
    }

    /// The stored table that `spec` speaks of.
    pub(super) fn table(&self, spec: &TableSpec) -> Result<Arc<Table>> {
        let table = self
            .find(spec.name())
            .ok_or_else(|| missing_table(spec.name()))?;
        agree(spec, &table.spec)?;
        Ok(table)
    }

    /// Whether this very table, not a later one of its name, is still there.
    pub(super) fn has(&self, table: &Table) -> bool {
        let found = self.find(table.spec.name());
        found.is_some_and(|found| found.number == table.number)
    }

    /// Only the committer creates and drops, so that no write is under way meanwhile.
    pub(super) fn create(&self, spec: TableSpec, folder: &Folder) -> Result<()> {
        if self.find(spec.name()).is_some() {
            return Err(table_exists(spec.name()));
        }
        let number = self.next_number()?;
        let record = encode(number, &spec)?;
        let name = spec.name().clone();
        let table = attach(&self.db, number, spec).map_err(fault::on_commit)?;
        folder.sync_keyspaces()?;
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncAll));
        batch.insert(&self.records, name.as_str(), record);
        batch.insert(&self.records, NEXT_NUMBER, (number + 1).to_be_bytes());
        batch.commit().map_err(fault::on_commit)?;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.insert(name, Arc::new(table));
        Ok(())
    }

    pub(super) fn drop_table(&self, name: &TableName) -> Result<bool> {
        let Some(table) = self.find(name) else {
            return Ok(false);
        };
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncAll));
        batch.remove(&self.records, name.as_str());
        batch.commit().map_err(fault::on_commit)?;
        self.tables
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
        // Gone for everybody; what the engine still has of it is swept at the latest when the
        // store is opened again.
        for keyspace in table.indexes.iter().chain([&table.items]) {
            let deleted = self.db.delete_keyspace(keyspace.clone());
            deleted.map_err(fault::on_commit)?;
        }
        Ok(true)
    }

    fn next_number(&self) -> Result<u64> {
        let stored = self.records.get(NEXT_NUMBER).map_err(fault::on_read)?;
        let Some(stored) = stored else {
            return Ok(1);
        };
        let bytes = <[u8; 8]>::try_from(&*stored);
        let bytes = bytes.map_err(|e| Error::corrupt("catalog counter is damaged").because(e))?;
        Ok(u64::from_be_bytes(bytes))
    }
}

/// The keyspaces of a table: its items', then its indexes'.
fn names(number: u64, spec: &TableSpec) -> impl Iterator<Item = String> + use<> {
    let indexes = (0..spec.indexes().len()).map(move |i| index_name(number, i));
    std::iter::once(items_name(number)).chain(indexes)
}

fn items_name(number: u64) -> String {
    format!("t{number}")
}

fn index_name(number: u64, index: usize) -> String {
    format!("t{number}.{index}")
}

fn attach(db: &Database, number: u64, spec: TableSpec) -> fjall::Result<Table> {
    let keyspace = |name: String| db.keyspace(&name, KeyspaceCreateOptions::default);
    let indexes = (0..spec.indexes().len()).map(|i| keyspace(index_name(number, i)));
    Ok(Table {
        number,
        items: keyspace(items_name(number))?,
        indexes: indexes.collect::<fjall::Result<_>>()?,
        spec,
    })
}

/// A table's record. Apart from `TableSpec`, so that neither shapes the other.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Record {
    number: u64,
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
    /// Absent: everything. Otherwise these, besides the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    carries: Option<Vec<String>>,
}

fn encode(number: u64, spec: &TableSpec) -> Result<Vec<u8>> {
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

fn decode(bytes: &[u8]) -> Result<(u64, TableSpec)> {
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
    Ok((record.number, spec().map_err(|e| damaged(e.into()))?))
}

fn decode_key(attributes: &[(String, char)]) -> Result<KeySchema> {
    let attribute = |(name, letter): &(String, char)| {
        let key_type = match letter {
            'S' => KeyType::S,
            'N' => KeyType::N,
            'B' => KeyType::B,
            other => return Err(Error::corrupt(format!("no such key type. type=`{other}`"))),
        };
        Ok(KeyAttribute::new(name, key_type))
    };
    match attributes {
        [partition] => Ok(KeySchema::new(attribute(partition)?)),
        [partition, sort] => Ok(KeySchema::new(attribute(partition)?).sorted(attribute(sort)?)),
        _ => Err(Error::corrupt("a key has one or two attributes")),
    }
}
