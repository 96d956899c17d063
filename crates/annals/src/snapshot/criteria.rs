//! Which snapshots: bounds of sequence number and time, both ends included.

use crate::SequenceNumber;

/// Which snapshots are meant.
///
/// ```
/// use annals::SequenceNumber;
/// use annals::snapshot::Criteria;
///
/// let number = |n| SequenceNumber::new(n).expect("numbers begin at 1");
/// let old = Criteria::ALL.up_to(number(100)).until_ms(1_700_000_000_000);
/// assert!(old.meets(number(100), 1_600_000_000_000));
/// assert!(!old.meets(number(101), 1_600_000_000_000));
/// assert!(!old.meets(number(100), 1_800_000_000_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// From this number on.
    pub min_number: SequenceNumber,
    /// Up to this number.
    pub max_number: SequenceNumber,
    /// Saved at this time or later, in milliseconds since the Unix epoch.
    pub min_time_ms: u64,
    /// Saved at this time or before.
    pub max_time_ms: u64,
}

impl Criteria {
    /// Any.
    pub const ALL: Self = Self {
        min_number: SequenceNumber::FIRST,
        max_number: SequenceNumber::LAST,
        min_time_ms: 0,
        max_time_ms: u64::MAX,
    };

    /// The one at a number.
    pub fn at(number: SequenceNumber) -> Self {
        Self {
            min_number: number,
            max_number: number,
            ..Self::ALL
        }
    }

    /// Those up to a number.
    #[must_use]
    pub fn up_to(mut self, number: SequenceNumber) -> Self {
        self.max_number = number;
        self
    }

    /// Those saved at a time or before.
    #[must_use]
    pub fn until_ms(mut self, time_ms: u64) -> Self {
        self.max_time_ms = time_ms;
        self
    }

    /// Whether a snapshot of this number and time is meant.
    pub fn meets(&self, number: SequenceNumber, time_ms: u64) -> bool {
        (self.min_number..=self.max_number).contains(&number)
            && (self.min_time_ms..=self.max_time_ms).contains(&time_ms)
    }

    /// Whether time matters.
    pub fn is_timed(&self) -> bool {
        self.min_time_ms > 0 || self.max_time_ms < u64::MAX
    }

    /// Whether numbers matter.
    pub fn is_numbered(&self) -> bool {
        self.min_number > SequenceNumber::FIRST || self.max_number < SequenceNumber::LAST
    }

    /// Whether none can be meant.
    pub fn is_empty(&self) -> bool {
        self.min_number > self.max_number || self.min_time_ms > self.max_time_ms
    }
}
