//! Selecting snapshots by sequence number and time, both ends included.

use crate::SequenceNumber;

/// Selects snapshots.
///
/// ```
/// use annals::SequenceNumber;
/// use annals::snapshot::Criteria;
///
/// let number = |n| SequenceNumber::new(n).expect("at least 1");
/// let old = Criteria::ALL.up_to(number(100)).until_ms(1_700_000_000_000);
/// assert!(old.matches(number(100), 1_600_000_000_000));
/// assert!(!old.matches(number(101), 1_600_000_000_000));
/// assert!(!old.matches(number(100), 1_800_000_000_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Criteria {
    /// The lowest sequence number.
    pub min_number: SequenceNumber,
    /// The highest sequence number.
    pub max_number: SequenceNumber,
    /// The earliest time, in milliseconds since the Unix epoch.
    pub min_time_ms: u64,
    /// The latest time.
    pub max_time_ms: u64,
}

impl Criteria {
    /// All snapshots.
    pub const ALL: Self = Self {
        min_number: SequenceNumber::FIRST,
        max_number: SequenceNumber::LAST,
        min_time_ms: 0,
        max_time_ms: u64::MAX,
    };

    /// The snapshot at a sequence number.
    pub fn at(number: SequenceNumber) -> Self {
        Self {
            min_number: number,
            max_number: number,
            ..Self::ALL
        }
    }

    /// Sets the lowest sequence number.
    #[must_use]
    pub fn at_least(mut self, number: SequenceNumber) -> Self {
        self.min_number = number;
        self
    }

    /// Sets the highest sequence number.
    #[must_use]
    pub fn up_to(mut self, number: SequenceNumber) -> Self {
        self.max_number = number;
        self
    }

    /// Sets the earliest time.
    #[must_use]
    pub fn since_ms(mut self, time_ms: u64) -> Self {
        self.min_time_ms = time_ms;
        self
    }

    /// Sets the latest time.
    #[must_use]
    pub fn until_ms(mut self, time_ms: u64) -> Self {
        self.max_time_ms = time_ms;
        self
    }

    /// Whether a snapshot of this sequence number and time is selected.
    pub fn matches(&self, number: SequenceNumber, time_ms: u64) -> bool {
        (self.min_number..=self.max_number).contains(&number)
            && (self.min_time_ms..=self.max_time_ms).contains(&time_ms)
    }

    /// Whether the time is limited.
    pub fn is_timed(&self) -> bool {
        self.min_time_ms > 0 || self.max_time_ms < u64::MAX
    }

    /// Whether the sequence number is limited.
    pub fn is_numbered(&self) -> bool {
        self.min_number > SequenceNumber::FIRST || self.max_number < SequenceNumber::LAST
    }

    /// Whether no snapshot can match.
    pub fn is_empty(&self) -> bool {
        self.min_number > self.max_number || self.min_time_ms > self.max_time_ms
    }
}
