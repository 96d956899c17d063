//! What the time-ordered log can be told: its tables, how long a slot is, and how hard it works.

use serde::{Deserialize, Serialize};

use super::optional::empty_is_no_table;
use crate::items::TableName;

/// The time-ordered log.
///
/// ```
/// use annals::settings::LogSettings;
///
/// assert_eq!(LogSettings::default().time_unit_ms, 1_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogSettings {
    /// Where records wait, unsorted; empty: `annals-buffer`.
    #[serde(with = "empty_is_no_table")]
    pub buffer_table: Option<TableName>,
    /// Where events stand by time; empty: `annals-log`.
    #[serde(with = "empty_is_no_table")]
    pub event_table: Option<TableName>,
    /// How many milliseconds a slot has: 1 to a day, and a day has a whole number of them. Fixed
    /// with the first sweep into a table. Shorter: more slots to read. Longer: hotter ones.
    pub time_unit_ms: u64,
    /// Over how many partitions a slot is spread, 1 to 100. More: more writes a second into one
    /// slot, and as many more reads. With more than one the original does not find events.
    pub slot_parts: u32,
    /// Whether the data of a record is kept as JSON in its slot where it is JSON, as the original
    /// does; otherwise it stays base64.
    pub decode_payload: bool,
    /// How many milliseconds may lie between a record's time and its arrival in the buffer, the
    /// difference between clocks included. Less: more events are late. More: followers wait longer.
    pub allowed_lateness_ms: u64,
    /// In how many segments the buffer is scanned at once.
    pub sweep_segments: u32,
    /// How many slots a link, and how many ids a pump, works on at once. Batches are bounded by the
    /// store's own client.
    pub concurrency: usize,
    /// How many slots are opened ahead of a playback, each with a page in memory.
    pub playback_ahead: usize,
    /// How many milliseconds a follower waits before it looks for the horizon again.
    pub follow_poll_ms: u64,
    /// Whether the original's scan still writes to the event table. Then slots that are not in the
    /// index may hold events: a playback asks every slot.
    pub original_writes: bool,
    /// Whether `next_slot` is believed where there is no index. Only for tables that nobody writes
    /// to: an event that came after the link was made may stand in between.
    pub trust_links: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            buffer_table: None,
            event_table: None,
            time_unit_ms: 1_000,
            slot_parts: 1,
            decode_payload: true,
            allowed_lateness_ms: 30_000,
            sweep_segments: 4,
            concurrency: 8,
            playback_ahead: 4,
            follow_poll_ms: 1_000,
            original_writes: false,
            trust_links: false,
        }
    }
}
