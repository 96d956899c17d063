//! Stored items: every type round trips, damage is noticed, the bytes never change.

use super::*;
use crate::Random;
use crate::items::{item_from_json, item_size, item_to_json};

fn item(json: &str) -> Item {
    item_from_json(&serde_json::from_str(json).unwrap()).unwrap()
}

fn samples() -> Vec<Item> {
    vec![
        Item::new(),
        item(r#"{"a":{"S":"é\u0000"},"b":{"N":"-1.5"},"c":{"B":"AAH/"},"d":{"BOOL":false}}"#),
        item(r#"{"a":{"NULL":true},"b":{"L":[{"S":""},{"L":[]}]},"c":{"M":{"x":{"N":"0"}}}}"#),
        item(r#"{"a":{"SS":["a","b"]},"b":{"NS":["-1","2","0.5"]},"c":{"BS":["AA==","AQ=="]}}"#),
        item(r#"{"a":{"N":"18446744073709551615"},"b":{"N":"-9223372036854775808"}}"#),
        item(r#"{"a":{"N":"99999999999999999999999999999999999999"},"b":{"N":"1e125"}}"#),
        item(r#"{"a":{"N":"-99999999999999999999999999999999999999"},"b":{"N":"-1e-130"}}"#),
    ]
}

#[test]
fn every_type_decodes_unchanged() {
    for item in samples() {
        let size = item_size(&item);
        let bytes = encode_item(&item, size);
        assert_eq!(decode_item(&bytes).unwrap(), item);
        assert_eq!(stored_size(&bytes).unwrap(), size);
    }
}

#[test]
fn damaged_bytes_are_corrupt_and_never_a_panic() {
    let random = Random::seeded(3);
    for item in samples() {
        let bytes = encode_item(&item, item_size(&item));
        for cut in 0..bytes.len() {
            let error = decode_item(&bytes[..cut]).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Corrupt, "{cut}");
        }
        for _ in 0..2_000 {
            let mut damaged = bytes.clone();
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.bits() as u8;
            let _ = decode_item(&damaged);
        }
    }
}

#[test]
fn a_newer_format_is_refused() {
    let mut bytes = encode_item(&Item::new().with("a", "b"), 2);
    bytes[0] = 2;
    let error = decode_item(&bytes).unwrap_err();
    assert!(error.to_string().contains("update annals"), "{error}");
}

#[test]
fn the_bytes_of_items_never_change() {
    let golden = include_str!("../../tests/fixtures/v1/items.txt");
    for line in golden.lines() {
        let (hex, json) = line.split_once(' ').unwrap();
        let pairs = hex.as_bytes().chunks(2);
        let digits = pairs.map(|pair| std::str::from_utf8(pair).unwrap());
        let bytes: Vec<u8> = digits
            .map(|two| u8::from_str_radix(two, 16).unwrap())
            .collect();
        let item = item(json);
        assert_eq!(decode_item(&bytes).unwrap(), item);
        assert_eq!(
            encode_item(&item, item_size(&item)),
            bytes,
            "{}",
            item_to_json(&item)
        );
    }
    assert_eq!(golden.lines().count(), 7);
}
