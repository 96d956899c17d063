//! The journal's pump: the events of every persistence id into the buffer, on any layout.
//!
//! Promises: every event that is not deleted before its turn reaches the buffer, those of one id in
//! order, and one that is pumped twice is stored once. A restart goes on at the checkpoints, which
//! are saved after the events they stand for.
//! Trusts: that numbers are never used twice. An id that was purged and begins anew is passed over
//! until its numbers are past the checkpoint.
//! Never: writes to the journal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Map, Value as Json, json};

use super::{Checkpoints, EventId, Ingested, Log, Record, Time, tables};
use crate::items::limits::GET_BATCH_MAX;
use crate::journal::{Journal, Window};
use crate::{Codec, Error, Event, PersistenceId, Result, SequenceNumber};

/// How many events are ingested at once, before the checkpoint is saved.
const BATCH: usize = 500;

/// What a pass of a pump did.
///
/// See [`JournalPump`] for an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PumpReport {
    /// Ids that were looked at.
    pub ids: u64,
    /// Events that were brought into the buffer, or waited there already.
    pub events: u64,
    /// Of those, how many are without their payload, which is too large for the log.
    pub without_payload: u64,
    /// Events that could not become records, and why. They are passed over; the journal has them.
    pub problems: Vec<String>,
}

impl PumpReport {
    fn add(mut self, other: Self) -> Self {
        self.ids += other.ids;
        self.events += other.events;
        self.without_payload += other.without_payload;
        self.problems.extend(other.problems);
        self
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
    /// ids, and of each id what is behind its checkpoint, a request where there is nothing.
    ///
    /// # Errors
    /// As the store fails. What was pumped before stays pumped; the next pass goes on.
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
        let reports: Vec<PumpReport> = stream::iter(pumping)
            .buffer_unordered(concurrency)
            .try_collect()
            .await?;
        Ok(reports
            .into_iter()
            .fold(PumpReport::default(), PumpReport::add))
    }

    /// Brings what is new of one id.
    async fn pump(&self, id: PersistenceId, position: Option<String>) -> Result<PumpReport> {
        let mut report = PumpReport {
            ids: 1,
            ..PumpReport::default()
        };
        let pumped = position
            .map(|text| text.parse::<SequenceNumber>())
            .transpose();
        let pumped = pumped.map_err(|cause| {
            Error::corrupt(format!("a pump's checkpoint does not parse. id=`{id}`")).because(cause)
        })?;
        let next = match pumped {
            None => Some(SequenceNumber::FIRST),
            Some(last) => last.next(),
        };
        let Some(next) = next else {
            return Ok(report);
        };
        let events = self.journal.replay(&id, Window::from(next));
        let mut batches = events.try_chunks(BATCH);
        loop {
            // What came before an error is pumped before it is passed on.
            let (events, error) = match batches.next().await {
                None => return Ok(report),
                Some(Ok(events)) => (events, None),
                Some(Err(stream::TryChunksError(events, error))) => (events, Some(error)),
            };
            if let Some(last) = events.last().map(|event| event.sequence_number) {
                self.ingest(events, &mut report).await?;
                let position = last.to_string();
                self.checkpoints.save(&[(id.as_str(), &position)]).await?;
            }
            if let Some(error) = error {
                return Err(error);
            }
        }
    }

    async fn ingest(&self, events: Vec<Event>, report: &mut PumpReport) -> Result<()> {
        let (mut recorded, mut records) = (Vec::new(), Vec::new());
        for event in &events {
            match self.record(event, true) {
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
                    let outcome = self.log.ingest_one(self.record(event, false)?).await;
                    report.without_payload += u64::from(outcome.is_in());
                    settle(outcome, report)?;
                }
                outcome => settle(outcome, report)?,
            }
        }
        Ok(())
    }

    /// The record of an event. Ids of one id sort by number, so that ties keep the journal's order.
    fn record(&self, event: &Event, has_payload: bool) -> Result<Record> {
        let (id, number) = (&event.persistence_id, event.sequence_number.get());
        let event_id: EventId = format!("{}:{number:019}", tables::short(id.as_str())).parse()?;
        let time = Time::from_ms(event.time_ms).map_err(|cause| {
            let message = format!("an event cannot be in the log. event id=`{event_id}`");
            Error::invalid(message).because(cause)
        })?;
        let data = data_of(event, has_payload);
        Ok(Record::json(&self.source, event_id, time, &data))
    }
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

/// An event as `annals replay` tells it.
fn data_of(event: &Event, has_payload: bool) -> Json {
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
    let shown = data
        .codec
        .to_json(&data.payload)
        .filter(|json| is_whole(&data.codec, json, &data.payload));
    match (has_payload, shown) {
        (false, _) => set("payload_bytes", json!(data.payload.len())),
        (true, Some(json)) => set("payload", json),
        (true, None) => set("payload_base64", json!(BASE64.encode(&data.payload))),
    }
    Json::Object(object)
}

/// Whether JSON that was parsed says all that its bytes say: a number may have lost digits, and of
/// two members of one name the first is gone.
fn is_whole(codec: &Codec, json: &Json, bytes: &[u8]) -> bool {
    let bare = |bytes: &[u8]| bytes.iter().filter(|b| !b.is_ascii_whitespace()).count();
    *codec != Codec::Json || bare(json.to_string().as_bytes()) == bare(bytes)
}
