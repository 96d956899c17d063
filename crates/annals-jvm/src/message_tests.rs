//! Messages byte for byte, and any other bytes without a panic.

use proptest::prelude::*;

use super::*;
use annals::ErrorKind;

fn unhex(hex: &str) -> Vec<u8> {
    let pairs = (0..hex.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn serialized(id: i32, manifest: &str, bytes: &str) -> Serialized {
    Serialized {
        id,
        manifest: manifest.to_owned(),
        bytes: Bytes::copy_from_slice(bytes.as_bytes()),
    }
}

fn small() -> Message {
    Message {
        payload: serialized(20, "", "hello"),
        sequence_number: 101,
        persistence_id: "order-1".into(),
        adapter_manifest: String::new(),
        writer_uuid: "w-1".into(),
        timestamp_ms: None,
        metadata: None,
        is_deleted: false,
    }
}

fn full() -> Message {
    Message {
        payload: serialized(31, "com.acme.Added", r#"{"q":1}"#),
        sequence_number: 300,
        adapter_manifest: "v2".into(),
        timestamp_ms: Some(1_700_000_000_000),
        metadata: Some(serialized(20, "", "m")),
        ..small()
    }
}

const SMALL: &str = "0a090814120568656c6c6f10651a076f726465722d316a03772d31";
const FULL: &str = "0a1b081f12077b2271223a317d1a0e636f6d2e61636d652e416464656410ac021a076f726465722d31620276326a03772d317080a0abfef9627a05081412016d";

#[test]
fn messages_have_the_bytes_of_the_jvm_side() {
    for (message, hex) in [(small(), SMALL), (full(), FULL)] {
        assert_eq!(message.encode(), unhex(hex));
        assert_eq!(Message::decode(&unhex(hex)).unwrap(), message);
    }
}

#[test]
fn fields_of_other_releases_are_skipped() {
    // Redeliveries (6), a sender (11), and one that nobody has defined yet (1000).
    for field in ["3003", "5a01782a00", "c23e027879"] {
        let bytes = unhex(&format!("{SMALL}{field}"));
        assert_eq!(Message::decode(&bytes).unwrap(), small());
    }
}

#[test]
fn a_deleted_message_is_flagged() {
    let bytes = unhex(&format!("{SMALL}2001"));
    let message = Message::decode(&bytes).unwrap();
    assert!(message.is_deleted);
    assert_eq!(Message::decode(&message.encode()).unwrap(), message);
    // With a number below zero and a sender; as Pekko's own classes write it.
    let bytes = unhex("0a0d08f9ffffffffffffffff011200100120015a0178");
    let message = Message::decode(&bytes).unwrap();
    assert!(message.is_deleted);
    assert_eq!((message.payload.id, message.sequence_number), (-7, 1));
    let bytes = unhex(&format!("{SMALL}2000"));
    assert_eq!(Message::decode(&bytes).unwrap(), small());
}

#[test]
fn a_missing_time_is_left_out() {
    let message = Message {
        timestamp_ms: Some(0),
        ..small()
    };
    assert_eq!(message.encode(), unhex(SMALL));
    for none in ["7000", "7001"] {
        let bytes = unhex(&format!("{SMALL}{none}"));
        assert_eq!(Message::decode(&bytes).unwrap(), small());
    }
}

#[test]
fn other_bytes_are_corrupt() {
    for (hex, what) in [
        ("", "lacks its payload"),
        ("1065", "lacks its payload"),
        ("0a00", "serializer id"),
        // No number; no bytes.
        ("0a03120161", "serializer id"),
        ("0a020814", "serializer id"),
        ("0a0908141200", "does not parse"),
        ("0a07081412001a01ff", "not UTF-8"),
        ("0a040814120010ffffffffffffffffff01", "number=`-1`"),
        ("0a0408141200 1a01ff", "does not parse"),
    ] {
        let error = Message::decode(&unhex(&hex.replace(' ', ""))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(what), "{hex}: {error}");
    }
}

#[test]
fn damage_never_panics() {
    let bytes = full().encode();
    for at in 0..bytes.len() {
        for flip in 1..=255 {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            drop(Message::decode(&damaged));
        }
        drop(Message::decode(&bytes[..at]));
    }
}

proptest! {
    #[test]
    fn messages_round_trip(
        (id, manifest, bytes) in any::<(i32, String, Vec<u8>)>(),
        number in 0..=i64::MAX.unsigned_abs(),
        (persistence_id, adapter_manifest, writer_uuid) in any::<(String, String, String)>(),
        timestamp_ms in prop::option::of(1..=i64::MAX.unsigned_abs()),
        (has_metadata, is_deleted) in any::<(bool, bool)>(),
    ) {
        let payload = Serialized { id, manifest, bytes: bytes.into() };
        let message = Message {
            metadata: has_metadata.then(|| payload.clone()),
            payload,
            sequence_number: number,
            persistence_id,
            adapter_manifest,
            writer_uuid,
            timestamp_ms,
            is_deleted,
        };
        prop_assert_eq!(Message::decode(&message.encode()).unwrap(), message);
    }
}
