//! Reading, verifying and sweeping envelopes and their chunks in a table.
//!
//! Guarantees: an item that is replaced or deleted while it is read is read again; only an unchanged
//! item that does not decode is `Corrupt`. A chunk is an orphan if no item refers to it and it is too
//! old to belong to a write in flight.

use std::time::Duration;

use futures::{TryStreamExt, stream};

use super::body::Body;
use super::chunks::ChunkedTable;
use super::envelope::{Envelope, Kind, PAYLOAD_BYTES_MAX};
use super::keys;
use crate::items::{Item, ItemStream, Query, Scan, Value};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::verify::report::{stray_item, unreadable_at};
use crate::verify::{Finding, FindingStream, Verify};
use crate::{Error, ErrorKind, Payload, PersistenceId, Result, SequenceNumber};

impl Envelope {
    /// The payload, with its chunks; `None` if it was deleted.
    async fn payload(&self, table: &ChunkedTable) -> Result<Option<Payload>> {
        let body = match &self.body {
            Body::Deleted | Body::Skipped => return Ok(None),
            Body::Inline(body) => body.clone(),
            Body::Chunked(summary) => {
                let (name, id, number) = (self.kind.name(), &self.id, self.number);
                let body = table.join(*summary, self.chunk_keys()).await?;
                body.ok_or_else(|| {
                    Error::corrupt(format!("a chunk of a {name} is missing or damaged"))
                        .fact("id", id)
                        .fact("number", number)
                })?
            }
        };
        Ok(Some(Payload {
            bytes: body.decompressed(PAYLOAD_BYTES_MAX)?,
            ..self.metadata.clone()
        }))
    }

    pub(super) async fn open_snapshot(self, table: &ChunkedTable) -> Result<Snapshot> {
        let number = SequenceNumber::new(self.number);
        let number = number.ok_or_else(|| {
            Error::corrupt("a snapshot has no sequence number").fact("id", &self.id)
        })?;
        Ok(Snapshot {
            payload: self.payload(table).await?.unwrap_or_default(),
            persistence_id: self.id,
            sequence_number: number,
            time_ms: self.time_ms,
            anchor: self.anchor,
        })
    }

    pub(super) async fn open_state(self, table: &ChunkedTable) -> Result<State> {
        Ok(State {
            value: self.payload(table).await?,
            persistence_id: self.id,
            revision: self.number,
            time_ms: self.time_ms,
            tag: self.tag,
        })
    }
}

/// Reads an item again that did not decode: a replacement or deletion removes its chunks.
///
/// # Errors
/// The `error`, if the item has not changed: it is damaged.
pub(super) async fn reread(
    table: &ChunkedTable,
    item: &Item,
    error: Error,
) -> Result<Option<Item>> {
    if error.kind() != ErrorKind::Corrupt {
        return Err(error);
    }
    match table.get(table.table.key_of(item)?).await? {
        Some(now) if now == *item => Err(error),
        now => Ok(now),
    }
}

/// Checks the envelopes of one id, or all envelopes and stray items.
pub(super) fn verify(
    table: &ChunkedTable,
    kind: Kind,
    id: Option<&PersistenceId>,
) -> FindingStream {
    let (store, spec) = (&table.store, &table.table);
    let all = match (id, kind) {
        (None, _) => store.scan_all(spec, Scan::whole()),
        (Some(id), Kind::Snapshot) => store.query_all(spec, Query::of(keys::snapshots(id))),
        (Some(id), Kind::State) => {
            let (table, key) = (table.clone(), keys::state(id));
            let found = stream::once(async move { table.get(key).await });
            ItemStream::new(found.try_filter_map(|item| std::future::ready(Ok(item))))
        }
    };
    let table = table.clone();
    FindingStream::new(all.and_then(move |item| {
        let table = table.clone();
        async move { check(&table, kind, item).await }
    }))
}

async fn check(table: &ChunkedTable, kind: Kind, mut item: Item) -> Result<Vec<Finding>> {
    let partition = item.get("p").and_then(Value::as_str).unwrap_or_default();
    let Some(id) = keys::parse_owner(partition) else {
        let is_chunk = kind.parse_chunk()(partition).is_some();
        if is_chunk {
            return Ok(Vec::new());
        }
        let key = table.table.key_of(&item)?;
        return Ok(vec![stray_item(
            kind.stored_kind(),
            table.table.name(),
            &key,
        )]);
    };
    loop {
        let error = match Envelope::from_item(kind, &id, &item) {
            Err(error) => error,
            Ok(envelope) => match envelope.payload(table).await {
                Ok(_) => return Ok(Vec::new()),
                Err(error) => error,
            },
        };
        match reread(table, &item, error).await {
            Ok(Some(now)) => item = now,
            Ok(None) => return Ok(Vec::new()),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let number = kind.number_in(&item);
                return Ok(unreadable_at(kind.stored_kind(), &id, number, &error));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Finds chunks of a minimum age that no item refers to, and deletes them if that is wanted.
pub(super) async fn orphans(
    table: &ChunkedTable,
    kind: Kind,
    older_than: Duration,
    verify: Verify,
) -> Result<Vec<Finding>> {
    let mut swept = Vec::new();
    let mut chunks = table.scan_chunks(older_than, kind.parse_chunk())?;
    while let Some(chunk) = chunks.try_next().await? {
        // A young chunk may belong to a write in flight, whatever the current item is.
        if !chunk.is_old {
            continue;
        }
        let item = table.get(kind.key(&chunk.id, chunk.owner.number)).await?;
        let is_used = item.is_some_and(|item| {
            let envelope = Envelope::from_item(kind, &chunk.id, &item);
            // A damaged item may refer to it, and may be restored.
            envelope.map_or(true, |envelope| envelope.chunk_keys().contains(&chunk.key))
        });
        if !is_used {
            swept.extend(table.sweep(chunk, verify, kind.orphan()).await?);
        }
    }
    Ok(swept)
}
