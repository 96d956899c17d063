//! Where in its entity's history a snapshot stands.

use crate::SequenceNumber;
use crate::journal::Appended;

/// The number of the last event a snapshot knows of and, where that is known, the number that the
/// append began with that this event ends. With both, the tail is read in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The last event.
    pub number: SequenceNumber,
    /// The first event of its append.
    pub anchor: Option<SequenceNumber>,
}

impl From<SequenceNumber> for Place {
    fn from(number: SequenceNumber) -> Self {
        Self {
            number,
            anchor: None,
        }
    }
}

impl From<Appended> for Place {
    fn from(appended: Appended) -> Self {
        Self {
            number: appended.last,
            anchor: Some(appended.first),
        }
    }
}
