//! Layouts: how events become items and back. The only code that knows attribute names.

mod akka;
mod annals;
mod hints;
pub mod j5ik2o;
mod jvm;
mod known;

pub use akka::{AkkaJournal, AkkaSnapshots};
pub use annals::{AnnalsJournal, AnnalsSnapshots, AnnalsStates};
pub use hints::{Hint, hints};

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::items::{TableName, TableSpec};
use crate::settings::Settings;
use crate::{Error, Result};

/// Whose tables are read and written.
///
/// ```
/// use annals::layout::Layout;
/// use annals::settings::Settings;
///
/// let tables = Layout::Annals.tables(&Settings::default())?;
/// assert_eq!(tables.journal.name().as_str(), "annals-journal");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Our own.
    #[default]
    Annals,
    /// akka-persistence-dynamodb 1.x and pekko-persistence-dynamodb.
    Akka,
    /// j5ik2o's akka-persistence-dynamodb.
    J5ik2o,
}

/// The tables of a layout.
///
/// ```
/// use annals::items::Items;
/// use annals::memory::Memory;
/// use annals::settings::Settings;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let settings = Settings::default();
/// let tables = settings.layout.tables(&settings)?;
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
    /// Durable state; the `akka` layout has none.
    pub state: Option<TableSpec>,
}

impl Tables {
    /// Every table there is.
    pub fn all(&self) -> impl Iterator<Item = &TableSpec> {
        [&self.journal, &self.snapshot]
            .into_iter()
            .chain(&self.state)
    }
}

impl Layout {
    /// Every layout there is.
    pub const ALL: [Self; 3] = [Self::Annals, Self::Akka, Self::J5ik2o];

    /// The tables of this layout under the names the settings give them.
    ///
    /// # Errors
    /// `Invalid` where two tables have one name, or the settings name a table that the layout
    /// does not have.
    pub fn tables(self, settings: &Settings) -> Result<Tables> {
        let tables = match self {
            Self::Annals => annals::tables(settings)?,
            Self::Akka => akka::tables(settings)?,
            Self::J5ik2o => j5ik2o::tables(settings)?,
        };
        let mut names: Vec<_> = tables.all().map(TableSpec::name).collect();
        names.sort_unstable();
        match names.windows(2).find_map(|pair| match pair {
            [a, b] if a == b => Some(a),
            _ => None,
        }) {
            None => Ok(tables),
            Some(name) => Err(Error::invalid(format!(
                "two tables have one name; set journal-table, snapshot-table and state-table apart. name=`{name}`"
            ))),
        }
    }
}

/// The name that is set, or the layout's own.
fn name_or(set: Option<&TableName>, own: &str) -> Result<TableName> {
    set.map_or_else(|| own.parse(), |name| Ok(name.clone()))
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL
            .into_iter()
            .find(|layout| layout.to_string() == name);
        found.ok_or_else(|| {
            Error::invalid(format!(
                "no such layout; there are annals, akka and j5ik2o. layout=`{name}`"
            ))
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annals => "annals",
            Self::Akka => "akka",
            Self::J5ik2o => "j5ik2o",
        })
    }
}
