//! Layouts: how events, snapshots and durable state are stored as items.
//!
//! Guarantees: only a layout knows attribute names and keys. The core knows the trait [`Layout`] and
//! its own [`AnnalsLayout`]; the caller passes in others, such as those of the JVM plugins in the
//! crate `annals-jvm`. [`support`] has helpers for authors of layouts.

mod annals;
mod hints;
pub mod support;

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
#[non_exhaustive]
pub struct Tables {
    /// Events.
    pub journal: TableSpec,
    /// Snapshots.
    pub snapshot: TableSpec,
    /// Durable state, if the layout supports it.
    pub state: Option<TableSpec>,
}

impl Tables {
    /// The tables of a layout without durable state, which is set afterwards if it has it.
    pub fn new(journal: TableSpec, snapshot: TableSpec) -> Self {
        Self {
            journal,
            snapshot,
            state: None,
        }
    }

    /// Every table.
    pub fn all(&self) -> impl Iterator<Item = &TableSpec> {
        [&self.journal, &self.snapshot]
            .into_iter()
            .chain(&self.state)
    }

    /// Checks that no two tables have the same name.
    ///
    /// # Errors
    /// `Invalid` if two have.
    pub fn distinct(self) -> Result<Self> {
        let mut names: Vec<_> = self.all().map(TableSpec::name).collect();
        names.sort_unstable();
        match names.windows(2).find_map(|pair| match pair {
            [a, b] if a == b => Some(a),
            _ => None,
        }) {
            None => Ok(self),
            Some(name) => Err(Error::invalid(
                "two tables have the same name; give journal-table, snapshot-table and state-table different names",
            )
            .fact("name", name)),
        }
    }

    /// Creates the missing tables.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn create_missing(&self, store: &Store) -> Result<()> {
        for table in self.all() {
            if store.describe_table(table.name()).await?.is_none() {
                match store.create_table(table, Default::default()).await {
                    // Another process created it.
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }
}

/// The names of a layout's tables; `None` is the layout's default.
///
/// ```
/// use annals::layout::{AnnalsLayout, Layout, TableNames};
///
/// let names = TableNames::default().journal("orders".parse()?);
/// let tables = AnnalsLayout::new(names).tables()?;
/// assert_eq!(tables.journal.name().as_str(), "orders");
/// assert_eq!(tables.snapshot.name().as_str(), "annals-snapshot");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableNames {
    /// The table of the journal.
    pub journal: Option<TableName>,
    /// The table of snapshots.
    pub snapshot: Option<TableName>,
    /// The table of durable state.
    pub state: Option<TableName>,
}

impl TableNames {
    /// Sets the table of the journal.
    #[must_use]
    pub fn journal(mut self, name: TableName) -> Self {
        self.journal = Some(name);
        self
    }

    /// Sets the table of snapshots.
    #[must_use]
    pub fn snapshot(mut self, name: TableName) -> Self {
        self.snapshot = Some(name);
        self
    }

    /// Sets the table of durable state.
    #[must_use]
    pub fn state(mut self, name: TableName) -> Self {
        self.state = Some(name);
        self
    }
}

/// How events, snapshots and durable state are stored as items, and in which tables.
///
/// [`Annals::open`](crate::Annals::open) takes any layout. See [`AnnalsLayout`] for an example.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layout",
    label = "`annals::layout::Layout` is not implemented for `{Self}`",
    note = "the layouts are `annals::layout::AnnalsLayout` and those of the crate `annals-jvm`",
    note = "for a layout of your own, implement `Layout`"
)]
pub trait Layout: fmt::Debug + Send + Sync + 'static {
    /// The name, as in the setting `layout`.
    fn name(&self) -> &'static str;

    /// The layout's tables.
    ///
    /// # Errors
    /// `Invalid` if two tables have the same name, or a setting does not fit the layout.
    fn tables(&self) -> Result<Tables>;

    /// Opens the journal.
    ///
    /// # Errors
    /// `Invalid` if the table is missing or was created with other settings.
    async fn journal(&self, store: &Store) -> Result<Journal>;

    /// Opens the snapshots.
    ///
    /// # Errors
    /// `Invalid` if a setting does not fit the layout.
    fn snapshots(&self, store: &Store) -> Result<Snapshots>;

    /// Opens the durable state.
    ///
    /// # Errors
    /// `Invalid` if the layout has none ([`Tables::state`]), or a setting does not fit.
    fn states(&self, store: &Store) -> Result<States>;
}
