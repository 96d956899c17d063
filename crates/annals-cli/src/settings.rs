//! `annals.toml`: the settings of all crates in one file.
//!
//! Guarantees: every key is optional, and an unknown key is refused. Contains no secret: credentials
//! come from the AWS credential chain.

use std::path::PathBuf;

use annals::items::TableName;
use annals::layout::{Layout, Tables};
use annals::settings::optional::{empty_is_no_table, empty_is_none};
use annals::settings::{EmbeddedSettings, LogSettings};
use annals::{Error, Result};
use annals_aws::{AwsClientSettings, AwsSettings, KinesisSettings};
use annals_jvm::settings::{
    AwsApiLimits, Format, Gaps, J5ik2oSettings, ReplayFilterSettings, SnapshotOrder,
};
use annals_jvm::{AnyLayout, LayoutName};
use serde::{Deserialize, Serialize};

/// All settings, as in `annals.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// Where items are stored.
    pub(crate) store: StoreKind,
    /// How events become items.
    pub(crate) layout: LayoutName,
    /// The folder of the embedded store.
    pub(crate) data: PathBuf,
    /// The endpoint of DynamoDB; empty: the region's.
    #[serde(with = "empty_is_none")]
    pub(crate) endpoint: Option<String>,
    /// The AWS region; empty: from the environment or the profile.
    #[serde(with = "empty_is_none")]
    pub(crate) region: Option<String>,
    /// The AWS profile; empty: from the environment.
    #[serde(with = "empty_is_none")]
    pub(crate) profile: Option<String>,
    /// The table of events; empty: the layout's default.
    #[serde(with = "empty_is_no_table")]
    pub(crate) journal_table: Option<TableName>,
    /// The table of snapshots; empty: the layout's default.
    #[serde(with = "empty_is_no_table")]
    pub(crate) snapshot_table: Option<TableName>,
    /// The table of durable state; empty: the layout's default.
    #[serde(with = "empty_is_no_table")]
    pub(crate) state_table: Option<TableName>,
    /// Distinguishes journals that share a table (layout `akka`).
    pub(crate) journal_name: String,
    /// The number of items that hold the highest sequence number of an id (layout `akka`). May be
    /// raised, never lowered.
    pub(crate) sequence_shards: u32,
    /// Partitions a replay reads in parallel (layout `akka`).
    pub(crate) replay_parallelism: usize,
    /// The index that lists persistence ids, if the table has it (layout `akka`).
    pub(crate) persistence_ids_index_name: String,
    /// The generation of event items to write (layout `akka`).
    pub(crate) format: Format,
    /// Which snapshot is the newest (layout `akka`).
    pub(crate) snapshot_order: SnapshotOrder,
    /// What a replay does at a gap in the sequence numbers (layouts `akka` and `j5ik2o`).
    pub(crate) gaps: Gaps,
    /// Whether the JVM deletes events of the same ids (layout `akka`). Then deletions remove items as
    /// the JVM does, every append checks again before it is acknowledged, and the highest sequence
    /// number is read together with the low marks.
    pub(crate) jvm_deletes: bool,
    /// How a replay treats events of two writers (layouts `akka` and `j5ik2o`).
    pub(crate) replay_filter: ReplayFilterSettings,
    /// Limits checked before a request is sent (layout `akka`).
    pub(crate) aws_api_limits: AwsApiLimits,
    /// The sections of the plugin (layout `j5ik2o`).
    pub(crate) j5ik2o: J5ik2oSettings,
    /// The time-ordered log.
    pub(crate) log: LogSettings,
    /// Kinesis.
    pub(crate) kinesis: KinesisSettings,
    /// The embedded store.
    pub(crate) embedded: EmbeddedSettings,
    /// The AWS clients.
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

// Each serde format that settings are written in or read from is compiled for every section. So they
// are read from TOML text and written as JSON values; a table goes through those.
impl Settings {
    /// The settings as the text of `annals.toml`, in the order of the fields.
    pub(crate) fn to_toml(&self) -> Result<String> {
        toml::to_string(&self.to_json()?).map_err(|cause| unprintable(&cause))
    }

    pub(crate) fn to_table(&self) -> Result<toml::Table> {
        toml::Table::try_from(self.to_json()?).map_err(|cause| unprintable(&cause))
    }

    pub(crate) fn to_json(&self) -> Result<serde_json::Value> {
        serde_json::to_value(self).map_err(|cause| unprintable(&cause))
    }

    /// # Errors
    /// The problem, if a key is unknown or a value cannot be set.
    pub(crate) fn from_table(table: &toml::Table) -> Result<Self, String> {
        let text = toml::to_string(table).map_err(|cause| cause.to_string())?;
        toml::from_str(&text).map_err(|cause| cause.message().to_owned())
    }

    /// # Errors
    /// As [`from_table`](Self::from_table).
    pub(crate) fn from_json(json: serde_json::Value) -> Result<Self, String> {
        let table = toml::Table::try_from(json).map_err(|cause| cause.to_string())?;
        Self::from_table(&table)
    }

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

    /// The settings of the AWS clients.
    pub(crate) fn aws(&self) -> AwsSettings {
        let mut aws = AwsSettings::default();
        aws.endpoint.clone_from(&self.endpoint);
        aws.region.clone_from(&self.region);
        aws.profile.clone_from(&self.profile);
        aws.kinesis = self.kinesis.clone();
        aws.aws_client_config = self.aws_client_config.clone();
        aws
    }

    /// These settings with explicit table names, the layout's defaults included.
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

fn unprintable(cause: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("settings cannot be printed: {cause}"))
}

/// Where items are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    /// In a folder on this machine.
    Embedded,
    /// In DynamoDB, or a server with the same API.
    DynamoDb,
}
