//! Snapshots on the `j5ik2o` layout: an item for each, under keys from the resolvers, or, in tables
//! of the format before v1.9.0, under id and number.
//!
//! The newest is the one with the highest number. With keys in order the table itself is queried,
//! strongly consistent; the index only if the table has no match, for items under keys of older
//! releases or settings. An item of another id is never overwritten. Items are deleted by their
//! stored keys. The index must project whole items.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};

use super::keys::{Chosen, Keys, Resolvers, on_index};
use super::resolvers::collision;
use crate::attributes::{self, KEPT, improper};
use crate::settings::{AnyLayout, J5ik2oSnapshot};
use crate::snapshot_items::SnapshotItems;
use crate::{checksum, frame, serialization};
use annals::IdStream;
use annals::items::limits::ITEM_BYTES_MAX;
use annals::items::{
    Condition, Item, Key, KeyPart, Query, Scan, SortRange, TableSpec, Value, WriteError, item_size,
};
use annals::snapshot::{Criteria, Snapshot, SnapshotLayout, SnapshotStream};
use annals::store::Store;
use annals::verify::FindingStream;
use annals::{Error, Payload, PersistenceId, Result, SequenceNumber};

/// The number of attempts to save while others save and delete under the same key.
const TRIES_MAX: usize = 8;

/// Snapshots of the `j5ik2o` layout.
///
/// ```
/// use annals_jvm::j5ik2o::{J5ik2oSnapshots, Resolvers};
/// use annals::snapshot::{Criteria, Snapshots};
/// use annals::store::Store;
/// use annals::{Codec, Payload, SequenceNumber};
/// use std::sync::Arc;
///
/// # use annals::layout::Layout;
/// # use annals_jvm::j5ik2o::{PartitionKeyResolver, SortKeyResolver};
/// # use annals::memory::Memory;
/// # use annals_jvm::{AnyLayout, LayoutName};
/// # use annals::{PersistenceId, Result};
/// # /// The id is the partition key, the number in 20 digits the sort key.
/// # #[derive(Debug)]
/// # struct Plain;
/// #
/// # impl PartitionKeyResolver for Plain {
/// #     fn resolve(&self, id: &PersistenceId, _number: u64) -> Result<String> {
/// #         Ok(id.to_string())
/// #     }
/// # }
/// #
/// # impl SortKeyResolver for Plain {
/// #     fn resolve(&self, _id: &PersistenceId, number: u64) -> Result<String> {
/// #         Ok(format!("{number:020}"))
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// # let settings = AnyLayout { layout: LayoutName::J5ik2o, ..AnyLayout::default() };
/// # let store = Store::new(Memory::new());
/// # settings.tables()?.create_missing(&store).await?;
/// // `Plain` makes both halves of a key, as in the example of `Resolvers`.
/// let resolvers = Resolvers { partition: Arc::new(Plain), sort: Arc::new(Plain) };
/// let layout = J5ik2oSnapshots::open_with(&store, &settings, resolvers)?;
/// let snapshots = Snapshots::new(Arc::new(layout), &store);
///
/// let id = "Cart-42".parse()?;
/// snapshots.save(&id, SequenceNumber::FIRST, Payload::new(Codec::Text, "open")).await?;
/// assert!(snapshots.load(&id, Criteria::ALL).await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct J5ik2oSnapshots {
    store: Store,
    table: Arc<TableSpec>,
    section: Arc<J5ik2oSnapshot>,
    /// `None` if id and number are the key.
    keys: Option<Keys>,
}

impl J5ik2oSnapshots {
    /// With the resolvers that the settings name.
    pub(crate) fn open(store: &Store, settings: &AnyLayout) -> Result<Self> {
        let section = &settings.j5ik2o.dynamo_db_snapshot;
        if section.legacy_table_format {
            return Self::new(store, settings, None);
        }
        let resolvers = Chosen::for_snapshots(settings).resolvers()?;
        Self::open_with(store, settings, resolvers)
    }

    /// With your own resolvers. Pass it to
    /// [`Snapshots::new`](annals::snapshot::Snapshots::new).
    ///
    /// # Errors
    /// `Invalid` if the settings contradict each other, or the table has no resolvers.
    pub fn open_with(store: &Store, settings: &AnyLayout, resolvers: Resolvers) -> Result<Self> {
        if settings.j5ik2o.dynamo_db_snapshot.legacy_table_format {
            return Err(Error::invalid(
                "with legacy-table-format the key is id and number, without resolvers; unset it, or pass no resolvers",
            ));
        }
        Self::new(store, settings, Some(Keys::new(resolvers, false)))
    }

    fn new(store: &Store, settings: &AnyLayout, keys: Option<Keys>) -> Result<Self> {
        Ok(Self {
            store: store.clone(),
            table: Arc::new(super::tables(settings)?.snapshot),
            section: Arc::new(settings.j5ik2o.dynamo_db_snapshot.clone()),
            keys,
        })
    }

