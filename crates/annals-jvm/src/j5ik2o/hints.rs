//! What settings would get wrong with a journal table of the `j5ik2o` layout.

use super::keys::{Chosen, Keys};
use super::tables;
use crate::settings::AnyLayout;
use annals::items::{Item, Items, Scan, TableSpec, Value};
use annals::layout::Hint;
use annals::store::Store;
use annals::{PersistenceId, Result};

/// How many rows are looked at.
const LOOKED_AT: u32 = 1_000;

pub(crate) async fn hints(
    store: &Store,
    settings: &AnyLayout,
    table: &TableSpec,
) -> Result<Vec<Hint>> {
    let section = &settings.j5ik2o.dynamo_db_journal;
    let chosen = Chosen {
        partition: section.partition_key_resolver_class_name,
        sort: section.sort_key_resolver_class_name,
        separator: &section.persistence_id_separator,
        shards: section.shard_count,
    };
    let keys = Keys::new(chosen.resolvers()?, tables::is_numbered(settings));
    let page = store.scan(table, Scan::whole().limit(LOOKED_AT)).await?;
    let (mut rows, mut others) = (0, 0);
    for item in &page.items {
        let Some((id, number)) = place_of(settings, item) else {
            continue;
        };
        rows += 1;
        let is_same = keys.key(&id, number).ok() == table.key_of(item).ok();
        others += u32::from(!is_same);
    }
    let detail = format!(
        "{others} of {rows} rows looked at stand under other keys than these resolvers give: they are found by the index alone, which lags, and new events go elsewhere; set partition-key-resolver-class-name, sort-key-resolver-class-name, persistence-id-separator and shard-count to what the JVM has"
    );
    Ok(match others {
        0 => Vec::new(),
        // Of another time, which the layout reads.
        others if others < rows => vec![Hint::advice(table, detail)],
        _ => vec![Hint::wrong(table, detail)],
    })
}

/// Id and number of a row that shows them.
fn place_of(settings: &AnyLayout, item: &Item) -> Option<(PersistenceId, u64)> {
    let columns = &settings.j5ik2o.dynamo_db_journal.columns_def;
    let id = item.get(&columns.persistence_id_column_name)?.as_str()?;
    let number = item.get(&columns.sequence_nr_column_name);
    Some((id.parse().ok()?, number.and_then(Value::as_u64)?))
}
