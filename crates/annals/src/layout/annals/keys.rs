//! Every key of the `annals` layout, built and parsed. No other file knows their shape.
//!
//! A partition is `KIND:rest`. What stands before the first colon is ours, so a persistence id may
//! hold any character, colons too.
//!
//! Promises: no two ids ever share a partition, and every key fits the store's limit.
//! Never: knows what else is in an item.

use crate::items::{Item, Key};
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

/// The partition of an id's snapshots.
pub(super) fn snapshots(id: &PersistenceId) -> String {
    format!("s:{id}")
}

/// Where the snapshot of a number lives.
pub(super) fn snapshot(id: &PersistenceId, number: u64) -> Key {
    Key::new(snapshots(id)).sorted(number)
}

/// Where durable state lives, in a table without numbers.
pub(super) fn state(id: &PersistenceId) -> Key {
    Key::new(format!("s:{id}"))
}

/// Whose parts: those of one attempt to write one commit, snapshot or value.
///
/// The number and the checksum are in it so that no other attempt, not even one that was given the
/// same token by mistake, can overwrite the parts of what has landed or take them away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartsOf {
    pub(super) token: Token,
    /// The first of a commit, that of a snapshot, or the revision of a value.
    pub(super) number: u64,
    pub(super) checksum: u32,
}

/// Where a part of a commit or snapshot lives that is too large for one item.
pub(super) fn part(id: &PersistenceId, of: PartsOf, index: u32) -> Key {
    let (token, number, checksum) = (of.token, of.number, of.checksum);
    Key::new(format!("p:{token}:{number}:{checksum:08x}:{id}")).sorted(u64::from(index))
}

/// Where a part of a value lives: the index is in the partition, and must fit there.
pub(super) fn state_part(id: &PersistenceId, of: PartsOf, index: u32) -> Key {
    let (token, number, checksum) = (of.token, of.number, of.checksum);
    Key::new(format!("p:{token}{checksum:08x}:{number:x}:{index}:{id}"))
}

/// An item that has its key and nothing else.
pub(super) fn item_of(key: &Key) -> Item {
    let item = Item::new().with("p", key.partition.clone());
    match &key.sort {
        Some(sort) => item.with("n", sort.clone()),
        None => item,
    }
}

/// Where the table's own record lives.
pub(super) fn record() -> Key {
    Key::new("t:annals").sorted(0u64)
}

/// Reads the partition of a bucket's commits back.
pub(super) fn parse_commits(partition: &str) -> Option<(PersistenceId, Bucket)> {
    let (bucket, id) = partition.split_once(':')?;
    Some((id.parse().ok()?, Bucket(bucket.parse().ok()?)))
}

/// Reads the partition of snapshots, or of a value, back.
pub(super) fn parse_sealed(partition: &str) -> Option<PersistenceId> {
    partition.strip_prefix("s:")?.parse().ok()
}

/// Reads the partition of a commit's or snapshot's parts back.
pub(super) fn parse_part(partition: &str) -> Option<(PersistenceId, PartsOf)> {
    let (token, rest) = partition.strip_prefix("p:")?.split_once(':')?;
    let (number, rest) = rest.split_once(':')?;
    let (checksum, id) = rest.split_once(':')?;
    let of = PartsOf {
        token: parse_token(token)?,
        number: number.parse().ok()?,
        checksum: u32::from_str_radix(checksum, 16).ok()?,
    };
    Some((id.parse().ok()?, of))
}

/// Reads the partition of a value back.
pub(super) fn parse_state(partition: &str) -> Option<PersistenceId> {
    partition.strip_prefix("s:")?.parse().ok()
}

