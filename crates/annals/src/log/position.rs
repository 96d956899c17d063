//! How far the journal's pump has come with an id, as its checkpoint says it.
//!
//! `41`: the events up to that number are in the buffer, or further. `41+90@1521230163217`: and those
//! behind it up to number 90 that have no time of their own are pumped with this one. That is written
//! before the first of them is, so whoever pumps them again gives them the same time.

use std::fmt;
use std::str::FromStr;

use super::Time;
use crate::{Error, Result, SequenceNumber};

/// How far the pump has come with an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The last number that is pumped.
    pub(super) last: Option<SequenceNumber>,
    /// Up to which number events without a time have this one.
    pub(super) stamp: Option<(SequenceNumber, Time)>,
}

impl Position {
    /// The first number that is not pumped; `None` where there is none.
    pub(super) fn next(self) -> Option<SequenceNumber> {
        self.last
            .map_or(Some(SequenceNumber::FIRST), SequenceNumber::next)
    }

    /// All up to this number is pumped. A stamp that reaches further stays.
    pub(super) fn at(self, last: SequenceNumber) -> Self {
        Self {
            last: Some(last),
            stamp: self.stamp.filter(|(to, _)| *to > last),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.last.map_or(0, SequenceNumber::get))?;
        match self.stamp {
            None => Ok(()),
            Some((to, time)) => write!(f, "+{to}@{}", time.ms()),
        }
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::corrupt(format!(
                "a pump's checkpoint does not parse; delete it, and the id is pumped from its beginning. position=`{text}`"
            ))
        };
        let (last, stamp) = match text.split_once('+') {
            None => (text, None),
            Some((last, stamp)) => {
                let (to, time) = stamp.split_once('@').ok_or_else(wrong)?;
                let (to, ms) = (to.parse().ok(), time.parse().ok());
                let time = ms.and_then(|ms| Time::from_ms(ms).ok());
                (last, Some(to.zip(time).ok_or_else(wrong)?))
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
    fn a_position_is_read_as_it_is_written() {
        for text in ["41", "0", "41+90@1521230163217", "0+3@7"] {
            let position: Position = text.parse().unwrap();
            assert_eq!(position.to_string(), text);
        }
        for wrong in ["", "x", "41+", "41+90", "41+90@", "+1@2", "41+x@1"] {
            assert!(wrong.parse::<Position>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_stamp_stays_until_it_is_passed() {
        let position: Position = "0+3@7".parse().unwrap();
        let number = |n| SequenceNumber::new(n).unwrap();
        assert_eq!(position.at(number(2)).to_string(), "2+3@7");
        assert_eq!(position.at(number(3)).to_string(), "3");
        assert_eq!(position.at(number(3)).next(), Some(number(4)));
    }
}
