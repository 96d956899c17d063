//! The journal's pump: the events of every persistence id into the buffer, on any layout.
//!
//! Promises: every event that is not deleted before its turn reaches the buffer, those of one id in
//! order, and one that is pumped twice is stored once. A restart goes on at the checkpoints, which
//! are saved after the events they stand for. An event without a time, as the plugins for the JVM
//! write them, has the time of its first pumping, whoever pumps it again (`position.rs`). What goes
//! wrong with one id is told, and keeps no other out.
//! An id whose last number is below its checkpoint was purged, and is pumped from its beginning.
//! Trusts: that numbers are not used twice otherwise.
//! Never: writes to the journal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Map, Value as Json, json};

use super::position::Position;
use super::{Checkpoints, EventId, Ingested, Log, Record, RecordPayload, Time, tables};
use crate::items::limits::GET_BATCH_MAX;
use crate::journal::{Journal, Window};
use crate::{Codec, Error, ErrorKind, Event, PersistenceId, Result, SequenceNumber};

/// How many events are ingested at once, before the checkpoint is saved.
const BATCH: usize = 500;
/// How often a pump looks again where others pump the same id.
const ROUNDS_MAX: usize = 10;

/// What a pass of a pump did.
///
/// See [`JournalPump`] for an example.
#[derive(Clone, Debug, Default)]
pub struct PumpReport {
    /// Ids that were looked at.
    pub ids: u64,
    /// Events that were brought into the buffer, or waited there already.
    pub events: u64,
    /// Of those, how many are without their payload, which is too large for the log.
    pub without_payload: u64,
    /// Events that could not become records, and why. They are passed over; the journal has them.
    pub problems: Vec<String>,
    /// Ids that did not get through, one error each. What came before it is pumped; the next pass goes
    /// on there.
    pub failures: Vec<Error>,
}

impl PumpReport {
    fn add(mut self, other: Self) -> Self {
        self.ids += other.ids;
        self.events += other.events;
        self.without_payload += other.without_payload;
        self.problems.extend(other.problems);
        self.failures.extend(other.failures);
        self
    }

    /// Of what went wrong, what says most about what to do: what may pass before what is wrong in
    /// itself.
    pub fn failure(&self) -> Option<&Error> {
        let weight = |error: &&Error| match error.kind() {
            ErrorKind::Unavailable => 2,
            ErrorKind::Conflict => 0,
            _ => 1,
        };
        self.failures.iter().max_by_key(weight)
    }
}

/// Brings the events of a journal into the log's buffer.
///
/// ```
/// use annals::journal::Expected;
/// use annals::log::JournalPump;
/// use annals::settings::LogSettings;
/// use annals::{Annals, Codec, NewEvent};
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let folder = folder.path();
/// let annals = Annals::embedded(folder).await?;
/// let opened = NewEvent::new(Codec::Text, "opened");
/// annals.journal().append(&"Cart|42".parse()?, Expected::Empty, opened).await?;
///
/// let log = annals.create_log(&LogSettings::default()).await?;
/// let pump = JournalPump::new(annals.journal().clone(), log, "journal");
/// assert_eq!(pump.pass().await?.events, 1);
/// assert_eq!(pump.pass().await?.events, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct JournalPump {
    journal: Journal,
    log: Log,
    checkpoints: Checkpoints,
    source: String,
}

impl JournalPump {
    /// The pump of a journal. The name tells the journals of a log apart: it is part of what its
    /// records are known again by, and of where its checkpoints stand.
    pub fn new(journal: Journal, log: Log, name: &str) -> Self {
        let source = format!("journal:{name}");
        Self {
            checkpoints: log.checkpoints(&source),
            journal,
            log,
            source,
        }
    }

    /// Brings what is new of every id.
    ///
    /// What it costs: the list of ids, which reads the whole journal on every layout (none keeps a
    /// list of ids, or the order in which they changed); then a read of checkpoints for each hundred
    /// ids, and of each id what is behind its checkpoint: where there is nothing, a request, and one for
    /// its last number.
    ///
    /// # Errors
    /// As the store fails while it lists the ids or reads the checkpoints. What was pumped before stays
    /// pumped; the next pass goes on. What goes wrong with an id is in the report.
    pub async fn pass(&self) -> Result<PumpReport> {
        let concurrency = self.log.settings.concurrency;
        let ids = self.journal.persistence_ids("");
        let chunks = ids.try_chunks(GET_BATCH_MAX).map_err(|error| error.1);
        let reports = chunks.and_then(|ids| self.pump_all(ids, concurrency));
        reports
            .try_fold(PumpReport::default(), |all, one| async { Ok(all.add(one)) })
            .await
    }

