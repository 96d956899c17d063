//! Snapshots on the `annals` layout: an item for each, under `s:ID` and its sequence number.
//!
//! Promises: a snapshot that was saved is whole, whoever else saves or deletes one of its number
//! meanwhile. An item goes before its parts do.
//! Trusts: the costs that the store answers to tell whether a put was repeated.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::body::Written;
use super::parts::PartedTable;
use super::sealed::{self, Kind, Sealed};
use super::{keys, opening};
use crate::IdStream;
use crate::items::{
    Condition, Item, KeyPart, Query, Scan, SortRange, TableSpec, Value, Write, WriteError, scan_all,
};
use crate::snapshot::{Criteria, Snapshot, SnapshotLayout, SnapshotStream, each_once};
use crate::store::Store;
use crate::verify::{Finding, FindingStream, Verify};
use crate::{PersistenceId, Result, SequenceNumber, Token};

/// How many deletions by time are under way at once: each is a request, on a condition.
const DELETES_AT_ONCE: usize = 16;

type ItemStream = Pin<Box<dyn Stream<Item = Result<Item>> + Send>>;

/// Snapshots of the `annals` layout.
#[derive(Clone, Debug)]
pub(super) struct AnnalsSnapshots {
    table: PartedTable,
}

impl AnnalsSnapshots {
    pub(super) fn open(store: Store, table: Arc<TableSpec>) -> Self {
        let table = PartedTable { store, table };
        Self { table }
    }

    fn query(&self, id: &PersistenceId, criteria: &Criteria) -> Query {
        let (low, high) = (criteria.min_number.get(), criteria.max_number.get());
        let range = SortRange::Between(KeyPart::from(low), KeyPart::from(high));
        Query::of(keys::snapshots(id)).within(range).descending()
    }

    fn query_all(&self, query: Query) -> impl Stream<Item = Result<Item>> + Send + Unpin + use<> {
        self.table.store.query_all(&self.table.table, query)
    }

