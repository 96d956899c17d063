//! Positions in a shard: where a pump starts, and what a checkpoint stores.
//!
//! Guarantees: a stored position is read back. Any other text is refused.

use std::fmt;
use std::str::FromStr;

use annals::log::Time;
use annals::{Error, Result};

/// Where a pump without checkpoints starts.
///
/// ```
/// use annals_aws::kinesis::Begin;
///
/// assert_eq!("latest".parse::<Begin>()?, Begin::Latest);
/// assert!(matches!("2018-03-16T19:56:03Z".parse::<Begin>()?, Begin::At(_)));
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// At the oldest record in the stream.
    #[default]
    TrimHorizon,
    /// At new records.
    Latest,
    /// At records that arrived at this time or later.
    At(Time),
}

impl FromStr for Begin {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "trim-horizon" | "TRIM_HORIZON" => Ok(Self::TrimHorizon),
            "latest" | "LATEST" => Ok(Self::Latest),
            time => match time.parse() {
                Ok(time) => Ok(Self::At(time)),
                Err(cause) => Err(Error::invalid(
                    "a pump starts at trim-horizon, at latest or at a time",
                )
                .fact("begin", time.escape_debug())
                .because(cause)),
            },
        }
    }
}

/// How far a shard is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Not at all: it is read from its oldest record on.
    TrimHorizon,
    /// Not at all: it is read from what comes now. Kept as the time, so that a restart before the
    /// first record misses nothing.
    Latest(Time),
    /// Not at all: it is read from this time on.
    At(Time),
    /// Up to the record with this sequence number.
    After(String),
    /// To its end.
    End,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TrimHorizon => f.write_str("trim-horizon"),
            Self::Latest(time) | Self::At(time) => write!(f, "at:{}", time.ms()),
            Self::After(number) => write!(f, "after:{number}"),
            Self::End => f.write_str("end"),
        }
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::corrupt(
                "a checkpoint of a shard does not parse; delete it to pump the shard from its start",
            )
            .fact("position", text)
        };
        match text.split_once(':') {
            None if text == "trim-horizon" => Ok(Self::TrimHorizon),
            None if text == "end" => Ok(Self::End),
            Some(("at", ms)) => {
                let time = ms.parse().map(Time::from_ms).map_err(|_| wrong())?;
                time.map(Self::At).map_err(|_| wrong())
            }
            Some(("after", number)) if !number.is_empty() => Ok(Self::After(number.to_owned())),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use annals::ErrorKind;

    use super::*;

    #[test]
    fn positions_round_trip() {
        let time = Time::from_ms(7).unwrap();
        for (position, text) in [
            (Position::TrimHorizon, "trim-horizon"),
            (Position::At(time), "at:7"),
            (Position::After("4959".to_owned()), "after:4959"),
            (Position::End, "end"),
        ] {
            assert_eq!(position.to_string(), text);
            assert_eq!(text.parse::<Position>().unwrap(), position);
        }
        // The latest record is not the latest any more when it is read back.
        let latest = Position::Latest(time).to_string();
        assert_eq!(latest.parse::<Position>().unwrap(), Position::At(time));
        for text in ["", "at:", "at:x", "after:", "4959", "End"] {
            let error = text.parse::<Position>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
        }
    }

    #[test]
    fn a_start_is_named_or_a_time() {
        assert_eq!("trim-horizon".parse::<Begin>().unwrap(), Begin::TrimHorizon);
        let at = Begin::At(Time::from_ms(1_000).unwrap());
        assert_eq!("1970-01-01T00:00:01Z".parse::<Begin>().unwrap(), at);
        let error = "yesterday".parse::<Begin>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
