//! `annals.toml`: every setting of every crate, in one file.
//!
//! Guarantees: every key is optional, and an unknown key is refused. Holds no secret: credentials
//! come from AWS's own chain.

use std::path::PathBuf;

use annals::Result;
use annals::items::TableName;
use annals::layout::{Layout, Tables};
use annals::settings::optional::{empty_is_no_table, empty_is_none};
use annals::settings::{EmbeddedSettings, LogSettings};
use annals_aws::{AwsClientSettings, AwsSettings, KinesisSettings};
use annals_jvm::settings::{
    AwsApiLimits, Format, Gaps, J5ik2oSettings, ReplayFilterSettings, SnapshotOrder,
};
use annals_jvm::{AnyLayout, LayoutName};
use serde::{Deserialize, Serialize};

/// Everything that can be set, as `annals.toml` has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// Where items are kept.
    pub(crate) store: StoreKind,
    /// How events become items.
    pub(crate) layout: LayoutName,
    /// The folder of the embedded store.
    pub(crate) data: PathBuf,
    /// The address of DynamoDB; empty: the region's own.
    #[serde(with = "empty_is_none")]
    pub(crate) endpoint: Option<String>,
    /// The AWS region; empty: from AWS's own chain.
    #[serde(with = "empty_is_none")]
    pub(crate) region: Option<String>,
    /// The AWS profile; empty: from AWS's own chain.
    #[serde(with = "empty_is_none")]
    pub(crate) profile: Option<String>,
    /// The journal's table; empty: the layout's own name for it.
    #[serde(with = "empty_is_no_table")]
    pub(crate) journal_table: Option<TableName>,
    /// The snapshots' table; empty: the layout's own name for it.
    #[serde(with = "empty_is_no_table")]
    pub(crate) snapshot_table: Option<TableName>,
    /// The durable state's table; empty: the layout's own name for it.
    #[serde(with = "empty_is_no_table")]
    pub(crate) state_table: Option<TableName>,
    /// What journals that share a table are told apart by (layout `akka`).
    pub(crate) journal_name: String,
    /// Over how many items the marks of an id are spread (layout `akka`). May be raised, never
    /// lowered.
    pub(crate) sequence_shards: u32,
    /// How many partitions a replay reads at once (layout `akka`).
    pub(crate) replay_parallelism: usize,
    /// The index that lists persistence ids, where the table has it (layout `akka`).
    pub(crate) persistence_ids_index_name: String,
    /// Which generation of event items is written (layout `akka`).
    pub(crate) format: Format,
    /// Which snapshot is the newest (layout `akka`).
    pub(crate) snapshot_order: SnapshotOrder,
    /// What a replay does where numbers are missing (layouts `akka` and `j5ik2o`).
    pub(crate) gaps: Gaps,
    /// Whether the JVM side deletes events of the same ids (layout `akka`). Then deletions remove
    /// items as it does, every append looks once more before it is acknowledged, and the highest
    /// number is not told without the low marks.
    pub(crate) jvm_deletes: bool,
    /// Events of two writers in one history (layouts `akka` and `j5ik2o`).
    pub(crate) replay_filter: ReplayFilterSettings,
    /// Limits that are checked before DynamoDB would (layout `akka`).
    pub(crate) aws_api_limits: AwsApiLimits,
    /// The plugin's own sections (layout `j5ik2o`).
    pub(crate) j5ik2o: J5ik2oSettings,
    /// The time-ordered log.
    pub(crate) log: LogSettings,
    /// Streams of Kinesis.
    pub(crate) kinesis: KinesisSettings,
    /// The embedded store.
    pub(crate) embedded: EmbeddedSettings,
    /// The client of DynamoDB.
    pub(crate) aws_client_config: AwsClientSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: StoreKind::Embedded,
            layout: LayoutName::Annals,
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
    /// The layout, with its settings.
    pub(crate) fn layout(&self) -> AnyLayout {
        AnyLayout {
            layout: self.layout,
            journal_table: self.journal_table.clone(),
            snapshot_table: self.snapshot_table.clone(),
            state_table: self.state_table.clone(),
            journal_name: self.journal_name.clone(),
            sequence_shards: self.sequence_shards,
            replay_parallelism: self.replay_parallelism,
            persistence_ids_index_name: self.persistence_ids_index_name.clone(),
            format: self.format,
            snapshot_order: self.snapshot_order,
            gaps: self.gaps,
            jvm_deletes: self.jvm_deletes,
            replay_filter: self.replay_filter,
            aws_api_limits: self.aws_api_limits,
            j5ik2o: self.j5ik2o.clone(),
        }
    }

    /// The layout's tables.
    ///
    /// # Errors
    /// As [`Layout::tables`].
    pub(crate) fn tables(&self) -> Result<Tables> {
        self.layout().tables()
    }

    /// Where DynamoDB and Kinesis are.
    pub(crate) fn aws(&self) -> AwsSettings {
        AwsSettings {
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            profile: self.profile.clone(),
            kinesis: self.kinesis.clone(),
            aws_client_config: self.aws_client_config.clone(),
        }
    }

    /// These settings with the names that their tables have, also where those are the layout's own.
    ///
    /// # Errors
    /// As [`Layout::tables`].
    pub(crate) fn with_table_names(&self) -> Result<Self> {
        let named = self.layout().with_table_names()?;
        Ok(Self {
            journal_table: named.journal_table,
            snapshot_table: named.snapshot_table,
            state_table: named.state_table,
            ..self.clone()
        })
    }
}

/// Where items are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    /// In a folder of this machine.
    Embedded,
    /// In DynamoDB, or what speaks like it.
    DynamoDb,
}