    fn key(&self, id: &PersistenceId, number: SequenceNumber) -> Result<Key> {
        match &self.keys {
            Some(keys) => keys.key(id, number.get()),
            None => Ok(Key::new(id.as_str()).sorted(number.get())),
        }
    }

    /// Queries the table itself, newest first; `None` if its keys are in no order.
    fn on_table(&self, id: &PersistenceId, criteria: &Criteria) -> Result<Option<Query>> {
        let (low, high) = bounds(criteria);
        let query = match &self.keys {
            None => {
                let range = SortRange::Between(KeyPart::from(low), KeyPart::from(high));
                Query::of(id.as_str()).within(range)
            }
            Some(keys) if keys.are_ordered() => keys.between(id, low, high)?,
            Some(_) => return Ok(None),
        };
        Ok(Some(query.descending()))
    }

    /// Queries the index, newest first; `None` if the table has none.
    fn on_index(&self, id: &PersistenceId, criteria: &Criteria) -> Option<Query> {
        self.keys.as_ref()?;
        let index = &self.section.get_snapshot_rows_index_name;
        Some(on_index(index, id, bounds(criteria)).descending())
    }

    /// The items of a query. A page of one if the first one is the wanted one.
    fn newest(&self, id: &PersistenceId, criteria: Criteria, query: Query) -> SnapshotStream {
        let query = match criteria.is_timed() {
            true => query,
            false => query.limit(1),
        };
        self.found(id, criteria, query)
    }

    /// Whether an item is of this id: some resolvers give several ids the same keys.
    fn is_of(&self, id: &PersistenceId, item: &Item) -> bool {
        let name = &self.section.columns_def.persistence_id_column_name;
        item.get(name).and_then(Value::as_str) == Some(id.as_str())
    }

    /// The attributes that the checksum covers: never in another order.
    fn covered(&self) -> impl Iterator<Item = &str> {
        let columns = &self.section.columns_def;
        let theirs = [
            &columns.partition_key_column_name,
            &columns.sort_key_column_name,
            &columns.persistence_id_column_name,
            &columns.sequence_nr_column_name,
            &columns.created_column_name,
            &columns.snapshot_column_name,
        ];
        theirs.into_iter().map(String::as_str).chain(KEPT)
    }

    fn item_of(&self, snapshot: &Snapshot) -> Result<Item> {
        let columns = &self.section.columns_def;
        let (id, number) = (&snapshot.persistence_id, snapshot.sequence_number);
        let written = serialization::write(&snapshot.payload)?;
        let mut item = self.table.key().item_of(&self.key(id, number)?);
        item.insert(&columns.persistence_id_column_name, id.as_str());
        item.insert(&columns.sequence_nr_column_name, number.get());
        item.insert(&columns.created_column_name, snapshot.time_ms);
        let framed = frame::encode(&written.serialized)?;
        item.insert(&columns.snapshot_column_name, framed);
        if !written.carries {
            attributes::keep_type(&mut item, &snapshot.payload);
        }
        let bytes = item_size(&item);
        if bytes > ITEM_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a snapshot on this layout is one item of at most {ITEM_BYTES_MAX} bytes, key and names included; save less"
            ))
            .fact("id", id)
            .fact("bytes", bytes));
        }
        Ok(checksum::sealed(item, self.covered()))
    }

    /// The condition on which a save replaces an item.
    fn over(&self, snapshot: &Snapshot, existing: Option<&Item>) -> Result<Condition> {
        let id = &snapshot.persistence_id;
        let Some(existing) = existing else {
            return Ok(Condition::Absent);
        };
        let columns = &self.section.columns_def;
        let name = &columns.persistence_id_column_name;
        let key = self.table.key_of(existing)?;
        if !self.is_of(id, existing) {
            let other = existing.get(name).and_then(Value::as_str);
            return Err(collision(id, other.unwrap_or("none"), &key));
        }
        let number = existing.get(&columns.sequence_nr_column_name);
        if number.and_then(Value::as_u64) != Some(snapshot.sequence_number.get()) {
            return Err(Error::invalid(
                "the resolvers give two snapshots of an id the same key; choose other resolvers",
            )
            .fact("id", id)
            .fact("key", key));
        }
        Ok(Condition::Equals(name.clone(), id.as_str().into()))
    }

    /// Deletes the snapshot of a number, without reading it; returns whether there was one.
    async fn delete_at(&self, id: &PersistenceId, number: SequenceNumber) -> Result<bool> {
        let name = self.section.columns_def.persistence_id_column_name.clone();
        let is_ours = Condition::Equals(name, id.as_str().into());
        let key = self.key(id, number)?;
        match self.store.delete(&self.table, key, is_ours).await {
            Ok(_) => Ok(true),
            // An earlier attempt may have deleted it, and only its response was lost.
            Err(WriteError::Refused { cost, .. }) => Ok(cost.requests > 1),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }
}

