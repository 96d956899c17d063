//! Segments of earlier builds, which every later one must read. `ANNALS_BLESS=1` writes those that are
//! missing; one that exists is never changed.

use std::fs;
use std::path::{Path, PathBuf};

use super::rewrite::{Erase, Superseded, key_hash, rewrite};
use super::writer::seal;
use super::{Frame, Place, Position, Writer, create, frames_from, recover, segment};

type Read = (u64, String, Option<String>, Option<u64>);

/// What is in the log: four changes in two frames. The third and the fourth supersede earlier ones.
fn written() -> Vec<Read> {
    let text = |text: &str| text.to_owned();
    vec![
        (1, text("a"), Some(text("first")), None),
        (2, text("b"), Some("second ".repeat(40)), None),
        (3, text("a"), Some(text("third")), Some(1)),
        (4, text("b"), None, Some(2)),
    ]
}

fn fixture(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/embedded-2");
    fixtures.join(name)
}

/// Writes the fixtures that are missing.
fn bless() {
    let folder = tempfile::tempdir().unwrap();
    let log = &folder.path().join("log");
    create(log, 0x1234_5678).unwrap();
    let mut writer = Writer::open(log, &recover(log).unwrap()).unwrap();
    for changes in written().chunks(2) {
        let mut frame = Frame::at(writer.end().position);
        for (_, key, value, supersedes) in changes {
            let value = value.as_ref().map(String::as_bytes);
            frame.push(key.as_bytes(), value, supersedes.map(Position));
        }
        writer.append(&mut frame).unwrap();
    }
    seal(&mut writer);
    writer.close().unwrap();
    let segment = log.join(segment::name(0));
    let keep = |name: &str| {
        let to = fixture(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let mut bytes = fs::read(&segment).unwrap();
        if name == "raw.log" {
            // The rest is zeros.
            bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
        }
        if !to.exists() {
            fs::write(to, bytes).unwrap();
        }
    };
    keep("raw.log");
    rewrite(log, 0, &Erase::default(), &mut || true).unwrap();
    keep("compressed.log");
    let superseded = |position, by, key: &[u8]| Superseded {
        position: Position(position),
        by: Position(by),
        key: key_hash(key),
    };
    let erase = Erase {
        superseded: &[superseded(1, 3, b"a"), superseded(2, 4, b"b")],
        dropped: None,
    };
    rewrite(log, 0, &erase, &mut || true).unwrap();
    keep("erased.log");
}

/// Reads a fixture as a log of one segment.
fn read(name: &str, length: usize) -> Vec<Read> {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(fixture(name)).unwrap();
    bytes.resize(bytes.len().max(length), 0);
    fs::write(folder.path().join(segment::name(0)), bytes).unwrap();
    let start = Place {
        segment: 0,
        offset: segment::HEADER as u64,
        position: Position::FIRST,
        previous: 0x1234_5678,
    };
    let mut found = Vec::new();
    frames_from(folder.path(), start, Position(5), |changes, _| {
        for change in changes {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let supersedes = change.supersedes.map(|it| it.0);
            let value = change.value.map(text);
            found.push((change.position.0, text(change.key), value, supersedes));
        }
        Ok(())
    })
    .unwrap();
    found
}

#[test]
fn segments_of_earlier_builds_are_read() {
    if std::env::var("ANNALS_BLESS").is_ok() {
        bless();
    }
    assert_eq!(read("raw.log", segment::FIRST_LENGTH as usize), written());
    assert_eq!(read("compressed.log", 0), written());
    assert_eq!(read("erased.log", 0), written()[2..]);
}
