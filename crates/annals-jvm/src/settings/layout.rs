//! A layout chosen by name, with the settings of each.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use annals::items::{TableName, TableSpec};
use annals::journal::Journal;
use annals::layout::{AnnalsLayout, Hint, Layout, TableNames, Tables, wrong_keys};
use annals::settings::optional::empty_is_no_table;
use annals::snapshot::Snapshots;
use annals::state::States;
use annals::store::Store;
use annals::{Error, Result};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{AwsApiLimits, Format, Gaps, J5ik2oSettings, ReplayFilterSettings, SnapshotOrder};
use crate::{akka, j5ik2o};

/// The name of a layout.
///
/// ```
/// use annals_jvm::LayoutName;
///
/// let layout: LayoutName = "akka".parse()?;
/// assert_eq!((layout, layout.to_string()), (LayoutName::Akka, "akka".to_owned()));
/// assert!("cassandra".parse::<LayoutName>().is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LayoutName {
    /// The core's own.
    #[default]
    Annals,
    /// Of akka-persistence-dynamodb and pekko-persistence-dynamodb 1.x.
    Akka,
    /// Of j5ik2o's akka-persistence-dynamodb.
    J5ik2o,
}

impl LayoutName {
    /// Every layout.
    pub const ALL: [Self; 3] = [Self::Annals, Self::Akka, Self::J5ik2o];

    fn as_str(self) -> &'static str {
        match self {
            Self::Annals => "annals",
            Self::Akka => "akka",
            Self::J5ik2o => "j5ik2o",
        }
    }
}

impl FromStr for LayoutName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|layout| layout.as_str() == name);
        found.ok_or_else(|| {
            Error::invalid("no such layout; use annals, akka or j5ik2o").fact("layout", name)
        })
    }
}

impl fmt::Display for LayoutName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A layout chosen by name, with the settings of each: [`AnnalsLayout`], `akka` or `j5ik2o`.
///
/// ```
/// use annals::layout::Layout;
/// use annals_jvm::{AnyLayout, LayoutName};
///
/// let layout = AnyLayout {
///     layout: LayoutName::Akka,
///     journal_table: Some("orders".parse()?),
///     ..AnyLayout::default()
/// };
/// assert_eq!(layout.tables()?.journal.name().as_str(), "orders");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AnyLayout {
    /// Which layout.
    pub layout: LayoutName,
    /// The journal's table; empty: the layout's own name for it.
    #[serde(with = "empty_is_no_table")]
    pub journal_table: Option<TableName>,
    /// The snapshots' table; empty: the layout's own name for it.
    #[serde(with = "empty_is_no_table")]
    pub snapshot_table: Option<TableName>,
    /// The durable state's table; empty: the layout's own name for it.
    #[serde(with = "empty_is_no_table")]
    pub state_table: Option<TableName>,
    /// Distinguishes journals that share a table (layout `akka`).
    pub journal_name: String,
    /// The number of items over which the markers of an id are spread (layout `akka`). May be raised,
    /// never lowered.
    pub sequence_shards: u32,
    /// How many partitions a replay reads at once (layout `akka`).
    pub replay_parallelism: usize,
    /// The index that lists persistence ids, if the table has it (layout `akka`).
    pub persistence_ids_index_name: String,
    /// Which generation of event items is written (layout `akka`).
    pub format: Format,
    /// Which snapshot is the newest (layout `akka`).
    pub snapshot_order: SnapshotOrder,
    /// What a replay does about missing numbers (layouts `akka` and `j5ik2o`).
    pub gaps: Gaps,
    /// Whether the JVM deletes events of the same ids (layout `akka`). If so, deletions remove items
    /// as it does, every append makes another read before it is acknowledged, and `highest` also
    /// reads the low markers.
    pub jvm_deletes: bool,
    /// The filter for events of two writers in one history (layouts `akka` and `j5ik2o`).
    pub replay_filter: ReplayFilterSettings,
    /// Limits that are checked before a request is sent (layout `akka`).
    pub aws_api_limits: AwsApiLimits,
    /// The plugin's own sections (layout `j5ik2o`).
    pub j5ik2o: J5ik2oSettings,
}

impl Default for AnyLayout {
    fn default() -> Self {
        Self {
            layout: LayoutName::default(),
            journal_table: None,
            snapshot_table: None,
            state_table: None,
            journal_name: "journal".to_owned(),
            sequence_shards: 10,
            replay_parallelism: 10,
            persistence_ids_index_name: "persistence-ids-idx".to_owned(),
            format: Format::default(),
            snapshot_order: SnapshotOrder::default(),
            gaps: Gaps::default(),
            jvm_deletes: false,
            replay_filter: ReplayFilterSettings::default(),
            aws_api_limits: AwsApiLimits::default(),
            j5ik2o: J5ik2oSettings::default(),
        }
    }
}

