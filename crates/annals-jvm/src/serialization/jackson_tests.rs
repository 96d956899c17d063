//! Jackson's compression: round trips, damage, and decompression bombs.

use proptest::prelude::*;

use super::*;
use annals::ErrorKind;

fn gzip(bytes: &[u8]) -> Bytes {
    pack(&Bytes::copy_from_slice(bytes), 0).unwrap()
}

fn lz4_of(len: u32, block: &[u8]) -> Bytes {
    [&LZ4_MAGIC[..], &len.to_be_bytes(), block].concat().into()
}

fn lz4(bytes: &[u8]) -> Bytes {
    let len = u32::try_from(bytes.len()).unwrap();
    lz4_of(len, &lz4_flex::block::compress(bytes))
}

#[track_caller]
fn corrupt(bytes: Bytes) -> String {
    let error = unpack(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    error.to_string()
}

fn json(len: usize) -> Bytes {
    let words = r#"{"word":"again"},"#.bytes().cycle();
    words.take(len).collect::<Vec<u8>>().into()
}

#[test]
fn json_is_packed_above_32_kib_as_jackson_does() {
    for len in [0, 1, GZIP_ABOVE_BYTES] {
        assert_eq!(pack(&json(len), GZIP_ABOVE_BYTES).unwrap(), json(len));
    }
    let large = json(GZIP_ABOVE_BYTES + 1);
    let packed = pack(&large, GZIP_ABOVE_BYTES).unwrap();
    assert!(packed.starts_with(&GZIP_MAGIC));
    assert!(packed.len() < large.len() / 10);
    assert_eq!(unpack(packed).unwrap(), large);
    assert_eq!(pack(&large, NEVER).unwrap(), large);
}

#[test]
fn bytes_that_look_packed_are_packed() {
    // An array of seven, its first with tag 28150.
    for bytes in [
        &b"\x87\xD9\x6D\xF6\x00\x00\x00\x01\x02\x03"[..],
        b"\x1F\x8B",
    ] {
        let bytes = Bytes::copy_from_slice(bytes);
        let packed = pack(&bytes, NEVER).unwrap();
        assert!(packed.starts_with(&GZIP_MAGIC) && packed != bytes);
        assert_eq!(unpack(packed).unwrap(), bytes);
    }
}

/// As `GZIPOutputStream` and lz4-java's fast compressor write them.
#[test]
fn bytes_packed_by_the_jvm_are_read() {
    let ones = "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]";
    for (packed, text) in [
        (
            &b"\x1F\x8B\x08\0\0\0\0\0\0\xFF\xABV*T\xB22\xAC\x05\0-;\xFB6\x07\0\0\0"[..],
            r#"{"q":1}"#,
        ),
        (b"\x87\xD9\x6D\xF6\0\0\0\x07\x70{\"q\":1}", r#"{"q":1}"#),
        (
            b"\x1F\x8B\x08\0\0\0\0\0\0\xFF\x8B6\xD4!\n\xC6\x02\0*\xF45I)\0\0\0",
            ones,
        ),
        (
            b"\x87\xD9\x6D\xF6\0\0\0\x29\x3F[1,\x02\0\x0E\x50,1,1]",
            ones,
        ),
    ] {
        assert_eq!(unpack(Bytes::from_static(packed)).unwrap(), text);
    }
}

#[test]
fn concatenated_gzip_members_are_read() {
    let both = [gzip(b"{\"a\":"), gzip(b"1}")].concat();
    assert_eq!(unpack(both.into()).unwrap(), "{\"a\":1}");
}

#[test]
fn a_bomb_is_corrupt() {
    // Members of 16 MiB each, compressed to a few KiB.
    let member = gzip(&vec![b' '; 16 * 1024 * 1024]);
    let bomb = member.repeat(5);
    assert!(bomb.len() < 100 * 1024);
    assert!(corrupt(bomb.into()).contains("more than 67108864"));
    assert_eq!(unpack(member.repeat(4).into()).unwrap().len(), BYTES_MAX);

    let max = u32::try_from(BYTES_MAX).unwrap();
    for len in [max + 1, u32::MAX, 0x8000_0000] {
        assert!(corrupt(lz4_of(len, &[0; 8])).contains("more than 67108864"));
    }
    // If the block is too short to fill it, no memory is allocated.
    corrupt(lz4_of(max, &[0; 8]));
    assert_eq!(
        unpack(lz4(&vec![b' '; BYTES_MAX])).unwrap().len(),
        BYTES_MAX
    );
}

#[test]
fn payloads_above_the_limit_are_not_packed() {
    let bytes = Bytes::from(vec![b' '; BYTES_MAX + 1]);
    for above in [GZIP_ABOVE_BYTES, NEVER] {
        let error = pack(&bytes, above).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_wrong_length_of_a_block_is_corrupt() {
    let block = lz4_flex::block::compress(b"{\"q\":1}");
    for len in [0, 6, 8, 100] {
        corrupt(lz4_of(len, &block));
    }
    for cut in 4..8 {
        corrupt(lz4(b"{}").slice(..cut));
    }
}

#[test]
fn damage_never_panics() {
    let sample = json(200);
    for packed in [gzip(&sample), lz4(&sample)] {
        for at in 0..packed.len() {
            for flip in 1..=255 {
                let mut damaged = packed.to_vec();
                damaged[at] ^= flip;
                if let Err(error) = unpack(damaged.into()) {
                    assert_eq!(error.kind(), ErrorKind::Corrupt);
                }
            }
            if at >= 4 {
                corrupt(packed.slice(..at));
            } else {
                drop(unpack(packed.slice(..at)));
            }
        }
    }
}

proptest! {
    #[test]
    fn packed_bytes_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let bytes = Bytes::from(bytes);
        prop_assert_eq!(unpack(gzip(&bytes)).unwrap(), bytes.clone());
        prop_assert_eq!(unpack(lz4(&bytes)).unwrap(), bytes.clone());
        prop_assert_eq!(unpack(pack(&bytes, NEVER).unwrap()).unwrap(), bytes);
    }

    #[test]
    fn manifests_round_trip(manifest in "[A-Za-z.#$0-9+-]{0,12}") {
        let (class, schema) = split_manifest(manifest.clone());
        prop_assert_eq!(join_manifest(&class, schema).unwrap(), manifest);
    }
}

#[test]
fn only_numbers_that_jackson_writes_are_split_off() {
    for (manifest, class, schema) in [
        ("A", "A", 0),
        ("", "", 0),
        ("#2", "", 2),
        ("A#1", "A", 1),
        ("A#B#12", "A#B", 12),
        ("A#2147483647", "A", 2_147_483_647),
    ] {
        let found = split_manifest(manifest.to_owned());
        assert_eq!(found, (class.to_owned(), schema));
    }
    for manifest in [
        "A#",
        "A#0",
        "A#02",
        "A#+2",
        "A#-2",
        "A#x",
        "A#2147483648",
        "#",
    ] {
        let found = split_manifest(manifest.to_owned());
        assert_eq!(found, (manifest.to_owned(), 0));
    }
}
