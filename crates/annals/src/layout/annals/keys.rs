//! Every key of the `annals` layout, built and parsed. No other file knows their shape.
//!
//! A partition is `KIND:rest`. What stands before the first colon is ours, so a persistence id may
//! hold any character, colons too, and no two ids ever share a partition.

use crate::items::Key;
use crate::{PersistenceId, SequenceNumber, Token};

/// A fixed span of sequence numbers, which share a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bucket(pub(super) u64);

/// How many sequence numbers a bucket has. Part of a table: see `record.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) u64);

impl Span {
    /// The bucket a number falls into.
    pub(super) fn bucket(self, number: SequenceNumber) -> Bucket {
        Bucket((number.get() - 1) / self.0)
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

/// Where a part of a commit lives that is too large for one item.
pub(super) fn part(id: &PersistenceId, token: Token, index: u32) -> Key {
    Key::new(format!("p:{token}:{id}")).sorted(u64::from(index))
}

/// Where the table's own record lives.
pub(super) fn record() -> Key {
    Key::new("t:annals").sorted(0u64)
}

/// What a partition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Partition {
    Commits(PersistenceId, Bucket),
    Parts(PersistenceId, String),
    Record,
}

/// Reads a partition back.
pub(super) fn parse(partition: &str) -> Option<Partition> {
    let (kind, rest) = partition.split_once(':')?;
    match kind {
        "t" => Some(Partition::Record),
        "p" => {
            let (token, id) = rest.split_once(':')?;
            Some(Partition::Parts(id.parse().ok()?, token.to_owned()))
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
            let key = part(&id, Token::from_bytes([0xAB; 8]), 3);
            let KeyPart::S(partition) = &key.partition else {
                panic!("{key}");
            };
            let want = Partition::Parts(id, "abababababababab".to_owned());
            assert_eq!(parse(partition), Some(want));
            assert!(seen.insert(key));
        }
        assert!(seen.insert(record()));
        assert_eq!(parse("t:annals"), Some(Partition::Record));
        assert_eq!(parse("nonsense"), None);
        assert_eq!(parse("x:a"), None);
    }
}
