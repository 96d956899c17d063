//! Java's strings, from the bytes that `ObjectOutputStream` writes.

use super::*;
use annals::ErrorKind;

fn stream(bytes: &[u8]) -> Vec<u8> {
    [&HEADER[..], bytes].concat()
}

fn long_string(text: &[u8]) -> Vec<u8> {
    let len = u64::try_from(text.len()).unwrap();
    stream(&[&[TC_LONGSTRING][..], &len.to_be_bytes(), text].concat())
}

#[test]
fn strings_are_read_as_java_writes_them() {
    for (bytes, text) in [
        (&b"\x74\x00\x00"[..], ""),
        (b"\x74\x00\x06a-0001", "a-0001"),
        (b"\x74\x00\x06h\xC3\xA9\xE2\x82\xAC", "hé€"),
        (b"\x74\x00\x03\xC0\x80x", "\0x"),
        (b"\x74\x00\x07\xED\xA0\xBD\xED\xB8\x80!", "😀!"),
    ] {
        assert_eq!(string(&stream(bytes)).unwrap().unwrap(), text);
    }
    // From 65,536 bytes on, the length has eight bytes.
    let long = "x".repeat(65_536);
    assert_eq!(
        string(&long_string(long.as_bytes())).unwrap().unwrap(),
        long
    );
}

#[test]
fn other_objects_are_not_strings() {
    for bytes in [
        // Null, an Integer, and a string with trailing bytes.
        stream(b"\x70"),
        stream(b"\x73\x72\x00\x11java.lang.Integer\x12\xE2\xA0\xA4\xF7\x81\x878\x02\x00\x01I\x00\x05valuexr\x00\x10java.lang.Number\x86\xAC\x95\x1D\x0B\x94\xE0\x8B\x02\x00\x00xp\x00\x00\x00\x07"),
        stream(b"\x74\x00\x01ab"),
        // Half of a surrogate pair, and a reversed pair: valid only in Java.
        stream(b"\x74\x00\x03\xED\xA0\xBD"),
        stream(b"\x74\x00\x06\xED\xB8\x80\xED\xA0\xBD"),
        HEADER.to_vec(),
        Vec::new(),
        b"no stream".to_vec(),
    ] {
        assert_eq!(string(&bytes).unwrap(), None, "{bytes:02x?}");
    }
}

#[test]
fn strings_that_java_could_not_read_are_corrupt() {
    for bytes in [
        stream(b"\x74"),
        stream(b"\x74\x00"),
        stream(b"\x74\x00\x02a"),
        stream(b"\x7C\x00\x00\x00\x00\x00\x00\x00"),
        stream(b"\x7C\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFa"),
        // A continuation byte first, one byte too few, and the four bytes of plain UTF-8.
        stream(b"\x74\x00\x01\x80"),
        stream(b"\x74\x00\x01\xC3"),
        stream(b"\x74\x00\x02\xE2\x82"),
        stream(b"\x74\x00\x02\xC3a"),
        stream(b"\x74\x00\x04\xF0\x9F\x98\x80"),
    ] {
        let error = string(&bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{bytes:02x?}");
    }
}

#[test]
fn damage_never_panics() {
    let text = "h\u{e9}\u{20ac}".as_bytes();
    for bytes in [
        stream(b"\x74\x00\x07\xED\xA0\xBD\xED\xB8\x80!"),
        long_string(text),
    ] {
        for at in 0..bytes.len() {
            for flip in 1..=255 {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                drop(string(&damaged));
            }
            drop(string(&bytes[..at]));
        }
    }
}
