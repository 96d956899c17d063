//! Positions in the feed, and their text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, SequenceNumber};

/// How far a reader of the feed has come. A short text, such as `3735928559.0:912`.
///
/// It belongs to one store: other stores refuse it. A position is between two events, also inside an
/// append, so a reader that resumes sees exactly what it would have seen next.
///
/// ```
/// use annals::feed::Position;
///
/// let position: Position = "3735928559.0:912".parse()?;
/// assert_eq!(position.to_string(), "3735928559.0:912");
/// assert!("912".parse::<Position>().is_err());
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Position {
    generation: u32,
    /// By the lane's number.
    lanes: Vec<LanePosition>,
}

/// A position in a lane: after everything up to a place, and after the first events of the append at
/// the next place.
///
/// See [`Position`] for an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct LanePosition {
    /// The place up to which everything was read.
    pub place: u64,
    /// The sequence number up to which the append at the next place was read; 0 if nothing of it was.
    /// A number, not a count: the first events of an append may be deleted meanwhile.
    pub number: u64,
}

impl LanePosition {
    /// After everything up to a place.
    pub fn after(place: u64) -> Self {
        Self { place, number: 0 }
    }

    /// After the event of this number, of the append at a place.
    pub fn within(place: u64, number: SequenceNumber) -> Self {
        Self {
            place: place.saturating_sub(1),
            number: number.get(),
        }
    }
}

impl Position {
    /// The start of a feed with so many lanes.
    pub fn start(generation: u32, lanes: u16) -> Self {
        Self {
            generation,
            lanes: vec![LanePosition::default(); lanes.into()],
        }
    }

    /// The generation of the feed.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The positions in the lanes, in order.
    pub fn lanes(&self) -> &[LanePosition] {
        &self.lanes
    }

    /// The position in a lane; the start if there is no such lane.
    pub fn lane(&self, lane: u16) -> LanePosition {
        let found = self.lanes.get(usize::from(lane));
        found.copied().unwrap_or_default()
    }

    /// Whether everything up to another position of the same feed is at or before this one.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.generation == other.generation
            && self.lanes.len() == other.lanes.len()
            && self
                .lanes
                .iter()
                .zip(&other.lanes)
                .all(|(at, other)| at >= other)
    }

    /// This position, at another one in a lane.
    #[must_use]
    pub fn with_lane(&self, lane: u16, at: LanePosition) -> Self {
        let mut moved = self.clone();
        if let Some(found) = moved.lanes.get_mut(usize::from(lane)) {
            *found = at;
        }
        moved
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.generation)?;
        for (lane, at) in self.lanes.iter().enumerate() {
            let comma = if lane == 0 { "" } else { "," };
            write!(f, "{comma}{lane}:{}", at.place)?;
            if at.number > 0 {
                write!(f, "+{}", at.number)?;
            }
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| {
            Error::invalid(
                "a position is what the feed printed, such as 3735928559.0:912; leave it out to read from the start",
            )
            .fact("position", text)
        })
    }
}

fn parse(text: &str) -> Option<Position> {
    let (generation, lanes) = text.split_once('.')?;
    let lanes = lanes.split(',').enumerate().map(|(at_lane, lane)| {
        let (name, at) = lane.split_once(':')?;
        let (place, number) = at.split_once('+').unwrap_or((at, "0"));
        let is_next = digits::<usize>(name)? == at_lane;
        is_next.then_some(LanePosition {
            place: digits(place)?,
            number: digits(number)?,
        })
    });
    Some(Position {
        generation: digits(generation)?,
        lanes: lanes.collect::<Option<_>>()?,
    })
}

/// A number without a sign.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

impl From<Position> for String {
    fn from(position: Position) -> Self {
        position.to_string()
    }
}

impl TryFrom<String> for Position {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back() {
        for text in [
            "0.0:0",
            "1.0:912",
            "1.0:912+3",
            "7.0:912,1:877+1",
            "4294967295.0:18446744073709551615",
        ] {
            assert_eq!(text.parse::<Position>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let texts = [
            "",
            "912",
            "1.912",
            "1.1:912",
            "1.0:912,2:3",
            "1.0:912,",
            "+1.0:912",
            "1.0:+912",
            "-1.0:9",
            "1.0:912+",
            "1.0:912+-1",
            "4294967296.0:1",
            "1.0:18446744073709551616",
            "1.0: 9",
            "1.0:9 ",
        ];
        for text in texts {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }
}
