//! Building and parsing every key of the `annals` layout. No other file knows their format.
//!
//! A partition key is `KIND:rest`. The kind has no colon, so a persistence id may have any character.
//!
//! Guarantees: no two ids share a partition, and every key fits the store's limit.

use crate::items::{Item, Key};
use crate::{PersistenceId, SequenceNumber, Token};

/// A fixed span of sequence numbers that share a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bucket(pub(super) u64);

impl Bucket {
    /// The bucket before this one.
    pub(super) fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

/// The sequence numbers per bucket, fixed for a table (`table_record.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) u64);

impl Span {
    /// The bucket of a sequence number.
    pub(super) fn bucket(self, number: SequenceNumber) -> Bucket {
        Bucket((number.get() - 1) / self.0)
    }

    /// The first sequence number of a bucket; `None` if it is out of range.
    pub(super) fn first_of(self, bucket: Bucket) -> Option<SequenceNumber> {
        SequenceNumber::new(bucket.0.checked_mul(self.0)?.checked_add(1)?)
    }
}

/// The key of the commit that starts at a sequence number.
pub(super) fn commit(id: &PersistenceId, first: SequenceNumber, span: Span) -> Key {
    Key::new(commits(id, span.bucket(first))).sorted(first.get())
}

/// The partition of the commits of a bucket.
pub(super) fn commits(id: &PersistenceId, bucket: Bucket) -> String {
    format!("{}:{id}", bucket.0)
}

/// The partition of the snapshots of an id.
pub(super) fn snapshots(id: &PersistenceId) -> String {
    format!("s:{id}")
}

/// The key of a snapshot.
pub(super) fn snapshot(id: &PersistenceId, number: u64) -> Key {
    Key::new(snapshots(id)).sorted(number)
}

/// The key of a value.
pub(super) fn state(id: &PersistenceId) -> Key {
    Key::new(format!("s:{id}"))
}

/// The owner of chunks: one attempt to write one commit, snapshot or value.
///
/// It includes the number and the checksum, so that no other attempt, even with the same token by
/// mistake, can overwrite or delete the chunks of a completed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkOwner {
    pub(super) token: Token,
    /// The first sequence number of a commit, that of a snapshot, or the revision of a value.
    pub(super) number: u64,
    pub(super) checksum: u32,
}

/// The key of a chunk of a commit or snapshot.
pub(super) fn chunk(id: &PersistenceId, owner: ChunkOwner, index: u32) -> Key {
    let (token, number, checksum) = (owner.token, owner.number, owner.checksum);
    Key::new(format!("p:{token}:{number}:{checksum:08x}:{id}")).sorted(u64::from(index))
}

/// The key of a chunk of a value, with the index in the partition key: there is no sort key.
pub(super) fn state_chunk(id: &PersistenceId, owner: ChunkOwner, index: u32) -> Key {
    let (token, number, checksum) = (owner.token, owner.number, owner.checksum);
    Key::new(format!("p:{token}{checksum:08x}:{number:x}:{index}:{id}"))
}

/// An item of only key attributes.
pub(super) fn item_of(key: &Key) -> Item {
    let item = Item::new().with("p", key.partition.clone());
    match &key.sort {
        Some(sort) => item.with("n", sort.clone()),
        None => item,
    }
}

/// The key of the table's record.
pub(super) fn record() -> Key {
    Key::new("t:annals").sorted(0u64)
}

/// Parses the partition of the commits of a bucket.
pub(super) fn parse_commits(partition: &str) -> Option<(PersistenceId, Bucket)> {
    let (bucket, id) = partition.split_once(':')?;
    Some((id.parse().ok()?, Bucket(bucket.parse().ok()?)))
}

/// Parses the partition of snapshots or of a value.
pub(super) fn parse_owner(partition: &str) -> Option<PersistenceId> {
    partition.strip_prefix("s:")?.parse().ok()
}

