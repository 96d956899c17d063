//! Keys of the journal and of the snapshots: the one place that makes them.

use std::sync::Arc;

use super::resolvers::{
    PartitionKeyResolver, PersistenceIdBased, PersistenceIdWithSeqNr, SeqNr, SequenceNumberBased,
    SortKeyResolver,
};
use super::separator::Separator;
use crate::settings::{PartitionKeyKind, SortKeyKind};
use annals::items::{Key, KeyPart, Query, SortRange};
use annals::{Error, PersistenceId, Result, SequenceNumber};

/// What the keys of marks begin with and end with.
const MARK: (&str, &str) = ("annals|", "mark");

/// A resolver for each half of a key.
///
/// ```
/// use annals_jvm::j5ik2o::{PartitionKeyResolver, Resolvers, SortKeyResolver};
/// use annals::{PersistenceId, Result};
/// use std::sync::Arc;
///
/// /// The id is the partition, the number in 20 digits the place in it.
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
    /// Of the partition key.
    pub partition: Arc<dyn PartitionKeyResolver>,
    /// Of the sort key.
    pub sort: Arc<dyn SortKeyResolver>,
}

/// What the settings say about resolvers.
pub(super) struct Chosen<'a> {
    pub(super) partition: PartitionKeyKind,
    pub(super) sort: SortKeyKind,
    pub(super) separator: &'a str,
    pub(super) shards: u32,
}

impl Chosen<'_> {
    /// The plugin's own resolvers.
    pub(super) fn resolvers(&self) -> Result<Resolvers> {
        if self.shards == 0 {
            return Err(Error::invalid("shard-count is at least 1"));
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
    /// Whether the sort key is the number itself, as tables of v1.0.22 and before have it.
    is_numbered: bool,
}

impl Keys {
    pub(super) fn new(resolvers: Resolvers, is_numbered: bool) -> Self {
        Self {
            resolvers,
            is_numbered,
        }
    }

    /// Whether the table itself can be asked for a range of an id's numbers, in order.
    pub(super) fn are_ordered(&self) -> bool {
        let is_sorted = self.is_numbered || self.resolvers.sort.is_ordered();
        is_sorted && self.resolvers.partition.is_constant()
    }

    /// # Errors
    /// `Invalid` where the id can have no key.
    pub(super) fn key(&self, id: &PersistenceId, number: u64) -> Result<Key> {
        let partition = self.resolvers.partition.resolve(id, number)?;
        Ok(Key::new(partition).sorted(self.sort(id, number)?))
    }

    /// The key of an id's mark: whatever the resolvers make of the id, today or before.
    pub(super) fn mark(&self, id: &PersistenceId) -> Key {
        let key = Key::new(format!("{}{id}", MARK.0));
        match self.is_numbered {
            true => key.sorted(0u64),
            false => key.sorted(MARK.1),
        }
    }

    fn sort(&self, id: &PersistenceId, number: u64) -> Result<KeyPart> {
        if self.is_numbered {
            return Ok(KeyPart::from(number));
        }
        Ok(KeyPart::from(self.resolvers.sort.resolve(id, number)?))
    }

    /// Asks the table for an id's numbers, where [`are_ordered`](Self::are_ordered). Other ids' rows
    /// may stand among them.
    pub(super) fn between(&self, id: &PersistenceId, from: u64, to: u64) -> Result<Query> {
        let to = to.min(SequenceNumber::LAST.get());
        let partition = self.resolvers.partition.resolve(id, from)?;
        let range = SortRange::Between(self.sort(id, from)?, self.sort(id, to)?);
        Ok(Query::of(partition).within(range))
    }
}

/// Asks an index over id and number.
pub(super) fn on_index(index: &str, id: &PersistenceId, (from, to): (u64, u64)) -> Query {
    let to = to.min(SequenceNumber::LAST.get());
    let range = SortRange::Between(KeyPart::from(from), KeyPart::from(to));
    let query = Query::of(id.as_str()).on(index).within(range);
    query.eventually()
}
