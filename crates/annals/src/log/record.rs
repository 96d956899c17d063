//! Records, as sources bring them; events, as playback gives them back; and how either is named.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Data, RecordPayload, Slot, Time, tables};
use crate::items::limits::SORT_BYTES_MAX;
use crate::{Error, Result};

/// What names an event within its slot: any text of 1 to 1,024 bytes.
///
/// ```
/// use annals::log::EventId;
///
/// assert!("shardId-000000000000:4959".parse::<EventId>().is_ok());
/// assert!("".parse::<EventId>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(Arc<str>);

impl EventId {
    /// The id of what has none of its own: the SHA-256 of its bytes, as lower-case hex. What comes
    /// again has the same.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(tables::sha256_of(bytes).into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = text.len();
        if bytes == 0 || bytes > SORT_BYTES_MAX {
            let shown: String = text.chars().take(40).collect();
            return Err(Error::invalid(format!(
                "an event id has 1 to {SORT_BYTES_MAX} bytes. bytes=`{bytes}`, event id=`{shown}`"
            )));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventId({})", self.0)
    }
}

/// What a source brings: something that happened, when, and how it is known again.
///
/// A record that comes again must have the same source, id, time and payload: then it is the same.
///
/// ```
/// use annals::log::Record;
/// use serde_json::json;
///
/// let time = "2018-03-16T19:56:03.217Z".parse()?;
/// let record = Record::json("web", "clap-1".parse()?, time, &json!({"clap": 1}));
/// assert_eq!(record.source, "web");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it comes from: the stream's ARN, or any name. Two sources may use the same ids as long
    /// as their events do not meet in one slot.
    pub source: String,
    /// What names it there.
    pub event_id: EventId,
    /// When it happened.
    pub time: Time,
    /// What happened.
    pub payload: RecordPayload,
}

impl Record {
    /// A record of JSON.
    pub fn json(source: impl Into<String>, event_id: EventId, time: Time, data: &Json) -> Self {
        Self {
            source: source.into(),
            event_id,
            time,
            payload: RecordPayload::json(data),
        }
    }
}

/// One event of the log.
///
/// See [`Log`](super::Log) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The slot it stands in.
    pub slot: Slot,
    /// When it happened.
    pub time: Time,
    /// What names it.
    pub event_id: EventId,
    /// What happened, as it is stored.
    pub payload: RecordPayload,
}

impl LogEvent {
    /// What the source says happened.
    pub fn data(&self) -> Data {
        self.payload.data()
    }

    /// Its place in the order of all events.
    pub fn place(&self) -> Place {
        Place {
            time: self.time,
            event_id: self.event_id.clone(),
        }
    }
}

/// A place in the order of all events: by time, then by id. As text it is what a reader keeps in
/// order to go on behind it.
///
/// ```
/// use annals::log::Place;
///
/// let place: Place = "1521230163217/clap-1".parse()?;
/// assert_eq!(place.to_string(), "1521230163217/clap-1");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The event's time.
    pub time: Time,
    /// The event's id.
    pub event_id: EventId,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.time.ms(), self.event_id)
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!(
                "a place is milliseconds, a slash and an event id. place=`{text}`"
            ))
        };
        let (ms, id) = text.split_once('/').ok_or_else(wrong)?;
        let ms = ms.parse().map_err(|_| wrong())?;
        Ok(Self {
            time: Time::from_ms(ms)?,
            event_id: id.parse()?,
        })
    }
}
