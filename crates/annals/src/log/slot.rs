//! Slots: spans of time of one length, each a partition of the event table.

use std::fmt;

use super::Time;
use crate::{Error, Result};

/// The milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// The length of a slot: 1 ms to a day, and a whole number of slots fills a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit(u64);

impl TimeUnit {
    /// A length in milliseconds.
    ///
    /// # Errors
    /// `Invalid` if slots of that length do not fill a day.
    pub(crate) fn from_ms(ms: u64) -> Result<Self> {
        if ms == 0 || ms > DAY_MS || !DAY_MS.is_multiple_of(ms) {
            return Err(Error::invalid(format!(
                "time-unit-ms must divide a day of {DAY_MS} ms; set it to 1000, 60000 or the like"
            ))
            .fact("time-unit-ms", ms));
        }
        Ok(Self(ms))
    }

    /// The length in milliseconds.
    pub(crate) const fn ms(self) -> u64 {
        self.0
    }
}

/// A span of time of the log's slot length, named by its start. Slots do not cross midnight (UTC).
///
/// See [`Log`](super::Log) for an example.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(Time);

impl Slot {
    /// The slot that contains a time.
    pub(super) fn new(time: Time, unit: TimeUnit) -> Self {
        Self(time.floor(unit.0))
    }

    /// The first time in the slot.
    pub fn start(self) -> Time {
        self.0
    }

    /// The first time after the slot.
    pub(super) fn end(self, unit: TimeUnit) -> Time {
        self.0.plus_ms(unit.0)
    }

    /// The slot after this one.
    pub(super) fn next(self, unit: TimeUnit) -> Self {
        Self(self.end(unit))
    }

    /// Parses a slot of the event table.
    pub(super) fn from_stored(text: &str) -> Option<Self> {
        Time::from_stored(text).map(Self)
    }

    /// The day of the slot.
    pub(super) fn day(self) -> Day {
        Day(self.0.floor(DAY_MS))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A day of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(Time);

impl Day {
    /// Parses a day of the slot index.
    pub(crate) fn from_stored(text: &str) -> Option<Self> {
        let start = Time::from_stored(&format!("{text}T00:00:00.000Z"))?;
        Some(Self(start))
    }
}

/// `2018-03-16`.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        f.write_str(text.get(..10).unwrap_or(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_lengths_divide_a_day() {
        for ms in [1, 250, 1_000, 60_000, 3_600_000, DAY_MS] {
            assert!(TimeUnit::from_ms(ms).is_ok(), "{ms}");
        }
        for ms in [0, 7, 7_000, 2 * DAY_MS, u64::MAX] {
            let refused = TimeUnit::from_ms(ms);
            assert!(refused.unwrap_err().to_string().contains("time-unit-ms"));
        }
    }

    #[test]
    fn slots_are_floored_and_consecutive() {
        let unit = TimeUnit::from_ms(3_600_000).unwrap();
        let slot = Slot::new("2018-03-16T23:59:59.999Z".parse().unwrap(), unit);
        assert_eq!(slot.to_string(), "2018-03-16T23:00:00.000Z");
        assert_eq!(slot.day().to_string(), "2018-03-16");
        assert_eq!(slot.next(unit).day().to_string(), "2018-03-17");
        assert_eq!(Day::from_stored("2018-03-16"), Some(slot.day()));
        assert_eq!(Slot::from_stored(&slot.to_string()), Some(slot));
        let last = Slot::new(Time::END.minus_ms(1), unit);
        assert_eq!(last.end(unit), Time::END);
    }
}
