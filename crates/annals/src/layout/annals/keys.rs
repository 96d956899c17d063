//! Every key of the `annals` layout, built and parsed. No other file knows their shape.
//!
//! A partition is `KIND:rest`. What stands before the first colon is ours, so a persistence id may
//! hold any character, colons too.
//!
//! Promises: no two ids ever share a partition, and every key fits the store's limit.
//! Never: knows what is in an item.

use crate::items::Key;
use crate::{PersistenceId, SequenceNumber, Token};

/// A fixed span of sequence numbers, which share a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bucket(pub(super) u64);

impl Bucket {
    /// The bucket before this one.
    pub(super) fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

/// How many sequence numbers a bucket has. Part of a table: see `record.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) u64);

impl Span {
    /// The bucket a number falls into.
    pub(super) fn bucket(self, number: SequenceNumber) -> Bucket {
        Bucket((number.get() - 1) / self.0)
    }

    /// The first number of a bucket, unless it is past the last there can be.
    pub(super) fn first_of(self, bucket: Bucket) -> Option<SequenceNumber> {
        SequenceNumber::new(bucket.0.checked_mul(self.0)?.checked_add(1)?)
    }
}

/// Where a commit lives that starts with this number.
pub(super) fn commit(id: &PersistenceId, first: SequenceNumber, span: Span) -> Key {
    Key::new(commits(id, span.bucket(first))).sorted(first.get())
}

/// The partition of a bucket's commits.
pub(super) fn commits(id: &PersistenceId, bucket: Bucket) -> String {
    format!("{}:{id}", bucket.0)
}

/// Whose parts: those of one attempt to write one commit.
///
/// The number and the checksum are in it so that no other attempt, not even one that was given the
/// same token by mistake, can overwrite the parts of a commit that has landed or take them away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartsOf {
    pub(super) token: Token,
    pub(super) first: SequenceNumber,
    pub(super) checksum: u32,
}

/// Where a part of a commit lives that is too large for one item.
pub(super) fn part(id: &PersistenceId, of: PartsOf, index: u32) -> Key {
    let (token, first, checksum) = (of.token, of.first, of.checksum);
    Key::new(format!("p:{token}:{first}:{checksum:08x}:{id}")).sorted(u64::from(index))
}

/// Where the table's own record lives.
pub(super) fn record() -> Key {
    Key::new("t:annals").sorted(0u64)
}

/// What a partition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Partition {
    Commits(PersistenceId, Bucket),
    Parts(PersistenceId, PartsOf),
    Record,
}

/// Reads a partition back.
pub(super) fn parse(partition: &str) -> Option<Partition> {
    let (kind, rest) = partition.split_once(':')?;
    match kind {
        "t" => Some(Partition::Record),
        "p" => {
            let (token, rest) = rest.split_once(':')?;
            let (first, rest) = rest.split_once(':')?;
            let (checksum, id) = rest.split_once(':')?;
            let token = u64::from_str_radix(token, 16).ok()?.to_be_bytes();
            let of = PartsOf {
                token: Token::from_bytes(token),
                first: first.parse().ok()?,
                checksum: u32::from_str_radix(checksum, 16).ok()?,
            };
            Some(Partition::Parts(id.parse().ok()?, of))
        }
        bucket => Some(Partition::Commits(
            rest.parse().ok()?,
            Bucket(bucket.parse().ok()?),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::KeyPart;
    use crate::items::limits::PARTITION_BYTES_MAX;

    #[test]
    fn any_id_reads_back_and_none_meets_another() {
        let ids = [
            "a",
            "0:a",
            ":",
            "p:0:a",
            "t:annals",
            "Cart|4-2#x/y",
            "é\u{0}𐐷",
            "1:",
            "12",
            &"x".repeat(crate::PERSISTENCE_ID_BYTES_MAX),
        ];
        let mut seen = std::collections::HashSet::new();
        for id in ids {
            let id: PersistenceId = id.parse().unwrap();
            for number in [1, 1000, 1001, u64::MAX >> 1] {
                let first = SequenceNumber::new(number).unwrap();
                let key = commit(&id, first, Span(1000));
                let KeyPart::S(partition) = &key.partition else {
                    panic!("{key}");
                };
                let want = Partition::Commits(id.clone(), Span(1000).bucket(first));
                assert_eq!(parse(partition), Some(want));
                assert!(seen.insert(key));
            }
            let of = PartsOf {
                token: Token::from_bytes([0x0B; 8]),
                first: SequenceNumber::LAST,
                checksum: 7,
            };
            let key = part(&id, of, 3);
            let KeyPart::S(partition) = &key.partition else {
                panic!("{key}");
            };
            assert!(partition.len() <= PARTITION_BYTES_MAX);
            let want = Partition::Parts(id, of);
            assert_eq!(parse(partition), Some(want));
            assert!(seen.insert(key));
        }
        assert!(seen.insert(record()));
        assert_eq!(parse("t:annals"), Some(Partition::Record));
        assert_eq!(parse("nonsense"), None);
        assert_eq!(parse("x:a"), None);
    }
}
