//! Opening what is sealed: its parts fetched, and what to think where they are not there.
//!
//! Promises: what is replaced or deleted while it is read is read again; only what stands there and
//! does not open is told as `Corrupt`. A part is an orphan when no item speaks for it, and it is so
//! old that no write is about to.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};

use super::body::Body;
use super::keys;
use super::parts::PartedTable;
use super::sealed::{Kind, PAYLOAD_BYTES_MAX, Sealed};
use crate::items::{Item, Query, Scan, Value, query_all, scan_all};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::verify::{Finding, FindingStream, Verify, stray, unreadable_at};
use crate::{Error, ErrorKind, Payload, PersistenceId, Result, SequenceNumber};

impl Sealed {
    /// The payload, its parts fetched where it has any; none where it was deleted.
    async fn payload(&self, table: &PartedTable) -> Result<Option<Payload>> {
        let body = match &self.body {
            Body::Deleted | Body::LeftOut => return Ok(None),
            Body::Here(body) => body.clone(),
            Body::Parts(record) => {
                let (name, id, number) = (self.kind.name(), &self.id, self.number);
                let body = table.join(*record, self.part_keys()).await?;
                body.ok_or_else(|| {
                    Error::corrupt(format!(
                        "a part of a {name} is missing or damaged. id=`{id}`, number=`{number}`"
                    ))
                })?
            }
        };
        Ok(Some(Payload {
            bytes: body.unpacked(PAYLOAD_BYTES_MAX)?,
            ..self.about.clone()
        }))
    }

    pub(super) async fn open_snapshot(self, table: &PartedTable) -> Result<Snapshot> {
        let number = SequenceNumber::new(self.number);
        let number = number
            .ok_or_else(|| Error::corrupt(format!("a snapshot has no number. id=`{}`", self.id)))?;
        Ok(Snapshot {
            payload: self.payload(table).await?.unwrap_or_default(),
            persistence_id: self.id,
            sequence_number: number,
            time_ms: self.time_ms,
            anchor: self.anchor,
        })
    }

    pub(super) async fn open_state(self, table: &PartedTable) -> Result<State> {
        Ok(State {
            value: self.payload(table).await?,
            persistence_id: self.id,
            revision: self.number,
            time_ms: self.time_ms,
            tag: self.tag,
        })
    }
}

/// What is there now where an item was, if that does not open any more: whoever replaces or
/// deletes a payload takes its parts as well.
///
/// # Errors
/// `lost`, where nothing has changed: then it is damaged.
pub(super) async fn reread(table: &PartedTable, item: &Item, lost: Error) -> Result<Option<Item>> {
    if lost.kind() != ErrorKind::Corrupt {
        return Err(lost);
    }
    match table.get(table.table.key_of(item)?).await? {
        Some(now) if now == *item => Err(lost),
        now => Ok(now),
    }
}

/// What is wrong with what is sealed: of an id, or of all there is, with what is nobody's.
pub(super) fn verify(
    (table, kind): (&PartedTable, Kind),
    whose: Option<&PersistenceId>,
) -> FindingStream {
    let (items, spec) = (table.store.items().clone(), table.table.clone());
    let all = match (whose, kind) {
        (None, _) => scan_all(items, spec, Scan::whole()).boxed(),
        (Some(id), Kind::Snapshot) => {
            query_all(items, spec, Query::of(keys::snapshots(id))).boxed()
        }
        (Some(id), Kind::State) => {
            let (table, key) = (table.clone(), keys::state(id));
            let found = stream::once(async move { table.get(key).await });
            found
                .try_filter_map(|item| std::future::ready(Ok(item)))
                .boxed()
        }
    };
    let table = table.clone();
    Box::pin(all.and_then(move |item| {
        let table = table.clone();
        async move { check(&table, kind, item).await }
    }))
}

async fn check(table: &PartedTable, kind: Kind, mut item: Item) -> Result<Vec<Finding>> {
    let partition = item.get("p").and_then(Value::as_str).unwrap_or_default();
    let Some(id) = keys::parse_sealed(partition) else {
        let is_part = kind.parse_part()(partition).is_some();
        if is_part {
            return Ok(Vec::new());
        }
        let key = table.table.key_of(&item)?;
        return Ok(vec![stray(kind.kept(), table.table.name(), &key)]);
    };
    loop {
        let opened = match kind {
            Kind::Snapshot => Sealed::snapshot(&id, &item),
            Kind::State => Sealed::state(&id, &item),
        };
        let lost = match opened {
            Err(lost) => lost,
            Ok(sealed) => match sealed.payload(table).await {
                Ok(_) => return Ok(Vec::new()),
                Err(lost) => lost,
            },
        };
        match reread(table, &item, lost).await {
            Ok(Some(now)) => item = now,
            Ok(None) => return Ok(Vec::new()),
            Err(lost) if lost.kind() == ErrorKind::Corrupt => {
                let number = kind.number_in(&item);
                return Ok(unreadable_at(kind.kept(), (&id, number), &lost));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Finds parts that no item speaks for, and has not for so long, and deletes them where that is
/// wanted.
pub(super) async fn orphans(
    (table, kind): (&PartedTable, Kind),
    older_than: Duration,
    verify: Verify,
) -> Result<Vec<Finding>> {
    let mut swept = Vec::new();
    let mut parts = table.parts(older_than, kind.parse_part())?;
    while let Some(part) = parts.try_next().await? {
        // A young one may belong to a write that is about to land, whatever is there now.
        if !part.is_old {
            continue;
        }
        let item = table.get(kind.key(&part.id, part.of.number)).await?;
        let is_spoken_for = item.is_some_and(|item| {
            let sealed = match kind {
                Kind::Snapshot => Sealed::snapshot(&part.id, &item),
                Kind::State => Sealed::state(&part.id, &item),
            };
            // One that does not parse may have spoken for it, and be mended.
            sealed.map_or(true, |sealed| sealed.part_keys().contains(&part.key))
        });
        if !is_spoken_for {
            swept.extend(table.sweep(part, verify, kind.orphan()).await?);
        }
    }
    Ok(swept)
}