    async fn pump_all(&self, ids: Vec<PersistenceId>, concurrency: usize) -> Result<PumpReport> {
        let positions = {
            let names: Vec<&str> = ids.iter().map(PersistenceId::as_str).collect();
            self.checkpoints.load(&names).await?
        };
        let each = ids.into_iter().zip(positions);
        let pumping = each.map(|(id, position)| self.pump(id, position));
        let pumping = stream::iter(pumping).buffer_unordered(concurrency);
        let all = pumping.fold(PumpReport::default(), |all, one| async { all.add(one) });
        Ok(all.await)
    }

    /// Brings what is new of one id.
    async fn pump(&self, id: PersistenceId, position: Option<String>) -> PumpReport {
        let mut report = PumpReport {
            ids: 1,
            ..PumpReport::default()
        };
        let course = Course {
            id: id.clone(),
            saved: position,
            position: Position::default(),
        };
        if let Err(cause) = self.pump_from(course, &mut report).await {
            let message = format!("an id is not pumped to its end. id=`{id}`");
            let failure = Error::new(cause.kind(), message).because(cause);
            report.failures.push(failure);
        }
        report
    }

    /// Goes on at a checkpoint, or at the one that another pump has saved meanwhile.
    async fn pump_from(&self, mut course: Course, report: &mut PumpReport) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            course.position = match &course.saved {
                Some(text) => text.parse()?,
                None => Position::default(),
            };
            if self.pump_behind(&mut course, report).await? {
                return Ok(());
            }
        }
        Err(Error::unavailable(
            "other pumps are pumping this id; one is enough",
        ))
    }

    /// Brings what is behind a checkpoint; false where another pump has saved one meanwhile.
    async fn pump_behind(&self, course: &mut Course, report: &mut PumpReport) -> Result<bool> {
        let mut is_idle = true;
        let Some(mut next) = course.position.next() else {
            return Ok(true);
        };
        loop {
            let events = self.journal.replay(&course.id, Window::from(next));
            let mut batches = events.try_chunks(BATCH);
            while let Some(batch) = batches.next().await {
                is_idle = false;
                // What came before an error is pumped before it is passed on.
                let (events, error) = match batch {
                    Ok(events) => (events, None),
                    Err(stream::TryChunksError(events, error)) => (events, Some(error)),
                };
                if !self.pump_batch(course, events, report).await? {
                    return Ok(false);
                }
                if let Some(error) = error {
                    return Err(error);
                }
            }
            if !is_idle || !self.is_begun_anew(course).await? {
                return Ok(true);
            }
            is_idle = false;
            course.position = Position::default();
            next = SequenceNumber::FIRST;
        }
    }

    /// Brings events that follow each other, and saves that; false where another pump has saved
    /// something meanwhile.
    async fn pump_batch(
        &self,
        course: &mut Course,
        mut events: Vec<Event>,
        report: &mut PumpReport,
    ) -> Result<bool> {
        while let Some(mut last) = events.last().map(|event| event.sequence_number) {
            let mut rest = Vec::new();
            if events.iter().any(|event| event.time_ms == 0) {
                let next = events.first().map(|event| event.sequence_number);
                let stamp = course.position.stamp.filter(|(to, _)| next <= Some(*to));
                course.position.stamp = stamp.or_else(|| Some((last, self.log.now())));
                if stamp.is_none() && !self.save(course).await? {
                    return Ok(false);
                }
                // What has one stamp, and no more: each is saved before it is used.
                let to = course.position.stamp.map_or(last, |(to, _)| to);
                let end = events.partition_point(|event| event.sequence_number <= to);
                rest = events.split_off(end);
                last = events.last().map_or(last, |event| event.sequence_number);
            }
            let stamp = course.position.stamp.map(|(_, time)| time);
            self.ingest(events, stamp, report).await?;
            course.position = course.position.at(last);
            if !self.save(course).await? {
                return Ok(false);
            }
            events = rest;
        }
        Ok(true)
    }

    /// Saves how far it is; false where another pump has saved something meanwhile.
    async fn save(&self, course: &mut Course) -> Result<bool> {
        let (id, text) = (course.id.as_str(), course.position.to_string());
        let before = course.saved.as_deref();
        let standing = self.checkpoints.advance(id, before, &text).await?;
        let is_ours = standing.as_ref() == Some(&text);
        course.saved = standing;
        Ok(is_ours)
    }

    /// Whether an id has fewer numbers than were pumped of it: it was purged, and begins anew.
    async fn is_begun_anew(&self, course: &Course) -> Result<bool> {
        let Some(last) = course.position.last else {
            return Ok(false);
        };
        let highest = self.journal.highest(&course.id).await?;
        Ok(highest.is_some_and(|highest| highest < last))
    }

    async fn ingest(
        &self,
        events: Vec<Event>,
        stamp: Option<Time>,
        report: &mut PumpReport,
    ) -> Result<()> {
        let (mut recorded, mut records) = (Vec::new(), Vec::new());
        for event in &events {
            match self.record(event, stamp, true) {
                Ok(record) => {
                    recorded.push(event);
                    records.push(record);
                }
                Err(error) => report.problems.push(error.to_string()),
            }
        }
        let told = self.log.ingest(records).await;
        if let Some(error) = told.failure() {
            return Err(error.clone());
        }
        for (event, outcome) in recorded.into_iter().zip(told.outcomes) {
            match outcome {
                Ingested::Rejected(_) => {
                    let outcome = self.log.ingest_one(self.record(event, stamp, false)?).await;
                    report.without_payload += u64::from(outcome.is_in());
                    settle(outcome, report)?;
                }
                outcome => settle(outcome, report)?,
            }
        }
        Ok(())
    }

    /// The record of an event. Ids of one id sort by number, so that ties keep the journal's order.
    fn record(&self, event: &Event, stamp: Option<Time>, has_payload: bool) -> Result<Record> {
        let (id, number) = (&event.persistence_id, event.sequence_number.get());
        let event_id: EventId = format!("{}:{number:019}", tables::short(id.as_str())).parse()?;
        let time = match (event.time_ms, stamp) {
            (0, Some(stamp)) => stamp,
            (ms, _) => Time::from_ms(ms).map_err(|cause| {
                let message = format!("an event cannot be in the log. event id=`{event_id}`");
                Error::invalid(message).because(cause)
            })?,
        };
        let data = data_of(event, has_payload);
        Ok(Record {
            source: self.source.clone(),
            event_id,
            time,
            payload: RecordPayload::bytes(data.as_bytes()),
        })
    }
}

