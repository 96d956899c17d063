//! Settings of the time-ordered log: tables, length of a slot, concurrency.

use serde::{Deserialize, Serialize};

use super::optional::empty_is_no_table;
use crate::items::TableName;

/// Settings of the time-ordered log.
///
/// ```
/// use annals::settings::LogSettings;
///
/// let mut settings = LogSettings::default();
/// settings.time_unit_ms = 60_000;
/// assert_eq!(settings.slot_parts, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct LogSettings {
    /// The table of buffered records, unsorted; empty: `annals-buffer`.
    #[serde(with = "empty_is_no_table")]
    pub buffer_table: Option<TableName>,
    /// The table of events by time; empty: `annals-log`.
    #[serde(with = "empty_is_no_table")]
    pub event_table: Option<TableName>,
    /// Milliseconds of a slot: 1 to a day, and a divisor of a day. Fixed by the first sweep into a
    /// table. Shorter: more slots to read. Longer: hotter slots.
    pub time_unit_ms: u64,
    /// Partitions of a slot, 1 to 100. More: more writes per second into one slot, and as many more
    /// reads. With more than one the original implementation does not find events.
    pub slot_parts: u32,
    /// Whether JSON data of a record is stored as JSON in its slot, as the original implementation
    /// does; otherwise as base64.
    pub decode_payload: bool,
    /// Maximum milliseconds between a record's time and its arrival in the buffer, clock skew
    /// included. Less: more events are late. More: followers wait longer.
    pub allowed_lateness_ms: u64,
    /// Segments of the buffer that are scanned concurrently.
    pub sweep_segments: u32,
    /// Slots of a link, and ids of a pump, that are processed concurrently. The store's client limits
    /// batches.
    pub concurrency: usize,
    /// Slots that a playback opens ahead, each with a page in memory.
    pub playback_ahead: usize,
    /// Milliseconds before a follower reads the horizon again.
    pub follow_poll_ms: u64,
    /// Whether the original implementation still writes to the event table. Slots that are not in the
    /// index may then hold events, so a playback reads every slot.
    pub original_writes: bool,
    /// Whether to trust `next_slot` without an index. Only for tables without writers: a later event
    /// may be between two linked slots.
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