/// Parses the partition of the chunks of a commit or snapshot.
pub(super) fn parse_chunk(partition: &str) -> Option<(PersistenceId, ChunkOwner)> {
    let (token, rest) = partition.strip_prefix("p:")?.split_once(':')?;
    let (number, rest) = rest.split_once(':')?;
    let (checksum, id) = rest.split_once(':')?;
    let owner = ChunkOwner {
        token: parse_token(token)?,
        number: number.parse().ok()?,
        checksum: u32::from_str_radix(checksum, 16).ok()?,
    };
    Some((id.parse().ok()?, owner))
}

/// Parses the partition of a chunk of a value.
pub(super) fn parse_state_chunk(partition: &str) -> Option<(PersistenceId, ChunkOwner)> {
    let (attempt, rest) = partition.strip_prefix("p:")?.split_once(':')?;
    let (token, checksum) = attempt.split_at_checked(2 * Token::BYTES)?;
    let (number, rest) = rest.split_once(':')?;
    let (_, id) = rest.split_once(':')?;
    let owner = ChunkOwner {
        token: parse_token(token)?,
        number: u64::from_str_radix(number, 16).ok()?,
        checksum: u32::from_str_radix(checksum, 16).ok()?,
    };
    Some((id.parse().ok()?, owner))
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
    /// No value has more chunks.
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

    fn chunk_owner(number: u64) -> ChunkOwner {
        ChunkOwner {
            token: Token::from_bytes([0x0B; 8]),
            number,
            checksum: 7,
        }
    }

    #[test]
    fn every_journal_key_parses_back_and_is_unique() {
        let mut seen = std::collections::HashSet::from([record()]);
        for id in ids() {
            for number in [1, 1000, 1001, u64::MAX >> 1] {
                let first = SequenceNumber::new(number).unwrap();
                let key = commit(&id, first, SPAN);
                let want = Some((id.clone(), SPAN.bucket(first)));
                assert_eq!(parse_commits(partition(&key)), want);
                assert_eq!(parse_chunk(partition(&key)), None);
                assert!(seen.insert(key));
            }
            let of = chunk_owner(SequenceNumber::LAST.get());
            let key = chunk(&id, of, 3);
            assert_eq!(parse_chunk(partition(&key)), Some((id, of)));
            assert_eq!(parse_commits(partition(&key)), None);
            assert!(seen.insert(key));
        }
        for other in ["t:annals", "nonsense", "x:a"] {
            assert_eq!(parse_commits(other), None);
            assert_eq!(parse_chunk(other), None);
        }
    }

    #[test]
    fn every_snapshot_and_state_key_parses_back_and_is_unique() {
        let (mut snapshots, mut states) = (std::collections::HashSet::new(), Vec::new());
        for id in ids() {
            let of = chunk_owner(SequenceNumber::LAST.get());
            for key in [snapshot(&id, 7), chunk(&id, of, 0), chunk(&id, of, 1)] {
                let is_chunk = key.partition != snapshot(&id, 7).partition;
                let want = is_chunk.then(|| (id.clone(), of));
                assert_eq!(parse_chunk(partition(&key)), want);
                assert!(snapshots.insert(key));
            }
            for number in [1, u64::MAX] {
                let of = chunk_owner(number);
                for index in [0, INDEX_MAX] {
                    let key = state_chunk(&id, of, index);
                    let want = Some((id.clone(), of));
                    assert_eq!(parse_state_chunk(partition(&key)), want);
                    states.push(key);
                }
            }
            assert_eq!(parse_state_chunk(partition(&state(&id))), None);
            assert_eq!(parse_owner(partition(&state(&id))), Some(id.clone()));
            let chunk = state_chunk(&id, chunk_owner(1), 0);
            assert_eq!(parse_owner(partition(&chunk)), None);
            states.push(state(&id));
        }
        let distinct: std::collections::HashSet<_> = states.iter().collect();
        assert_eq!(distinct.len(), states.len());
    }
}
