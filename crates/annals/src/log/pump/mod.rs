//! The journal pump: the events of every persistence id into the buffer, on any layout.
//!
//! Guarantees: every event that is not deleted first reaches the buffer, those of one persistence id
//! in order, and an event that is pumped twice is stored once. A restart resumes at the checkpoints,
//! which are saved after the events before them. An event without a time, as the JVM plugins write
//! them, gets the time of its first pumping, however often it is pumped (`position`). A problem with
//! one persistence id is reported and does not affect the others. A persistence id whose last sequence
//! number is below its checkpoint was purged, and is pumped from its start.
//! Relies on: sequence numbers not being reused otherwise. The pump never writes to the journal.

mod position;
mod record;

use futures::stream::{self, StreamExt, TryStreamExt};

use self::position::{PumpPosition, Stamp};
use self::record::record_of;
use super::shared::ATTEMPTS_MAX;
use super::{Checkpoints, Ingested, Log, Time};
use crate::items::limits::GET_BATCH_MAX;
use crate::journal::{Journal, Window};
use crate::{Error, ErrorKind, Event, PersistenceId, Result, SequenceNumber};

/// How many events are ingested before the checkpoint is saved.
const BATCH: usize = 500;

/// What a pass of a pump did.
///
/// See [`JournalPump`] for an example.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "it may hold an error"]
pub struct PumpReport {
    /// Persistence ids that were checked.
    pub ids: u64,
    /// Events that were stored in the buffer, or were there already.
    pub events: u64,
    /// Of those, how many lack their payload, which is too large for the log.
    pub without_payload: u64,
    /// Why events could not become records. They are skipped, and stay in the journal.
    pub problems: Vec<String>,
    /// One error per persistence id that was not pumped to its end. The next pass resumes there.
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

    /// The failure to act on first: one that a retry may solve before others.
    pub fn failure(&self) -> Option<&Error> {
        let weight = |error: &&Error| match error.kind() {
            ErrorKind::Unavailable => 2,
            ErrorKind::Conflict => 0,
            _ => 1,
        };
        self.failures.iter().max_by_key(weight)
    }
}

