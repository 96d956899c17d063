//! The settings of the `akka` layout, with the names of the JVM plugins and Akka's core.

use serde::{Deserialize, Serialize};

/// Which generation of event items is written; both are read.
///
/// ```
/// use annals_jvm::AnyLayout;
/// use annals_jvm::settings::Format;
///
/// let settings = AnyLayout { format: Format::A, ..AnyLayout::default() };
/// let in_file: AnyLayout = serde_json::from_str(r#"{"format":"a"}"#)?;
/// assert_eq!(in_file, settings);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One attribute that holds a protobuf message, as the plugin wrote until 1.1.1.
    A,
    /// One attribute for each field, as it has written since.
    #[default]
    B,
}

/// Which snapshot is the newest.
///
/// ```
/// use annals_jvm::AnyLayout;
/// use annals_jvm::settings::SnapshotOrder;
///
/// let settings = AnyLayout { snapshot_order: SnapshotOrder::Timestamp, ..AnyLayout::default() };
/// let in_file: AnyLayout = serde_json::from_str(r#"{"snapshot-order":"timestamp"}"#)?;
/// assert_eq!(in_file, settings);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SnapshotOrder {
    /// The one with the highest sequence number.
    #[default]
    SequenceNumber,
    /// The one saved last, by the writers' clocks, unless the criteria have bounds of sequence
    /// numbers: as in the plugin.
    Timestamp,
}

/// What a replay does about missing numbers that no incomplete batch explains.
///
/// ```
/// use annals_jvm::AnyLayout;
/// use annals_jvm::settings::Gaps;
///
/// let settings = AnyLayout { gaps: Gaps::Skip, ..AnyLayout::default() };
/// let in_file: AnyLayout = serde_json::from_str(r#"{"gaps":"skip"}"#)?;
/// assert_eq!(in_file, settings);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Gaps {
    /// Fails and lists them.
    #[default]
    Fail,
    /// Warns and continues. A classic actor leaves gaps if the plugin rejects its events.
    Skip,
}

/// The `replay-filter` of Akka's and Pekko's core: what to do about events of two writers, by their
/// uuids, in one history.
///
/// ```
/// use annals_jvm::AnyLayout;
/// use annals_jvm::settings::{ReplayFilterMode, ReplayFilterSettings};
///
/// let replay_filter = ReplayFilterSettings {
///     mode: ReplayFilterMode::Fail,
///     ..ReplayFilterSettings::default()
/// };
/// let settings = AnyLayout { replay_filter, ..AnyLayout::default() };
/// assert_eq!(settings.replay_filter.max_old_writers, 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReplayFilterSettings {
    /// The mode.
    pub mode: ReplayFilterMode,
    /// How many older writers are remembered.
    pub max_old_writers: usize,
}

impl Default for ReplayFilterSettings {
    fn default() -> Self {
        Self {
            mode: ReplayFilterMode::RepairByDiscardOld,
            max_old_writers: 10,
        }
    }
}

/// What to do about events of an older writer after those of a newer one.
///
/// ```
/// use annals_jvm::settings::{ReplayFilterMode, ReplayFilterSettings};
///
/// let in_file: ReplayFilterSettings = serde_json::from_str(r#"{"mode":"warn"}"#)?;
/// assert_eq!(in_file.mode, ReplayFilterMode::Warn);
/// assert_eq!(ReplayFilterMode::default(), ReplayFilterMode::RepairByDiscardOld);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ReplayFilterMode {
    /// They are left out, with a warning.
    #[default]
    RepairByDiscardOld,
    /// The replay fails.
    Fail,
    /// They are delivered, with a warning.
    Warn,
    /// They are delivered.
    Off,
}

/// Limits that are checked before a request is sent.
///
/// ```
/// use annals_jvm::AnyLayout;
/// use annals_jvm::settings::AwsApiLimits;
///
/// let aws_api_limits = AwsApiLimits { max_item_size: 100_000 };
/// let settings = AnyLayout { aws_api_limits, ..AnyLayout::default() };
/// assert_eq!(settings.aws_api_limits.max_item_size, 100_000);
/// assert_eq!(AwsApiLimits::default().max_item_size, 400_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AwsApiLimits {
    /// The maximum size of an event's or a snapshot's item in bytes, as the plugin calculates it.
    pub max_item_size: usize,
}

impl Default for AwsApiLimits {
    fn default() -> Self {
        Self {
            max_item_size: 400_000,
        }
    }
}
