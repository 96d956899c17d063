//! Layouts: how events, snapshots and durable state become items.
//!
//! Guarantees: a layout is the only code that knows attribute names and keys. The core knows the
//! trait [`Layout`] and its own layout, [`AnnalsLayout`]; others (those of the JVM plugins, in the
//! crate `annals-jvm`) are passed in by the caller.

pub mod annals;
mod hints;
pub mod recent_cache;

use std::fmt;

use async_trait::async_trait;

use crate::items::{TableName, TableSpec};
use crate::journal::Journal;
use crate::snapshot::Snapshots;
use crate::state::States;
use crate::store::Store;
use crate::{Error, ErrorKind, Result};

pub use annals::AnnalsLayout;
pub use hints::{Hint, wrong_keys};

/// The tables of a layout.
///
/// ```
/// use annals::items::Items;
/// use annals::layout::{AnnalsLayout, Layout, Tables};
/// use annals::memory::Memory;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let tables: Tables = AnnalsLayout::default().tables()?;
/// let items = Memory::new();
/// for table in tables.all() {
///     items.create_table(table, Default::default()).await?;
/// }
/// assert_eq!(items.describe_table(tables.journal.name()).await?, Some(tables.journal));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Events.
    pub journal: TableSpec,
    /// Snapshots.
    pub snapshot: TableSpec,
    /// Durable state, where the layout has any.
    pub state: Option<TableSpec>,
}

impl Tables {
    /// Every table.
    pub fn all(&self) -> impl Iterator<Item = &TableSpec> {
        [&self.journal, &self.snapshot]
            .into_iter()
            .chain(&self.state)
    }

    /// These tables, if no two have the same name.
    ///
    /// # Errors
    /// `Invalid` otherwise.
    pub fn distinct(self) -> Result<Self> {
        let mut names: Vec<_> = self.all().map(TableSpec::name).collect();
        names.sort_unstable();
        match names.windows(2).find_map(|pair| match pair {
            [a, b] if a == b => Some(a),
            _ => None,
        }) {
            None => Ok(self),
            Some(name) => Err(Error::invalid(format!(
                "two tables have the same name; give journal-table, snapshot-table and state-table different names. name=`{name}`"
            ))),
        }
    }

    /// Creates the tables that are missing.
    ///
    /// # Errors
    /// As the store fails.
    pub async fn create_missing(&self, store: &Store) -> Result<()> {
        for table in self.all() {
            if store.describe_table(table.name()).await?.is_none() {
                match store.create_table(table, Default::default()).await {
                    // Another process was faster.
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }
}

/// Names of a layout's tables; `None` is the layout's own name.
///
/// ```
/// use annals::layout::{AnnalsLayout, Layout, TableNames};
///
/// let names = TableNames { journal: Some("orders".parse()?), ..TableNames::default() };
/// let tables = AnnalsLayout::new(names).tables()?;
/// assert_eq!(tables.journal.name().as_str(), "orders");
/// assert_eq!(tables.snapshot.name().as_str(), "annals-snapshot");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableNames {
    /// The journal's table.
    pub journal: Option<TableName>,
    /// The snapshots' table.
    pub snapshot: Option<TableName>,
    /// The durable state's table.
    pub state: Option<TableName>,
}

/// How events, snapshots and durable state become items, and the tables they are in.
///
/// See [`AnnalsLayout`] for the core's own, and [`Annals::open`](crate::Annals::open), which takes
/// any.
#[async_trait]
pub trait Layout: fmt::Debug + Send + Sync + 'static {
    /// The layout's name, as the setting `layout` has it.
    fn name(&self) -> &'static str;

    /// The layout's tables.
    ///
    /// # Errors
    /// `Invalid` where two tables have the same name, or a setting does not fit the layout.
    fn tables(&self) -> Result<Tables>;

    /// Opens the journal.
    ///
    /// # Errors
    /// `Invalid` where its table is missing, or was created for other settings.
    async fn journal(&self, store: &Store) -> Result<Journal>;

    /// Opens the snapshots.
    ///
    /// # Errors
    /// `Invalid` where a setting does not fit the layout.
    fn snapshots(&self, store: &Store) -> Result<Snapshots>;

    /// Opens the durable state.
    ///
    /// # Errors
    /// `Invalid` where the layout has none ([`Tables::state`]), or a setting does not fit it.
    fn states(&self, store: &Store) -> Result<States>;

    /// What the settings would get wrong with the journal's table, which was `found` so.
    ///
    /// # Errors
    /// As the store fails.
    async fn journal_hints(&self, store: &Store, found: &TableSpec) -> Result<Vec<Hint>> {
        let _ = (store, found);
        Ok(Vec::new())
    }
}
