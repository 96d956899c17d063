//! A checksum detects every change of a covered attribute, and no other change.

use super::*;

const NAMES: [&str; 5] = ["key", "place", "event", "tags", "gone"];

fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter()
}

fn item() -> Item {
    let tags = vec![Value::from("one"), Value::from("two")];
    Item::new()
        .with("key", "id-0")
        .with("place", 7u64)
        .with("event", b"paid".to_vec())
        .with("tags", Value::L(tags))
}

#[track_caller]
fn refused(item: &Item) {
    let refused = check(item, names()).unwrap_err();
    assert_eq!(refused.kind(), annals::ErrorKind::Corrupt, "{item:?}");
}

#[test]
fn every_flipped_bit_is_detected() {
    let sealed = sealed(item(), names());
    check(&sealed, names()).unwrap();
    for bit in 0..8 {
        for at in 0..4 {
            let mut bytes = b"paid".to_vec();
            bytes[at] ^= 1 << bit;
            refused(&sealed.clone().with("event", bytes));
            let mut sum = sealed.get(NAME).unwrap().as_bytes().unwrap().to_vec();
            sum[at] ^= 1 << bit;
            refused(&sealed.clone().with(NAME, sum));
        }
        refused(&sealed.clone().with("place", 7u64 ^ (1 << bit)));
    }
}

#[test]
fn moved_removed_and_added_attributes_are_detected() {
    let sealed = sealed(item(), names());
    let one = |text: &str| Value::L(vec![Value::from(text)]);
    let mut lost = sealed.clone();
    lost.remove("tags");
    for altered in [
        lost,
        sealed.clone().with("gone", true),
        sealed.clone().with("tags", one("onetwo")),
        sealed.clone().with("tags", "one"),
        sealed.clone().with("place", "7"),
        sealed.clone().with("key", b"id-0".to_vec()),
        sealed.clone().with("event", Value::Null),
        sealed.clone().with(NAME, 1u64),
        sealed.clone().with(NAME, vec![0u8; 3]),
    ] {
        refused(&altered);
    }
}

#[test]
fn uncovered_attributes_and_items_without_a_checksum_pass() {
    check(&item(), names()).unwrap();
    let sealed = sealed(item(), names()).with("expires", 1u64);
    check(&sealed, names()).unwrap();
    assert!(is_sealed(&sealed) && !is_sealed(&item()));
}

/// As `docs/format.md` specifies.
#[test]
fn the_checksum_is_the_documented_one() {
    let item = Item::new().with("key", "a").with("place", 1u64);
    let sealed = sealed(item, names());
    let mut bytes = vec![0, b'S'];
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 1, b'a']);
    bytes.extend([1, b'N', 0, 0, 0, 0, 0, 0, 0, 18]);
    bytes.extend([0; 15]);
    bytes.extend([1, 0, 0]);
    let want = crc32fast::hash(&bytes).to_be_bytes();
    assert_eq!(sealed.get(NAME).unwrap().as_bytes().unwrap()[..], want);
}

#[test]
fn a_full_item_gets_no_checksum() {
    let large = item().with("event", vec![0u8; ITEM_BYTES_MAX - 40]);
    let room = ITEM_BYTES_MAX - item_size(&large);
    let full = large.with("event", vec![0u8; ITEM_BYTES_MAX - 40 + room]);
    assert_eq!(item_size(&full), ITEM_BYTES_MAX);
    assert_eq!(sealed(full.clone(), names()), full);
}
