//! Serializers and codecs: round trips, and no panics.

use proptest::prelude::*;

use super::*;
use annals::ErrorKind;

fn serialized(id: i32, manifest: &str, bytes: &[u8]) -> Serialized {
    Serialized {
        id,
        manifest: manifest.to_owned(),
        bytes: Bytes::copy_from_slice(bytes),
    }
}

fn other(name: &str) -> Codec {
    Codec::Other(name.to_owned())
}

#[track_caller]
fn written(payload: &Payload) -> Serialized {
    write(payload).unwrap().serialized
}

#[track_caller]
fn refused(payload: &Payload) -> String {
    let error = write(payload).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error.to_string()
}

#[track_caller]
fn corrupt(serialized: Serialized) -> String {
    let error = read(serialized).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    error.to_string()
}

/// Bytes that the codec accepts.
fn value() -> impl Strategy<Value = (Codec, Vec<u8>)> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..64);
    let text = || any::<String>().prop_map(String::into_bytes);
    let numbers = prop_oneof![
        // Not used by a named codec, nor by Akka itself.
        (41..=i32::MAX),
        (i32::MIN..0),
        Just(registry::NULL),
        Just(registry::JAVA),
        Just(registry::SNAPSHOT),
        Just(registry::BYTE_STRING)
    ];
    prop_oneof![
        bytes().prop_map(|b| (Codec::Bytes, b)),
        bytes().prop_map(|b| (Codec::Cbor, b)),
        bytes().prop_map(|b| (Codec::Protobuf, b)),
        text().prop_map(|b| (Codec::Text, b)),
        text().prop_map(|b| (Codec::Json, b)),
        any::<i64>().prop_map(|n| (other("long"), n.to_le_bytes().to_vec())),
        any::<i32>().prop_map(|n| (other("int"), n.to_le_bytes().to_vec())),
        any::<bool>().prop_map(|truth| (other("boolean"), vec![u8::from(truth)])),
        (numbers, bytes()).prop_map(|(id, b)| (registry::numbered(id), b)),
    ]
}

fn payloads() -> impl Strategy<Value = Payload> {
    let schemas = prop_oneof![0..3u32, 0..=i32::MAX.unsigned_abs()];
    (value(), "[A-Za-z.#$0-2]{0,8}", schemas).prop_map(|((codec, bytes), manifest, schema)| {
        // A message of protocol buffers needs one.
        let class = if codec == Codec::Protobuf { "M" } else { "" };
        Payload::new(codec, bytes)
            .manifest(format!("{class}{manifest}"))
            .schema(schema)
    })
}

