//! The journal's own record: over how many shards its marks are spread.
//!
//! The plugin has none: with fewer shards than before it would not see marks that are there, take
//! an entity for shorter than it is, and overwrite it.
//!
//! Promises: settings with fewer shards than were ever used from here are refused.
//! Never: lowers what is recorded.

use super::journal::AkkaJournal;
use super::keys::Keys;
use super::marks::too_few_shards;
use annals::items::{Condition, Items, TableSpec, Value, WriteError};
use annals::store::Store;
use annals::{Error, Result};

const SHARDS: &str = "shards";

/// How many shards are recorded.
pub(super) async fn shards(store: &Store, table: &TableSpec, keys: &Keys) -> Result<Option<u32>> {
    let found = store.get(table, vec![keys.record()]).await?.items;
    let found = found.into_iter().flatten().next();
    let shards = found.and_then(|record| record.get(SHARDS).and_then(Value::as_u64));
    Ok(shards.and_then(|shards| u32::try_from(shards).ok()))
}

/// Refuses fewer shards than are recorded.
pub(super) async fn check(store: &Store, table: &TableSpec, keys: &Keys) -> Result<()> {
    match shards(store, table, keys).await? {
        Some(shards) if shards > keys.shards => Err(too_few_shards(keys.shards, shards)),
        _ => Ok(()),
    }
}

impl AkkaJournal {
    /// Records the number of shards before the first event is put.
    pub(super) async fn record(&self) -> Result<()> {
        let recorded = self.recorded.get_or_try_init(|| self.put_record());
        recorded.await.copied()
    }

    async fn put_record(&self) -> Result<()> {
        let shards = u64::from(self.keys.shards);
        let record = self.table.key().item_of(&self.keys.record());
        let record = record.with(SHARDS, shards);
        let mut condition = Condition::Absent;
        loop {
            let put = self.store.put(&self.table, record.clone(), condition);
            let existing = match put.await {
                Ok(_) => return Ok(()),
                Err(WriteError::Failed(error)) => return Err(error),
                Err(WriteError::Refused { existing, .. }) => existing,
            };
            let found = existing.and_then(|record| record.get(SHARDS).cloned());
            condition = match found.as_ref().and_then(Value::as_u64) {
                Some(found) if found == shards => return Ok(()),
                Some(found) if found > shards => {
                    let shown = u32::try_from(found).unwrap_or(u32::MAX);
                    return Err(too_few_shards(self.keys.shards, shown));
                }
                // Raised: what is recorded only ever grows, so this ends.
                Some(found) => Condition::Equals(SHARDS.to_owned(), Value::from(found)),
                None => return Err(Error::corrupt("the journal's own record is damaged")),
            };
        }
    }
}
