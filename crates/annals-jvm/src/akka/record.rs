//! The journal's own record: the number of shards of its markers.
//!
//! The plugin has none: with fewer shards than before it would miss markers, take an entity's
//! history as shorter than it is, and overwrite events.
//!
//! Guarantees: settings with fewer shards than recorded are an error, and the recorded number never
//! decreases.

use super::format::AkkaRows;
use super::keys::Keys;
use super::markers::too_few_shards;
use crate::rows::Put;
use annals::items::{Condition, TableSpec, Value};
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

/// Fails if the settings have fewer shards than recorded.
pub(super) async fn check(store: &Store, table: &TableSpec, keys: &Keys) -> Result<()> {
    match shards(store, table, keys).await? {
        Some(shards) if shards > keys.shards => Err(too_few_shards(keys.shards, shards)),
        _ => Ok(()),
    }
}

impl AkkaRows {
    /// Records the number of shards before the first event is put.
    pub(super) async fn record(&self) -> Result<()> {
        let recorded = self.recorded.get_or_try_init(|| self.put_record());
        recorded.await.copied()
    }

    async fn put_record(&self) -> Result<()> {
        let shards = u64::from(self.keys.shards);
        let record = self.base.table.key().item_of(&self.keys.record());
        let record = record.with(SHARDS, shards);
        let mut condition = Condition::Absent;
        loop {
            let existing = match self.base.put(record.clone(), condition).await? {
                Put::Stored => return Ok(()),
                Put::Refused(existing) => existing,
            };
            let found = existing.and_then(|record| record.get(SHARDS).cloned());
            condition = match found.as_ref().and_then(Value::as_u64) {
                Some(found) if found == shards => return Ok(()),
                Some(found) if found > shards => {
                    let shown = u32::try_from(found).unwrap_or(u32::MAX);
                    return Err(too_few_shards(self.keys.shards, shown));
                }
                // The recorded number only grows, so this loop ends.
                Some(found) => Condition::Equals(SHARDS.to_owned(), Value::from(found)),
                None => return Err(Error::corrupt("the journal's own record is damaged")),
            };
        }
    }
}
