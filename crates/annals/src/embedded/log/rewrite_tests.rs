//! Rewritten segments read like the old ones, without what was erased.

use super::*;
use crate::embedded::log::writer::seal;
use crate::embedded::log::{Frame, Writer, create, frames_from, is_compressed, recover};
use crate::{ErrorKind, Random};

type Found = (u64, Vec<u8>, Option<Vec<u8>>);

fn value(position: u64) -> Vec<u8> {
    let random = Random::seeded(position);
    let body = std::iter::repeat_with(|| random.bits() as u8);
    body.take(if position.is_multiple_of(5) {
        70_000
    } else {
        300
    })
    .collect()
}

fn key(position: u64) -> Vec<u8> {
    format!("key {position}").into_bytes()
}

/// A log of two segments; position 40 deletes position 3. Returns the first segment's last position.
fn log(folder: &Path) -> u64 {
    create(folder, 77).unwrap();
    let recovered = recover(folder).unwrap();
    let mut writer = Writer::open(folder, &recovered).unwrap();
    for n in 0..20 {
        let mut frame = Frame::at(writer.end().position);
        for _ in 0..3 {
            let position = frame.end().0;
            match position {
                40 => frame.push(&key(3), None, Some(Position(3))),
                _ => frame.push(&key(position), Some(&value(position)), None),
            }
        }
        if n == 17 {
            seal(&mut writer);
        }
        writer.append(&mut frame).unwrap();
    }
    writer.close().unwrap();
    54
}

fn read(folder: &Path) -> Vec<Found> {
    let recovered = recover(folder).unwrap();
    let mut found = Vec::new();
    let end = recovered.end.position;
    frames_from(folder, recovered.first(), end, |changes, _| {
        found.extend(changes.iter().map(|change| {
            let value = change.value.map(<[u8]>::to_vec);
            (change.position.0, change.key.to_vec(), value)
        }));
        Ok(())
    })
    .unwrap();
    found
}

fn superseded(position: u64, by: u64, of: &[u8]) -> Superseded {
    Superseded {
        position: Position(position),
        by: Position(by),
        key: key_hash(of),
    }
}

fn rewrite_all(folder: &Path, superseded: &[Superseded]) -> Result<Rewritten> {
    let erase = Erase {
        superseded,
        dropped: None,
    };
    rewrite(folder, 0, &erase, &mut || true)
}

fn contains(folder: &Path, needle: &[u8]) -> bool {
    let mut reader = SegmentReader::open(folder, 0).unwrap();
    let len = reader.header().len() as usize;
    let bytes = reader.bytes(0, len).map(<[u8]>::to_vec);
    let bytes = bytes.or_else(|_| reader.bytes(64, len - 64).map(<[u8]>::to_vec));
    bytes.unwrap().windows(needle.len()).any(|it| it == needle)
}

#[test]
fn a_compressed_segment_reads_like_before_from_every_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("log");
    log(folder);
    let before = read(folder);
    let mut places = Vec::new();
    let recovered = recover(folder).unwrap();
    let end = recovered.end.position;
    frames_from(folder, recovered.first(), end, |_, after| {
        places.push(after);
        Ok(())
    })
    .unwrap();
    let raw = fs::metadata(folder.join(segment::name(0))).unwrap().len();
    let done = rewrite_all(folder, &[]).unwrap();
    let Rewritten::Done { erased: 0, bytes } = done else {
        panic!("{done:?}");
    };
    assert!(bytes < raw);
    assert!(is_compressed(folder, 0).unwrap());
    assert_eq!(read(folder), before);
    for place in places {
        let mut first = None;
        frames_from(folder, place, end, |changes, _| {
            first = first.or(changes.first().map(|change| change.position));
            Ok(())
        })
        .unwrap();
        assert_eq!(first, Some(place.position).filter(|it| *it < end));
    }
    assert_eq!(rewrite_all(folder, &[]).unwrap(), Rewritten::Unchanged);
    assert!(!folder.join(NEW).exists());
}

#[test]
fn erased_changes_are_gone_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("log");
    log(folder);
    let mut before = read(folder);
    let (body, marker) = (value(3), b"key 3\0");
    assert!(contains(folder, &body));
    rewrite_all(folder, &[]).unwrap();
    assert!(contains(folder, &body), "compressing erases nothing");
    let done = rewrite_all(folder, &[superseded(3, 40, b"key 3")]).unwrap();
    assert!(
        matches!(done, Rewritten::Done { erased: 1, .. }),
        "{done:?}"
    );
    assert!(!contains(folder, &body) && !contains(folder, marker));
    before.retain(|(position, ..)| *position != 3);
    assert_eq!(read(folder), before);
    // Once more changes nothing.
    let again = rewrite_all(folder, &[superseded(3, 40, b"key 3")]).unwrap();
    assert_eq!(again, Rewritten::Unchanged);
    let header = *SegmentReader::open(folder, 0).unwrap().header();
    assert_eq!(header.erased(), Some(Position(40)));
}

