//! Keys of the journal, the snapshots and the durable state. No other file makes them.

use std::sync::Arc;

use super::resolvers::{
    PartitionKeyResolver, PersistenceIdBased, PersistenceIdWithSeqNr, SeqNr, SequenceNumberBased,
    SortKeyResolver,
};
use super::separator::Separator;
use crate::settings::{AnyLayout, PartitionKeyKind, SortKeyKind};
use annals::items::{Key, KeyPart, Query, SortRange};
use annals::{Error, PersistenceId, Result, SequenceNumber};

/// The prefix of a marker's partition key, and its sort key.
const MARKER: (&str, &str) = ("annals|", "mark");

/// A resolver for each half of a key.
///
/// ```
/// use annals_jvm::j5ik2o::{PartitionKeyResolver, Resolvers, SortKeyResolver};
/// use annals::{PersistenceId, Result};
/// use std::sync::Arc;
///
/// /// The id is the partition key, the number in 20 digits the sort key.
/// #[derive(Debug)]
/// struct Plain;
///
/// impl PartitionKeyResolver for Plain {
///     fn resolve(&self, id: &PersistenceId, _number: u64) -> Result<String> {
///         Ok(id.to_string())
///     }
/// }
///
/// impl SortKeyResolver for Plain {
///     fn resolve(&self, _id: &PersistenceId, number: u64) -> Result<String> {
///         Ok(format!("{number:020}"))
///     }
/// }
///
/// let resolvers = Resolvers { partition: Arc::new(Plain), sort: Arc::new(Plain) };
/// let id = "Cart-42".parse()?;
/// assert_eq!(resolvers.partition.resolve(&id, 7)?, "Cart-42");
/// assert_eq!(resolvers.sort.resolve(&id, 7)?, "00000000000000000007");
/// # Ok::<(), annals::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Resolvers {
    /// Makes the partition key.
    pub partition: Arc<dyn PartitionKeyResolver>,
    /// Makes the sort key.
    pub sort: Arc<dyn SortKeyResolver>,
}

/// The resolvers that the settings name.
pub(super) struct Chosen<'a> {
    pub(super) partition: PartitionKeyKind,
    pub(super) sort: SortKeyKind,
    pub(super) separator: &'a str,
    pub(super) shards: u32,
}

impl<'a> Chosen<'a> {
    pub(super) fn for_journal(settings: &'a AnyLayout) -> Self {
        let section = &settings.j5ik2o.dynamo_db_journal;
        Self {
            partition: section.partition_key_resolver_class_name,
            sort: section.sort_key_resolver_class_name,
            separator: &section.persistence_id_separator,
            shards: section.shard_count,
        }
    }

    pub(super) fn for_snapshots(settings: &'a AnyLayout) -> Self {
        let section = &settings.j5ik2o.dynamo_db_snapshot;
        Self {
            partition: section.partition_key_resolver_class_name,
            sort: section.sort_key_resolver_class_name,
            separator: &section.persistence_id_separator,
            shards: section.shard_count,
        }
    }

    /// The plugin's own resolvers.
    pub(super) fn resolvers(&self) -> Result<Resolvers> {
        if self.shards == 0 {
            return Err(Error::invalid("set shard-count to 1 or more"));
        }
        let separator = Separator::new(self.separator)?;
        let shards = self.shards;
        Ok(Resolvers {
            partition: match self.partition {
                PartitionKeyKind::PersistenceIdBased => Arc::new(PersistenceIdBased {
                    separator: separator.clone(),
                    shards,
                }),
                PartitionKeyKind::SequenceNumberBased => Arc::new(SequenceNumberBased { shards }),
            },
            sort: match self.sort {
                SortKeyKind::SeqNr => Arc::new(SeqNr),
                SortKeyKind::PersistenceIdWithSeqNr => {
                    Arc::new(PersistenceIdWithSeqNr { separator })
                }
            },
        })
    }
}

/// The keys of a table.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    resolvers: Resolvers,
    /// Whether the sort key is the sequence number itself, as in tables of v1.0.22 and before.
    is_numbered: bool,
}

impl Keys {
    pub(super) fn new(resolvers: Resolvers, is_numbered: bool) -> Self {
        Self {
            resolvers,
            is_numbered,
        }
    }

    /// Whether the table itself can be queried for a range of an id's numbers.
    pub(super) fn are_ordered(&self) -> bool {
        let is_sorted = self.is_numbered || self.resolvers.sort.is_ordered();
        is_sorted && self.resolvers.partition.is_constant()
    }

    /// # Errors
    /// `Invalid` if the resolvers have no key for the id.
    pub(super) fn key(&self, id: &PersistenceId, number: u64) -> Result<Key> {
        let partition = self.resolvers.partition.resolve(id, number)?;
        Ok(Key::new(partition).sorted(self.sort(id, number)?))
    }

    /// The key of an id's marker: the same with all resolvers.
    pub(super) fn marker(&self, id: &PersistenceId) -> Key {
        let key = Key::new(format!("{}{id}", MARKER.0));
        match self.is_numbered {
            true => key.sorted(0u64),
            false => key.sorted(MARKER.1),
        }
    }

    /// The id of a marker's key.
    pub(super) fn marked_id(&self, key: &Key) -> Option<PersistenceId> {
        let KeyPart::S(partition) = &key.partition else {
            return None;
        };
        let id = partition.strip_prefix(MARKER.0)?.parse().ok()?;
        (self.marker(&id) == *key).then_some(id)
    }

    fn sort(&self, id: &PersistenceId, number: u64) -> Result<KeyPart> {
        if self.is_numbered {
            return Ok(KeyPart::from(number));
        }
        Ok(KeyPart::from(self.resolvers.sort.resolve(id, number)?))
    }

    /// Queries the table for an id's numbers, where [`are_ordered`](Self::are_ordered). Other ids'
    /// rows may be among them.
    pub(super) fn between(&self, id: &PersistenceId, from: u64, to: u64) -> Result<Query> {
        let to = to.min(SequenceNumber::LAST.get());
        let partition = self.resolvers.partition.resolve(id, from)?;
        let range = SortRange::Between(self.sort(id, from)?, self.sort(id, to)?);
        Ok(Query::of(partition).within(range))
    }
}

/// Queries an index over id and number.
pub(super) fn on_index(index: &str, id: &PersistenceId, (from, to): (u64, u64)) -> Query {
    let to = to.min(SequenceNumber::LAST.get());
    let range = SortRange::Between(KeyPart::from(from), KeyPart::from(to));
    let query = Query::of(id.as_str()).on(index).within(range);
    query.eventually()
}