/// Reads the partition of a value's part back.
pub(super) fn parse_state_part(partition: &str) -> Option<(PersistenceId, PartsOf)> {
    let (attempt, rest) = partition.strip_prefix("p:")?.split_once(':')?;
    let (token, checksum) = attempt.split_at_checked(2 * Token::BYTES)?;
    let (number, rest) = rest.split_once(':')?;
    let (_, id) = rest.split_once(':')?;
    let of = PartsOf {
        token: parse_token(token)?,
        number: u64::from_str_radix(number, 16).ok()?,
        checksum: u32::from_str_radix(checksum, 16).ok()?,
    };
    Some((id.parse().ok()?, of))
}

fn parse_token(text: &str) -> Option<Token> {
    let bits = u64::from_str_radix(text, 16).ok()?;
    Some(Token::from_bytes(bits.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::KeyPart;
    use crate::items::limits::PARTITION_BYTES_MAX;

    const SPAN: Span = Span(1000);
    /// No value has more parts.
    const INDEX_MAX: u32 = 999;

    fn ids() -> impl Iterator<Item = PersistenceId> {
        let long = "x".repeat(crate::PERSISTENCE_ID_BYTES_MAX);
        let ids = [
            "a",
            "0:a",
            ":",
            "p:0:a",
            "s:a",
            "t:annals",
            "Cart|4-2#x/y",
            "é\u{0}𐐷",
            "1:",
            "12",
            &long,
        ];
        ids.map(|id| id.parse().unwrap()).into_iter()
    }

    fn partition(key: &Key) -> &str {
        let KeyPart::S(partition) = &key.partition else {
            panic!("{key}");
        };
        assert!(partition.len() <= PARTITION_BYTES_MAX, "{key}");
        partition
    }

    fn parts_of(number: u64) -> PartsOf {
        PartsOf {
            token: Token::from_bytes([0x0B; 8]),
            number,
            checksum: 7,
        }
    }

    #[test]
    fn any_id_of_the_journal_reads_back_and_none_meets_another() {
        let mut seen = std::collections::HashSet::from([record()]);
        for id in ids() {
            for number in [1, 1000, 1001, u64::MAX >> 1] {
                let first = SequenceNumber::new(number).unwrap();
                let key = commit(&id, first, SPAN);
                let want = Some((id.clone(), SPAN.bucket(first)));
                assert_eq!(parse_commits(partition(&key)), want);
                assert_eq!(parse_part(partition(&key)), None);
                assert!(seen.insert(key));
            }
            let of = parts_of(SequenceNumber::LAST.get());
            let key = part(&id, of, 3);
            assert_eq!(parse_part(partition(&key)), Some((id, of)));
            assert_eq!(parse_commits(partition(&key)), None);
            assert!(seen.insert(key));
        }
        for other in ["t:annals", "nonsense", "x:a"] {
            assert_eq!(parse_commits(other), None);
            assert_eq!(parse_part(other), None);
        }
    }

    #[test]
    fn any_id_of_snapshots_and_state_reads_back_and_none_meets_another() {
        let (mut snapshots, mut states) = (std::collections::HashSet::new(), Vec::new());
        for id in ids() {
            let of = parts_of(SequenceNumber::LAST.get());
            for key in [snapshot(&id, 7), part(&id, of, 0), part(&id, of, 1)] {
                let is_part = key.partition != snapshot(&id, 7).partition;
                let want = is_part.then(|| (id.clone(), of));
                assert_eq!(parse_part(partition(&key)), want);
                assert!(snapshots.insert(key));
            }
            for number in [1, u64::MAX] {
                let of = parts_of(number);
                for index in [0, INDEX_MAX] {
                    let key = state_part(&id, of, index);
                    let want = Some((id.clone(), of));
                    assert_eq!(parse_state_part(partition(&key)), want);
                    states.push(key);
                }
            }
            assert_eq!(parse_state_part(partition(&state(&id))), None);
            assert_eq!(parse_state(partition(&state(&id))), Some(id.clone()));
            let part = state_part(&id, parts_of(1), 0);
            assert_eq!(parse_state(partition(&part)), None);
            states.push(state(&id));
        }
        let distinct: std::collections::HashSet<_> = states.iter().collect();
        assert_eq!(distinct.len(), states.len());
    }
}
