//! Snapshots on the `akka` layout: an item for each, under `NAME-P-ID` and its sequence number.
//!
//! Reads both formats of the plugin. The newest snapshot is the one with the highest sequence
//! number, or, if set and the criteria have no number, the one saved last. The index over time must
//! be a local one.

use std::sync::Arc;

use crate::attributes::{self, Names, improper};
use crate::settings::{AnyLayout, Format, SnapshotOrder};
use crate::snapshot_items::SnapshotItems;
use crate::{checksum, frame, serialization};
use annals::IdStream;
use annals::items::{
    Condition, Item, Key, KeyPart, Query, Scan, SortRange, TableSpec, Value, WriteError,
};
use annals::layout::Layout;
use annals::snapshot::{Criteria, Snapshot, SnapshotLayout, SnapshotStream};
use annals::store::Store;
use annals::verify::FindingStream;
use annals::{Error, Payload, PersistenceId, Result, SequenceNumber};
use async_trait::async_trait;

/// What the plugin adds for keys and attribute names.
const FIXED_BYTES: usize = 253;
/// Where format B stores the payload.
const NAMES: Names = Names {
    bytes: "pay_data",
    id: "ser_id",
    manifest: "ser_manifest",
};
/// The attributes that the checksum covers: never in another order.
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
            return Err(Error::invalid("set journal-name to a name"));
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

    /// Whether the newest snapshot is the one saved last. With bounds of sequence numbers, the plugin
    /// always goes by number, and so do we.
    fn goes_by_time(&self, criteria: &Criteria) -> bool {
        self.order == SnapshotOrder::Timestamp && !criteria.is_numbered()
    }

    /// Snapshots between the bounds of number, or of time, newest first.
    fn query(&self, id: &PersistenceId, criteria: &Criteria) -> Query {
        let query = Query::of(self.partition(id)).descending();
        if self.goes_by_time(criteria) {
            // The JVM's longs have fewer numbers than ours.
            let high = criteria.max_time_ms.min(SequenceNumber::LAST.get());
            query
                .on(BY_TIME)
                .within(between(criteria.min_time_ms, high))
        } else {
            let (low, high) = (criteria.min_number.get(), criteria.max_number.get());
            query.within(between(low, high))
        }
    }

    /// With a page of one if the first result is the wanted one.
    fn query_newest(&self, id: &PersistenceId, criteria: &Criteria) -> Query {
        let query = self.query(id, criteria);
        let is_first = self.goes_by_time(criteria) || !criteria.is_timed();
        if is_first { query.limit(1) } else { query }
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
                "a snapshot on this layout has at most {most} bytes with its key (max-item-size)"
            ))
            .fact("id", &snapshot.persistence_id)
            .fact("bytes", bytes));
        }
        Ok(checksum::sealed(item, covered()))
    }
}

impl SnapshotItems for AkkaSnapshots {
    fn store(&self) -> &Store {
        &self.store
    }

    fn table(&self) -> &Arc<TableSpec> {
        &self.table
    }

    fn number_name(&self) -> &str {
        "seq"
    }

    fn id_in(&self, item: &Item) -> Option<PersistenceId> {
        let partition = item.get("par").and_then(Value::as_str)?;
        let rest = partition.strip_prefix(&*self.name)?;
        rest.strip_prefix("-P-")?.parse().ok()
    }

    /// Journals may share a table.
    fn is_foreign(&self, item: &Item) -> bool {
        let partition = item.get("par").and_then(Value::as_str).unwrap_or_default();
        partition.find("-P-").is_some_and(|at| at > 0)
    }

    fn position(&self, _: &PersistenceId, item: &Item) -> Result<Option<(SequenceNumber, u64)>> {
        let number = item.get("seq").and_then(Value::as_u64);
        let number = number.and_then(SequenceNumber::new);
        let time_ms = item.get("ts").and_then(Value::as_u64);
        let position = number.ok_or_else(|| improper("seq"))?;
        Ok(Some((position, time_ms.ok_or_else(|| improper("ts"))?)))
    }

    fn payload(&self, item: &Item) -> Result<Payload> {
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
}

fn between(low: u64, high: u64) -> SortRange {
    SortRange::Between(KeyPart::from(low), KeyPart::from(high))
}

fn covered() -> impl Iterator<Item = &'static str> {
    COVERED.into_iter().chain(attributes::KEPT)
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
        self.found(id, criteria, self.query_newest(id, &criteria))
    }

    fn ids(&self, prefix: &str) -> IdStream {
        self.listed(prefix)
    }

    fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        self.checked(match whose {
            None => self.store.scan_all(&self.table, Scan::whole()),
            Some(id) => {
                let query = Query::of(self.partition(id));
                self.store.query_all(&self.table, query)
            }
        })
    }

    async fn delete(&self, id: &PersistenceId, criteria: Criteria) -> Result<u64> {
        let query = self.query(id, &criteria);
        self.delete_found(id, &criteria, query).await
    }
}
