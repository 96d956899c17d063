//! Ingest: records into the buffer.
//!
//! Promises: a record that was stored, or was there already, reaches its slot. A record that comes
//! again changes nothing. One that says something else than what waits under its source and id is
//! refused. One bad record does not keep the others out.
//! Never: writes to the event table.

use std::collections::HashMap;

use super::tables;
use super::{EventId, Log, Record, Slot, Time};
use crate::items::{Condition, Item, Key, Write, WriteError, check_item};
use crate::{Error, ErrorKind, Result};

/// What became of one record.
///
/// ```
/// use annals::Annals;
/// use annals::log::{Ingested, Record};
/// use annals::settings::LogSettings;
/// use serde_json::json;
///
/// # #[tokio::main]
/// # async fn main() -> annals::Result<()> {
/// # let folder = tempfile::tempdir().expect("a folder");
/// let annals = Annals::embedded(folder.path()).await?;
/// let log = annals.create_log(&LogSettings::default()).await?;
/// let record = |n| Ok(Record::json("web", "a".parse()?, "1000".parse()?, &json!(n)));
/// # let record = |n| -> annals::Result<Record> { record(n) };
/// assert!(matches!(log.ingest_one(record(1)?).await, Ingested::Stored));
/// assert!(matches!(log.ingest_one(record(1)?).await, Ingested::Present));
/// assert!(matches!(log.ingest_one(record(2)?).await, Ingested::Conflict(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum Ingested {
    /// It waits in the buffer.
    Stored,
    /// The same waits there already.
    Present,
    /// Something else waits there under its source and id. What was there stays.
    Conflict(Error),
    /// It cannot be an event; the error says why. It was not written.
    Rejected(Error),
    /// The store failed. Whether it was written is not known; ingesting it again is safe.
    Unknown(Error),
}

impl Ingested {
    /// Whether the record is in the buffer.
    pub fn is_in(&self) -> bool {
        matches!(self, Self::Stored | Self::Present)
    }

    /// Why it is not, or may not be, in the buffer.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Stored | Self::Present => None,
            Self::Conflict(error) | Self::Rejected(error) | Self::Unknown(error) => Some(error),
        }
    }
}

/// What became of each record, in their order.
///
/// See [`Log`] for an example.
#[derive(Clone, Debug, Default)]
pub struct IngestReport {
    /// One for each record.
    pub outcomes: Vec<Ingested>,
}

impl IngestReport {
    /// How many were stored.
    pub fn stored(&self) -> usize {
        let stored = |outcome: &&Ingested| matches!(outcome, Ingested::Stored);
        self.outcomes.iter().filter(stored).count()
    }

    /// How many were there already.
    pub fn present(&self) -> usize {
        let present = |outcome: &&Ingested| matches!(outcome, Ingested::Present);
        self.outcomes.iter().filter(present).count()
    }

    /// The records that are not in the buffer, by their place among those given, and why.
    pub fn problems(&self) -> impl Iterator<Item = (usize, &Error)> {
        let outcomes = self.outcomes.iter().enumerate();
        outcomes.filter_map(|(n, outcome)| outcome.error().map(|error| (n, error)))
    }

    /// Why the store failed, where it did: the same records are to be ingested again.
    pub fn failure(&self) -> Option<&Error> {
        self.outcomes.iter().find_map(|outcome| match outcome {
            Ingested::Unknown(error) => Some(error),
            _ => None,
        })
    }
}

/// The error of one record, which it names.
fn about(id: &EventId, kind: ErrorKind, message: &str) -> Error {
    Error::new(kind, format!("{message}. event id=`{id}`"))
}

fn conflict(id: &EventId) -> Error {
    let message =
        "another record waits under this source and id; it stays, give this one an id of its own";
    about(id, ErrorKind::Conflict, message)
}

/// Below this an event fits its slot whatever its data becomes.
const SURELY_FITS_BYTES: usize = 64 * 1024;

impl Log {
    /// The item of a record and its key, if it can be an event.
    fn accept(&self, record: Record) -> Result<(Key, Item)> {
        let (id, time) = (record.event_id.clone(), record.time);
        let refuse = |cause: Error| {
            about(&id, ErrorKind::Invalid, "a record cannot be an event").because(cause)
        };
        if time >= Time::END {
            return Err(refuse(Error::invalid(format!(
                "its time is the end of time. time=`{time}`"
            ))));
        }
        let item = tables::buffer_item(record);
        let checked = check_item(&self.tables.buffer, &item).map_err(refuse)?;
        if checked.size > SURELY_FITS_BYTES {
            let buffered = tables::buffered_of(&item).map_err(refuse)?;
            let slot = Slot::of(time, self.unit);
            let partition = tables::partition(slot, Some(self.settings.slot_parts));
            let is_decoded = self.settings.decode_payload;
            tables::event_of(&self.tables.event, partition, &buffered, is_decoded)
                .map_err(|cause| refuse(tables::too_large(checked.size).because(cause)))?;
        }
        Ok((checked.key, item))
    }

