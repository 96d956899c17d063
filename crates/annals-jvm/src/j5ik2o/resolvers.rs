//! Resolvers: they make the keys of events, snapshots and values.
//!
//! Guarantees: the keys of the plugin's own resolvers, character by character. A team that wrote its
//! own resolvers there implements these traits here.

use std::fmt;

use md5::{Digest, Md5};

use super::separator::Separator;
use annals::{Error, PersistenceId, Result};

/// Makes partition keys.
///
/// Your own resolver, here for a table that keeps each tenant's events together:
///
/// ```
/// use annals_jvm::j5ik2o::PartitionKeyResolver;
/// use annals::{Error, PersistenceId, Result};
///
/// /// `acme/cart-1` is in the partition `tenant-acme`.
/// #[derive(Debug)]
/// struct ByTenant;
///
/// impl PartitionKeyResolver for ByTenant {
///     fn resolve(&self, id: &PersistenceId, _number: u64) -> Result<String> {
///         let (tenant, _) = id.as_str().split_once('/').ok_or_else(|| {
///             Error::invalid("an id begins with its tenant").fact("id", id)
///         })?;
///         Ok(format!("tenant-{tenant}"))
///     }
///
///     // The same for every number: recovery can query this partition, strongly consistent.
///     fn is_constant(&self) -> bool {
///         true
///     }
/// }
///
/// assert_eq!(ByTenant.resolve(&"acme/cart-1".parse()?, 7)?, "tenant-acme");
/// # Ok::<(), Error>(())
/// ```
///
/// Pass it to [`J5ik2oJournal::open_with`](super::J5ik2oJournal::open_with).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not resolve partition keys",
    label = "`annals_jvm::j5ik2o::PartitionKeyResolver` is not implemented for `{Self}`",
    note = "implement its method `resolve`, as the resolver on the JVM does"
)]
pub trait PartitionKeyResolver: fmt::Debug + Send + Sync + 'static {
    /// The partition key of an id's event or snapshot of this number. Must be deterministic. The
    /// journal also passes number 0, which no event has.
    ///
    /// # Errors
    /// `Invalid` if the id has no key.
    fn resolve(&self, id: &PersistenceId, number: u64) -> Result<String>;

    /// Whether all numbers of an id have the same partition key. With ordered sort keys, recovery then
    /// queries the table itself, strongly consistent; otherwise it reads the index and looks up
    /// numbers that may be missing from it key by key.
    fn is_constant(&self) -> bool {
        false
    }
}

/// Makes sort keys.
///
/// ```
/// use annals_jvm::j5ik2o::SortKeyResolver;
/// use annals::{PersistenceId, Result};
///
/// /// As texts the keys are in the order of the numbers, so recovery may query a range.
/// #[derive(Debug)]
/// struct InDigits;
///
/// impl SortKeyResolver for InDigits {
///     fn resolve(&self, _id: &PersistenceId, number: u64) -> Result<String> {
///         Ok(format!("{number:020}"))
///     }
///
///     fn is_ordered(&self) -> bool {
///         true
///     }
/// }
///
/// let id = "Cart-42".parse()?;
/// assert!(InDigits.resolve(&id, 9)? < InDigits.resolve(&id, 10)?);
/// # Ok::<(), annals::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not resolve sort keys",
    label = "`annals_jvm::j5ik2o::SortKeyResolver` is not implemented for `{Self}`",
    note = "implement its method `resolve`, as the resolver on the JVM does"
)]
pub trait SortKeyResolver: fmt::Debug + Send + Sync + 'static {
    /// The sort key of an id's event or snapshot of this number, 0 included. Must be deterministic.
    ///
    /// # Errors
    /// `Invalid` if the id has no key.
    fn resolve(&self, id: &PersistenceId, number: u64) -> Result<String>;

    /// Whether the sort keys of an id, as texts, are in the order of their numbers.
    fn is_ordered(&self) -> bool {
        false
    }
}

/// `PartitionKeyResolver$PersistenceIdBased`: the id's prefix, and a shard by its hash.
#[derive(Clone, Debug)]
pub(super) struct PersistenceIdBased {
    pub(super) separator: Separator,
    pub(super) shards: u32,
}

impl PersistenceIdBased {
    /// From 1 to the number of shards. The hash of the reversed id is a signed number; its sign is
    /// dropped.
    fn shard(&self, id: &PersistenceId) -> u128 {
        let reversed: String = id.as_str().chars().rev().collect();
        let hash: [u8; 16] = Md5::digest(reversed).into();
        let hash = i128::from_be_bytes(hash).unsigned_abs();
        hash % u128::from(self.shards.max(1)) + 1
    }

    /// The partition key of everything of an id.
    pub(super) fn of(&self, id: &PersistenceId) -> Result<String> {
        let shard = self.shard(id);
        Ok(match self.separator.prefix(id)? {
            Some(prefix) => format!("{prefix}-{shard:040}"),
            None => format!("{shard:040}"),
        })
    }
}

impl PartitionKeyResolver for PersistenceIdBased {
    fn resolve(&self, id: &PersistenceId, _number: u64) -> Result<String> {
        self.of(id)
    }

    fn is_constant(&self) -> bool {
        true
    }
}

/// `PartitionKeyResolver$SequenceNumberBased`: the id, and the number modulo the shards.
#[derive(Clone, Copy, Debug)]
pub(super) struct SequenceNumberBased {
    pub(super) shards: u32,
}

impl PartitionKeyResolver for SequenceNumberBased {
    fn resolve(&self, id: &PersistenceId, number: u64) -> Result<String> {
        Ok(format!("{id}-{}", number % u64::from(self.shards.max(1))))
    }

    fn is_constant(&self) -> bool {
        self.shards <= 1
    }
}

/// `SortKeyResolver$SeqNr`: the number, without leading zeros.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeqNr;

impl SortKeyResolver for SeqNr {
    fn resolve(&self, _id: &PersistenceId, number: u64) -> Result<String> {
        Ok(number.to_string())
    }
}

/// `SortKeyResolver$PersistenceIdWithSeqNr`: the id's body, and the number in 19 digits.
#[derive(Clone, Debug)]
pub(super) struct PersistenceIdWithSeqNr {
    pub(super) separator: Separator,
}

impl SortKeyResolver for PersistenceIdWithSeqNr {
    fn resolve(&self, id: &PersistenceId, number: u64) -> Result<String> {
        Ok(match self.separator.body(id)? {
            Some(body) => format!("{body}-{number:019}"),
            None => format!("{number:019}"),
        })
    }

    fn is_ordered(&self) -> bool {
        true
    }
}

/// `SortKeyResolver$PersistenceIdBased`, of durable state: the id.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeId;

impl SortKeyResolver for WholeId {
    fn resolve(&self, id: &PersistenceId, _number: u64) -> Result<String> {
        Ok(id.to_string())
    }
}

/// Two ids have one key.
pub(super) fn collision(id: &PersistenceId, other: &str, key: &annals::items::Key) -> Error {
    Error::invalid(
        "the resolvers give two ids the same key, and the plugin would overwrite one with the other; choose another id, or SequenceNumberBased for a new table",
    )
    .fact("id", id)
    .fact("other", other)
    .fact("key", key)
}

#[cfg(test)]
#[path = "resolvers_tests.rs"]
mod tests;
