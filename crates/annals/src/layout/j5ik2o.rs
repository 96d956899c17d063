//! The tables of j5ik2o's akka-persistence-dynamodb.

use super::{Tables, name_or};
use crate::Result;
use crate::items::{IndexSpec, KeyAttribute, KeySchema, TableSpec};
use crate::settings::Settings;

pub(super) fn tables(settings: &Settings) -> Result<Tables> {
    let key = KeySchema::new(KeyAttribute::text("pkey")).sorted(KeyAttribute::text("skey"));
    // Every read of the plugin goes through such an index.
    let rows = |name: &str| -> Result<IndexSpec> {
        let by_id = KeySchema::new(KeyAttribute::text("persistence-id"))
            .sorted(KeyAttribute::number("sequence-nr"));
        Ok(IndexSpec::global(name.parse()?, by_id))
    };
    let journal = name_or(settings.journal_table.as_ref(), "Journal")?;
    let snapshot = name_or(settings.snapshot_table.as_ref(), "Snapshot")?;
    let state = name_or(settings.state_table.as_ref(), "State")?;
    Ok(Tables {
        journal: TableSpec::new(journal, key.clone())?.with_index(rows("GetJournalRowsIndex")?)?,
        snapshot: TableSpec::new(snapshot, key.clone())?
            .with_index(rows("GetSnapshotRowsIndex")?)?,
        state: Some(TableSpec::new(state, key)?),
    })
}