impl AnyLayout {
    /// This layout with all table names set, including defaults.
    ///
    /// ```
    /// use annals_jvm::AnyLayout;
    ///
    /// let layout = AnyLayout::default().with_table_names()?;
    /// assert_eq!(layout.journal_table, Some("annals-journal".parse()?));
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Layout::tables`].
    pub fn with_table_names(&self) -> Result<Self> {
        let tables = self.tables()?;
        Ok(Self {
            journal_table: Some(tables.journal.name().clone()),
            snapshot_table: Some(tables.snapshot.name().clone()),
            state_table: tables.state.map(|table| table.name().clone()),
            ..self.clone()
        })
    }

    /// Hints about settings that would misread the layout's tables, given their descriptions
    /// ([`Items::describe_table`](annals::items::Items::describe_table)). Missing tables have no
    /// hints. Reads at most a page of the journal and of the state table.
    ///
    /// ```
    /// use annals::layout::Layout;
    /// use annals::memory::Memory;
    /// use annals::store::Store;
    /// use annals_jvm::{AnyLayout, LayoutName};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> annals::Result<()> {
    /// let (store, mut layout) = (Store::new(Memory::new()), AnyLayout::default());
    /// let tables: Vec<_> = layout.tables()?.all().cloned().collect();
    /// layout.tables()?.create_missing(&store).await?;
    /// assert_eq!(layout.hints(&store, &tables).await?, []);
    ///
    /// // The same tables, opened with another layout.
    /// layout.layout = LayoutName::Akka;
    /// layout.journal_table = Some("annals-journal".parse()?);
    /// let found = layout.hints(&store, &tables).await?;
    /// assert!(found[0].is_wrong && found[0].detail.contains("set layout to annals"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the store fails.
    pub async fn hints(&self, store: &Store, found: &[TableSpec]) -> Result<Vec<Hint>> {
        let others = LayoutName::ALL.map(|layout| Self {
            layout,
            journal_table: None,
            snapshot_table: None,
            state_table: None,
            ..self.clone()
        });
        let others = others.each_ref().map(|other| other as &dyn Layout);
        let mut hints = wrong_keys(self, &others, found)?;
        let Tables { journal, state, .. } = self.tables()?;
        let find = |table: &TableSpec| {
            let is_it =
                |found: &&TableSpec| found.name() == table.name() && found.key() == table.key();
            found.iter().find(is_it)
        };
        if let Some(found) = find(&journal) {
            hints.extend(match self.layout {
                LayoutName::Annals => Vec::new(),
                LayoutName::Akka => akka::hints(store, self, found).await?,
                LayoutName::J5ik2o => j5ik2o::hints(store, self, found).await?,
            });
        }
        if let Some(found) = state.as_ref().and_then(find)
            && self.layout == LayoutName::J5ik2o
        {
            hints.extend(j5ik2o::state_hints(store, self, found).await?);
        }
        Ok(hints)
    }

    fn annals(&self) -> AnnalsLayout {
        let mut names = TableNames::default();
        names.journal = self.journal_table.clone();
        names.snapshot = self.snapshot_table.clone();
        names.state = self.state_table.clone();
        AnnalsLayout::new(names)
    }
}

/// The name that is set, or the layout's default.
pub(crate) fn name_or(set: Option<&TableName>, own: &str) -> Result<TableName> {
    set.map_or_else(|| own.parse(), |name| Ok(name.clone()))
}

#[async_trait]
impl Layout for AnyLayout {
    fn name(&self) -> &'static str {
        self.layout.as_str()
    }

    fn tables(&self) -> Result<Tables> {
        match self.layout {
            LayoutName::Annals => self.annals().tables(),
            LayoutName::Akka => akka::tables(self)?.distinct(),
            LayoutName::J5ik2o => j5ik2o::tables(self)?.distinct(),
        }
    }

    async fn journal(&self, store: &Store) -> Result<Journal> {
        match self.layout {
            LayoutName::Annals => self.annals().journal(store).await,
            LayoutName::Akka => {
                let layout = akka::AkkaJournal::open(store, self).await?;
                Ok(Journal::new(Arc::new(layout), store))
            }
            LayoutName::J5ik2o => {
                let layout = j5ik2o::J5ik2oJournal::open(store, self)?;
                Ok(Journal::new(Arc::new(layout), store))
            }
        }
    }

    fn snapshots(&self, store: &Store) -> Result<Snapshots> {
        match self.layout {
            LayoutName::Annals => self.annals().snapshots(store),
            LayoutName::Akka => {
                let layout = akka::AkkaSnapshots::new(store, self)?;
                Ok(Snapshots::new(Arc::new(layout), store))
            }
            LayoutName::J5ik2o => {
                let layout = j5ik2o::J5ik2oSnapshots::open(store, self)?;
                Ok(Snapshots::new(Arc::new(layout), store))
            }
        }
    }

    fn states(&self, store: &Store) -> Result<States> {
        match self.layout {
            LayoutName::Annals => self.annals().states(store),
            LayoutName::Akka => Err(Error::invalid(
                "this layout has no durable state; choose annals or j5ik2o",
            )
            .fact("layout", "akka")),
            LayoutName::J5ik2o => {
                let layout = j5ik2o::J5ik2oStates::open(store, self)?;
                Ok(States::new(Arc::new(layout), store))
            }
        }
    }
}
