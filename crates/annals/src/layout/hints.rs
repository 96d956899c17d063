//! Hints about settings that do not fit the tables in a store.
//!
//! Guarantees: each hint says what would go wrong and what to set. Nothing is changed.

use super::Layout;
use crate::Result;
use crate::items::{TableName, TableSpec};

/// A setting that does not fit a table, or could be better.
///
/// See [`wrong_keys`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hint {
    /// The table.
    pub table: TableName,
    /// Whether the setting is wrong; otherwise it is only slower or more expensive.
    pub is_wrong: bool,
    /// The problem, and what to set.
    pub detail: String,
}

impl Hint {
    /// A wrong setting.
    pub fn wrong(table: &TableSpec, detail: impl Into<String>) -> Self {
        Self {
            table: table.name().clone(),
            is_wrong: true,
            detail: detail.into(),
        }
    }

    /// A setting that could be faster or cheaper.
    pub fn advice(table: &TableSpec, detail: impl Into<String>) -> Self {
        Self {
            is_wrong: false,
            ..Self::wrong(table, detail)
        }
    }
}

/// Hints for the tables `found` in the store
/// ([`Items::describe_table`](crate::items::Items::describe_table)) that have the keys of another
/// layout, one of `others`.
///
/// ```
/// use annals::layout::{AnnalsLayout, Layout, TableNames, wrong_keys};
///
/// let layout = AnnalsLayout::default();
/// let tables: Vec<_> = layout.tables()?.all().cloned().collect();
/// assert_eq!(wrong_keys(&layout, &[], &tables)?, []);
/// # Ok::<(), annals::Error>(())
/// ```
///
/// # Errors
/// As [`Layout::tables`].
pub fn wrong_keys(
    layout: &dyn Layout,
    others: &[&dyn Layout],
    found: &[TableSpec],
) -> Result<Vec<Hint>> {
    let mut hints = Vec::new();
    for table in layout.tables()?.all() {
        let found = found.iter().find(|found| found.name() == table.name());
        let Some(found) = found.filter(|found| found.key() != table.key()) else {
            continue;
        };
        let has_keys = |other: &&&dyn Layout| {
            let tables = other.tables();
            tables.is_ok_and(|tables| tables.all().any(|table| table.key() == found.key()))
        };
        if let Some(other) = others.iter().find(has_keys) {
            let other = other.name();
            hints.push(Hint::wrong(
                table,
                format!(
                    "the table has the keys of layout {other} and cannot be read; set layout to {other}, or use another table"
                ),
            ));
        }
    }
    Ok(hints)
}
