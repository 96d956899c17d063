//! Persistence ids: by the index over `num` where the table has it, by a scan where not.
//!
//! An id is listed by its first event. Where the JVM side has removed that, its low mark tells of
//! it; an event that we emptied is still there.
//!
//! Promises: every id of this journal that has an event or a low mark, each once; never one of
//! another journal in the same table.
//! Trusts: nothing about the index's freshness: it lags behind the table.

use futures::stream::{self, StreamExt, TryStreamExt};

use super::journal::AkkaJournal;
use super::keys::{Keys, Mark, PARTITION, Partition};
use annals::items::{Item, Query, Scan, TableSpec, Value, query_all, scan_all};
use annals::journal::IdStream;
use annals::layout::support::{ScannedEntry, SeenIds, stray_item};
use annals::verify::StoredKind;
use annals::{PersistenceId, Result};

pub(super) fn all(journal: AkkaJournal, prefix: String) -> IdStream {
    let found = stream::once(keys_of(journal.clone())).try_flatten();
    let ids = found.try_filter_map(move |item| {
        let (journal, prefix) = (journal.clone(), prefix.clone());
        async move {
            let partition = item.get("par").and_then(Value::as_str);
            let number = item.get("num").and_then(Value::as_u64);
            let parsed = partition.and_then(|partition| journal.keys.parse(partition));
            let id = match (parsed, number) {
                (Some(Partition::Events(id, 0)), Some(1)) => Some(id),
                (Some(Partition::Mark(Mark::Low, id, shard)), Some(0)) => {
                    let is_listed = is_listed_by(&journal, &id, shard).await?;
                    is_listed.then_some(id)
                }
                _ => None,
            };
            Ok(id.filter(|id| id.as_str().starts_with(&prefix)))
        }
    });
    Box::pin(ids)
}

/// Everything there is in the table, as far as it is of this journal or nobody's.
pub(super) fn met(
    journal: &AkkaJournal,
) -> impl stream::Stream<Item = Result<ScannedEntry>> + Send + use<> {
    let (keys, table) = (journal.keys.clone(), journal.table.clone());
    let mut ids = SeenIds::default();
    let all = journal.store.scan_all(&table, Scan::whole());
    all.try_filter_map(move |item| {
        let partition = item.get("par").and_then(Value::as_str).unwrap_or_default();
        let place = item.get("num").and_then(Value::as_u64);
        let met = match (keys.parse(partition), place) {
            (Some(Partition::Events(id, _)), Some(0..PARTITION)) => Ok(ids.first_seen(id)),
            (Some(Partition::Mark(_, id, _)), Some(0)) => Ok(ids.first_seen(id)),
            (None, Some(0..PARTITION)) if Keys::is_journals(partition) => Ok(None),
            _ => table.key_of(&item).map(|key| {
                let stray = stray_item(StoredKind::Event, table.name(), &key);
                Some(ScannedEntry::Stray(stray))
            }),
        };
        std::future::ready(met)
    })
}

/// Items with keys at least: all that the index has of numbers 0 and 1, or all there are.
async fn keys_of(journal: AkkaJournal) -> Result<impl stream::Stream<Item = Result<Item>> + Send> {
    let name = &journal.settings.persistence_ids_index_name;
    let described = journal.store.describe_table(journal.table.name()).await?;
    let indexed = described.filter(|table| has_index(table, name));
    let (items, table) = (journal.store.items().clone(), journal.table.clone());
    Ok(match indexed {
        None => scan_all(items, table, Scan::whole()).left_stream(),
        Some(indexed) => {
            let (table, name) = (std::sync::Arc::new(indexed), name.clone());
            let numbers = stream::iter([1u64, 0]);
            numbers
                .flat_map(move |number| {
                    let query = Query::of(number).on(name.clone()).eventually();
                    query_all(items.clone(), table.clone(), query)
                })
                .right_stream()
        }
    })
}

fn has_index(table: &TableSpec, name: &str) -> bool {
    let found = table.index(name).ok();
    found.is_some_and(|index| index.key.partition.name == "num")
}

/// Whether the low mark in a shard is what lists an id: no first event is there, and no mark in an
/// earlier shard.
async fn is_listed_by(journal: &AkkaJournal, id: &PersistenceId, shard: u32) -> Result<bool> {
    let earlier = (0..shard).map(|shard| journal.keys.mark_in(Mark::Low, id, shard));
    let keys = std::iter::once(journal.keys.event(id, 1)).chain(earlier);
    let found = journal.store.get(&journal.table, keys.collect()).await?;
    Ok(found.items.iter().all(Option::is_none))
}
