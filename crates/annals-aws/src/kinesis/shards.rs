//! The shards of a stream, and which of them can be read. Pure.
//!
//! A split or a merge closes shards and opens others, their children. The records of a partition key
//! continue in a child, so a parent is read to its end before its children.
//!
//! Guarantees: no shard is ready before every parent that the stream still has is finished.
//! Relies on: a parent that the stream no longer has holding no records.

use super::ShardId;

/// A shard, as a stream lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    /// One after a split, two after a merge, otherwise none.
    pub(crate) parents: Vec<ShardId>,
    /// Whether it gets no more records.
    pub(crate) is_closed: bool,
}

/// The shards that can be read: not finished, and without an unfinished parent.
pub(crate) fn ready(shards: &[Shard], is_finished: impl Fn(&ShardId) -> bool) -> Vec<&Shard> {
    let is_there = |id: &ShardId| shards.iter().any(|shard| shard.id == *id);
    let blocks = |parent: &ShardId| is_there(parent) && !is_finished(parent);
    let is_ready = |shard: &&Shard| !is_finished(&shard.id) && !shard.parents.iter().any(blocks);
    shards.iter().filter(is_ready).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: &str, parents: &[&str]) -> Shard {
        Shard {
            id: id.into(),
            parents: parents.iter().map(|id| ShardId::from(*id)).collect(),
            is_closed: false,
        }
    }

    #[track_caller]
    fn check(shards: &[Shard], finished: &[&str], want: &[&str]) {
        let found = ready(shards, |id| finished.contains(&id.as_str()));
        let found: Vec<_> = found.iter().map(|shard| shard.id.as_str()).collect();
        assert_eq!(found, want, "{finished:?}");
    }

    #[test]
    fn a_parent_is_finished_before_its_children() {
        // a is split into b and c; c and d are merged into e.
        let shards = [
            shard("a", &[]),
            shard("b", &["a"]),
            shard("c", &["a"]),
            shard("d", &[]),
            shard("e", &["c", "d"]),
        ];
        check(&shards, &[], &["a", "d"]);
        check(&shards, &["a"], &["b", "c", "d"]);
        check(&shards, &["a", "c"], &["b", "d"]);
        check(&shards, &["a", "d"], &["b", "c"]);
        check(&shards, &["a", "c", "d"], &["b", "e"]);
        check(&shards, &["a", "b", "c", "d", "e"], &[]);
    }

    #[test]
    fn a_missing_parent_blocks_nothing() {
        let shards = [shard("b", &["a"]), shard("e", &["b", "d"])];
        check(&shards, &[], &["b"]);
        check(&shards, &["b"], &["e"]);
    }
}
