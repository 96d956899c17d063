//! The worked examples of the plugin's description, and the keys that two ids share.

use super::*;

fn by_id(shards: u32) -> PersistenceIdBased {
    PersistenceIdBased {
        separator: Separator::new("-").unwrap(),
        shards,
    }
}

fn with_number() -> PersistenceIdWithSeqNr {
    PersistenceIdWithSeqNr {
        separator: Separator::new("-").unwrap(),
    }
}

fn id(text: &str) -> PersistenceId {
    text.parse().unwrap()
}

#[test]
fn the_worked_examples_match() {
    // Id, shard of 64, shard of 1,024 if given, partition key up to its digits, sort key.
    for (text, shard, of_1024, prefix, sort) in [
        (
            "counter-875e6ce0425e4d2b8203f3b44b9b531a",
            53,
            Some(501),
            "counter-",
            "875e6ce0425e4d2b8203f3b44b9b531a-0000000000000000001",
        ),
        (
            "counter-a8d46579bc2f4caf8c3b8dc2db984227",
            35,
            Some(803),
            "counter-",
            "a8d46579bc2f4caf8c3b8dc2db984227-0000000000000000001",
        ),
        ("my-1", 5, Some(965), "my-", "1-0000000000000000001"),
        // The hash of these has its sign set: read without it they would be 25, 21, 16 and 64.
        ("my-2", 41, Some(937), "my-", "2-0000000000000000001"),
        ("my-3", 45, Some(493), "my-", "3-0000000000000000001"),
        ("b", 50, Some(114), "", "0000000000000000001"),
        (
            "order-2021-0001",
            2,
            Some(2),
            "order-",
            "2021-0000000000000000001",
        ),
        ("a", 34, Some(610), "", "0000000000000000001"),
        ("日本-1", 9, None, "日本-", "1-0000000000000000001"),
        // Read backwards by characters, not by their UTF-16 halves.
        ("x-😀", 30, None, "x-", "😀-0000000000000000001"),
    ] {
        let (partition, number) = (by_id(64).of(&id(text)).unwrap(), 1);
        assert_eq!(partition, format!("{prefix}{shard:040}"), "{text}");
        assert_eq!(with_number().resolve(&id(text), number).unwrap(), sort);
        if let Some(of_1024) = of_1024 {
            assert_eq!(by_id(1_024).shard(&id(text)), of_1024, "{text}");
        }
    }
}

#[test]
fn sequence_number_based_keys_spread_over_the_shards() {
    let by_number = SequenceNumberBased { shards: 64 };
    for (number, want) in [(1, "my-1-1"), (63, "my-1-63"), (64, "my-1-0")] {
        assert_eq!(by_number.resolve(&id("my-1"), number).unwrap(), want);
    }
    assert_eq!(SeqNr.resolve(&id("my-1"), 120).unwrap(), "120");
}

fn keys(text: &str) -> (String, String) {
    let partition = by_id(64).of(&id(text)).unwrap();
    (partition, with_number().resolve(&id(text), 1).unwrap())
}

#[test]
fn the_published_collisions_collide() {
    for (one, other) in [
        ("a", "n"),
        ("Counter|1", "Counter|19"),
        ("Counter|4", "Counter|10"),
        ("order-2021-0001", "order-2021-0012"),
    ] {
        assert_eq!(keys(one), keys(other), "{one} and {other}");
    }
    let by_number = SequenceNumberBased { shards: 64 };
    let key = |text: &str| by_number.resolve(&id(text), 1).unwrap();
    assert_ne!(key("a"), key("n"));
}

#[test]
fn numbers_of_every_length_are_in_order() {
    let sort = |number| with_number().resolve(&id("my-1"), number).unwrap();
    let numbers = [0, 1, 9, 10, 99, 1_000_000, i64::MAX as u64];
    let sorted: Vec<_> = numbers.map(sort).into();
    assert!(sorted.is_sorted());
    assert!(sorted.iter().all(|key| key.len() == "1-".len() + 19));
}
