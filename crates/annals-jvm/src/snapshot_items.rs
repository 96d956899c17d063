//! Snapshots as items, one each: shared by both layouts.
//!
//! Guarantees: every page is read, snapshots of other ids are skipped, and a failed deletion is an
//! error.

use std::sync::Arc;

use futures::{Stream, StreamExt, TryStreamExt};

use annals::IdStream;
use annals::items::{Item, Query, Scan, TableSpec, Value, Write};
use annals::layout::support::{each_once, stray_item, unreadable_at};
use annals::snapshot::{Criteria, Snapshot, SnapshotStream};
use annals::store::Store;
use annals::verify::{Finding, FindingStream, StoredKind};
use annals::{Error, ErrorKind, Payload, PersistenceId, Result, SequenceNumber};

/// A table of snapshots.
pub(crate) trait SnapshotItems: Clone + Send + Sync + 'static {
    fn store(&self) -> &Store;

    fn table(&self) -> &Arc<TableSpec>;

    /// The attribute of the sequence number.
    fn number_name(&self) -> &str;

    /// The id that an item belongs to.
    fn id_in(&self, item: &Item) -> Option<PersistenceId>;

    /// Whether an item without an id of ours belongs to another journal.
    fn is_foreign(&self, _item: &Item) -> bool {
        false
    }

    /// Sequence number and time of an item; `None` if it is not this id's.
    fn position(&self, id: &PersistenceId, item: &Item) -> Result<Option<(SequenceNumber, u64)>>;

    fn payload(&self, item: &Item) -> Result<Payload>;

    /// The snapshot in an item, if it meets the criteria.
    fn open(
        &self,
        id: &PersistenceId,
        item: &Item,
        criteria: &Criteria,
    ) -> Result<Option<Snapshot>> {
        let unreadable = |cause: Error| {
            let number = item.get(self.number_name()).and_then(Value::as_u64);
            let number = number.unwrap_or(0);
            Error::new(cause.kind(), "a snapshot cannot be read")
                .fact("id", id)
                .fact("number", number)
                .because(cause)
        };
        let position = self.position(id, item).map_err(unreadable)?;
        let met = position.filter(|(number, time_ms)| criteria.matches(*number, *time_ms));
        let Some((sequence_number, time_ms)) = met else {
            return Ok(None);
        };
        let payload = self.payload(item).map_err(unreadable)?;
        let snapshot = Snapshot::new(id.clone(), sequence_number, time_ms, payload);
        Ok(Some(snapshot))
    }

    /// The snapshots that a query finds.
    fn found(&self, id: &PersistenceId, criteria: Criteria, query: Query) -> SnapshotStream {
        let items = self.store().query_all(self.table(), query);
        let (snapshots, id) = (self.clone(), id.clone());
        let found = items.map(move |item| snapshots.open(&id, &item?, &criteria));
        SnapshotStream::new(found.filter_map(|found| std::future::ready(found.transpose())))
    }

    /// Deletes the snapshots that a query finds; returns how many.
    fn delete_found(
        &self,
        id: &PersistenceId,
        criteria: &Criteria,
        query: Query,
    ) -> impl Future<Output = Result<u64>> + Send {
        async move {
            let mut found = self.store().query_all(self.table(), query);
            let mut writes = Vec::new();
            while let Some(item) = found.try_next().await? {
                let position = self.position(id, &item)?;
                if position.is_some_and(|(number, time_ms)| criteria.matches(number, time_ms)) {
                    writes.push(Write::Delete(self.table().key_of(&item)?));
                }
            }
            let count = writes.len() as u64;
            if count > 0 {
                self.store().write(self.table(), writes).await?;
            }
            Ok(count)
        }
    }

    /// The ids that have snapshots.
    fn listed(&self, prefix: &str) -> IdStream {
        let all = self.store().scan_all(self.table(), Scan::whole());
        let snapshots = self.clone();
        each_once(all.map_ok(move |item| snapshots.id_in(&item)), prefix)
    }

    /// Checks an item of the table.
    fn check(&self, item: &Item) -> Result<Vec<Finding>> {
        let Some(id) = self.id_in(item) else {
            if self.is_foreign(item) {
                return Ok(Vec::new());
            }
            let key = self.table().key_of(item)?;
            return Ok(vec![stray_item(
                StoredKind::Snapshot,
                self.table().name(),
                &key,
            )]);
        };
        match self.open(&id, item, &Criteria::ALL) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let number = item.get(self.number_name()).and_then(Value::as_u64);
                let number = number.unwrap_or(0);
                Ok(unreadable_at(StoredKind::Snapshot, &id, number, &error))
            }
            opened => opened.map(|_| Vec::new()),
        }
    }

    /// Checks items of the table.
    fn checked(&self, items: impl Stream<Item = Result<Item>> + Send + 'static) -> FindingStream {
        let snapshots = self.clone();
        FindingStream::new(items.map(move |item| snapshots.check(&item?)))
    }
}
