//! Snapshots on the `akka` layout: an item for each, under `NAME-P-ID` and its sequence number.
//!
//! Promises: both generations that the plugin ever wrote are read; the newest is the one of the
//! highest number, or, where the settings say so and no number is asked for, the one that was saved
//! last; every page is read.
//! A deletion that fails is told.
//! Trusts: that the table's index over time, where it is asked for, is a local one.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};

use crate::attributes::{self, Names};
use crate::settings::{AnyLayout, Format, SnapshotOrder};
use crate::{checksum, frame, serialization};
use annals::items::{
    Condition, Item, Items, Key, KeyPart, Query, Scan, SortRange, TableSpec, Value, Write,
    WriteError, query_all, scan_all,
};
use annals::journal::IdStream;
use annals::layout::Layout;
use annals::layout::support::{each_once, stray_item, unreadable_at};
use annals::snapshot::{Criteria, Snapshot, SnapshotLayout, SnapshotStream};
use annals::store::Store;
use annals::verify::{Finding, FindingStream, StoredKind};
use annals::{Error, ErrorKind, Payload, PersistenceId, Result, SequenceNumber};

/// What the plugin adds up for keys and the like.
const FIXED_BYTES: usize = 253;
/// Where generation B keeps the payload.
const NAMES: Names = Names {
    bytes: "pay_data",
    id: "ser_id",
    manifest: "ser_manifest",
};
/// What a snapshot is read from, for its checksum: never in another order.
const COVERED: [&str; 7] = [
    "par",
    "seq",
    "ts",
    NAMES.bytes,
    NAMES.id,
    NAMES.manifest,
    "pay",
];
/// The index over time.
const BY_TIME: &str = "ts-idx";

/// Snapshots of the `akka` layout.
///
/// See [`AkkaJournal`](super::AkkaJournal) for an example of settings that choose this layout.
#[derive(Clone, Debug)]
pub(crate) struct AkkaSnapshots {
    store: Store,
    table: Arc<TableSpec>,
    name: Arc<str>,
    format: Format,
    order: SnapshotOrder,
    bytes_max: usize,
}

impl AkkaSnapshots {
    pub(crate) fn new(store: &Store, settings: &AnyLayout) -> Result<Self> {
        if settings.journal_name.is_empty() {
            return Err(Error::invalid("journal-name is not empty"));
        }
        Ok(Self {
            store: store.clone(),
            table: Arc::new(settings.tables()?.snapshot),
            name: settings.journal_name.as_str().into(),
            format: settings.format,
            order: settings.snapshot_order,
            bytes_max: settings.aws_api_limits.max_item_size,
        })
    }

    fn partition(&self, id: &PersistenceId) -> String {
        format!("{}-P-{id}", self.name)
    }

    /// Whether the newest is the one that was saved last. Where numbers are asked for, the plugin
    /// goes by number whatever the clocks say, and so do we.
    fn goes_by_time(&self, criteria: &Criteria) -> bool {
        self.order == SnapshotOrder::Timestamp && !criteria.is_numbered()
    }

    /// Those between the bounds of number, or of time, newest first.
    fn query(&self, id: &PersistenceId, criteria: &Criteria) -> Query {
        let query = Query::of(self.partition(id)).descending();
        if self.goes_by_time(criteria) {
            // The JVM's longs end before our numbers do.
            let high = criteria.max_time_ms.min(SequenceNumber::LAST.get());
            query
                .on(BY_TIME)
                .within(between(criteria.min_time_ms, high))
        } else {
            let (low, high) = (criteria.min_number.get(), criteria.max_number.get());
            query.within(between(low, high))
        }
    }

    /// A page of one where the first one found is the one that is wanted.
    fn query_newest(&self, id: &PersistenceId, criteria: &Criteria) -> Query {
        let query = self.query(id, criteria);
        let is_first = self.goes_by_time(criteria) || !criteria.is_timed();
        if is_first { query.limit(1) } else { query }
    }

    fn place_of(&self, id: &PersistenceId, item: &Item) -> Result<(SequenceNumber, u64)> {
        let number = item.get("seq").and_then(Value::as_u64);
        let time_ms = item.get("ts").and_then(Value::as_u64);
        let place = number.and_then(SequenceNumber::new).zip(time_ms);
        place.ok_or_else(|| {
            Error::corrupt(format!("a snapshot has no number or no time. id=`{id}`"))
        })
    }

    fn open(
        &self,
        id: &PersistenceId,
        item: &Item,
        criteria: &Criteria,
    ) -> Result<Option<Snapshot>> {
        let (number, time_ms) = self.place_of(id, item)?;
        if !criteria.matches(number, time_ms) {
            return Ok(None);
        }
        let payload = payload_of(item).map_err(|cause| {
            let message = format!("a snapshot cannot be read. id=`{id}`, number=`{number}`");
            Error::new(cause.kind(), message).because(cause)
        })?;
        Ok(Some(Snapshot {
            persistence_id: id.clone(),
            sequence_number: number,
            time_ms,
            anchor: None,
            payload,
        }))
    }

