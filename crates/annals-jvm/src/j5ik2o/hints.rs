//! Settings that would misread the tables of the `j5ik2o` layout.
//!
//! Reads at most a page of each table.

use super::keys::{Chosen, Keys};
use super::states::J5ik2oStates;
use super::tables;
use crate::settings::AnyLayout;
use annals::items::{Item, Scan, TableSpec, Value};
use annals::layout::Hint;
use annals::store::Store;
use annals::{PersistenceId, Result};

/// How many items are read.
const SAMPLE: u32 = 1_000;

pub(crate) async fn hints(
    store: &Store,
    settings: &AnyLayout,
    table: &TableSpec,
) -> Result<Vec<Hint>> {
    let resolvers = Chosen::for_journal(settings).resolvers()?;
    let keys = Keys::new(resolvers, tables::is_numbered(settings));
    let page = store.scan(table, Scan::whole().limit(SAMPLE)).await?;
    let (mut rows, mut others) = (0, 0);
    for item in &page.items {
        let Some((id, number)) = event_in(settings, item) else {
            continue;
        };
        rows += 1;
        let is_same = keys.key(&id, number).ok() == table.key_of(item).ok();
        others += u32::from(!is_same);
    }
    let detail = format!(
        "{others} of {rows} rows are stored under other keys than these resolvers give: only the index finds them, which lags, and new events get other keys; set partition-key-resolver-class-name, sort-key-resolver-class-name, persistence-id-separator and shard-count to what the JVM has"
    );
    Ok(match others {
        0 => Vec::new(),
        // Written with older settings, which the layout reads.
        others if others < rows => vec![Hint::advice(table, detail)],
        _ => vec![Hint::wrong(table, detail)],
    })
}

/// The same for the state table. A value under another key is never found, so one is enough.
pub(crate) async fn state_hints(
    store: &Store,
    settings: &AnyLayout,
    table: &TableSpec,
) -> Result<Vec<Hint>> {
    let states = J5ik2oStates::open(store, settings)?;
    let page = store.scan(table, Scan::whole().limit(SAMPLE)).await?;
    states.hints(table, &page.items)
}

/// Id and number of an event, if its item has them.
fn event_in(settings: &AnyLayout, item: &Item) -> Option<(PersistenceId, u64)> {
    let columns = &settings.j5ik2o.dynamo_db_journal.columns_def;
    let id = item.get(&columns.persistence_id_column_name)?.as_str()?;
    let number = item.get(&columns.sequence_nr_column_name);
    Some((id.parse().ok()?, number.and_then(Value::as_u64)?))
}
