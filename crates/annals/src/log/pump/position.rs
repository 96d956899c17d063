//! The position of the journal pump in a persistence id, as its checkpoint stores it.
//!
//! `41`: the events up to this sequence number were pumped. `41+90@1521230163217`: those after it, up
//! to sequence number 90, that have no time are pumped with this time. The position is saved before
//! the first of them is pumped, so a retry gives them the same time.

use std::fmt;
use std::str::FromStr;

use super::super::Time;
use crate::{Error, Result, SequenceNumber};

/// The position of the pump in a persistence id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PumpPosition {
    /// The last sequence number that was pumped.
    pub(super) last: Option<SequenceNumber>,
    pub(super) stamp: Option<Stamp>,
}

/// The time of events that have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The last sequence number that gets this time.
    pub(super) to: SequenceNumber,
    pub(super) time: Time,
}

impl PumpPosition {
    /// The next sequence number to pump; `None` at the largest one.
    pub(super) fn next(self) -> Option<SequenceNumber> {
        self.last
            .map_or(Some(SequenceNumber::FIRST), SequenceNumber::next)
    }

    /// The position after this sequence number was pumped. A stamp for later ones stays.
    pub(super) fn advance(self, last: SequenceNumber) -> Self {
        Self {
            last: Some(last),
            stamp: self.stamp.filter(|stamp| stamp.to > last),
        }
    }
}

impl fmt::Display for PumpPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.last.map_or(0, SequenceNumber::get))?;
        match self.stamp {
            None => Ok(()),
            Some(Stamp { to, time }) => write!(f, "+{to}@{}", time.ms()),
        }
    }
}

impl FromStr for PumpPosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::corrupt(
                "a checkpoint of the journal pump does not parse; delete it to pump the persistence id from its start",
            )
            .fact("position", text)
        };
        let (last, stamp) = match text.split_once('+') {
            None => (text, None),
            Some((last, stamp)) => {
                let (to, time) = stamp.split_once('@').ok_or_else(wrong)?;
                let (to, ms) = (to.parse().ok(), time.parse().ok());
                let time = ms.and_then(|ms| Time::from_ms(ms).ok());
                let stamp = to.zip(time).map(|(to, time)| Stamp { to, time });
                (last, Some(stamp.ok_or_else(wrong)?))
            }
        };
        let last = match last {
            "0" => None,
            last => Some(last.parse().map_err(|_| wrong())?),
        };
        Ok(Self { last, stamp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_round_trip() {
        for text in ["41", "0", "41+90@1521230163217", "0+3@7"] {
            let position: PumpPosition = text.parse().unwrap();
            assert_eq!(position.to_string(), text);
        }
        for wrong in ["", "x", "41+", "41+90", "41+90@", "+1@2", "41+x@1"] {
            assert!(wrong.parse::<PumpPosition>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_stamp_stays_until_it_is_used_up() {
        let position: PumpPosition = "0+3@7".parse().unwrap();
        let number = |n| SequenceNumber::new(n).unwrap();
        assert_eq!(position.advance(number(2)).to_string(), "2+3@7");
        assert_eq!(position.advance(number(3)).to_string(), "3");
        assert_eq!(position.advance(number(3)).next(), Some(number(4)));
    }
}
