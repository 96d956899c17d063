//! Slots: spans of time of one length, each a partition of the event table.

use std::fmt;

use super::Time;
use crate::{Error, Result};

/// How many milliseconds a day has.
const DAY_MS: u64 = 86_400_000;

/// How long a slot is: 1 ms to a day, and a day has a whole number of them.
///
/// ```
/// use annals::log::TimeUnit;
///
/// assert!(TimeUnit::from_ms(1_000).is_ok());
/// assert!(TimeUnit::from_ms(7_000).is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeUnit(u64);

impl TimeUnit {
    /// So many milliseconds.
    ///
    /// # Errors
    /// `Invalid` where slots of that length do not fill a day.
    pub fn from_ms(ms: u64) -> Result<Self> {
        if ms == 0 || ms > DAY_MS || !DAY_MS.is_multiple_of(ms) {
            return Err(Error::invalid(format!(
                "time-unit-ms is 1 to {DAY_MS}, and a day has a whole number of them; take 1000, 60000 or the like. time-unit-ms=`{ms}`"
            )));
        }
        Ok(Self(ms))
    }

    /// Milliseconds.
    pub const fn ms(self) -> u64 {
        self.0
    }
}

/// A span of time, by its first time. Slots do not cross the end of a day.
///
/// ```
/// use annals::log::{Slot, TimeUnit};
///
/// let unit = TimeUnit::from_ms(1_000)?;
/// let slot = Slot::of("2018-03-16T19:56:03.217Z".parse()?, unit);
/// assert_eq!(slot.to_string(), "2018-03-16T19:56:03.000Z");
/// assert_eq!(slot.next(unit).to_string(), "2018-03-16T19:56:04.000Z");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(Time);

impl Slot {
    /// The slot that a time lies in.
    pub fn of(time: Time, unit: TimeUnit) -> Self {
        Self(time.floor(unit.0))
    }

    /// Its first time.
    pub fn start(self) -> Time {
        self.0
    }

    /// The first time behind it.
    pub fn end(self, unit: TimeUnit) -> Time {
        self.0.plus_ms(unit.0)
    }

    /// The slot behind it.
    pub fn next(self, unit: TimeUnit) -> Self {
        Self(self.end(unit))
    }

    /// The slot whose text this is, in the event table.
    pub(super) fn from_stored(text: &str) -> Option<Self> {
        Time::from_stored(text).map(Self)
    }

    /// The day it lies in.
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
pub(super) struct Day(Time);

impl Day {
    /// The day whose text this is, in the index.
    pub(super) fn from_stored(text: &str) -> Option<Self> {
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
    fn units_fill_a_day() {
        for ms in [1, 250, 1_000, 60_000, 3_600_000, DAY_MS] {
            assert!(TimeUnit::from_ms(ms).is_ok(), "{ms}");
        }
        for ms in [0, 7, 7_000, 2 * DAY_MS, u64::MAX] {
            let refused = TimeUnit::from_ms(ms);
            assert!(refused.unwrap_err().to_string().contains("time-unit-ms"));
        }
    }

    #[test]
    fn slots_are_floored_and_follow_each_other() {
        let unit = TimeUnit::from_ms(3_600_000).unwrap();
        let slot = Slot::of("2018-03-16T23:59:59.999Z".parse().unwrap(), unit);
        assert_eq!(slot.to_string(), "2018-03-16T23:00:00.000Z");
        assert_eq!(slot.day().to_string(), "2018-03-16");
        assert_eq!(slot.next(unit).day().to_string(), "2018-03-17");
        assert_eq!(Day::from_stored("2018-03-16"), Some(slot.day()));
        assert_eq!(Slot::from_stored(&slot.to_string()), Some(slot));
        let last = Slot::of(Time::END.minus_ms(1), unit);
        assert_eq!(last.end(unit), Time::END);
    }
}
