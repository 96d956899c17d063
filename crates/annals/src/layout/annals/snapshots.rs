//! Snapshots on the `annals` layout: an item for each, under `s:ID` and its sequence number.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::sealed::{self, Sealed, deletes};
use crate::items::{
    Condition, Item, Items, Key, KeyPart, Query, SortRange, TableSpec, Value, Write, WriteError,
    query_all,
};
use crate::snapshot::{Criteria, Snapshot, SnapshotLayout, SnapshotStream};
use crate::{Error, PersistenceId, Random, Result, SequenceNumber, Token};

/// Where the append begins that the snapshot's number ends: a hint, and not under the checksum.
const ANCHOR: &str = "f";
/// How many deletions by time are under way at once: each is a request, on a condition.
const DELETES_AT_ONCE: usize = 16;

type ItemStream = Pin<Box<dyn Stream<Item = Result<Item>> + Send>>;

/// Snapshots of the `annals` layout.
#[derive(Clone, Debug)]
pub struct AnnalsSnapshots {
    items: Arc<dyn Items>,
    table: Arc<TableSpec>,
    random: Random,
}

fn partition(id: &PersistenceId) -> String {
    format!("s:{id}")
}

fn part_key(id: &PersistenceId, token: Token, index: u32) -> Key {
    Key::new(format!("p:{token}:{id}")).sorted(u64::from(index))
}

impl AnnalsSnapshots {
    pub(crate) fn new(items: Arc<dyn Items>, table: Arc<TableSpec>, random: Random) -> Self {
        Self {
            items,
            table,
            random,
        }
    }

    async fn write(&self, writes: Vec<Write>) -> Result<()> {
        sealed::write(&*self.items, &self.table, writes).await
    }

    fn query(&self, id: &PersistenceId, criteria: &Criteria) -> Query {
        let (low, high) = (criteria.min_number.get(), criteria.max_number.get());
        let range = SortRange::Between(KeyPart::from(low), KeyPart::from(high));
        Query::of(partition(id)).within(range).descending()
    }

