//! Small records that are read and replaced as a whole: JSON in `c`, and a version in `w`.
//!
//! Guarantees: a record is only replaced by who knows its version, and a version is never used twice.
//! A writer recognises its own write after a lost response.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::table;
use crate::items::{Condition, Item, Key, TableSpec, WriteError};
use crate::store::Store;
use crate::{Error, Random, Result};

const VERSION: &str = "w";
const CONTENT: &str = "c";
/// How often an update is decided again while others change the record.
const ATTEMPTS_MAX: u32 = 20;

/// Names a writer in the versions that it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriterId(Arc<str>);

impl WriterId {
    pub(super) fn draw(random: &Random) -> Self {
        Self(format!("{:016x}", random.bits()).into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The version of this writer's nth write.
    pub(super) fn version(&self, write: u64) -> String {
        format!("{self}.{write}")
    }

    /// Whether this writer wrote a version.
    pub(super) fn wrote(&self, version: &str) -> bool {
        let writer = version.split_once('.').map(|(writer, _)| writer);
        writer == Some(self.as_str())
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A record and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Versioned<T> {
    pub(super) version: String,
    pub(super) content: T,
}

impl<T: DeserializeOwned> Versioned<T> {
    pub(super) fn from_item(item: &Item) -> Result<Self> {
        let corrupt = || {
            let name = item.text("n").unwrap_or_default();
            let error = Error::corrupt("a record of a projection does not parse; rebuild it");
            error.fact("record", name)
        };
        let version = item.text(VERSION).ok_or_else(corrupt)?.to_owned();
        let content = serde_json::from_str(item.text(CONTENT).ok_or_else(corrupt)?);
        let content = content.map_err(|cause| corrupt().because(cause))?;
        Ok(Self { version, content })
    }
}

/// How a conditional put ended.
#[derive(Debug)]
pub(super) enum Put {
    Stored,
    /// Another version was found; `None`: no record.
    Refused(Option<Item>),
}

/// The records of the table.
#[derive(Clone, Debug)]
pub(super) struct Records {
    pub(super) store: Store,
    pub(super) table: Arc<TableSpec>,
}

impl Records {
    pub(super) async fn get<T: DeserializeOwned>(&self, key: Key) -> Result<Option<Versioned<T>>> {
        let found = self.store.get(&self.table, vec![key]).await?;
        let found = found.items.into_iter().next().flatten();
        found.as_ref().map(Versioned::from_item).transpose()
    }

    /// Replaces the record of a version; `None`: where there is none.
    pub(super) async fn put<T: Serialize>(
        &self,
        key: &Key,
        before: Option<&str>,
        record: &Versioned<T>,
    ) -> Result<Put> {
        let content = serde_json::to_string(&record.content)
            .map_err(|cause| Error::invalid("a record cannot be encoded").because(cause))?;
        let item = table::item_of(key)
            .with(VERSION, record.version.as_str())
            .with(CONTENT, content);
        let condition = match before {
            None => Condition::Absent,
            Some(before) => Condition::Equals(VERSION.into(), before.into()),
        };
        match self.store.put(&self.table, item, condition).await {
            Ok(_) => Ok(Put::Stored),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => {
                let existing = existing.map(|item| *item);
                let found = existing.as_ref().and_then(|item| item.text(VERSION));
                match found == Some(record.version.as_str()) {
                    // Our own: its response was lost.
                    true => Ok(Put::Stored),
                    false => Ok(Put::Refused(existing)),
                }
            }
        }
    }

    /// Deletes the record of a version, if it is still that.
    pub(super) async fn delete(&self, key: Key, version: &str) -> Result<()> {
        let unchanged = Condition::Equals(VERSION.into(), version.into());
        match self.store.delete(&self.table, key, unchanged).await {
            Ok(_) | Err(WriteError::Refused { .. }) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    /// Decides and writes, again if others changed the record meanwhile. `decide` returns the new
    /// content, or `None` to leave the record.
    ///
    /// # Errors
    /// `Unavailable` if others keep changing it.
    pub(super) async fn update<T, F>(&self, key: Key, mut decide: F) -> Result<Option<T>>
    where
        T: Serialize + DeserializeOwned,
        F: FnMut(Option<T>) -> Result<Option<T>> + Send,
    {
        let writer = WriterId::draw(self.store.random());
        let mut found: Option<Versioned<T>> = self.get(key.clone()).await?;
        for attempt in 0..ATTEMPTS_MAX {
            let before = found.as_ref().map(|found| found.version.clone());
            let Some(content) = decide(found.map(|found| found.content))? else {
                return Ok(None);
            };
            let version = writer.version(attempt.into());
            let record = Versioned { version, content };
            match self.put(&key, before.as_deref(), &record).await? {
                Put::Stored => return Ok(Some(record.content)),
                Put::Refused(existing) => {
                    found = existing.as_ref().map(Versioned::from_item).transpose()?;
                }
            }
        }
        Err(Error::unavailable("others keep changing a record; retry later").fact("record", key))
    }
}