    /// The items that the numbers of the criteria mean, newest first. Where only numbers matter the
    /// first one is what is wanted, mostly: it is asked for alone, and the others in pages when they
    /// are.
    fn items(&self, id: &PersistenceId, criteria: Criteria) -> ItemStream {
        let query = self.query(id, &criteria);
        if criteria.is_timed() {
            return Box::pin(self.query_all(query));
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
        Box::pin(found.flatten())
    }

    /// The snapshot in an item, unless the criteria leave it out; the one that has replaced it, if
    /// its parts went meanwhile.
    async fn snapshot_in(
        &self,
        id: &PersistenceId,
        mut item: Item,
        criteria: &Criteria,
    ) -> Result<Option<Snapshot>> {
        loop {
            let lost = match self.as_it_is(id, &item, criteria).await {
                Ok(opened) => return Ok(opened),
                Err(lost) => lost,
            };
            match opening::reread(&self.table, &item, lost).await? {
                Some(now) => item = now,
                None => return Ok(None),
            }
        }
    }

    async fn as_it_is(
        &self,
        id: &PersistenceId,
        item: &Item,
        criteria: &Criteria,
    ) -> Result<Option<Snapshot>> {
        let sealed = Sealed::snapshot(id, item)?;
        match is_meant(&sealed, criteria) {
            true => sealed.open_snapshot(&self.table).await.map(Some),
            false => Ok(None),
        }
    }

    /// Puts the item over whatever is there; answers what that was, and whether the store may have
    /// put it more than once.
    async fn replace(&self, item: Item) -> Result<(Option<Box<Item>>, bool)> {
        let (items, table) = (&self.table.store, &self.table.table);
        let put = items.put(table, item.clone(), Condition::Absent).await;
        let (existing, refused) = match put {
            Ok(cost) => return Ok((None, cost.requests > 1)),
            Err(WriteError::Failed(error)) => return Err(error),
            // One is there, and the refusal has shown it for nothing.
            Err(WriteError::Refused { existing, cost }) => (existing, cost),
        };
        let put = items.put(table, item, Condition::Always).await?;
        Ok((existing, refused.requests > 1 || put.requests > 1))
    }

    /// Deletes a snapshot if its time is meant, and not another that has replaced it meanwhile. One
    /// that does not decode has no time, and stays.
    async fn delete_timed(
        &self,
        id: &PersistenceId,
        mut item: Item,
        criteria: Criteria,
    ) -> Result<()> {
        let (items, table) = (&self.table.store, &self.table.table);
        loop {
            let sealed = Sealed::snapshot(id, &item);
            let Some(sealed) = sealed.ok().filter(|sealed| is_meant(sealed, &criteria)) else {
                return Ok(());
            };
            let (key, condition) = (table.key_of(&item)?, sealed::unchanged(&item));
            let now = match items.delete(table, key, condition).await {
                Ok(_) => None,
                Err(WriteError::Refused { existing, .. }) => existing,
                Err(WriteError::Failed(error)) => return Err(error),
            };
            // Whoever took its place, it is gone.
            self.clean_up(&sealed).await;
            match now {
                Some(now) => item = *now,
                None => return Ok(()),
            }
        }
    }

    async fn clean_up(&self, gone: &Sealed) {
        self.table.clean_up(gone.part_keys(), gone.time_ms).await;
    }
}

fn is_meant(sealed: &Sealed, criteria: &Criteria) -> bool {
    let number = SequenceNumber::new(sealed.number);
    number.is_some_and(|number| criteria.meets(number, sealed.time_ms))
}

#[async_trait]
impl SnapshotLayout for AnnalsSnapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<()> {
        let token = Token::draw(self.table.store.random());
        let begun = self.table.begin(snapshot.time_ms);
        let Written { item, parts } = Sealed::of_snapshot(&snapshot, token)?.write()?;
        self.table.write(&parts, begun).await?;
        let (existing, is_repeated) = self.replace(item).await?;
        // Between two tries it may have been there, been replaced or deleted, and lost its parts.
        self.table.settle(&parts, begun, is_repeated).await?;
        let id = &snapshot.persistence_id;
        let replaced = existing.and_then(|old| Sealed::snapshot(id, &old).ok());
        if let Some(replaced) = replaced.filter(|replaced| replaced.token != token) {
            self.clean_up(&replaced).await;
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
        Box::pin(found)
    }

    async fn delete(&self, id: &PersistenceId, criteria: Criteria) -> Result<()> {
        let mut found = self.query_all(self.query(id, &criteria));
        if criteria.is_timed() {
            let delete = |item| self.delete_timed(id, item, criteria);
            return found.try_for_each_concurrent(DELETES_AT_ONCE, delete).await;
        }
        let (mut writes, mut gone) = (Vec::new(), Vec::new());
        while let Some(item) = found.try_next().await? {
            writes.push(Write::Delete(self.table.table.key_of(&item)?));
            let sealed = Sealed::snapshot(id, &item).ok();
            gone.extend(sealed.filter(Sealed::is_in_parts));
        }
        if !writes.is_empty() {
            self.table.store.write(&self.table.table, writes).await?;
        }
        for gone in gone {
            self.clean_up(&gone).await;
        }
        Ok(())
    }

    fn ids(&self, prefix: &str) -> IdStream {
        let (items, table) = (self.table.store.items().clone(), self.table.table.clone());
        let all = scan_all(items, table, Scan::whole());
        let ids = all.map_ok(|item| {
            let partition = item.get("p").and_then(Value::as_str);
            partition.and_then(keys::parse_sealed)
        });
        each_once(ids, prefix)
    }

    fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        opening::verify((&self.table, Kind::Snapshot), whose)
    }

    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        opening::orphans((&self.table, Kind::Snapshot), older_than, verify).await
    }
}
