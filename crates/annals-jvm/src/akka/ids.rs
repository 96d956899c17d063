//! Persistence ids: by the index over `num` if the table has it, or by a scan.
//!
//! An id is listed by its first event, which may be emptied. If the JVM has removed it, the id is
//! listed by its low marker.
//!
//! Guarantees: every id of this journal that has an event or a low marker, each once; never one of
//! another journal in the same table. The index may lag.

use std::sync::PoisonError;

use futures::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};

use super::format::AkkaRows;
use super::keys::{Keys, Marker, PARTITION, Partition};
use crate::rows::{Base, RowIds};
use annals::IdStream;
use annals::items::{Item, Query, Scan, TableSpec, Value};
use annals::layout::support::{ScannedEntry, SeenIds, stray_item};
use annals::verify::StoredKind;
use annals::{PersistenceId, Result};

/// How many names of other journals are remembered.
const OTHERS_MAX: usize = 16;

impl RowIds for AkkaRows {
    fn ids(&self, prefix: &str) -> IdStream {
        let (format, prefix) = (self.clone(), prefix.to_owned());
        let found = stream::once(key_items(self.clone())).try_flatten();
        let ids = found.try_filter_map(move |item| {
            let (format, prefix) = (format.clone(), prefix.clone());
            async move {
                format.note_other_journal(&item);
                let id = format.listed_by(&item).await?;
                Ok(id.filter(|id| id.as_str().starts_with(&prefix)))
            }
        });
        IdStream::new(ids)
    }

    async fn is_listed(&self, id: &PersistenceId) -> Result<bool> {
        let low = |shard| self.keys.marker_in(Marker::Low, id, shard);
        let keys = std::iter::once(self.keys.event(id, 1)).chain((0..self.keys.shards).map(low));
        let Base { store, table, .. } = &self.base;
        let found = store.get(table, keys.collect()).await?;
        Ok(found.items.iter().any(Option::is_some))
    }

    fn journal_name(&self) -> Option<&str> {
        Some(&self.base.settings.journal_name)
    }

    fn other_journals(&self) -> Vec<String> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.iter().cloned().collect()
    }

    fn scan_entries(&self) -> BoxStream<'static, Result<ScannedEntry>> {
        let (keys, table) = (self.keys.clone(), self.base.table.clone());
        let mut ids = SeenIds::default();
        let all = self.base.store.scan_all(&table, Scan::whole());
        let entries = all.try_filter_map(move |item| {
            let (partition, position) = key_in(&item);
            let entry = match (keys.parse(partition), position) {
                (Some(Partition::Events(id, _)), Some(0..PARTITION)) => Ok(ids.first_seen(id)),
                (Some(Partition::Marker(_, id, _)), Some(0)) => Ok(ids.first_seen(id)),
                (None, Some(0..PARTITION)) if Keys::is_journals(partition) => Ok(None),
                _ => table.key_of(&item).map(|key| {
                    let stray = stray_item(StoredKind::Event, table.name(), &key);
                    Some(ScannedEntry::Stray(stray))
                }),
            };
            std::future::ready(entry)
        });
        entries.boxed()
    }
}

impl AkkaRows {
    /// Remembers the name of another journal that an item belongs to.
    fn note_other_journal(&self, item: &Item) {
        let (partition, _) = key_in(item);
        let Some(name) = self.keys.other_journal(partition) else {
            return;
        };
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() < OTHERS_MAX && !others.contains(name) {
            others.insert(name.to_owned());
        }
    }

    /// The id that an item lists: its first event, or, if that is removed, the low marker of the
    /// first shard that has one.
    async fn listed_by(&self, item: &Item) -> Result<Option<PersistenceId>> {
        let (partition, position) = key_in(item);
        match (self.keys.parse(partition), position) {
            (Some(Partition::Events(id, 0)), Some(1)) => Ok(Some(id)),
            (Some(Partition::Marker(Marker::Low, id, shard)), Some(0)) => {
                let marker = |shard| self.keys.marker_in(Marker::Low, &id, shard);
                let keys = std::iter::once(self.keys.event(&id, 1)).chain((0..shard).map(marker));
                let found = self
                    .base
                    .store
                    .get(&self.base.table, keys.collect())
                    .await?;
                let is_listed = found.items.iter().all(Option::is_none);
                Ok(is_listed.then_some(id))
            }
            _ => Ok(None),
        }
    }
}

fn key_in(item: &Item) -> (&str, Option<u64>) {
    let partition = item.get("par").and_then(Value::as_str).unwrap_or_default();
    (partition, item.get("num").and_then(Value::as_u64))
}

/// Items with at least their keys: those at positions 0 and 1 of the index, or the whole table.
async fn key_items(format: AkkaRows) -> Result<impl Stream<Item = Result<Item>> + Send> {
    let Base {
        store,
        table,
        settings,
        ..
    } = format.base;
    let name = settings.persistence_ids_index_name.clone();
    let described = store.describe_table(table.name()).await?;
    let indexed = described.filter(|table| has_index(table, &name));
    Ok(match indexed {
        None => store.scan_all(&table, Scan::whole()).left_stream(),
        Some(indexed) => {
            let table = std::sync::Arc::new(indexed);
            let positions = stream::iter([1u64, 0]);
            positions
                .flat_map(move |position| {
                    let query = Query::of(position).on(name.clone()).eventually();
                    store.query_all(&table, query)
                })
                .right_stream()
        }
    })
}

fn has_index(table: &TableSpec, name: &str) -> bool {
    let found = table.index(name).ok();
    found.is_some_and(|index| index.key.partition.name == "num")
}