    fn item_of(&self, snapshot: &Snapshot) -> Result<Item> {
        let written = serialization::write(&snapshot.payload)?;
        let serialized = written.serialized;
        let partition = self.partition(&snapshot.persistence_id);
        let units = partition.encode_utf16().count();
        let key = Key::new(partition).sorted(snapshot.sequence_number.get());
        let item = self.table.key().item_of(&key);
        let mut item = item.with("ts", snapshot.time_ms);
        let bytes = match self.format {
            Format::A => {
                let framed = frame::encode(&serialized)?;
                let bytes = framed.len();
                item.insert("pay", framed);
                bytes
            }
            Format::B => {
                let bytes = serialized.bytes.len();
                NAMES.insert(&mut item, serialized);
                bytes
            }
        };
        if !written.carries {
            attributes::keep_type(&mut item, &snapshot.payload);
        }
        let bytes = bytes + units + FIXED_BYTES;
        if bytes > self.bytes_max {
            let most = self.bytes_max;
            return Err(Error::invalid(format!(
                "a snapshot on this layout has at most {most} bytes with its key (max-item-size). id=`{}`, bytes=`{bytes}`",
                snapshot.persistence_id
            )));
        }
        Ok(checksum::sealed(item, covered()))
    }
}

impl AkkaSnapshots {
    /// Whose snapshot an item is.
    fn id_of(&self, item: &Item) -> Option<PersistenceId> {
        let partition = item.get("par").and_then(Value::as_str)?;
        let rest = partition.strip_prefix(&*self.name)?;
        rest.strip_prefix("-P-")?.parse().ok()
    }

    /// What is wrong with an item of the table.
    fn check(&self, item: &Item) -> Result<Vec<Finding>> {
        let Some(id) = self.id_of(item) else {
            let partition = item.get("par").and_then(Value::as_str).unwrap_or_default();
            // Another journal's, in the same table.
            if partition.find("-P-").is_some_and(|at| at > 0) {
                return Ok(Vec::new());
            }
            let key = self.table.key_of(item)?;
            return Ok(vec![stray_item(
                StoredKind::Snapshot,
                self.table.name(),
                &key,
            )]);
        };
        match self.open(&id, item, &Criteria::ALL) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let number = item.get("seq").and_then(Value::as_u64).unwrap_or(0);
                Ok(unreadable_at(StoredKind::Snapshot, &id, number, &error))
            }
            opened => opened.map(|_| Vec::new()),
        }
    }
}

fn between(low: u64, high: u64) -> SortRange {
    SortRange::Between(KeyPart::from(low), KeyPart::from(high))
}

fn covered() -> impl Iterator<Item = &'static str> {
    COVERED.into_iter().chain(attributes::KEPT)
}

fn payload_of(item: &Item) -> Result<Payload> {
    checksum::check(item, covered())?;
    let framed = item.get("pay").and_then(Value::as_bytes);
    let serialized = match (item.get(NAMES.bytes), framed) {
        (Some(_), _) => NAMES.read(item)?,
        (None, Some(framed)) => frame::decode(framed)?,
        (None, None) => {
            return Err(Error::corrupt(
                "it has no payload; an index of the keys alone does not serve this plugin's older releases",
            ));
        }
    };
    attributes::with_kept_type(item, serialization::read(serialized)?)
}

#[async_trait]
impl SnapshotLayout for AkkaSnapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<()> {
        let item = self.item_of(&snapshot)?;
        match self.store.put(&self.table, item, Condition::Always).await {
            Ok(_) => Ok(()),
            Err(WriteError::Failed(error)) => Err(error),
            Err(refused @ WriteError::Refused { .. }) => Err(refused.into()),
        }
    }

    fn find(&self, id: &PersistenceId, criteria: Criteria) -> SnapshotStream {
        let query = self.query_newest(id, &criteria);
        let items = self.store.query_all(&self.table, query);
        let (snapshots, id) = (self.clone(), id.clone());
        let found = items.map(move |item| snapshots.open(&id, &item?, &criteria));
        Box::pin(found.filter_map(|found| std::future::ready(found.transpose())))
    }

    fn ids(&self, prefix: &str) -> IdStream {
        let all = self.store.scan_all(&self.table, Scan::whole());
        let snapshots = self.clone();
        each_once(all.map_ok(move |item| snapshots.id_of(&item)), prefix)
    }

    fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        let (items, table) = (self.store.items().clone(), self.table.clone());
        let all = match whose {
            None => scan_all(items, table, Scan::whole()).boxed(),
            Some(id) => query_all(items, table, Query::of(self.partition(id))).boxed(),
        };
        let snapshots = self.clone();
        Box::pin(all.map(move |item| snapshots.check(&item?)))
    }

    async fn delete(&self, id: &PersistenceId, criteria: Criteria) -> Result<()> {
        let query = self.query(id, &criteria);
        let mut found = self.store.query_all(&self.table, query);
        let mut writes = Vec::new();
        while let Some(item) = found.try_next().await? {
            let (number, time_ms) = self.place_of(id, &item)?;
            if criteria.matches(number, time_ms) {
                writes.push(Write::Delete(self.table.key_of(&item)?));
            }
        }
        if !writes.is_empty() {
            self.store.write(&self.table, writes).await?;
        }
        Ok(())
    }
}
