//! Ingest: records in, an outcome per record out. The first stage of the log.
//!
//! Guarantees: a record that was stored or present reaches its slot. A retry changes nothing. A
//! record that differs from the buffered one with its source and id is refused. A bad record does
//! not affect the others. Ingest never writes to the event table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::shared::{Put, Shared};
use super::tables::{self, SlotFormat};
use super::{EventId, Record, Time};
use crate::items::{Condition, Item, Key, TableSpec, Write, check_item};
use crate::{Error, ErrorKind, Result};

/// The outcome of ingesting one record.
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
#[must_use = "it may hold an error"]
pub enum Ingested {
    /// The record was stored in the buffer.
    Stored,
    /// The same record was in the buffer already.
    Present,
    /// A different record with this source and id is in the buffer, and stays there.
    Conflict(Error),
    /// The record cannot become an event, and was not written.
    Rejected(Error),
    /// The store failed. The record may have been written; ingesting it again is safe.
    Unknown(Error),
}

impl Ingested {
    /// Whether the record is in the buffer.
    pub fn is_buffered(&self) -> bool {
        matches!(self, Self::Stored | Self::Present)
    }

    /// Why the record is not, or may not be, in the buffer.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Stored | Self::Present => None,
            Self::Conflict(error) | Self::Rejected(error) | Self::Unknown(error) => Some(error),
        }
    }
}

/// The outcome of every record of a batch, in order.
///
/// See [`Log`](super::Log) for an example.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[must_use = "it may hold an error"]
pub struct IngestReport {
    /// One outcome per record.
    pub outcomes: Vec<Ingested>,
}

impl IngestReport {
    fn count(&self, is_counted: fn(&Ingested) -> bool) -> usize {
        let outcomes = self.outcomes.iter();
        outcomes.filter(|outcome| is_counted(outcome)).count()
    }

    /// The number of records that were stored.
    pub fn stored(&self) -> usize {
        self.count(|outcome| matches!(outcome, Ingested::Stored))
    }

    /// The number of records that were in the buffer already.
    pub fn present(&self) -> usize {
        self.count(|outcome| matches!(outcome, Ingested::Present))
    }

    /// The records that are not in the buffer, by index, and why.
    pub fn problems(&self) -> impl Iterator<Item = (usize, &Error)> {
        let outcomes = self.outcomes.iter().enumerate();
        outcomes.filter_map(|(n, outcome)| outcome.error().map(|error| (n, error)))
    }

    /// Why the store failed, if it did. Ingest the same records again.
    pub fn failure(&self) -> Option<&Error> {
        self.outcomes.iter().find_map(|outcome| match outcome {
            Ingested::Unknown(error) => Some(error),
            _ => None,
        })
    }
}

/// The ingest stage.
#[derive(Clone, Debug)]
pub(super) struct Ingest {
    pub(super) shared: Arc<Shared>,
}

impl Ingest {
    /// Stores one record, with one conditional put.
    pub(super) async fn one(&self, record: Record) -> Ingested {
        let buffer = &self.shared.tables.buffer;
        let accepted = match accept(buffer, &self.shared.format, record) {
            Ok(accepted) => accepted,
            Err(error) => return Ingested::Rejected(error),
        };
        let put = self
            .shared
            .put(buffer, accepted.item.clone(), Condition::Absent);
        match put.await {
            Ok(Put::Stored) => Ingested::Stored,
            Ok(Put::Refused(existing)) => accepted.compare(existing.as_ref()),
            Err(error) => Ingested::Unknown(error),
        }
    }

    /// Stores records: reads what is buffered, then writes what is missing.
    pub(super) async fn batch(&self, records: Vec<Record>) -> IngestReport {
        let buffer = &self.shared.tables.buffer;
        let mut plan = Plan::default();
        for record in records {
            plan.add(accept(buffer, &self.shared.format, record));
        }
        match self.shared.store.get(buffer, plan.keys()).await {
            Err(error) => plan.settle(None, &error),
            Ok(got) => {
                let puts = plan.missing(got.items);
                let batch = self.shared.write(buffer, puts).await;
                if let Some(error) = &batch.failure {
                    plan.settle(Some(&batch.unconfirmed), error);
                }
            }
        }
        IngestReport {
            outcomes: plan.outcomes,
        }
    }
}

/// An error about one record.
fn about(id: &EventId, kind: ErrorKind, message: &str) -> Error {
    Error::new(kind, message).fact("event id", id)
}

