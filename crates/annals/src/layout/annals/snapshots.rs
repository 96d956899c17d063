//! Snapshots on the `annals` layout: an item each, under `s:ID` and the sequence number.
//!
//! Guarantees: a saved snapshot is complete, also next to other saves and deletions of the same
//! sequence number. An item is deleted before its chunks. Relies on the store's costs to tell whether
//! a put was retried.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};

use super::body::WriteSet;
use super::chunks::ChunkedTable;
use super::envelope::{self, Envelope, Kind};
use super::{envelope_store, keys};
use crate::IdStream;
use crate::items::{
    Condition, Item, ItemStream, Key, KeyPart, Query, Scan, SortRange, TableSpec, Value, Write,
    WriteError,
};
use crate::layout::support::each_once;
use crate::snapshot::{Criteria, Snapshot, SnapshotLayout, SnapshotStream};
use crate::store::Store;
use crate::verify::{Finding, FindingStream, Verify};
use crate::{Error, PersistenceId, Result, SequenceNumber, Token};

/// Concurrent deletions by time: each is a conditional request.
const CONCURRENT_DELETES: usize = 16;
/// How often a deletion by time follows a snapshot that is replaced in the meantime.
const DELETE_ATTEMPTS_MAX: usize = 16;

/// Snapshots of the `annals` layout.
#[derive(Clone, Debug)]
pub(super) struct AnnalsSnapshots {
    table: ChunkedTable,
}

impl AnnalsSnapshots {
    pub(super) fn open(store: Store, table: Arc<TableSpec>) -> Self {
        let table = ChunkedTable { store, table };
        Self { table }
    }

    fn query(&self, id: &PersistenceId, criteria: &Criteria) -> Query {
        let (low, high) = (criteria.min_number.get(), criteria.max_number.get());
        let range = SortRange::Between(KeyPart::from(low), KeyPart::from(high));
        Query::of(keys::snapshots(id)).within(range).descending()
    }

    fn query_all(&self, query: Query) -> ItemStream {
        self.table.store.query_all(&self.table.table, query)
    }

    /// The items in the criteria's range of sequence numbers, newest first. Without a limit of time,
    /// usually only the first is needed: it is read alone, the others in pages on demand.
    fn items(&self, id: &PersistenceId, criteria: Criteria) -> ItemStream {
        let query = self.query(id, &criteria);
        if criteria.is_timed() {
            return self.query_all(query);
        }
        let newest = self.query_all(query.limit(1)).take(1);
        let (snapshots, id) = (self.clone(), id.clone());
        let found = newest.map(move |item| {
            let number = item.as_ref().ok().and_then(|item| item.get("n")?.as_u64());
            let before = number.and_then(|number| SequenceNumber::new(number.checked_sub(1)?));
            let older = before.map(|before| criteria.up_to(before));
            let older = older.filter(|older| !older.is_empty());
            let older = older.map(|older| snapshots.query_all(snapshots.query(&id, &older)));
            stream::iter([item]).chain(stream::iter(older).flatten())
        });
        ItemStream::new(found.flatten())
    }

    /// The snapshot of an item, if it matches, or the one that has replaced it in the meantime.
    async fn snapshot_in(
        &self,
        id: &PersistenceId,
        mut item: Item,
        criteria: &Criteria,
    ) -> Result<Option<Snapshot>> {
        loop {
            let error = match self.decode(id, &item, criteria).await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            match envelope_store::reread(&self.table, &item, error).await? {
                Some(now) => item = now,
                None => return Ok(None),
            }
        }
    }

    async fn decode(
        &self,
        id: &PersistenceId,
        item: &Item,
        criteria: &Criteria,
    ) -> Result<Option<Snapshot>> {
        let envelope = Envelope::snapshot(id, item)?;
        match matches(&envelope, criteria) {
            true => envelope.open_snapshot(&self.table).await.map(Some),
            false => Ok(None),
        }
    }

    /// Puts the item, replacing an existing one; returns that, and whether the put may have been
    /// retried.
    async fn replace(&self, item: Item) -> Result<(Option<Box<Item>>, bool)> {
        let (items, table) = (&self.table.store, &self.table.table);
        let put = items.put(table, item.clone(), Condition::Absent).await;
        let (existing, refused) = match put {
            Ok(cost) => return Ok((None, cost.requests > 1)),
            Err(WriteError::Failed(error)) => return Err(error),
            // The refusal returns the existing item at no extra cost.
            Err(WriteError::Refused { existing, cost }) => (existing, cost),
        };
        let put = items.put(table, item, Condition::Always).await?;
        Ok((existing, refused.requests > 1 || put.requests > 1))
    }

