//! The two tables of the log: names, keys and indexes. `events` maps records and events to items,
//! `system` maps what the log stores about itself. No other code knows attribute names.
//!
//! Guarantees: records and events have the attributes and key formats of the original tables, and no
//! others. System items are in the event table under partition keys that start with `annals#`, which
//! no slot does, and they lack the attribute of the time index: the original, which queries slots,
//! never sees them. The buffer, which the original scans, holds no system items.
//! This code does no I/O.

mod events;
mod system;

pub(crate) use events::*;
pub(crate) use system::*;

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::items::{IndexSpec, Item, KeyAttribute, KeySchema, TableName, TableSpec, Value};
use crate::settings::LogSettings;
use crate::{Error, Result};

const PARTITION_KEY: &str = "partition_key";
const EVENT_TIME_SLOT: &str = "event_time_slot";
const EVENT_ID: &str = "event_id";
pub(crate) const EVENT_TIME_STAMP: &str = "event_time_stamp";
pub(crate) const NEXT_SLOT: &str = "next_slot";
/// The local index of the event table.
pub(crate) const BY_TIME: &str = "event_time_stamp";

/// The tables of a log.
///
/// ```
/// use annals::log::LogTables;
/// use annals::settings::LogSettings;
///
/// let tables = LogTables::new(&LogSettings::default())?;
/// assert_eq!(tables.event.key().to_string(), "event_time_slot S, event_id S");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogTables {
    /// Records that are not swept yet.
    pub buffer: Arc<TableSpec>,
    /// Events by time.
    pub event: Arc<TableSpec>,
}

impl LogTables {
    /// The tables, under the names in the settings.
    ///
    /// # Errors
    /// `Invalid` if both tables have the same name.
    pub fn new(settings: &LogSettings) -> Result<Self> {
        let name = |set: &Option<TableName>, default: &str| match set {
            Some(name) => Ok(name.clone()),
            None => default.parse(),
        };
        let buffer = name(&settings.buffer_table, "annals-buffer")?;
        let event = name(&settings.event_table, "annals-log")?;
        if buffer == event {
            return Err(Error::invalid(
                "both tables of the log have the same name; set buffer-table and event-table to different names",
            )
            .fact("name", event));
        }
        let slot = || KeySchema::new(KeyAttribute::text(EVENT_TIME_SLOT));
        let by_id = slot().sorted(KeyAttribute::text(EVENT_ID));
        let by_time = slot().sorted(KeyAttribute::text(EVENT_TIME_STAMP));
        let by_time = IndexSpec::local(BY_TIME.parse()?, by_time);
        let key = KeySchema::new(KeyAttribute::text(PARTITION_KEY));
        Ok(Self {
            buffer: Arc::new(TableSpec::new(buffer, key)?),
            event: Arc::new(TableSpec::new(event, by_id)?.with_index(by_time)?),
        })
    }

    /// Both tables.
    pub fn all(&self) -> impl Iterator<Item = &TableSpec> {
        [&*self.buffer, &*self.event].into_iter()
    }
}

fn text_of<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name).and_then(Value::as_str)
}

/// The lower-case hex SHA-256 of the concatenated parts.
pub(crate) fn sha256(parts: &[&[u8]]) -> String {
    let mut digest = Sha256::new();
    parts.iter().for_each(|part| digest.update(part));
    let bytes = digest.finalize();
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_is_lower_case_hex() {
        // The digest of "abc" in the standard.
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&[b"a", b"bc"]), want);
    }
}
