//! Records, which sources write; events, which playback returns; dead letters; ids and positions.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Data, RecordPayload, Slot, Time, tables};
use crate::items::Item;
use crate::items::limits::SORT_BYTES_MAX;
use crate::{Error, Result};

/// The id of an event, unique within its slot: any text of 1 to 1,024 bytes.
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
    /// The id of an event that has none: the SHA-256 of its content, in lower-case hex. The same
    /// content has the same id.
    pub fn from_content(bytes: &[u8]) -> Self {
        Self(tables::sha256(&[bytes]).into())
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
                "an event id must have 1 to {SORT_BYTES_MAX} bytes"
            ))
            .fact("bytes", bytes)
            .fact("event id", shown));
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

/// An event as a source writes it, before it is in its slot.
///
/// A retry must repeat source, id, time and payload; then it is recognised as the same record.
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
#[non_exhaustive]
pub struct Record {
    /// The source: the ARN of a stream, or any name. Two sources may use the same ids if their
    /// events are in different slots.
    pub source: String,
    /// The id, unique within the source.
    pub event_id: EventId,
    /// When it happened.
    pub time: Time,
    /// What happened.
    pub payload: RecordPayload,
}

impl Record {
    /// A record with any payload.
    pub fn new(
        source: impl Into<String>,
        event_id: EventId,
        time: Time,
        payload: RecordPayload,
    ) -> Self {
        Self {
            source: source.into(),
            event_id,
            time,
            payload,
        }
    }

    /// A record of JSON.
    pub fn json(source: impl Into<String>, event_id: EventId, time: Time, data: &Json) -> Self {
        Self::new(source, event_id, time, RecordPayload::json(data))
    }
}

/// One event of the log.
///
/// See [`Log`](super::Log) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEvent {
    /// The slot of the event.
    pub slot: Slot,
    /// When it happened.
    pub time: Time,
    /// The id, unique within the slot.
    pub event_id: EventId,
    /// What happened, as it is stored.
    pub payload: RecordPayload,
}

impl LogEvent {
    /// The data of the payload, decoded.
    pub fn data(&self) -> Data {
        self.payload.data()
    }

    /// The position of this event in the order of all events.
    pub fn position(&self) -> LogPosition {
        LogPosition {
            time: self.time,
            event_id: self.event_id.clone(),
        }
    }
}

/// The position of an event in the order of all events: by time, then by id. A reader stores it, as
/// text, to resume after that event.
///
/// ```
/// use annals::log::LogPosition;
///
/// let position: LogPosition = "1521230163217/clap-1".parse()?;
/// assert_eq!(position.to_string(), "1521230163217/clap-1");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct LogPosition {
    /// The event's time.
    pub time: Time,
    /// The event's id.
    pub event_id: EventId,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.time.ms(), self.event_id)
    }
}

impl FromStr for LogPosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid("a position must be milliseconds, a slash and an event id")
                .fact("position", text)
        };
        let (ms, id) = text.split_once('/').ok_or_else(wrong)?;
        let ms = ms.parse().map_err(|_| wrong())?;
        Ok(Self {
            time: Time::from_ms(ms)?,
            event_id: id.parse()?,
        })
    }
}

/// A record that cannot become an event, stored whole with the reason until an operator deletes it.
///
/// A record that contradicts the event under its id, is too large for its slot, or does not parse would
/// be scanned by every sweep if it stayed in the buffer, and the original's scan would put it over the
/// stored event.
///
/// ```
/// use annals::Annals;
/// use annals::log::Record;
/// use annals::settings::LogSettings;
/// use futures::TryStreamExt;
/// use serde_json::json;
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// let annals = Annals::embedded(folder.path()).await?;
/// let log = annals.create_log(&LogSettings::default()).await?;
/// for n in [1, 2] {
///     // The same id with different content.
///     let record = Record::json("web", "a".parse()?, "1000".parse()?, &json!(n));
///     log.ingest_one(record).await;
///     log.sweep().await;
/// }
/// let letter = log.dead_letters().try_next().await?.expect("the second record");
/// assert!(letter.reason.contains("event id=`a`"));
/// log.delete_dead_letter(&letter.name).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The name, unique among dead letters.
    pub name: String,
    /// Why the record cannot become an event.
    pub reason: String,
    /// The record, as it was in the buffer.
    pub record: Item,
}
