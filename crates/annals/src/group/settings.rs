//! The settings of a group, and their limits.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::feed::{Filter, Position};
use crate::{Error, Result};

/// The most commits in flight.
pub const IN_FLIGHT_MAX: u32 = 1_000;
/// The most redeliveries.
pub const RETRIES_MAX: u32 = 1_000;
/// The longest time until a delivery is handed out again: a day.
pub const ACK_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The most bytes of a filter's texts: a group is one item.
const FILTER_BYTES_MAX: usize = 16 * 1024;

/// Where a group starts.
///
/// ```
/// use annals::group::Start;
///
/// assert_eq!("now".parse::<Start>()?, Start::Now);
/// assert_eq!("start".parse::<Start>()?, Start::Beginning);
/// assert!(matches!("3735928559.0:912".parse()?, Start::After(_)));
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the start of the feed.
    #[default]
    Beginning,
    /// At its end: only what is appended after the group was created.
    Now,
    /// After a position.
    After(Position),
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => f.write_str("start"),
            Self::Now => f.write_str("now"),
            Self::After(position) => position.fmt(f),
        }
    }
}

impl FromStr for Start {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "start" => Ok(Self::Beginning),
            "now" => Ok(Self::Now),
            _ => text.parse().map(Self::After).map_err(|_| {
                Error::invalid(
                    "a group starts at `start`, at `now`, or at a position that the feed printed, such as 3735928559.0:912",
                )
                .fact("start", text)
            }),
        }
    }
}

/// The settings of a group. Those that are not set keep their value; in a new group they have the
/// default.
///
/// ```
/// use annals::feed::Filter;
/// use annals::group::{GroupSettings, Start};
/// use std::time::Duration;
///
/// let settings = GroupSettings::new()
///     .filter(Filter::new().category("Cart"))
///     .start(Start::Now)
///     .in_flight(10)
///     .ack_within(Duration::from_secs(60))
///     .retries(3);
/// assert_eq!(settings.retries, Some(3));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupSettings {
    /// Which events; default: all. Fixed when the group is created.
    pub filter: Option<Filter>,
    /// Where to start; default: at the start of the feed. Fixed when the group is created.
    pub start: Option<Start>,
    /// The most commits handed out and not acknowledged, from 1 to 1,000; default 100.
    pub in_flight: Option<u32>,
    /// How long a member has to acknowledge, at most a day; default 30 s.
    pub ack_within: Option<Duration>,
    /// How often a commit is handed out again before it becomes a dead letter, up to 1,000; default 5.
    pub retries: Option<u32>,
}

impl GroupSettings {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which events.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Where to start.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }

    /// The most commits in flight.
    #[must_use]
    pub fn in_flight(mut self, commits: u32) -> Self {
        self.in_flight = Some(commits);
        self
    }

    /// How long a member has to acknowledge.
    #[must_use]
    pub fn ack_within(mut self, time: Duration) -> Self {
        self.ack_within = Some(time);
        self
    }

    /// How often a commit is handed out again.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = Some(retries);
        self
    }

    /// # Errors
    /// `Invalid` if a value is out of range.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(commits) = self.in_flight
            && !(1..=IN_FLIGHT_MAX).contains(&commits)
        {
            let error = Error::invalid(format!("in_flight must be 1 to {IN_FLIGHT_MAX}"));
            return Err(error.fact("in_flight", commits));
        }
        if let Some(time) = self.ack_within
            && !(Duration::from_millis(1)..=ACK_MAX).contains(&time)
        {
            let most = ACK_MAX.as_millis();
            let error = Error::invalid(format!("ack_ms must be 1 to {most}, a day"));
            return Err(error.fact("ack_ms", time.as_millis()));
        }
        if let Some(retries) = self.retries
            && retries > RETRIES_MAX
        {
            let error = Error::invalid(format!("retries must be 0 to {RETRIES_MAX}"));
            return Err(error.fact("retries", retries));
        }
        self.filter.as_ref().map_or(Ok(()), check_filter)
    }
}

fn check_filter(filter: &Filter) -> Result<()> {
    let texts = filter.categories.iter().chain(&filter.tags);
    let bytes = texts.map(String::len).sum::<usize>() + filter.prefix.len();
    if bytes > FILTER_BYTES_MAX {
        let error = Error::invalid(format!(
            "the texts of a filter have at most {FILTER_BYTES_MAX} bytes"
        ));
        return Err(error.fact("bytes", bytes));
    }
    filter.check()
}

/// The settings that a group has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) filter: Filter,
    /// As it was given.
    pub(super) start: Start,
    pub(super) in_flight: u32,
    pub(super) ack_ms: u64,
    pub(super) retries: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            filter: Filter::new(),
            start: Start::Beginning,
            in_flight: 100,
            ack_ms: 30_000,
            retries: 5,
        }
    }
}

impl Rules {
    /// The same with these values.
    pub(super) fn with(&self, settings: &GroupSettings) -> Self {
        let ack_ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            filter: settings.filter.clone().unwrap_or(self.filter.clone()),
            start: settings.start.clone().unwrap_or(self.start.clone()),
            in_flight: settings.in_flight.unwrap_or(self.in_flight),
            ack_ms: settings.ack_within.map_or(self.ack_ms, ack_ms),
            retries: settings.retries.unwrap_or(self.retries),
        }
    }
}