    fn query_all(&self, query: Query) -> impl Stream<Item = Result<Item>> + Send + Unpin + use<> {
        query_all(self.items.clone(), self.table.clone(), query)
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
            let number = item
                .as_ref()
                .ok()
                .map(|item| snapshots.number_of(&id, item));
            let before = number.and_then(Result::ok).map(|number| number.get() - 1);
            let before = before.and_then(SequenceNumber::new);
            let older = before.map(|before| criteria.up_to(before));
            let older = older.filter(|older| !older.is_empty());
            let older = older.map(|older| snapshots.query_all(snapshots.query(&id, &older)));
            stream::iter([item]).chain(stream::iter(older).flatten())
        });
        Box::pin(found.flatten())
    }

    fn number_of(&self, id: &PersistenceId, item: &Item) -> Result<SequenceNumber> {
        let number = item
            .get("n")
            .and_then(Value::as_u64)
            .and_then(SequenceNumber::new);
        number.ok_or_else(|| Error::corrupt(format!("a snapshot has no number. id=`{id}`")))
    }

    /// The snapshot in an item, unless the criteria leave it out; the one that has replaced it, if
    /// its parts went meanwhile.
    async fn open(
        &self,
        id: &PersistenceId,
        mut item: Item,
        criteria: &Criteria,
    ) -> Result<Option<Snapshot>> {
        loop {
            let lost = match self.open_as_it_is(id, &item, criteria).await {
                Ok(opened) => return Ok(opened),
                Err(lost) => lost,
            };
            match sealed::reread(&*self.items, &self.table, &item, lost).await? {
                Some(now) => item = now,
                None => return Ok(None),
            }
        }
    }

    async fn open_as_it_is(
        &self,
        id: &PersistenceId,
        item: &Item,
        criteria: &Criteria,
    ) -> Result<Option<Snapshot>> {
        let number = self.number_of(id, item)?;
        let sealed = Sealed::of(&self.table, item)?;
        let time_ms = sealed.time_ms;
        if !criteria.meets(number, time_ms) {
            return Ok(None);
        }
        let part_key = |token, index| part_key(id, token, index);
        Ok(Some(Snapshot {
            persistence_id: id.clone(),
            sequence_number: number,
            time_ms,
            anchor: item
                .get(ANCHOR)
                .and_then(Value::as_u64)
                .and_then(SequenceNumber::new),
            payload: sealed.open(&*self.items, &self.table, &part_key).await?,
        }))
    }

    /// Deletes a snapshot if its time is meant, and not another that has replaced it meanwhile. One
    /// that does not decode has no time, and stays.
    async fn delete_timed(
        &self,
        id: &PersistenceId,
        mut item: Item,
        criteria: Criteria,
    ) -> Result<()> {
        let key = self.table.key_of(&item)?;
        let number = self.number_of(id, &item)?;
        loop {
            let sealed = Sealed::of(&self.table, &item);
            if !sealed.is_ok_and(|sealed| criteria.meets(number, sealed.time_ms)) {
                return Ok(());
            }
            let condition = sealed::unchanged(&item);
            let deleted = self.items.delete(&self.table, key.clone(), condition).await;
            let now = match deleted {
                Ok(_) => None,
                Err(WriteError::Refused { existing, .. }) => existing,
                Err(WriteError::Failed(error)) => return Err(error),
            };
            // Whoever took its place, it is gone.
            self.write(self.parts_of(id, &item)).await?;
            match now {
                Some(now) => item = *now,
                None => return Ok(()),
            }
        }
    }

    /// What has to go with an item: its parts, as far as it can tell of them.
    fn parts_of(&self, id: &PersistenceId, item: &Item) -> Vec<Write> {
        let sealed = Sealed::of(&self.table, item);
        let part_key = |token, index| part_key(id, token, index);
        sealed.map_or_else(
            |_| Vec::new(),
            |sealed| deletes(sealed.part_keys(&part_key)),
        )
    }
}

#[async_trait]
impl SnapshotLayout for AnnalsSnapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<()> {
        let (id, token) = (&snapshot.persistence_id, Token::draw(&self.random));
        let key = Key::new(partition(id)).sorted(snapshot.sequence_number.get());
        let mut item = self.table.key().item_of(&key);
        if let Some(anchor) = snapshot.anchor {
            item = item.with(ANCHOR, anchor.get());
        }
        let part_key = |token, index| part_key(id, token, index);
        let what = (&snapshot.payload, snapshot.time_ms, token);
        let written = sealed::seal(&self.table, item, what, &part_key)?;
        let parts = written.parts.into_iter().map(Write::Put).collect();
        self.write(parts).await?;
        let put = self
            .items
            .put(&self.table, written.item.clone(), Condition::Absent)
            .await;
        match put {
            Ok(_) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
            // One is there: it is replaced, and its parts go. The refusal has shown it for nothing.
            Err(WriteError::Refused { existing, .. }) => {
                self.items
                    .put(&self.table, written.item, Condition::Always)
                    .await?;
                let parts = existing.map_or_else(Vec::new, |old| self.parts_of(id, &old));
                let mine = |write: &Write| matches!(write, Write::Delete(key) if key.partition == part_key(token, 0).partition);
                let parts = parts.into_iter().filter(|write| !mine(write)).collect();
                self.write(parts).await
            }
        }
    }

    fn find(&self, id: &PersistenceId, criteria: Criteria) -> SnapshotStream {
        let (snapshots, id) = (self.clone(), id.clone());
        let found = self.items(&id, criteria).then(move |item| {
            let (snapshots, id) = (snapshots.clone(), id.clone());
            async move { snapshots.open(&id, item?, &criteria).await }
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
        let mut writes = Vec::new();
        while let Some(item) = found.try_next().await? {
            writes.push(Write::Delete(self.table.key_of(&item)?));
            writes.extend(self.parts_of(id, &item));
        }
        self.write(writes).await
    }
}
