//! Hints: what settings would get wrong with tables as they are.
//!
//! Promises: each says what would go wrong and what to set. Reads a record and one page of a table,
//! never more.
//! Never: changes anything.

use super::{Layout, akka, j5ik2o};
use crate::Result;
use crate::items::{Items, TableName, TableSpec};
use crate::settings::Settings;

/// Something that settings get wrong with a table, or could do better.
///
/// ```
/// use annals::items::Items;
/// use annals::layout::{Hint, Layout, hints};
/// use annals::memory::Memory;
/// use annals::settings::Settings;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let (items, mut settings) = (Memory::new(), Settings::default());
/// let tables: Vec<_> = settings.layout.tables(&settings)?.all().cloned().collect();
/// for table in &tables {
///     items.create_table(table, Default::default()).await?;
/// }
/// assert_eq!(hints(&items, &settings, &tables).await?, []);
///
/// // The same tables, taken for those of another layout.
/// settings.layout = Layout::Akka;
/// settings.journal_table = Some("annals-journal".parse()?);
/// let found: Vec<Hint> = hints(&items, &settings, &tables).await?;
/// assert!(found[0].is_wrong && found[0].detail.contains("set layout to annals"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// With which table.
    pub table: TableName,
    /// Whether something goes wrong; otherwise it is slower or dearer than it could be.
    pub is_wrong: bool,
    /// What, and what to set.
    pub detail: String,
}

impl Hint {
    pub(crate) fn wrong(table: &TableSpec, detail: String) -> Self {
        Self {
            table: table.name().clone(),
            is_wrong: true,
            detail,
        }
    }

    pub(crate) fn advice(table: &TableSpec, detail: String) -> Self {
        Self {
            is_wrong: false,
            ..Self::wrong(table, detail)
        }
    }
}

/// What the settings would get wrong with the tables of their layout, which were `found` so
/// ([`Items::describe_table`]). Tables that are missing have no hints.
///
/// # Errors
/// As the store fails.
pub async fn hints(
    items: &dyn Items,
    settings: &Settings,
    found: &[TableSpec],
) -> Result<Vec<Hint>> {
    let tables = settings.layout.tables(settings)?;
    let mut hints = Vec::new();
    for table in tables.all() {
        let Some(found) = found.iter().find(|found| found.name() == table.name()) else {
            continue;
        };
        if let Some(other) = made_for(table, found, settings) {
            let detail = format!(
                "its keys are those of layout {other}: nothing in it can be read; set layout to {other}, or another name"
            );
            hints.push(Hint::wrong(table, detail));
        }
        if found.key() != table.key() || *table != tables.journal {
            continue;
        }
        hints.extend(match settings.layout {
            Layout::Annals => Vec::new(),
            Layout::Akka => akka::hints(items, settings, (table, found)).await?,
            Layout::J5ik2o => j5ik2o::hints(items, settings, table).await?,
        });
    }
    Ok(hints)
}

/// The layout whose keys a table has that has not this one's.
fn made_for(table: &TableSpec, found: &TableSpec, settings: &Settings) -> Option<Layout> {
    if found.key() == table.key() {
        return None;
    }
    let plain = Settings {
        journal_table: None,
        snapshot_table: None,
        state_table: None,
        ..settings.clone()
    };
    let others = Layout::ALL.into_iter();
    others.into_iter().find(|other| {
        let tables = other.tables(&plain);
        tables.is_ok_and(|tables| tables.all().any(|table| table.key() == found.key()))
    })
}
