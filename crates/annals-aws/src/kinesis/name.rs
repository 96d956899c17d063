//! The names of streams and of their shards.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use annals::{Error, Result};

const NAME_CHARS_MAX: usize = 128;

/// The name of a stream: 1 to 128 letters, digits, `_`, `.` and `-`.
///
/// ```
/// use annals_aws::kinesis::StreamName;
///
/// assert!("claps-2018".parse::<StreamName>().is_ok());
/// assert!("no spaces".parse::<StreamName>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(Arc<str>);

impl StreamName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StreamName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
            return Ok(Self(text.into()));
        }
        let shown: String = text.chars().take(NAME_CHARS_MAX).collect();
        Err(Error::invalid(format!(
            "a stream name must have 1 to {NAME_CHARS_MAX} letters, digits, _, . and -"
        ))
        .fact("name", shown.escape_debug()))
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamName({})", self.0)
    }
}

/// The id of a shard within its stream: `shardId-000000000000`.
///
/// ```
/// use annals_aws::kinesis::ShardId;
///
/// let shard = ShardId::from("shardId-000000000000");
/// assert_eq!(shard.as_str(), "shardId-000000000000");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(Arc<str>);

impl ShardId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ShardId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for name in ["a", "A.b-c_9", &"x".repeat(128)] {
            assert!(name.parse::<StreamName>().is_ok(), "{name}");
        }
        for name in [
            "",
            " ",
            "a/b",
            "h\u{e9}",
            "arn:aws:kinesis",
            &"x".repeat(129),
        ] {
            assert!(name.parse::<StreamName>().is_err(), "{name}");
        }
    }
}
