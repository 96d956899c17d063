//! Stored items: one attribute reads as the map has it, and what the check accepts also decodes.

use super::*;
use crate::Random;
use crate::items::encoding::{decode_item, encode_item, read_item};
use crate::items::{Item, item_from_json, item_size};

fn item(json: &str) -> Item {
    item_from_json(&serde_json::from_str(json).unwrap()).unwrap()
}

fn samples() -> Vec<Item> {
    let long = "x".repeat(70_000);
    vec![
        Item::new(),
        Item::new()
            .with("c", vec![7; 300])
            .with("n", 1_000u64)
            .with("p", "0:Cart|42"),
        Item::new().with("long", long.as_str()).with(long, u64::MAX),
        item(r#"{"a":{"S":"é\u0000"},"b":{"N":"-1.5"},"c":{"B":"AAH/"},"d":{"BOOL":false}}"#),
        item(
            r#"{"a":{"NULL":true},"b":{"L":[{"S":""},{"L":[]}]},"c":{"M":{"x":{"N":"0"},"y":{"M":{}}}}}"#,
        ),
        item(r#"{"a":{"SS":["a","b"]},"b":{"NS":["-1","2","0.5"]},"c":{"BS":["AA==","AQ=="]}}"#),
        item(
            r#"{"a":{"N":"18446744073709551615"},"b":{"N":"-9223372036854775808"},"c":{"N":"1e30"}}"#,
        ),
        item(r#"{"a":{"N":"99999999999999999999999999999999999999"},"b":{"N":"1e125"}}"#),
        item(r#"{"a":{"N":"-99999999999999999999999999999999999999"},"b":{"N":"-1e-130"}}"#),
    ]
}

fn stored(item: &Item) -> Bytes {
    encode_item(item, item_size(item)).into()
}

/// That every attribute reads alike from the bytes and from the map.
#[track_caller]
fn check_attributes(read: &Item) {
    let map: Item = read.clone().into_iter().collect();
    for name in map.iter().map(|(name, _)| name).chain(["", "b0", "zz"]) {
        assert_eq!(read.text(name), map.text(name), "{name}");
        assert_eq!(read.u64(name), map.u64(name), "{name}");
        assert_eq!(read.bytes(name), map.bytes(name), "{name}");
    }
}

#[test]
fn one_attribute_reads_as_in_the_map() {
    for item in samples() {
        let read = read_item(stored(&item)).unwrap();
        check_attributes(&read);
        assert_eq!(read, item);
        assert_eq!(item_size(&read), item_size(&item));
        assert_eq!(format!("{read:?}"), format!("{item:?}"));
    }
}

#[test]
fn bytes_of_an_attribute_are_shared() {
    let bytes = stored(&Item::new().with("b", vec![7; 300]));
    let found = read_item(bytes.clone()).unwrap().bytes("b").unwrap();
    assert!(bytes.as_ptr_range().contains(&found.as_ptr()));
}

#[test]
fn a_changed_item_is_encoded_anew() {
    for item in samples() {
        let read = read_item(stored(&item)).unwrap();
        assert_eq!(stored(&read), stored(&item));
        let (read, item) = (read.with("new", 1u64), item.with("new", 1u64));
        assert_eq!(
            (item_size(&read), stored(&read)),
            (item_size(&item), stored(&item))
        );
        let (mut read, mut item) = (read_item(stored(&read)).unwrap(), item);
        assert_eq!(read.remove("new"), item.remove("new"));
        assert_eq!(stored(&read), stored(&item));
    }
}

#[test]
fn the_check_accepts_what_decodes_and_nothing_else() {
    let random = Random::seeded(11);
    let (mut accepted, mut refused) = (0, 0);
    for item in samples().iter().filter(|item| item_size(item) < 1_000) {
        let bytes = stored(item);
        for cut in 0..bytes.len() {
            assert!(read_item(bytes.slice(..cut)).is_err(), "{cut}");
        }
        for _ in 0..5_000 {
            let mut damaged = bytes.to_vec();
            for _ in 0..=random.below(2) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] = random.bits() as u8;
            }
            match read_item(damaged.clone().into()) {
                Ok(read) => {
                    assert_eq!(read, decode_item(&damaged).unwrap());
                    check_attributes(&read);
                    accepted += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
                    refused += 1;
                }
            }
        }
    }
    assert!(accepted > 1_000 && refused > 1_000, "{accepted} {refused}");
}

#[test]
fn names_out_of_order_or_twice_are_corrupt() {
    let header = [1, 0, 0, 0, 4];
    for map in [
        [0xA2, 0x61, b'b', 1, 0x61, b'a', 2],
        [0xA2, 0x61, b'a', 1, 0x61, b'a', 2],
    ] {
        let bytes = [&header[..], &map].concat();
        let error = read_item(bytes.into()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
    }
}

#[test]
fn values_nested_too_deep_are_corrupt() {
    let nested = |levels: usize| {
        let mut bytes = vec![1, 0, 0, 0, 4, 0xA1, 0x61, b'a'];
        bytes.extend(std::iter::repeat_n(0x81, levels));
        bytes.push(0xF6);
        read_item(bytes.into())
    };
    assert!(nested(DEPTH_MAX - 1).is_ok());
    assert!(nested(DEPTH_MAX).is_err());
    assert!(nested(1_000_000).is_err());
}