    /// Deletes a snapshot if its time matches, also one that has replaced it in the meantime; returns
    /// whether it matched. A snapshot that does not decode has no time and stays. `Unavailable` if it
    /// never stops being replaced.
    async fn delete_timed(
        &self,
        id: &PersistenceId,
        mut item: Item,
        criteria: Criteria,
    ) -> Result<bool> {
        let (items, table) = (&self.table.store, &self.table.table);
        for attempt in 0..DELETE_ATTEMPTS_MAX {
            let envelope = Envelope::snapshot(id, &item).ok();
            let Some(envelope) = envelope.filter(|envelope| matches(envelope, &criteria)) else {
                return Ok(attempt > 0);
            };
            let (key, condition) = (table.key_of(&item)?, envelope::unchanged(&item));
            let now = match items.delete(table, key, condition).await {
                Ok(_) => None,
                Err(WriteError::Refused { existing, .. }) => existing,
                Err(WriteError::Failed(error)) => return Err(error),
            };
            // Deleted or replaced, it is gone.
            self.remove_chunks(&envelope).await;
            match now {
                Some(now) => item = *now,
                None => return Ok(true),
            }
        }
        let error = Error::unavailable("a snapshot to delete is saved again and again; try again");
        Err(error.fact("id", id))
    }

    async fn remove_chunks(&self, gone: &Envelope) {
        self.table
            .remove_obsolete(gone.chunk_keys(), gone.time_ms)
            .await;
    }
}

fn matches(envelope: &Envelope, criteria: &Criteria) -> bool {
    let number = SequenceNumber::new(envelope.number);
    number.is_some_and(|number| criteria.matches(number, envelope.time_ms))
}

#[async_trait]
impl SnapshotLayout for AnnalsSnapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<()> {
        let token = Token::draw(self.table.store.random());
        let WriteSet { item, chunks } = Envelope::of_snapshot(&snapshot, token)?.write()?;
        let start = self.table.write(&chunks, snapshot.time_ms).await?;
        let (existing, is_repeated) = self.replace(item).await?;
        // Between two attempts it may have been stored, then replaced or deleted with its chunks.
        self.table
            .rewrite_if_late(&chunks, start, is_repeated)
            .await?;
        let id = &snapshot.persistence_id;
        let replaced = existing.and_then(|old| Envelope::snapshot(id, &old).ok());
        if let Some(replaced) = replaced.filter(|replaced| replaced.token != token) {
            self.remove_chunks(&replaced).await;
        }
        Ok(())
    }

    fn find(&self, id: &PersistenceId, criteria: Criteria) -> SnapshotStream {
        let (snapshots, id) = (self.clone(), id.clone());
        let found = self.items(&id, criteria).then(move |item| {
            let (snapshots, id) = (snapshots.clone(), id.clone());
            async move { snapshots.snapshot_in(&id, item?, &criteria).await }
        });
        let found = found.filter_map(|found| std::future::ready(found.transpose()));
        SnapshotStream::new(found)
    }

    async fn delete(&self, id: &PersistenceId, criteria: Criteria) -> Result<u64> {
        let mut found = self.query_all(self.query(id, &criteria));
        if criteria.is_timed() {
            let deleted = found
                .map_ok(|item| self.delete_timed(id, item, criteria))
                .try_buffer_unordered(CONCURRENT_DELETES);
            let count = |count, is_deleted| ready(Ok(count + u64::from(is_deleted)));
            return deleted.try_fold(0, count).await;
        }
        let (mut writes, mut gone) = (Vec::new(), Vec::new());
        while let Some(item) = found.try_next().await? {
            writes.push(Write::Delete(self.table.table.key_of(&item)?));
            let envelope = Envelope::snapshot(id, &item).ok();
            gone.extend(envelope.filter(Envelope::is_chunked));
        }
        let count = writes.len() as u64;
        if count > 0 {
            self.table.store.write(&self.table.table, writes).await?;
        }
        for gone in gone {
            self.remove_chunks(&gone).await;
        }
        Ok(count)
    }

    fn ids(&self, prefix: &str) -> IdStream {
        let all = self.table.store.scan_all(&self.table.table, Scan::whole());
        let ids = all.map_ok(|item| {
            let partition = item.get("p").and_then(Value::as_str);
            partition.and_then(keys::parse_owner)
        });
        each_once(ids, prefix)
    }

    fn owner_of(&self, key: &Key) -> Option<(PersistenceId, bool)> {
        let KeyPart::S(partition) = &key.partition else {
            return None;
        };
        let snapshot = keys::parse_owner(partition).map(|id| (id, true));
        snapshot.or_else(|| keys::parse_chunk(partition).map(|(id, _)| (id, false)))
    }

    fn verify(&self, id: Option<&PersistenceId>) -> FindingStream {
        envelope_store::verify(&self.table, Kind::Snapshot, id)
    }

    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        envelope_store::orphans(&self.table, Kind::Snapshot, older_than, verify).await
    }
}
