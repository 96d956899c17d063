//! What the `akka` layout can be told, under the names that the JVM plugins and Akka's core have
//! for it.

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
    /// An attribute for each thing, as it has written since.
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
pub enum SnapshotOrder {
    /// The one of the highest sequence number.
    #[default]
    SequenceNumber,
    /// The one that was saved last, by the clocks of those who saved, unless bounds of sequence
    /// numbers are given: what the plugin takes.
    Timestamp,
}

/// What a replay does where numbers are missing that no incomplete batch explains.
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
pub enum Gaps {
    /// Fails and says which.
    #[default]
    Fail,
    /// Warns and goes on. A classic actor leaves gaps where the plugin rejected its events.
    Skip,
}

/// Events of two writers in one history, told apart by their writer's uuid: what Akka's and
/// Pekko's core do about them in `replay-filter`.
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
    /// What is done.
    pub mode: ReplayFilterMode,
    /// How many writers are remembered as older ones.
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

/// What is done about events of an older writer among those of a newer one.
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
pub enum ReplayFilterMode {
    /// They are left out, with a warning.
    #[default]
    RepairByDiscardOld,
    /// The replay fails.
    Fail,
    /// They are delivered, with a warning.
    Warn,
    /// Nothing.
    Off,
}

/// Limits that are checked before DynamoDB would.
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
    /// The most bytes of an event's or a snapshot's item, by the plugin's own count.
    pub max_item_size: usize,
}

impl Default for AwsApiLimits {
    fn default() -> Self {
        Self {
            max_item_size: 400_000,
        }
    }
}