/// An event of a smaller record fits its slot, whatever its data becomes.
const SURELY_FITS_BYTES: usize = 64 * 1024;

/// A record that can become an event, as a buffer item.
#[derive(Debug)]
struct Accepted {
    key: Key,
    id: EventId,
    item: Item,
}

impl Accepted {
    /// The outcome of a record whose key holds another item already.
    fn compare(&self, existing: Option<&Item>) -> Ingested {
        if existing.is_some_and(|existing| tables::is_same_record(existing, &self.item)) {
            return Ingested::Present;
        }
        let message = "a different record with this source and id is in the buffer, and stays; use a new id for this one";
        Ingested::Conflict(about(&self.id, ErrorKind::Conflict, message))
    }
}

/// Checks that a record can become an event.
fn accept(buffer: &TableSpec, format: &SlotFormat, record: Record) -> Result<Accepted> {
    let (id, time) = (record.event_id.clone(), record.time);
    let refuse = |cause: Error| {
        about(&id, ErrorKind::Invalid, "a record cannot become an event").because(cause)
    };
    if time >= Time::END {
        return Err(refuse(
            Error::invalid("its time is after the year 2999").fact("time", time),
        ));
    }
    let item = tables::buffer_item(record);
    let checked = check_item(buffer, &item).map_err(refuse)?;
    if checked.size > SURELY_FITS_BYTES {
        let buffered = tables::buffered_of(&item).map_err(refuse)?;
        // The longest partition key that the event can have.
        let partition = format!("{}#{}", format.slot(time), format.parts);
        let event = format.event(&partition, &buffered);
        event.map_err(|cause| refuse(too_large(checked.size).because(cause)))?;
    }
    Ok(Accepted {
        key: checked.key,
        id,
        item,
    })
}

fn too_large(bytes: usize) -> Error {
    Error::invalid(
        "an event has at most about 200 KB, because the time index stores it a second time; store the rest elsewhere",
    )
    .fact("bytes", bytes)
}

/// What is written for a batch, and the outcomes if every write succeeds. Pure.
#[derive(Debug, Default)]
struct Plan {
    /// The distinct items, each with the indexes of its records.
    entries: Vec<(Accepted, Vec<usize>)>,
    by_key: HashMap<Key, usize>,
    outcomes: Vec<Ingested>,
}

impl Plan {
    /// Adds a record; one that repeats or contradicts another of the batch is not written.
    fn add(&mut self, accepted: Result<Accepted>) {
        let index = self.outcomes.len();
        let outcome = match accepted {
            Err(error) => Ingested::Rejected(error),
            Ok(accepted) => {
                let n = self.by_key.get(&accepted.key).copied();
                match n.and_then(|n| self.entries.get_mut(n)) {
                    None => {
                        self.by_key.insert(accepted.key.clone(), self.entries.len());
                        self.entries.push((accepted, vec![index]));
                        Ingested::Stored
                    }
                    Some((first, indexes)) => {
                        let outcome = accepted.compare(Some(&first.item));
                        if outcome.is_buffered() {
                            indexes.push(index);
                        }
                        outcome
                    }
                }
            }
        };
        self.outcomes.push(outcome);
    }

    fn keys(&self) -> Vec<Key> {
        let keys = self.entries.iter().map(|(accepted, _)| &accepted.key);
        keys.cloned().collect()
    }

    /// Compares the items with those that were found, and returns the puts of the missing ones.
    fn missing(&mut self, found: Vec<Option<Item>>) -> Vec<Write> {
        let mut puts = Vec::with_capacity(found.len());
        for ((accepted, indexes), found) in self.entries.iter_mut().zip(found) {
            match found {
                None => puts.push(Write::Put(std::mem::take(&mut accepted.item))),
                found => {
                    let outcome = accepted.compare(found.as_ref());
                    set(&mut self.outcomes, indexes, &outcome);
                }
            }
        }
        puts
    }

    /// The store failed for these keys, or for all.
    fn settle(&mut self, unconfirmed: Option<&HashSet<Key>>, error: &Error) {
        for (accepted, indexes) in &self.entries {
            if unconfirmed.is_none_or(|keys| keys.contains(&accepted.key)) {
                let outcome = Ingested::Unknown(error.clone());
                set(&mut self.outcomes, indexes, &outcome);
            }
        }
    }
}

fn set(outcomes: &mut [Ingested], indexes: &[usize], outcome: &Ingested) {
    for index in indexes {
        if let Some(slot) = outcomes.get_mut(*index) {
            *slot = outcome.clone();
        }
    }
}
