//! Reading a log while its owner writes, was killed, or lost power.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tempfile::TempDir;

use super::recovery::{Recovered, recover_beside};
use super::{Frame, Place, Writer, create, frames_from, reached, recover, segment};
use crate::{ErrorKind, Result};

fn append(writer: &mut Writer, bytes: usize) {
    let mut frame = Frame::at(writer.end().position);
    frame.push(b"key", Some(&vec![7; bytes]), None);
    writer.append(&mut frame).unwrap();
}

/// A log of some frames, and the place after each.
fn log(frames: usize) -> (TempDir, Vec<Place>) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    create(&log, 0x1234_5678_9abc_def1).unwrap();
    let mut writer = Writer::open(&log, &recover(&log).unwrap()).unwrap();
    let mut places = vec![writer.end()];
    for _ in 0..frames {
        append(&mut writer, 1_000);
        places.push(writer.end());
    }
    // As if killed: it is not closed.
    (folder, places)
}

/// Changes the bytes of the first segment.
fn change(log: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let path = log.join(segment::name(0));
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Sets `reached` back to a place, as a loss of power may.
fn set_back(log: &Path, place: Place) {
    let path = log.join(reached::NAME);
    let mut note = reached::read(&path).unwrap().unwrap();
    (note.reached, note.count) = (place, 0);
    reached::Reached::create(&path, note).unwrap();
}

fn end(recovered: Result<Recovered>) -> Place {
    recovered.unwrap().end
}

#[test]
fn the_point_in_time_is_after_the_last_complete_frame() {
    let (folder, places) = log(4);
    let log = folder.path().join("log");
    assert_eq!(end(recover_beside(&log)), places[4]);
    // Written, but `reached` does not name it yet.
    set_back(&log, places[3]);
    assert_eq!(end(recover_beside(&log)), places[4]);
    recover_beside(&log).unwrap().sync_end(&log).unwrap();
    // Being written.
    let middle = (places[3].offset + places[4].offset) as usize / 2;
    change(&log, |bytes| {
        bytes[middle..places[4].offset as usize].fill(0)
    });
    assert_eq!(end(recover_beside(&log)), places[3]);
}

#[test]
fn damage_in_front_of_the_end_is_not_taken_for_a_frame_that_is_being_written() {
    let (folder, places) = log(4);
    let log = folder.path().join("log");
    let at = places[2].offset as usize + 100;
    change(&log, |bytes| bytes[at] ^= 1);
    let error = recover_beside(&log).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    // Also if only the frame after it shows that.
    set_back(&log, places[1]);
    let error = recover_beside(&log).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

#[test]
fn an_owner_that_opens_after_a_loss_of_power_names_the_end_again() {
    let (folder, places) = log(4);
    let log = folder.path().join("log");
    set_back(&log, places[2]);
    let writer = Writer::open(&log, &recover(&log).unwrap()).unwrap();
    assert_eq!(writer.end(), places[4]);
    let note = reached::read(&log.join(reached::NAME)).unwrap().unwrap();
    assert_eq!(note.reached, places[4]);
}

#[test]
fn a_reader_finds_everything_acknowledged_while_segments_are_filled() {
    let (folder, _) = log(0);
    let log = folder.path().join("log");
    let (acknowledged, is_done) = (AtomicU64::new(1), AtomicBool::new(false));
    let mut writer = Writer::open(&log, &recover(&log).unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Through the first two segments and into the third.
            for n in 0..1_500 {
                append(&mut writer, if n % 3 == 0 { 12_000 } else { 100 });
                acknowledged.store(writer.end().position.0, Ordering::Release);
            }
            is_done.store(true, Ordering::Release);
        });
        let mut views = 0;
        while views == 0 || !is_done.load(Ordering::Acquire) {
            let before = acknowledged.load(Ordering::Acquire);
            let recovered = recover_beside(&log).unwrap();
            assert!(recovered.end.position.0 >= before, "{before}");
            let mut count = 0;
            let to = recovered.end.position;
            frames_from(&log, recovered.first(), to, |changes, _| {
                count += changes.len() as u64;
                Ok(())
            })
            .unwrap();
            assert_eq!(count, recovered.end.position.0 - 1);
            views += 1;
        }
        println!("{views} views");
    });
    assert!(end(recover(&log)).segment >= 2);
}
