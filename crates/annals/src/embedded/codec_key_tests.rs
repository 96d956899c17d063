//! Key bytes sort as the keys do, and ranges hold exactly the keys they should.

use super::*;
use crate::Random;

fn parts() -> Vec<KeyPart> {
    let texts = [
        "", "\0", "\0\0", "\0\u{1}", "a", "a\0", "a\0b", "aa", "ab", "b", "é", "𐐷",
    ];
    let texts = texts.iter().map(|text| KeyPart::from(*text));
    let bytes: [&'static [u8]; 6] = [b"", b"\0", b"\0\xff", b"a", b"\xff", b"\xff\xff"];
    let bytes = bytes.map(|raw| KeyPart::B(bytes::Bytes::from_static(raw)));
    texts.chain(numbers()).chain(bytes).collect()
}

fn numbers() -> impl Iterator<Item = KeyPart> {
    let random = Random::seeded(1);
    let drawn = (0..200).map(move |_| {
        let sign = if random.happens(500) { "-" } else { "" };
        let digits = random.bits() >> random.below(64);
        format!("{sign}{digits}e{}", random.below(20) as i64 - 10)
    });
    let fixed = [
        "0", "1e-130", "-1e-130", "9.9e125", "-9.9e125", "10", "100", "1", "12", "123",
    ];
    let texts = fixed.into_iter().map(str::to_owned).chain(drawn);
    texts.map(|text| KeyPart::N(text.parse().unwrap()))
}

fn bytes_of(part: &KeyPart) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_part(&mut bytes, part);
    bytes
}

#[test]
fn bytes_sort_like_keys_and_none_is_a_prefix_of_another() {
    let parts = parts();
    for a in &parts {
        for b in &parts {
            if std::mem::discriminant(a) != std::mem::discriminant(b) {
                continue;
            }
            let (left, right) = (bytes_of(a), bytes_of(b));
            assert_eq!(left.cmp(&right), a.cmp(b), "{a:?} and {b:?}");
            assert_eq!(left.starts_with(&right), a == b, "{a:?} and {b:?}");
        }
    }
}

#[test]
fn keys_read_back() {
    let (partitions, sorts) = (parts(), parts());
    for partition in &partitions {
        for sort in sorts.iter().map(Some).chain([None]) {
            let key = Key {
                partition: partition.clone(),
                sort: sort.cloned(),
            };
            let attribute = |part: &KeyPart| {
                let key_type = match part {
                    KeyPart::S(_) => KeyType::S,
                    KeyPart::N(_) => KeyType::N,
                    KeyPart::B(_) => KeyType::B,
                };
                crate::items::KeyAttribute::new("a", key_type)
            };
            let mut schema = KeySchema::new(attribute(partition));
            if let Some(sort) = sort {
                schema = schema.sorted(attribute(sort));
            }
            let bytes = key_bytes(&key);
            assert_eq!(decode_key(&schema, &bytes).unwrap(), key);
            for len in 0..bytes.len() {
                let cut = decode_key(&schema, &bytes[..len]);
                assert!(cut.is_err(), "{key:?} cut to {len}");
            }
        }
    }
}

#[test]
fn a_range_holds_the_same_keys_as_the_reference() {
    use std::ops::RangeBounds;
    let parts = parts();
    let partition = KeyPart::from("p");
    let same_type =
        |a: &KeyPart, b: &KeyPart| std::mem::discriminant(a) == std::mem::discriminant(b);
    for bound in &parts {
        let mut ranges = vec![
            SortRange::All,
            SortRange::Equal(bound.clone()),
            SortRange::AtLeast(bound.clone()),
            SortRange::Above(bound.clone()),
            SortRange::AtMost(bound.clone()),
            SortRange::Below(bound.clone()),
            SortRange::Between(bound.clone(), bound.clone()),
        ];
        if !matches!(bound, KeyPart::N(_)) {
            ranges.push(SortRange::BeginsWith(bound.clone()));
        }
        for range in ranges {
            let bytes = query_range(&partition, &range);
            for part in parts.iter().filter(|part| same_type(part, bound)) {
                let key = key_bytes(&Key::new(partition.clone()).sorted(part.clone()));
                assert_eq!(
                    bytes.contains(&key),
                    range.contains(Some(part)),
                    "{range:?} {part:?}"
                );
            }
            let elsewhere = Key::new("q").sorted(bound.clone());
            assert!(!bytes.contains(&key_bytes(&elsewhere)), "{range:?}");
        }
    }
}

#[test]
fn every_partition_is_in_one_segment_and_segments_are_even() {
    use std::ops::RangeBounds;
    for of in [1, 2, 3, 7, 64, 1_000] {
        let mut held = vec![0u32; of as usize];
        for n in 0..2_000u64 {
            let key = key_bytes(&Key::new(format!("entity-{n}")));
            let holders =
                (0..of).filter(|index| segment_range(Segment { index: *index, of }).contains(&key));
            let holders: Vec<_> = holders.collect();
            assert_eq!(holders.len(), 1, "{n} of {of}");
            held[holders[0] as usize] += 1;
        }
        if of <= 7 {
            let fair = 2_000 / of;
            assert!(
                held.iter().all(|n| *n > fair / 2 && *n < fair * 2),
                "{held:?}"
            );
        }
    }
}

#[test]
fn the_bytes_of_keys_never_change() {
    let negative: Number = "-12.5".parse().unwrap();
    let hex = |key: &Key| -> String { key_bytes(key).iter().map(|b| format!("{b:02x}")).collect() };
    let golden = [
        (
            Key::new("cart-1").sorted(1u64),
            "6efe636172742d31000103820b00",
        ),
        (Key::new("a\0b").sorted("z"), "86d46100ff6200017a0001"),
        (Key::new(negative).sorted(0u64), "ba19017cf2ccff02"),
        (Key::new(bytes::Bytes::from_static(b"\xff")), "577dff0001"),
    ];
    for (key, want) in golden {
        assert_eq!(hex(&key), want, "{key}");
    }
}
