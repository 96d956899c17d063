//! The tables and their attributes, under the names of the settings.

use std::collections::HashSet;

use crate::settings::{AnyLayout, name_or};
use annals::items::{IndexSpec, KeyAttribute, KeySchema, TableName, TableSpec};
use annals::layout::Tables;
use annals::{Error, Result};

/// Attributes of ours, whose names no column may have.
const OURS: [&str; 15] = [
    "annals-id",
    "causation",
    "closed",
    "cnt",
    "correlation",
    "done",
    "high",
    "idx",
    "low",
    "metadata",
    "number",
    "revision",
    "schema",
    "type",
    "writer",
];

pub(crate) fn tables(settings: &AnyLayout) -> Result<Tables> {
    let j5ik2o = &settings.j5ik2o;
    let journal = &j5ik2o.dynamo_db_journal;
    let snapshot = &j5ik2o.dynamo_db_snapshot;
    let state = &j5ik2o.dynamo_db_state;
    check(
        "journal",
        journal.columns_def.names(),
        is_numbered(settings),
    )?;
    check("snapshot", snapshot.columns_def.names(), false)?;
    check("state", state.columns_def.names(), false)?;
    let name = |set: &Option<TableName>, section: &Option<TableName>, own| {
        name_or(set.as_ref().or(section.as_ref()), own)
    };
    let journal = name(&settings.journal_table, &journal.table_name, "Journal")?;
    let snapshot = name(&settings.snapshot_table, &snapshot.table_name, "Snapshot")?;
    let state = name(&settings.state_table, &state.table_name, "State")?;
    let mut tables = Tables::new(
        journal_table(journal, settings)?,
        snapshot_table(snapshot, settings)?,
    );
    tables.state = Some(state_table(state, settings)?);
    Ok(tables)
}

/// Whether the journal's sort key is the sequence number itself.
pub(super) fn is_numbered(settings: &AnyLayout) -> bool {
    let columns = &settings.j5ik2o.dynamo_db_journal.columns_def;
    columns.sort_key_column_name == columns.sequence_nr_column_name
}

/// The index that every read of the plugin uses.
fn rows(name: &str, id: &str, number: &str) -> Result<IndexSpec> {
    let by_id = KeySchema::new(KeyAttribute::text(id)).sorted(KeyAttribute::number(number));
    Ok(IndexSpec::global(name.parse()?, by_id))
}

fn journal_table(name: TableName, settings: &AnyLayout) -> Result<TableSpec> {
    let section = &settings.j5ik2o.dynamo_db_journal;
    let columns = &section.columns_def;
    let sort = match is_numbered(settings) {
        true => KeyAttribute::number(&columns.sort_key_column_name),
        false => KeyAttribute::text(&columns.sort_key_column_name),
    };
    let key = KeySchema::new(KeyAttribute::text(&columns.partition_key_column_name)).sorted(sort);
    TableSpec::new(name, key)?.with_index(rows(
        &section.get_journal_rows_index_name,
        &columns.persistence_id_column_name,
        &columns.sequence_nr_column_name,
    )?)
}

fn snapshot_table(name: TableName, settings: &AnyLayout) -> Result<TableSpec> {
    let section = &settings.j5ik2o.dynamo_db_snapshot;
    let columns = &section.columns_def;
    let (id, number) = (
        &columns.persistence_id_column_name,
        &columns.sequence_nr_column_name,
    );
    if section.legacy_table_format {
        let key = KeySchema::new(KeyAttribute::text(id)).sorted(KeyAttribute::number(number));
        return TableSpec::new(name, key);
    }
    let key = KeySchema::new(KeyAttribute::text(&columns.partition_key_column_name))
        .sorted(KeyAttribute::text(&columns.sort_key_column_name));
    let index = rows(&section.get_snapshot_rows_index_name, id, number)?;
    TableSpec::new(name, key)?.with_index(index)
}

/// The table of durable state of this name.
pub(super) fn state_table(name: TableName, settings: &AnyLayout) -> Result<TableSpec> {
    let columns = &settings.j5ik2o.dynamo_db_state.columns_def;
    let key = KeySchema::new(KeyAttribute::text(&columns.partition_key_column_name))
        .sorted(KeyAttribute::text(&columns.sort_key_column_name));
    TableSpec::new(name, key)
}

/// # Errors
/// `Invalid` if two attributes would have the same name.
fn check<'a>(section: &str, names: impl Iterator<Item = &'a str>, is_numbered: bool) -> Result<()> {
    let mut seen = HashSet::new();
    let mut shared = usize::from(is_numbered);
    for name in names {
        if name.is_empty() {
            return Err(Error::invalid("set a name for every column")
                .fact("section", format_args!("dynamo-db-{section}")));
        }
        if OURS.contains(&name) {
            return Err(Error::invalid(
                "the column name is reserved for an attribute of ours; choose another",
            )
            .fact("section", format_args!("dynamo-db-{section}"))
            .fact("column", name));
        }
        if !seen.insert(name) {
            match shared.checked_sub(1) {
                Some(left) => shared = left,
                None => {
                    return Err(Error::invalid(
                        "two columns have the same name; change columns-def",
                    )
                    .fact("section", format_args!("dynamo-db-{section}"))
                    .fact("column", name));
                }
            }
        }
    }
    Ok(())
}
