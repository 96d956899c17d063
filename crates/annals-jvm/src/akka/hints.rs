//! Settings that would misread a journal table of the `akka` layout.

use std::collections::BTreeSet;

use super::keys::{Keys, Partition};
use super::record;
use crate::settings::AnyLayout;
use annals::Result;
use annals::items::limits::ITEM_BYTES_MAX;
use annals::items::{Scan, TableSpec, Value};
use annals::layout::Hint;
use annals::store::Store;

/// How many items are read.
const SAMPLE: u32 = 1_000;

pub(crate) async fn hints(
    store: &Store,
    settings: &AnyLayout,
    found: &TableSpec,
) -> Result<Vec<Hint>> {
    let keys = Keys::new(&settings.journal_name, settings.sequence_shards)?;
    let page = store.scan(found, Scan::whole().limit(SAMPLE)).await?;
    let partitions = page.items.iter();
    let partitions: Vec<&str> = partitions
        .filter_map(|item| item.get("par").and_then(Value::as_str))
        .collect();
    let mut hints = Vec::new();
    let shards = shown_shards(&keys, &partitions);
    let shards = shards.max(record::shards(store, found, &keys).await?.unwrap_or(0));
    if shards > keys.shards {
        let detail = format!(
            "markers are in {shards} shards, of which {} would be read: events would be lost; set sequence-shards to {shards} or what the JVM has",
            keys.shards
        );
        hints.push(Hint::wrong(found, detail));
    }
    let is_ours = |partition: &&str| keys.parse(partition).is_some() || keys.is_record(partition);
    if !partitions.is_empty() && !partitions.iter().any(is_ours) {
        let names: BTreeSet<&str> = partitions.iter().filter_map(|it| name_in(it)).collect();
        let names = Vec::from_iter(names).join(", ");
        let detail = format!(
            "none of {} items belongs to the journal {}: it would seem to be empty; set journal-name to one of: {names}",
            partitions.len(),
            settings.journal_name
        );
        hints.push(Hint::wrong(found, detail));
    }
    let index = &settings.persistence_ids_index_name;
    if found.index(index).is_err() {
        let detail = format!(
            "the index {index} over `num` is missing: ids are listed by reading the whole table; add it if they are listed often"
        );
        hints.push(Hint::advice(found, detail));
    }
    if settings.aws_api_limits.max_item_size > ITEM_BYTES_MAX {
        let detail = format!(
            "max-item-size is above DynamoDB's limit: appends would fail at the store; set it to {ITEM_BYTES_MAX} or less"
        );
        hints.push(Hint::wrong(found, detail));
    }
    Ok(hints)
}

/// The number of shards with markers of this journal.
fn shown_shards(keys: &Keys, partitions: &[&str]) -> u32 {
    let shards = partitions.iter().filter_map(|partition| {
        let Some(Partition::Marker(_, _, shard)) = keys.parse(partition) else {
            return None;
        };
        Some(shard.saturating_add(1))
    });
    shards.max().unwrap_or(0)
}

/// The name of the journal that a partition belongs to.
fn name_in(partition: &str) -> Option<&str> {
    let kinds = ["-P-", "-SH-", "-SL-"].into_iter();
    let ends = kinds.filter_map(|kind| partition.find(kind));
    partition.get(..ends.min()?)
}