impl SnapshotItems for J5ik2oSnapshots {
    fn store(&self) -> &Store {
        &self.store
    }

    fn table(&self) -> &Arc<TableSpec> {
        &self.table
    }

    fn number_name(&self) -> &str {
        &self.section.columns_def.sequence_nr_column_name
    }

    fn id_in(&self, item: &Item) -> Option<PersistenceId> {
        let name = &self.section.columns_def.persistence_id_column_name;
        item.get(name)?.as_str()?.parse().ok()
    }

    fn position(&self, id: &PersistenceId, item: &Item) -> Result<Option<(SequenceNumber, u64)>> {
        if !self.is_of(id, item) {
            return Ok(None);
        }
        let columns = &self.section.columns_def;
        let number = |name: &str| item.get(name).and_then(Value::as_u64);
        let sequence_number = number(&columns.sequence_nr_column_name)
            .and_then(SequenceNumber::new)
            .ok_or_else(|| improper(&columns.sequence_nr_column_name))?;
        let time_ms = number(&columns.created_column_name)
            .ok_or_else(|| improper(&columns.created_column_name))?;
        Ok(Some((sequence_number, time_ms)))
    }

    fn payload(&self, item: &Item) -> Result<Payload> {
        checksum::check(item, self.covered())?;
        let name = &self.section.columns_def.snapshot_column_name;
        let framed = item.get(name).and_then(Value::as_bytes);
        let serialized = frame::decode(framed.ok_or_else(|| improper(name))?)?;
        attributes::with_kept_type(item, serialization::read(serialized)?)
    }
}

fn bounds(criteria: &Criteria) -> (u64, u64) {
    (criteria.min_number.get(), criteria.max_number.get())
}

#[async_trait]
impl SnapshotLayout for J5ik2oSnapshots {
    async fn save(&self, snapshot: Snapshot) -> Result<()> {
        let item = self.item_of(&snapshot)?;
        let mut condition = match self.keys {
            Some(_) => Condition::Absent,
            None => Condition::Always,
        };
        for _ in 0..TRIES_MAX {
            match self.store.put(&self.table, item.clone(), condition).await {
                Ok(_) => return Ok(()),
                Err(WriteError::Failed(error)) => return Err(error),
                Err(WriteError::Refused { existing, .. }) => {
                    condition = self.over(&snapshot, existing.as_deref())?;
                }
            }
        }
        Err(Error::unavailable(
            "other writers keep saving and deleting this snapshot; save it again",
        )
        .fact("id", &snapshot.persistence_id)
        .fact("number", snapshot.sequence_number))
    }

    fn find(&self, id: &PersistenceId, criteria: Criteria) -> SnapshotStream {
        let own = match self.on_table(id, &criteria) {
            Ok(own) => own.map(|query| self.newest(id, criteria, query)),
            Err(error) => return SnapshotStream::failed(error),
        };
        let index = self.on_index(id, &criteria);
        let index = index.map(|query| self.newest(id, criteria, query));
        match (own, index) {
            (Some(own), Some(index)) => SnapshotStream::new(or_else(own, index)),
            (own, index) => own.or(index).unwrap_or_else(SnapshotStream::empty),
        }
    }

    fn ids(&self, prefix: &str) -> IdStream {
        self.listed(prefix)
    }

    fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        let Some(id) = whose else {
            return self.checked(self.store.scan_all(&self.table, Scan::whole()));
        };
        let query = match self.on_index(id, &Criteria::ALL) {
            Some(query) => Ok(Some(query)),
            None => self.on_table(id, &Criteria::ALL),
        };
        match query {
            Ok(query) => {
                let all = query.map(|query| self.store.query_all(&self.table, query));
                self.checked(stream::iter(all).flatten())
            }
            Err(error) => FindingStream::failed(error),
        }
    }

    async fn delete(&self, id: &PersistenceId, criteria: Criteria) -> Result<u64> {
        let is_one = criteria.min_number == criteria.max_number && !criteria.is_timed();
        let mut count = 0;
        if is_one {
            count += u64::from(self.delete_at(id, criteria.min_number).await?);
        }
        // First the index, which is cheaper to read; then items that it does not have yet.
        if let Some(query) = self.on_index(id, &criteria) {
            count += self.delete_found(id, &criteria, query).await?;
        }
        if let Some(query) = self.on_table(id, &criteria)?.filter(|_| !is_one) {
            count += self.delete_found(id, &criteria, query).await?;
        }
        // The index lags: it may still have a snapshot that was just deleted by its key.
        Ok(if is_one { count.min(1) } else { count })
    }
}

/// The first stream, or, if it is empty, the second.
fn or_else(first: SnapshotStream, second: SnapshotStream) -> SnapshotStream {
    let chosen = stream::once(async move {
        let mut first = first.peekable();
        match Pin::new(&mut first).peek().await {
            Some(_) => SnapshotStream::new(first),
            None => second,
        }
    });
    SnapshotStream::new(chosen.flatten())
}
