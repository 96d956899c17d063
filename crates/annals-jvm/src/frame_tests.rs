//! Frames byte for byte, and any other bytes without a panic.

use proptest::prelude::*;

use super::*;
use annals::ErrorKind;

fn serialized(id: i32, manifest: &str, bytes: &str) -> Serialized {
    Serialized {
        id,
        manifest: manifest.to_owned(),
        bytes: Bytes::copy_from_slice(bytes.as_bytes()),
    }
}

#[track_caller]
fn corrupt(frame: &[u8]) -> String {
    let error = decode(&Bytes::copy_from_slice(frame)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    error.to_string()
}

#[test]
fn frames_have_the_bytes_of_the_jvm_side() {
    for (snapshot, frame) in [
        (
            serialized(20, "", "state"),
            &b"\x04\x00\x00\x00\x14\x00\x00\x00state"[..],
        ),
        (
            serialized(31, "com.acme.S", "{}"),
            b"\x0E\x00\x00\x00\x1F\x00\x00\x00com.acme.S{}",
        ),
        // Pekko would rewrite the name when it looks for the class.
        (
            serialized(7, "akka.persistence.X", ""),
            b"\x16\x00\x00\x00\x07\x00\x00\x00akka.persistence.X",
        ),
    ] {
        assert_eq!(encode(&snapshot).unwrap(), frame);
        assert_eq!(decode(&Bytes::from_static(frame)).unwrap(), snapshot);
    }
}

#[test]
fn a_snapshot_of_akka_2_3_is_refused_by_name() {
    let refusal = corrupt(b"\x06\x00\x00\x00\xAC\xED\x00\x05sr payload");
    assert!(refusal.contains("Akka 2.3"), "{refusal}");
}

#[test]
fn other_bytes_are_corrupt() {
    for frame in [
        &b""[..],
        b"\x04\x00\x00",
        b"\x03\x00\x00\x00\x14\x00\x00\x00",
        b"\x04\x00\x00\x00\x14\x00\x00",
        b"\x00\x00\x00\x00state",
        b"\xFF\xFF\xFF\xFF\x14\x00\x00\x00",
        b"\x05\x00\x00\x00\x14\x00\x00\x00\xFF",
    ] {
        corrupt(frame);
    }
}

proptest! {
    #[test]
    fn frames_round_trip((id, manifest, bytes) in any::<(i32, String, Vec<u8>)>()) {
        prop_assume!(id.to_le_bytes() != JAVA_MAGIC);
        let snapshot = Serialized { id, manifest, bytes: bytes.into() };
        let frame = Bytes::from(encode(&snapshot).unwrap());
        prop_assert_eq!(decode(&frame).unwrap(), snapshot);
    }

    #[test]
    fn decoding_never_panics(frame in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Err(error) = decode(&frame.into()) {
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }
}
