//! Backups of segments that were compressed, and from which values were erased.

use std::cell::Cell;
use std::fs;

use super::super::log::{Erase, Position, Superseded, key_hash, recover, rewrite};
use super::disk::Disk;
use super::take::backup_in_steps;
use super::tests::{Content, Written, content_left, up_to};
use super::{RestorePoint, backup, restore};
use crate::{ErrorKind, Result};

impl Written {
    /// Compresses a segment, and erases changes from it: position, and what superseded it.
    fn rewrite(&self, erased: &[(u64, u64)]) {
        self.rewrite_segment(0, erased);
    }

    fn rewrite_segment(&self, number: u64, erased: &[(u64, u64)]) {
        let superseded = erased.iter().map(|(position, by)| Superseded {
            position: Position(*position),
            by: Position(*by),
            key: key_hash(&self.content[position].0),
        });
        let superseded: Vec<_> = superseded.collect();
        let erase = Erase {
            superseded: &superseded,
            dropped: None,
        };
        rewrite(&self.store().join("log"), number, &erase, &mut || true).unwrap();
    }

    /// The ends of groups in the first segment.
    fn ends_in_first(&self) -> Vec<u64> {
        let log = self.store().join("log");
        let next = recover(&log).unwrap().segments(&log)[1].start.position.0;
        let ends = self.groups.iter().map(|(end, _)| *end);
        ends.filter(|end| *end < next).collect()
    }

    fn restored(&self, point: RestorePoint) -> Result<Content> {
        let to = self.path("restored");
        let restored = restore(&self.copy(), &to, point);
        let content = restored.map(|_| content_left(&to));
        let _ = fs::remove_dir_all(to);
        content
    }
}

#[test]
fn a_compressed_segment_is_copied_again_and_restored_to_any_group() {
    let mut written = Written::new();
    written.write(100);
    let first = written.backup().unwrap();
    written.rewrite(&[]);
    let second = written.backup().unwrap();
    assert_eq!(
        (second.files_copied, second.files_reused),
        (1, first.files_copied - 1)
    );
    assert!(second.bytes < first.bytes, "{second:?}");
    let everything = written.restored(RestorePoint::End).unwrap();
    assert_eq!(everything, written.content);
    for end in written.ends_in_first() {
        let restored = written.restored(RestorePoint::Position(end)).unwrap();
        assert_eq!(restored, up_to(&written.content, end));
    }
}

#[test]
fn a_point_at_which_erased_values_were_there_is_refused() {
    let mut written = Written::new();
    written.write(100);
    let last = written.groups.last().unwrap().0;
    let inside = written.ends_in_first();
    // Superseded after the first segment.
    let by = *inside.last().unwrap() + 10;
    written.rewrite(&[(2, by)]);
    written.backup().unwrap();
    // Before it was written.
    let before = written.restored(RestorePoint::Position(inside[0])).unwrap();
    assert_eq!(before, up_to(&written.content, inside[0]));
    for point in [inside[1], *inside.last().unwrap(), by - 1] {
        let error = written.restored(RestorePoint::Position(point)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains("erased"), "{error}");
        assert!(!written.path("restored").exists());
    }
    let mut left = written.content.clone();
    left.remove(&2);
    for point in [RestorePoint::End, RestorePoint::Position(last)] {
        assert_eq!(written.restored(point).unwrap(), left);
    }
}

#[test]
fn a_point_inside_a_segment_is_restored_if_it_had_none_of_the_erased_values() {
    let mut written = Written::new();
    written.write(100);
    let inside = written.ends_in_first();
    written.rewrite(&[(2, 5)]);
    let report = written.backup().unwrap();
    assert_eq!(report.restorable_from, 5);
    for end in inside.into_iter().filter(|end| *end >= 5) {
        let mut left = up_to(&written.content, end);
        left.remove(&2);
        let restored = written.restored(RestorePoint::Position(end)).unwrap();
        assert_eq!(restored, left, "{end}");
    }
    // The restored store goes on, and is backed up itself.
    let to = written.path("goes-on");
    restore(&written.copy(), &to, RestorePoint::Position(10)).unwrap();
    super::tests::write(&to, 5, 7);
    backup(&to, &written.path("copy-of-it"), false).unwrap();
}

#[test]
fn a_value_that_is_erased_while_a_backup_is_taken_is_not_missing_from_it() {
    let mut written = Written::new();
    written.write(100);
    let log = written.store().join("log");
    let second = recover(&log).unwrap().segments(&log)[1].start.position.0;
    let by = written.groups.last().unwrap().0 + 1;
    // While the first segment is copied, the owner supersedes and erases a value of the second.
    let steps = Cell::new(0);
    let step = || {
        steps.set(steps.get() + 1);
        if steps.get() == 4 {
            written.append_and_leave();
            written.rewrite_segment(1, &[(second, by)]);
        }
    };
    let report = backup_in_steps(
        &written.store(),
        &written.copy(),
        false,
        &Disk { step: &step },
    )
    .unwrap();
    // The second attempt copies only what has changed.
    let twice = 2 * report.bytes;
    assert!(
        report.bytes < report.bytes_copied && report.bytes_copied < twice,
        "{report:?}"
    );
    let restored = written.restored(RestorePoint::End).unwrap();
    assert!(restored.contains_key(&by), "the backup ends too early");
    assert!(!restored.contains_key(&second), "it was erased before");
}
