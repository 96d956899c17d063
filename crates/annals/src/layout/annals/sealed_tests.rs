//! Sealed payloads: they open to what was sealed, and any damage is noticed.

use super::*;
use crate::ErrorKind;
use crate::items::{KeyAttribute, KeySchema};
use crate::memory::Memory;

fn table() -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    TableSpec::new("sealed".parse().unwrap(), key).unwrap()
}

fn part_key(token: Token, index: u32) -> Key {
    Key::new(format!("p:{token}")).sorted(u64::from(index))
}

fn samples() -> Vec<Payload> {
    let alike = "the same again and again ".repeat(200);
    vec![
        Payload::default(),
        Payload::new(Codec::Text, "é").manifest("M").schema(7),
        Payload::new(Codec::Other("mine".into()), vec![0u8, 255, 1]),
        // Large enough that packing saves a unit.
        Payload::new(Codec::Json, alike),
    ]
}

fn sealed_item(payload: &Payload) -> Item {
    let item = Item::new().with("p", "s:Cart|1").with("n", 7u64);
    let what = (payload, 1_700_000_000_000, Token::from_bytes([9; 8]));
    let written = seal(&table(), item, what, &part_key).unwrap();
    assert!(written.parts.is_empty());
    written.item
}

async fn opened(item: &Item) -> Result<Payload> {
    let sealed = Sealed::of(&table(), item)?;
    assert_eq!(sealed.time_ms, 1_700_000_000_000);
    sealed.open(&Memory::new(), &table(), &part_key).await
}

#[tokio::test]
async fn what_was_sealed_opens() {
    for payload in samples() {
        assert_eq!(opened(&sealed_item(&payload)).await.unwrap(), payload);
    }
}

#[tokio::test]
async fn every_damage_is_corrupt_and_never_another_payload() {
    for payload in samples() {
        let item = sealed_item(&payload);
        let bytes = item.get(BLOB).unwrap().as_bytes().unwrap().to_vec();
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let error = opened(&item.clone().with(BLOB, damaged)).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}");
            }
            let cut = bytes[..at].to_vec();
            let error = opened(&item.clone().with(BLOB, cut)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "cut at {at}");
        }
    }
}

#[tokio::test]
async fn a_payload_under_another_key_is_corrupt() {
    let item = sealed_item(&Payload::new(Codec::Text, "mine"));
    for stray in [item.clone().with("n", 8u64), item.with("p", "s:Cart|2")] {
        assert_eq!(opened(&stray).await.unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
