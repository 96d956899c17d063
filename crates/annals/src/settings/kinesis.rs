//! What the pump and the playback of Kinesis streams can be told.

use serde::{Deserialize, Serialize};

use super::optional::empty_is_none;

/// Streams of Kinesis. Region, profile and client are those of DynamoDB.
///
/// ```
/// use annals::settings::KinesisSettings;
///
/// assert_eq!(KinesisSettings::default().poll_ms, 1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct KinesisSettings {
    /// The address of Kinesis; empty: the region's own. Never that of DynamoDB.
    #[serde(with = "empty_is_none")]
    pub endpoint: Option<String>,
    /// How many milliseconds a pump waits that has read everything. Less: more requests, of which a
    /// shard takes five a second from all its readers. More: records wait longer.
    pub poll_ms: u64,
}

impl Default for KinesisSettings {
    fn default() -> Self {
        Self {
            endpoint: None,
            poll_ms: 1_000,
        }
    }
}