/// An id on its way: its checkpoint as it stands, and how far it is.
#[derive(Debug)]
struct Course {
    id: PersistenceId,
    saved: Option<String>,
    position: Position,
}

fn settle(outcome: Ingested, report: &mut PumpReport) -> Result<()> {
    match outcome {
        Ingested::Stored | Ingested::Present => report.events += 1,
        Ingested::Unknown(error) => return Err(error),
        Ingested::Conflict(error) | Ingested::Rejected(error) => {
            report.problems.push(error.to_string());
        }
    }
    Ok(())
}

/// An event as `annals replay` tells it. A payload that is JSON stands there byte for byte: a parser
/// would round numbers, and drop the first of two members of one name.
fn data_of(event: &Event, has_payload: bool) -> String {
    let data = &event.data;
    let mut object = Map::new();
    let mut set = |name: &str, value: Json| {
        object.insert(name.to_owned(), value);
    };
    set("persistence_id", json!(event.persistence_id.as_str()));
    set("sequence_number", json!(event.sequence_number.get()));
    set("time", json!(event.time_ms));
    set("manifest", json!(data.manifest));
    set("schema", json!(data.schema));
    set("tags", json!(data.tags));
    set("metadata", json!(data.metadata));
    set("codec", json!(data.codec.to_string()));
    if let Some(causation) = &event.causation {
        set("causation", json!(**causation));
    }
    if let Some(correlation) = &event.correlation {
        set("correlation", json!(**correlation));
    }
    let (name, payload) = match has_payload {
        false => ("payload_bytes", json!(data.payload.len()).to_string()),
        true => match (
            as_sent(&data.codec, &data.payload),
            data.codec.to_json(&data.payload),
        ) {
            (Some(text), _) => ("payload", text.to_owned()),
            (None, Some(json)) => ("payload", json.to_string()),
            (None, None) => (
                "payload_base64",
                json!(BASE64.encode(&data.payload)).to_string(),
            ),
        },
    };
    let mut text = Json::Object(object).to_string();
    text.pop();
    format!("{text},\"{name}\":{payload}}}")
}

/// The text of a payload that is JSON.
fn as_sent<'a>(codec: &Codec, bytes: &'a [u8]) -> Option<&'a str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    Some(text).filter(|_| *codec == Codec::Json && is_json())
}
