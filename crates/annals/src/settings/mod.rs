//! Settings: plain data whose default runs.
//!
//! Promises: every key is optional, an unknown key is refused, and the names are those of the JVM
//! plugins where the meaning is the same.
//! Never: holds a secret. Credentials come from AWS's own chain.

mod akka;
mod client;
mod j5ik2o;
mod kinesis;
mod log;
mod optional;

pub use akka::{AwsApiLimits, Format, Gaps, ReplayFilterMode, ReplayFilterSettings, SnapshotOrder};
pub use client::AwsClientSettings;
pub use j5ik2o::{
    J5ik2oJournal, J5ik2oSettings, J5ik2oSnapshot, J5ik2oState, JournalColumns, PartitionKeyKind,
    SnapshotColumns, SortKeyKind, StateColumns, StateKeyKind, StoredRevision, TableNameKind,
};
pub use kinesis::KinesisSettings;
pub use log::LogSettings;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use self::optional::{empty_is_no_table, empty_is_none};
use crate::Result;
use crate::items::TableName;
use crate::layout::Layout;

/// Everything that can be set, as `annals.toml` has it.
///
/// ```
/// use annals::settings::{Settings, StoreKind};
///
/// let settings = Settings::default();
/// assert_eq!(settings.store, StoreKind::Embedded);
/// assert_eq!(settings.aws_client_config.max_connections, 50);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where items are kept.
    pub store: StoreKind,
    /// How events become items.
    pub layout: Layout,
    /// The folder of the embedded store.
    pub data: PathBuf,
    /// The address of DynamoDB; empty: the region's own.
    #[serde(with = "empty_is_none")]
    pub endpoint: Option<String>,
    /// The AWS region; empty: from AWS's own chain.
    #[serde(with = "empty_is_none")]
    pub region: Option<String>,
    /// The AWS profile; empty: from AWS's own chain.
    #[serde(with = "empty_is_none")]
    pub profile: Option<String>,
    /// The journal's table; empty: the layout's own name for it.
    #[serde(with = "empty_is_no_table")]
    pub journal_table: Option<TableName>,
    /// The snapshots' table; empty: the layout's own name for it.
    #[serde(with = "empty_is_no_table")]
    pub snapshot_table: Option<TableName>,
    /// The durable state's table; empty: the layout's own name for it.
    #[serde(with = "empty_is_no_table")]
    pub state_table: Option<TableName>,
    /// What journals that share a table are told apart by (layout `akka`).
    pub journal_name: String,
    /// Over how many items the marks of an id are spread (layout `akka`). May be raised, never
    /// lowered.
    pub sequence_shards: u32,
    /// How many partitions a replay reads at once (layout `akka`).
    pub replay_parallelism: usize,
    /// The index that lists persistence ids, where the table has it (layout `akka`).
    pub persistence_ids_index_name: String,
    /// Which generation of event items is written (layout `akka`).
    pub format: Format,
    /// Which snapshot is the newest (layout `akka`).
    pub snapshot_order: SnapshotOrder,
    /// What a replay does where numbers are missing (layouts `akka` and `j5ik2o`).
    pub gaps: Gaps,
    /// Whether the JVM side deletes events of the same ids (layout `akka`). Then deletions remove
    /// items as it does, every append looks once more before it is acknowledged, and the highest
    /// number is not told without the low marks.
    pub jvm_deletes: bool,
    /// Events of two writers in one history (layouts `akka` and `j5ik2o`).
    pub replay_filter: ReplayFilterSettings,
    /// Limits that are checked before DynamoDB would (layout `akka`).
    pub aws_api_limits: AwsApiLimits,
    /// The plugin's own sections (layout `j5ik2o`).
    pub j5ik2o: J5ik2oSettings,
    /// The time-ordered log.
    pub log: LogSettings,
    /// Streams of Kinesis.
    pub kinesis: KinesisSettings,
    /// The embedded store.
    pub embedded: EmbeddedSettings,
    /// The client of DynamoDB.
    pub aws_client_config: AwsClientSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: StoreKind::Embedded,
            layout: Layout::Annals,
            data: PathBuf::from("annals-data"),
            endpoint: None,
            region: None,
            profile: None,
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
            log: LogSettings::default(),
            kinesis: KinesisSettings::default(),
            embedded: EmbeddedSettings::default(),
            aws_client_config: AwsClientSettings::default(),
        }
    }
}

impl Settings {
    /// These settings with the names that their tables have, also where those are the layout's own.
    ///
    /// ```
    /// use annals::settings::Settings;
    ///
    /// let settings = Settings::default().with_table_names()?;
    /// assert_eq!(settings.journal_table, Some("annals-journal".parse()?));
    /// # Ok::<(), annals::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Layout::tables`].
    pub fn with_table_names(&self) -> Result<Self> {
        let tables = self.layout.tables(self)?;
        Ok(Self {
            journal_table: Some(tables.journal.name().clone()),
            snapshot_table: Some(tables.snapshot.name().clone()),
            state_table: tables.state.map(|table| table.name().clone()),
            ..self.clone()
        })
    }
}

/// Where items are kept.
///
/// ```
/// use annals::settings::{StoreKind, Settings};
///
/// let settings = Settings { store: StoreKind::DynamoDb, ..Settings::default() };
/// let in_file: Settings = serde_json::from_str(r#"{"store":"dynamodb"}"#)?;
/// assert_eq!(in_file, settings);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// In a folder of this machine.
    Embedded,
    /// In DynamoDB, or what speaks like it.
    DynamoDb,
}

/// How the embedded store behaves.
///
/// ```
/// use annals::embedded::Embedded;
/// use annals::settings::EmbeddedSettings;
///
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path().join("data");
/// let settings = EmbeddedSettings { cache_mib: 16, ..EmbeddedSettings::default() };
/// let items = Embedded::open(&folder, &settings)?;
/// assert_eq!(settings.reserve_mib, 64);
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct EmbeddedSettings {
    /// Writes are refused while the disk has fewer MiB free. Smaller: less room for the engine
    /// to compact and recover in. Larger: disk that stays unused.
    pub reserve_mib: u64,
    /// How much memory the engine may use to keep blocks it has read. Smaller: more reads reach
    /// the disk. Larger: less memory for the application.
    pub cache_mib: u64,
}

impl Default for EmbeddedSettings {
    fn default() -> Self {
        Self {
            reserve_mib: 64,
            cache_mib: 64,
        }
    }
}