    /// Puts one record into the buffer, on the condition that no other is there: in one request.
    ///
    /// # Errors
    /// [`Ingested`] has them all.
    pub async fn ingest_one(&self, record: Record) -> Ingested {
        let id = record.event_id.clone();
        let item = match self.accept(record) {
            Ok((_, item)) => item,
            Err(error) => return Ingested::Rejected(error),
        };
        let table = &self.tables.buffer;
        match self.items.put(table, item.clone(), Condition::Absent).await {
            Ok(_) => Ingested::Stored,
            Err(WriteError::Refused { existing, .. })
                if existing
                    .as_deref()
                    .is_some_and(|found| tables::is_same_record(found, &item)) =>
            {
                Ingested::Present
            }
            Err(WriteError::Refused { .. }) => Ingested::Conflict(conflict(&id)),
            Err(WriteError::Failed(error)) => Ingested::Unknown(error),
        }
    }

    /// Puts records into the buffer: a read of a hundred, then writes of twenty-five.
    ///
    /// Of two writers that bring records with one source and id and different payloads at the very
    /// same time, the later may replace the earlier. [`ingest_one`](Self::ingest_one) does not.
    pub async fn ingest(&self, records: Vec<Record>) -> IngestReport {
        let mut outcomes = Vec::with_capacity(records.len());
        let mut batch = Fresh::default();
        for record in records {
            let id = record.event_id.clone();
            outcomes.push(match self.accept(record) {
                Err(error) => Ingested::Rejected(error),
                Ok((key, item)) => batch.add(outcomes.len(), id, (key, item)),
            });
        }
        let keys = batch.entries.iter().map(|entry| entry.key.clone());
        let found = self.get_all(&self.tables.buffer, keys.collect()).await;
        match found {
            Ok(found) => self.put_fresh(batch, found, &mut outcomes).await,
            Err(error) => {
                for entry in &batch.entries {
                    entry.tell(&mut outcomes, &Ingested::Unknown(error.clone()));
                }
            }
        }
        IngestReport { outcomes }
    }

    async fn put_fresh(
        &self,
        mut batch: Fresh,
        found: Vec<Option<Item>>,
        outcomes: &mut [Ingested],
    ) {
        let mut writes = Vec::with_capacity(found.len());
        for (entry, found) in batch.entries.iter_mut().zip(found) {
            match found {
                None => writes.push(Write::Put(std::mem::take(&mut entry.item))),
                Some(found) => {
                    let outcome = match tables::is_same_record(&found, &entry.item) {
                        true => Ingested::Present,
                        false => Ingested::Conflict(conflict(&entry.id)),
                    };
                    entry.tell(outcomes, &outcome);
                }
            }
        }
        let ended = self.write_all(&self.tables.buffer, writes).await;
        let Some(failure) = ended.failure else {
            return;
        };
        for entry in &batch.entries {
            if ended.remaining.contains(&entry.key) {
                entry.tell(outcomes, &Ingested::Unknown(failure.clone()));
            }
        }
    }
}

/// One item to be put, and the places of the records that it stands for.
#[derive(Debug)]
struct Entry {
    key: Key,
    id: EventId,
    /// Until it is put.
    item: Item,
    places: Vec<usize>,
}

impl Entry {
    fn tell(&self, outcomes: &mut [Ingested], outcome: &Ingested) {
        for place in &self.places {
            if let Some(told) = outcomes.get_mut(*place) {
                *told = outcome.clone();
            }
        }
    }
}

/// The different items of a batch.
#[derive(Debug, Default)]
struct Fresh {
    entries: Vec<Entry>,
    by_key: HashMap<Key, usize>,
}

impl Fresh {
    /// Adds an item, unless it is there or another is; answers what its record is told if all goes
    /// well.
    fn add(&mut self, place: usize, id: EventId, (key, item): (Key, Item)) -> Ingested {
        let known = self.by_key.get(&key).and_then(|n| self.entries.get_mut(*n));
        match known {
            Some(entry) if tables::is_same_record(&entry.item, &item) => {
                entry.places.push(place);
                Ingested::Present
            }
            Some(_) => Ingested::Conflict(conflict(&id)),
            None => {
                self.by_key.insert(key.clone(), self.entries.len());
                self.entries.push(Entry {
                    key,
                    id,
                    item,
                    places: vec![place],
                });
                Ingested::Stored
            }
        }
    }
}
