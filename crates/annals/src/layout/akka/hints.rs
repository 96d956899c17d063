//! What settings would get wrong with a journal table of the `akka` layout.

use std::collections::BTreeSet;

use super::keys::{Keys, Partition};
use super::record;
use crate::Result;
use crate::items::limits::ITEM_BYTES_MAX;
use crate::items::{Items, Scan, TableSpec, Value};
use crate::layout::Hint;
use crate::settings::Settings;

/// How many items are looked at.
const LOOKED_AT: u32 = 1_000;

pub(in crate::layout) async fn hints(
    items: &dyn Items,
    settings: &Settings,
    (table, found): (&TableSpec, &TableSpec),
) -> Result<Vec<Hint>> {
    let keys = Keys::new(&settings.journal_name, settings.sequence_shards)?;
    let page = items.scan(table, Scan::whole().limit(LOOKED_AT)).await?;
    let partitions = page.items.iter();
    let partitions: Vec<&str> = partitions
        .filter_map(|item| item.get("par").and_then(Value::as_str))
        .collect();
    let mut hints = Vec::new();
    let shards = shown_shards(&keys, &partitions);
    let shards = shards.max(record::shards(items, table, &keys).await?.unwrap_or(0));
    if shards > keys.shards {
        let detail = format!(
            "marks stand in {shards} shards, of which {} would be seen: events would be lost; set sequence-shards to {shards} or what the JVM has",
            keys.shards
        );
        hints.push(Hint::wrong(table, detail));
    }
    let is_ours = |partition: &&str| keys.parse(partition).is_some() || keys.is_record(partition);
    if !partitions.is_empty() && !partitions.iter().any(is_ours) {
        let names: BTreeSet<&str> = partitions.iter().filter_map(|it| name_in(it)).collect();
        let names = Vec::from_iter(names).join(", ");
        let detail = format!(
            "nothing of {} items looked at is of the journal {}: it would seem to be empty; set journal-name to what is there: {names}",
            partitions.len(),
            settings.journal_name
        );
        hints.push(Hint::wrong(table, detail));
    }
    let index = &settings.persistence_ids_index_name;
    if found.index(index).is_err() {
        let detail = format!(
            "the index {index} over `num` is missing: ids are listed by reading the whole table; add it if they are listed often"
        );
        hints.push(Hint::advice(table, detail));
    }
    if settings.aws_api_limits.max_item_size > ITEM_BYTES_MAX {
        let detail = format!(
            "max-item-size is above what an item may have: appends would fail at the store; set it to {ITEM_BYTES_MAX} or less"
        );
        hints.push(Hint::wrong(table, detail));
    }
    Ok(hints)
}

/// In how many shards marks of this journal stand.
fn shown_shards(keys: &Keys, partitions: &[&str]) -> u32 {
    let shards = partitions.iter().filter_map(|partition| {
        let Some(Partition::Mark(_, _, shard)) = keys.parse(partition) else {
            return None;
        };
        Some(shard.saturating_add(1))
    });
    shards.max().unwrap_or(0)
}

/// The journal that a partition is of.
fn name_in(partition: &str) -> Option<&str> {
    let kinds = ["-P-", "-SH-", "-SL-"].into_iter();
    let ends = kinds.filter_map(|kind| partition.find(kind));
    partition.get(..ends.min()?)
}