proptest! {
    #[test]
    fn payloads_round_trip(payload in payloads()) {
        let Written { serialized, carries } = write(&payload).unwrap();
        let found = read(serialized.clone()).unwrap();
        prop_assert_eq!(&found.codec, &payload.codec);
        prop_assert_eq!(&found.bytes, &payload.bytes);
        prop_assert_eq!(carries, found == payload);
        // And it is written back unchanged.
        prop_assert_eq!(write(&found).unwrap().serialized, serialized);
    }

    #[test]
    fn numbers_without_a_name_pass_through(
        id in 41..=i32::MAX,
        manifest in any::<String>(),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let stored = serialized(id, &manifest, &bytes);
        let payload = read(stored.clone()).unwrap();
        prop_assert_eq!(&payload.codec, &other(&format!("akka:{id}")));
        prop_assert_eq!(&payload.manifest, &manifest);
        let again = write(&payload).unwrap();
        prop_assert!(again.carries);
        prop_assert_eq!(again.serialized, stored);
    }

    #[test]
    fn reading_never_panics(
        id in -1..45i32,
        manifest in any::<String>(),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        match read(serialized(id, &manifest, &bytes)) {
            Ok(payload) => prop_assert!(payload.bytes == bytes || payload.codec != Codec::Bytes),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
    }
}

#[test]
fn each_codec_has_its_serializer() {
    for (codec, id, bytes) in [
        (Codec::Bytes, 4, &b"\x00\xFF"[..]),
        (Codec::Text, 20, "é".as_bytes()),
        (other("long"), 18, &[1, 0, 0, 0, 0, 0, 0, 0x80]),
        (other("int"), 19, &[1, 0, 0, 0x80]),
        (other("boolean"), 35, &[1]),
        (other("akka:0"), 0, &[]),
        (other("akka:21"), 21, b"\x00\xFF"),
    ] {
        let payload = Payload::new(codec, bytes.to_vec());
        let found = write(&payload).unwrap();
        assert_eq!(found.serialized, serialized(id, "", bytes));
        assert!(found.carries);
        assert_eq!(read(found.serialized).unwrap(), payload);
        // None of these takes a manifest: the JVM would look for a class.
        for told in [payload.clone().manifest("M"), payload.schema(1)] {
            let found = write(&told).unwrap();
            assert_eq!(found.serialized, serialized(id, "", bytes));
            assert!(!found.carries);
        }
    }
    for (codec, id) in [
        (Codec::Json, 31),
        (Codec::Cbor, 33),
        (Codec::Protobuf, 2),
        (other("akka:666"), 666),
        (other("akka:-7"), -7),
    ] {
        let payload = Payload::new(codec, "{}").manifest("com.acme.A");
        let found = write(&payload).unwrap();
        assert_eq!(found.serialized, serialized(id, "com.acme.A", b"{}"));
        assert!(found.carries);
        assert_eq!(read(found.serialized).unwrap(), payload);
    }
}

#[test]
fn the_schema_is_the_number_in_jacksons_manifest() {
    for codec in [Codec::Json, Codec::Cbor] {
        let payload = |schema| {
            Payload::new(codec.clone(), "{}")
                .manifest("A")
                .schema(schema)
        };
        for (schema, manifest) in [
            (0, "A"),
            (1, "A#1"),
            (2, "A#2"),
            (2_147_483_647, "A#2147483647"),
        ] {
            let found = write(&payload(schema)).unwrap();
            assert_eq!(found.serialized.manifest, manifest);
            assert!(found.carries);
            assert_eq!(read(found.serialized).unwrap(), payload(schema));
        }
        assert!(refused(&payload(2_147_483_648)).contains("schema=`2147483648`"));
    }
    // Other serializers cannot store it.
    for codec in [Codec::Protobuf, other("akka:666")] {
        let payload = Payload::new(codec, "x").manifest("A").schema(2);
        let found = write(&payload).unwrap();
        assert_eq!(found.serialized.manifest, "A");
        assert!(!found.carries);
    }
}

#[test]
fn an_ambiguous_manifest_is_not_carried() {
    let payload = Payload::new(Codec::Json, "{}").manifest("A#2");
    let found = write(&payload).unwrap();
    assert_eq!(found.serialized.manifest, "A#2");
    assert!(!found.carries);
    let found = write(&payload.schema(3)).unwrap();
    assert_eq!(found.serialized.manifest, "A#2#3");
    assert!(found.carries);
}

#[test]
fn the_old_cbor_id_is_json() {
    let payload = read(serialized(32, "A#2", b"{}")).unwrap();
    assert_eq!(
        payload,
        Payload::new(Codec::Json, "{}").manifest("A").schema(2)
    );
    assert_eq!(written(&payload).id, 31);
}

#[test]
fn javas_strings_are_text_and_other_objects_their_bytes() {
    let string = b"\xAC\xED\x00\x05\x74\x00\x06a-0001";
    let payload = read(serialized(1, "", string)).unwrap();
    assert_eq!(payload, Payload::new(Codec::Text, "a-0001"));
    assert_eq!(written(&payload), serialized(20, "", b"a-0001"));

    let null = serialized(1, "", b"\xAC\xED\x00\x05\x70");
    let payload = read(null.clone()).unwrap();
    assert_eq!(payload.codec, other("akka:1"));
    assert_eq!(written(&payload), null);

    // Explicitly written as a Java object: it stays one, but reads back as text.
    let found = write(&Payload::new(other("akka:1"), string.to_vec())).unwrap();
    assert_eq!(found.serialized, serialized(1, "", string));
    assert!(!found.carries);
    let cut = Payload::new(other("akka:1"), string[..8].to_vec());
    assert!(refused(&cut).contains("does not parse"));
}

#[test]
fn an_unknown_codec_is_an_error_that_lists_the_known_ones() {
    for name in [
        "mine",
        "",
        "akka",
        "akka:",
        "akka:x",
        "akka:+41",
        "akka:041",
        "akka:99999999999",
    ] {
        let refusal = refused(&Payload::new(other(name), "x"));
        assert!(refusal.contains("long, int or boolean"), "{refusal}");
        assert!(refusal.contains("akka:N"), "{refusal}");
        assert!(refusal.ends_with(&format!("codec=`{name}`")), "{refusal}");
    }
    for (id, name) in [
        (2, "protobuf"),
        (4, "bytes"),
        (18, "long"),
        (20, "text"),
        (31, "json"),
        (32, "json"),
        (35, "boolean"),
    ] {
        let refusal = refused(&Payload::new(registry::numbered(id), "x"));
        assert!(refusal.contains(&format!("the name {name}.")), "{refusal}");
    }
}

#[test]
fn payloads_that_the_jvm_cannot_read_are_rejected() {
    for (codec, id, bytes) in [
        (Codec::Text, 20, &[0xFF][..]),
        (Codec::Json, 31, &[b'"', 0xC3, b'"']),
        (other("long"), 18, &[0; 7]),
        (other("long"), 18, &[0; 9]),
        (other("int"), 19, &[0; 3]),
        (other("int"), 19, &[0; 8]),
        (other("boolean"), 35, &[]),
        (other("boolean"), 35, &[2]),
        (other("boolean"), 35, &[0, 0]),
    ] {
        let refusal = refused(&Payload::new(codec.clone(), bytes.to_vec()));
        assert!(refusal.contains(&format!("codec=`{codec}`")), "{refusal}");
        let damage = corrupt(serialized(id, "", bytes));
        assert!(damage.contains(&format!("serializer=`{id}`")), "{damage}");
    }
    assert!(refused(&Payload::new(Codec::Protobuf, "x")).contains("its class"));
}