/// Pumps the events of a journal into the log's buffer.
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
    /// The pump of a journal. The name distinguishes the journals of a log: it is part of the keys of
    /// records and of checkpoints.
    pub fn new(journal: Journal, log: Log, name: &str) -> Self {
        let source = format!("journal:{name}");
        Self {
            checkpoints: log.checkpoints(&source),
            journal,
            log,
            source,
        }
    }

    /// Pumps the new events of every persistence id.
    ///
    /// It costs the list of persistence ids, which reads the whole journal on every layout (none
    /// stores such a list, or the order of changes); a read of checkpoints per hundred ids; and a
    /// replay of each id after its checkpoint. An id without new events costs two requests, one of
    /// them for its last sequence number.
    ///
    /// # Errors
    /// As the store fails while listing ids or reading checkpoints. Events that were pumped stay
    /// pumped; the next pass resumes. A problem with one id is in the report.
    pub async fn pass(&self) -> Result<PumpReport> {
        let concurrency = self.log.shared.settings.concurrency;
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

    /// Pumps the new events of one persistence id.
    async fn pump(&self, id: PersistenceId, position: Option<String>) -> PumpReport {
        let mut report = PumpReport {
            ids: 1,
            ..PumpReport::default()
        };
        let course = Course {
            id: id.clone(),
            saved: position,
            position: PumpPosition::default(),
        };
        if let Err(cause) = self.pump_from(course, &mut report).await {
            let message = "a persistence id was not pumped to its end";
            let failure = Error::new(cause.kind(), message).fact("id", id);
            report.failures.push(failure.because(cause));
        }
        report
    }

    /// Resumes at a checkpoint, or at the one that another pump saved meanwhile.
    async fn pump_from(&self, mut course: Course, report: &mut PumpReport) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            course.position = match &course.saved {
                Some(text) => text.parse()?,
                None => PumpPosition::default(),
            };
            if self.pump_after(&mut course, report).await? {
                return Ok(());
            }
        }
        Err(Error::unavailable(
            "other pumps keep pumping this persistence id; run one pump, or retry later",
        ))
    }

    /// Pumps the events after a checkpoint. Returns false if another pump saved one meanwhile.
    async fn pump_after(&self, course: &mut Course, report: &mut PumpReport) -> Result<bool> {
        let mut is_idle = true;
        let Some(mut next) = course.position.next() else {
            return Ok(true);
        };
        loop {
            let events = self.journal.replay(&course.id, Window::from(next));
            let mut batches = events.try_chunks(BATCH);
            while let Some(batch) = batches.next().await {
                is_idle = false;
                // The events before an error are pumped before the error is returned.
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
            if !is_idle || !self.is_purged(course).await? {
                return Ok(true);
            }
            is_idle = false;
            course.position = PumpPosition::default();
            next = SequenceNumber::FIRST;
        }
    }

    /// Ingests consecutive events, and saves the checkpoint. Returns false if another pump saved one
    /// meanwhile.
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
                let saved = course.position.stamp;
                let saved = saved.filter(|stamp| next <= Some(stamp.to));
                let new = || Stamp {
                    to: last,
                    time: self.log.now(),
                };
                let stamp = saved.unwrap_or_else(new);
                course.position.stamp = Some(stamp);
                // A stamp is saved before it is used, so one is used at a time.
                if saved.is_none() && !self.save(course).await? {
                    return Ok(false);
                }
                let to = stamp.to;
                let end = events.partition_point(|event| event.sequence_number <= to);
                rest = events.split_off(end);
                last = events.last().map_or(last, |event| event.sequence_number);
            }
            let stamp = course.position.stamp.map(|stamp| stamp.time);
            self.ingest(events, stamp, report).await?;
            course.position = course.position.advance(last);
            if !self.save(course).await? {
                return Ok(false);
            }
            events = rest;
        }
        Ok(true)
    }

    /// Saves the checkpoint. Returns false if another pump saved one meanwhile.
    async fn save(&self, course: &mut Course) -> Result<bool> {
        let (id, text) = (course.id.as_str(), course.position.to_string());
        let before = course.saved.as_deref();
        let saved = self.checkpoints.advance(id, before, &text).await?;
        let is_ours = saved.as_ref() == Some(&text);
        course.saved = saved;
        Ok(is_ours)
    }

    /// Whether the last sequence number is below the checkpoint: the persistence id was purged, and
    /// numbering restarted at 1.
    async fn is_purged(&self, course: &Course) -> Result<bool> {
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
            match record_of(&self.source, event, stamp, true) {
                Ok(record) => {
                    recorded.push(event);
                    records.push(record);
                }
                Err(error) => report.problems.push(error.to_string()),
            }
        }
        let ingested = self.log.ingest(records).await;
        if let Some(error) = ingested.failure() {
            return Err(error.clone());
        }
        for (event, mut outcome) in recorded.into_iter().zip(ingested.outcomes) {
            if matches!(outcome, Ingested::Rejected(_)) {
                let record = record_of(&self.source, event, stamp, false)?;
                outcome = self.log.ingest_one(record).await;
                report.without_payload += u64::from(outcome.is_buffered());
            }
            match outcome {
                Ingested::Stored | Ingested::Present => report.events += 1,
                Ingested::Unknown(error) => return Err(error),
                Ingested::Conflict(error) | Ingested::Rejected(error) => {
                    report.problems.push(error.to_string());
                }
            }
        }
        Ok(())
    }
}

/// A persistence id that is being pumped.
#[derive(Debug)]
struct Course {
    id: PersistenceId,
    /// The saved checkpoint.
    saved: Option<String>,
    position: PumpPosition,
}