#[test]
fn a_change_of_another_key_is_not_erased() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("log");
    log(folder);
    let before = read(folder);
    let error = rewrite_all(folder, &[superseded(4, 40, b"key 3")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(read(folder), before);
}

#[test]
fn the_last_segment_and_a_damaged_one_are_not_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("log");
    log(folder);
    let last = rewrite(folder, 1, &Erase::default(), &mut || true);
    assert_eq!(last.unwrap_err().kind(), ErrorKind::Corrupt);
    let path = folder.join(segment::name(0));
    let mut bytes = fs::read(&path).unwrap();
    bytes[400_000] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let damaged = rewrite_all(folder, &[]);
    assert_eq!(damaged.unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(fs::read(&path).unwrap() == bytes);
}

#[test]
fn it_stops_at_every_step_and_leaves_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("log");
    log(folder);
    let before = read(folder);
    for steps in 0.. {
        let mut left = steps;
        let mut step = || {
            left -= 1;
            left >= 0
        };
        let rewritten = rewrite(folder, 0, &Erase::default(), &mut step).unwrap();
        assert_eq!(read(folder), before);
        assert!(!folder.join(NEW).exists());
        if rewritten != Rewritten::Stopped {
            assert!(steps > 5, "{steps}");
            break;
        }
    }
}

/// One bit of many bytes, headers and index included.
#[test]
fn every_flipped_bit_of_a_compressed_segment_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("log");
    log(folder);
    rewrite_all(folder, &[superseded(3, 40, b"key 3")]).unwrap();
    let path = folder.join(segment::name(0));
    let whole = fs::read(&path).unwrap();
    let ends = (0..200).chain(whole.len() - 200..whole.len());
    for at in ends.chain((200..whole.len() - 200).step_by(9973)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let read = recover(folder).and_then(|recovered| {
            let end = recovered.end.position;
            frames_from(folder, recovered.first(), end, |_, _| Ok(()))
        });
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "byte {at}");
    }
}

/// Without `reached`, only the compressed segment shows that there was another one.
#[test]
fn a_log_that_ends_with_a_compressed_segment_has_lost_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("log");
    log(folder);
    fs::remove_file(folder.join("reached")).unwrap();
    recover(folder).unwrap();
    rewrite_all(folder, &[]).unwrap();
    recover(folder).unwrap();
    fs::remove_file(folder.join(segment::name(1))).unwrap();
    let error = recover(folder).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// A change whose value does not compress.
fn append(writer: &mut Writer, bytes: usize) {
    let mut frame = Frame::at(writer.end().position);
    let random = Random::seeded(frame.end().0);
    let body: Vec<u8> = std::iter::repeat_with(|| random.bits() as u8)
        .take(bytes)
        .collect();
    frame.push(&key(frame.end().0), Some(&body), None);
    writer.append(&mut frame).unwrap();
}

fn segments(folder: &Path) -> Vec<u64> {
    crate::embedded::log::segments::numbers(folder).unwrap()
}

#[test]
fn a_segment_without_frames_is_replaced_and_never_sealed() {
    const MIB: usize = 1024 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("log");
    create(folder, 77).unwrap();
    let mut writer = Writer::open(folder, &recover(folder).unwrap()).unwrap();
    // Neither the first segment nor one that was begun early has room for these.
    append(&mut writer, 3 * MIB / 2);
    assert_eq!(segments(folder), [0]);
    seal(&mut writer);
    assert_eq!(segments(folder), [0, 1]);
    append(&mut writer, 70 * MIB);
    assert_eq!(segments(folder), [0, 1]);
    append(&mut writer, 100);
    assert_eq!(segments(folder), [0, 1, 2]);
    writer.close().unwrap();
    let before = read(folder);
    assert_eq!(before.len(), 3);
    assert!(matches!(
        rewrite_all(folder, &[]),
        Ok(Rewritten::Done { .. })
    ));
    assert_eq!(read(folder), before);
}

#[test]
fn a_sealed_segment_without_frames_is_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = &folder.path().join("log");
    create(folder, 77).unwrap();
    // As earlier versions left it.
    let header = SegmentReader::open(folder, 0).unwrap().header().to_raw();
    let next = segment::Header {
        number: 1,
        ..header
    };
    let mut bytes = next.encode();
    bytes.resize(next.length as usize, 0);
    fs::write(folder.join(segment::name(1)), bytes).unwrap();
    let mut writer = Writer::open(folder, &recover(folder).unwrap()).unwrap();
    append(&mut writer, 100);
    writer.close().unwrap();
    let before = read(folder);
    assert!(matches!(
        rewrite_all(folder, &[]),
        Ok(Rewritten::Done { .. })
    ));
    assert_eq!(rewrite_all(folder, &[]).unwrap(), Rewritten::Unchanged);
    assert_eq!(read(folder), before);
    let (damage, _, _) = crate::embedded::log::check::check(folder, &mut |_| true);
    assert!(damage.is_empty(), "{damage:?}");
}
