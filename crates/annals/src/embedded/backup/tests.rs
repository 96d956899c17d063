//! Backups and restores: complete after an end at any step, and refused when damaged.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::forks::Fork;
use super::super::log::{Frame, Writer, create, frames_from, recover};
use super::super::{Embedded, folder};
use super::disk::Disk;
use super::restoring::restore_in_steps;
use super::take::backup_in_steps;
use super::{BackupReport, RestorePoint, Restored, backup, restore};
use crate::{ErrorKind, Random, Result};

/// Changes by position.
pub(super) type Content = BTreeMap<u64, (Vec<u8>, Vec<u8>)>;

/// A store whose log is written directly.
pub(super) struct Written {
    root: TempDir,
    pub(super) content: Content,
    /// The position of the last change of each group, and its time.
    pub(super) groups: Vec<(u64, u64)>,
}

impl Written {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = root.path().join("store");
        fs::create_dir(&store).unwrap();
        create(&store.join("log"), Random::from_machine().bits()).unwrap();
        folder::write_format(&store).unwrap();
        Self {
            root,
            content: Content::new(),
            groups: Vec::new(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(super) fn store(&self) -> PathBuf {
        self.path("store")
    }

    pub(super) fn copy(&self) -> PathBuf {
        self.path("copy")
    }

    /// Appends groups of one to three changes, ten seconds apart; some fill segments.
    pub(super) fn write(&mut self, groups: u64) {
        let content = write(&self.store(), groups, 0);
        self.content.extend(content.0);
        self.groups.extend(content.1);
    }

    /// Appends another group, as an owner does meanwhile.
    pub(super) fn append_and_leave(&self) {
        write(&self.store(), 1, 0);
    }

    pub(super) fn backup(&self) -> Result<BackupReport> {
        backup(&self.store(), &self.copy(), false)
    }
}

pub(super) fn write(store: &Path, groups: u64, salt: u64) -> (Content, Vec<(u64, u64)>) {
    let log = store.join("log");
    let mut writer = Writer::open(&log, &recover(&log).unwrap()).unwrap();
    let (mut content, mut ends) = (Content::new(), Vec::new());
    for n in 0..groups {
        let mut frame = Frame::at(writer.end().position);
        for _ in 0..=n % 3 {
            let position = frame.end().0;
            let random = Random::seeded(position ^ salt);
            let bytes = if position.is_multiple_of(5) {
                150_000
            } else {
                40
            };
            // No value begins with a zero: that would be an erased one.
            let body = std::iter::repeat_with(|| random.bits() as u8).take(bytes);
            let body = std::iter::once(1).chain(body);
            // Of no table.
            let key = format!("\u{2}key {position}").into_bytes();
            let value: Vec<u8> = body.collect();
            frame.push(&key, Some(&value), None);
            content.insert(position, (key, value));
        }
        let time_ms = 1_000_000 + frame.end().0 * 10_000;
        ends.push((frame.end().0 - 1, time_ms));
        writer.append_at(&mut frame, time_ms).unwrap();
    }
    writer.close().unwrap();
    (content, ends)
}

fn content(store: &Path) -> Content {
    let (content, forks) = changes(store);
    let end = recover(&store.join("log")).unwrap().end.position.0;
    assert_eq!(end, (content.len() + forks) as u64 + 1);
    content
}

/// Without what was erased.
pub(super) fn content_left(store: &Path) -> Content {
    changes(store).0
}

/// The changes of a store, and how often it was restored.
fn changes(store: &Path) -> (Content, usize) {
    let log = store.join("log");
    let recovered = recover(&log).unwrap();
    let (mut content, mut forks) = (Content::new(), 0);
    frames_from(
        &log,
        recovered.first(),
        recovered.end.position,
        |changes, _| {
            for change in changes {
                if Fork::read(change.key, change.value)?.is_some() {
                    forks += 1;
                    continue;
                }
                let value = change.value.unwrap().to_vec();
                content.insert(change.position.0, (change.key.to_vec(), value));
            }
            Ok(())
        },
    )
    .unwrap();
    (content, forks)
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    entries.collect()
}

pub(super) fn up_to(content: &Content, position: u64) -> Content {
    let kept = content.range(..=position);
    kept.map(|(at, change)| (*at, change.clone())).collect()
}

#[test]
fn a_backup_copies_only_what_is_new_and_restores_everything() {
    let mut written = Written::new();
    written.write(100);
    let first = written.backup().unwrap();
    assert!(first.files_copied >= 3, "{first:?}");
    assert_eq!(first.position, written.groups.last().unwrap().0);
    assert_eq!(first.time_ms, Some(written.groups.last().unwrap().1));
    let again = written.backup().unwrap();
    assert_eq!((again.files_copied, again.bytes_copied), (0, 0));
    assert_eq!(
        (again.files_reused, again.bytes),
        (first.files_copied, first.bytes)
    );

    written.write(60);
    let second = written.backup().unwrap();
    assert_eq!(
        second.files_reused,
        first.files_copied - 1,
        "all but the last"
    );
    assert!(second.files_copied >= 1, "{second:?}");
    let restored = restore(
        &written.copy(),
        &written.path("restored"),
        RestorePoint::End,
    );
    let restored = restored.unwrap();
    assert_eq!(restored.position, second.position);
    assert_eq!(
        (restored.files, restored.bytes),
        (second.files_copied + second.files_reused, second.bytes)
    );
    assert_eq!(content(&written.path("restored")), written.content);
    assert_eq!(content(&written.store()), written.content);
    // Nothing else is left in the folders.
    assert_eq!(files(&written.copy()).len() as u64, 2 + restored.files);
    assert_eq!(fs::read_dir(written.root.path()).unwrap().count(), 3);
}

#[test]
fn a_store_without_changes_is_backed_up_and_restored() {
    let written = Written::new();
    let report = written.backup().unwrap();
    assert_eq!((report.position, report.time_ms), (0, None));
    fs::create_dir(written.path("restored")).unwrap();
    let restored = restore(
        &written.copy(),
        &written.path("restored"),
        RestorePoint::End,
    );
    assert_eq!(
        (
            restored.unwrap().position,
            content(&written.path("restored"))
        ),
        (0, Content::new())
    );
}

#[test]
fn a_restore_to_an_earlier_point_is_the_prefix_of_whole_groups() {
    let mut written = Written::new();
    written.write(40);
    let last = written.backup().unwrap().position;
    let mut number = 0;
    let mut restored = |point| -> Result<(Restored, Content)> {
        number += 1;
        let folder = written.path(&format!("restored-{number}"));
        let restored = restore(&written.copy(), &folder, point)?;
        Ok((restored, content(&folder)))
    };
    for &(end, time_ms) in written.groups.iter().step_by(3) {
        let wanted = up_to(&written.content, end);
        for point in [
            RestorePoint::Position(end),
            RestorePoint::Time(time_ms),
            RestorePoint::Time(time_ms + 9_999),
        ] {
            let (report, content) = restored(point).unwrap();
            assert_eq!(
                (report.position, report.time_ms),
                (end, Some(time_ms)),
                "{point:?}"
            );
            assert_eq!(content, wanted, "{point:?}");
        }
    }
    // In the middle of a group.
    let three = written
        .groups
        .iter()
        .position(|group| group.0 == 6)
        .unwrap();
    assert_eq!(written.groups[three - 1].0, 3);
    let (report, content) = restored(RestorePoint::Position(5)).unwrap();
    assert_eq!((report.position, content), (3, up_to(&written.content, 3)));

    for point in [
        RestorePoint::Position(last + 1),
        RestorePoint::Time(u64::MAX),
        RestorePoint::Position(0),
        RestorePoint::Time(0),
    ] {
        let refused = restored(point).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{point:?}: {refused}");
    }
}

#[test]
fn a_restored_store_goes_on_and_another_history_is_refused() {
    let mut written = Written::new();
    written.write(30);
    written.backup().unwrap();
    let (all, part) = (written.path("all"), written.path("part"));
    restore(&written.copy(), &all, RestorePoint::End).unwrap();
    restore(&written.copy(), &part, RestorePoint::Position(20)).unwrap();
    let refused = |store: &Path| {
        let before = files(&written.copy());
        let error = backup(store, &written.copy(), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(files(&written.copy()), before, "{error}");
    };
    // It lacks events, and later has others.
    refused(&part);
    write(&part, 40, 7);
    refused(&part);
    // A restore of everything has the same history.
    write(&all, 30, 7);
    let report = backup(&all, &written.copy(), false).unwrap();
    assert!(report.files_reused > 0, "{report:?}");
    // But not the original any more.
    refused(&written.store());
    refused(&Written::new().store());
    restore(&written.copy(), &written.path("again"), RestorePoint::End).unwrap();
    assert_eq!(content(&written.path("again")), content(&all));
}

#[test]
fn folders_that_are_not_for_backups_are_refused() {
    let mut written = Written::new();
    written.write(2);
    let kind = |from: &Path, to: &Path| backup(from, to, false).unwrap_err().kind();
    assert_eq!(kind(&written.store(), &written.store()), ErrorKind::Invalid);
    let inside = written.store().join("copy");
    assert_eq!(kind(&written.store(), &inside), ErrorKind::Invalid);
    assert!(!inside.exists());
    let other = written.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("mine"), "x").unwrap();
    assert_eq!(kind(&written.store(), &other), ErrorKind::Invalid);
    assert_eq!(files(&other).len(), 1);
    assert_eq!(kind(&other, &written.copy()), ErrorKind::Invalid);
    assert!(!written.copy().exists());

    let restore_kind =
        |from: &Path, to: &Path| restore(from, to, RestorePoint::End).unwrap_err().kind();
    assert_eq!(
        restore_kind(&other, &written.path("new")),
        ErrorKind::Invalid
    );
    written.backup().unwrap();
    assert_eq!(restore_kind(&written.copy(), &other), ErrorKind::Invalid);
    assert_eq!(
        restore_kind(&written.copy(), &written.store()),
        ErrorKind::Invalid
    );
    assert_eq!(files(&other).len(), 1);
}

#[test]
fn one_backup_at_a_time() {
    let mut written = Written::new();
    written.write(2);
    let disk = Disk { step: &|| () };
    backup_in_steps(&written.store(), &written.copy(), false, &disk).unwrap();
    let lock = fs::File::open(written.copy().join("BACKUP")).unwrap();
    lock.lock().unwrap();
    let error = written.backup().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let to = written.path("restored");
    let error = restore(&written.copy(), &to, RestorePoint::End).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    lock.unlock().unwrap();
    written.backup().unwrap();
}

#[test]
fn a_segment_that_was_rewritten_is_copied_again() {
    let mut written = Written::new();
    written.write(60);
    let first = written.backup().unwrap();
    let segment = written.store().join("log").join("0000000000000000.log");
    let file = fs::File::options().write(true).open(&segment).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let second = written.backup().unwrap();
    assert_eq!(
        (second.files_copied, second.files_reused),
        (1, first.files_copied - 1)
    );
    restore(
        &written.copy(),
        &written.path("restored"),
        RestorePoint::End,
    )
    .unwrap();
}

#[test]
fn verify_replaces_damaged_copies() {
    let mut written = Written::new();
    written.write(60);
    let all = written.backup().unwrap().files_copied;
    let names: Vec<String> = files(&written.copy()).into_keys().collect();
    let copy = written.copy().join(&names[0]);
    let mut bytes = fs::read(&copy).unwrap();
    bytes[5_000] ^= 1;
    fs::write(&copy, bytes).unwrap();
    let report = backup(&written.store(), &written.copy(), true).unwrap();
    assert_eq!((report.files_copied, report.files_reused), (1, all - 1));
    // A file that is gone or short is noticed without it.
    fs::remove_file(&copy).unwrap();
    assert_eq!(written.backup().unwrap().files_copied, 1);
    fs::File::options()
        .write(true)
        .open(&copy)
        .unwrap()
        .set_len(100)
        .unwrap();
    assert_eq!(written.backup().unwrap().files_copied, 1);
    restore(
        &written.copy(),
        &written.path("restored"),
        RestorePoint::End,
    )
    .unwrap();
}

#[test]
fn a_damaged_store_is_not_backed_up_and_the_backup_before_stays() {
    let mut written = Written::new();
    written.write(60);
    written.backup().unwrap();
    let before = files(&written.copy());
    let segment = written.store().join("log").join("0000000000000000.log");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[5_000] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let error = written.backup().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let mut after = files(&written.copy());
    after.remove("copying");
    assert_eq!(after, before);
}

/// Every file: each byte of the list, bytes of the copies, cut short, gone, empty, exchanged.
#[test]
fn a_damaged_backup_is_refused_and_nothing_is_put_in_place() {
    let mut written = Written::new();
    written.write(60);
    written.backup().unwrap();
    let whole = files(&written.copy());
    let random = Random::seeded(1);
    let to = written.path("restored");
    let refused = |what: &str| {
        let error = restore(&written.copy(), &to, RestorePoint::End).expect_err(what);
        let is_expected = [ErrorKind::Corrupt, ErrorKind::Invalid].contains(&error.kind());
        assert!(is_expected, "{what}: {error}");
        assert!(!to.exists(), "{what}");
        assert_eq!(
            fs::read_dir(written.root.path()).unwrap().count(),
            2,
            "{what}"
        );
    };
    for (name, bytes) in &whole {
        let path = written.copy().join(name);
        if bytes.is_empty() {
            assert_eq!(name, "BACKUP");
            continue;
        }
        let flips: Vec<usize> = match name.as_str() {
            "MANIFEST" => (0..bytes.len()).collect(),
            _ => (0..40)
                .map(|_| random.below(bytes.len() as u64) as usize)
                .collect(),
        };
        for at in flips {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << random.below(8);
            fs::write(&path, damaged).unwrap();
            refused(&format!("{name} at {at}"));
        }
        for len in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..len]).unwrap();
            refused(&format!("{name} of {len} bytes"));
        }
        fs::remove_file(&path).unwrap();
        refused(&format!("{name} is gone"));
        fs::write(&path, bytes).unwrap();
    }
    let [first, second] = [0, 1].map(|n| written.copy().join(whole.keys().nth(n).unwrap()));
    fs::copy(&second, &first).unwrap();
    refused("exchanged");
    fs::write(&first, &whole[whole.keys().next().unwrap()]).unwrap();
    restore(&written.copy(), &to, RestorePoint::End).unwrap();
    assert_eq!(content(&to), written.content);
}

/// Runs to a step and ends there, as a killed process does; returns whether it came to its end.
fn ends_at(step: usize, run: impl FnOnce(&Disk<'_>)) -> bool {
    let steps = AtomicUsize::new(0);
    let count = || {
        if steps.fetch_add(1, Ordering::Relaxed) == step {
            // Without the message of a panic.
            resume_unwind(Box::new("killed"));
        }
    };
    let disk = Disk { step: &count };
    catch_unwind(AssertUnwindSafe(|| run(&disk))).is_ok()
}

#[test]
fn a_backup_that_is_killed_at_any_step_leaves_one_that_restores() {
    let mut written = Written::new();
    // The first one: until it is complete, there is none.
    written.write(25);
    let mut ends = Vec::new();
    for round in 0.. {
        let old = ends.last().copied();
        let new = written.groups.last().unwrap().0;
        let mut step = 0;
        loop {
            let is_done = ends_at(step, |disk| {
                backup_in_steps(&written.store(), &written.copy(), false, disk).unwrap();
            });
            let to = written.path("restored");
            match restore(&written.copy(), &to, RestorePoint::End) {
                Ok(restored) => {
                    let end = restored.position;
                    assert!(
                        end == new || (!is_done && Some(end) == old),
                        "{round}, {step}"
                    );
                    assert_eq!(
                        content(&to),
                        up_to(&written.content, end),
                        "{round}, {step}"
                    );
                    fs::remove_dir_all(&to).unwrap();
                }
                Err(error) => {
                    assert!(old.is_none() && !is_done, "{round}, {step}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                }
            }
            if is_done {
                break;
            }
            step += 1;
        }
        assert!(step > 8, "{step} steps");
        let stored = files(&written.copy());
        assert!(!stored.contains_key("copying") && !stored.contains_key("MANIFEST.new"));
        ends.push(new);
        if round == 2 {
            break;
        }
        written.write(15);
    }
}

#[test]
fn a_restore_that_is_killed_at_any_step_puts_all_or_nothing_in_place() {
    let mut written = Written::new();
    written.write(25);
    written.backup().unwrap();
    let to = written.path("restored");
    let mut step = 0;
    loop {
        let is_done = ends_at(step, |disk| {
            let point = RestorePoint::Position(30);
            restore_in_steps(&written.copy(), &to, point, disk).unwrap();
        });
        match to.exists() {
            true => {
                let wanted = written
                    .groups
                    .iter()
                    .rev()
                    .find(|group| group.0 <= 30)
                    .unwrap();
                assert_eq!(content(&to), up_to(&written.content, wanted.0), "{step}");
                Embedded::open(&to, &Default::default()).unwrap();
                fs::remove_dir_all(&to).unwrap();
            }
            false => assert!(!is_done, "{step}"),
        }
        if is_done {
            break;
        }
        step += 1;
    }
    assert!(step > 5, "{step} steps");
    assert_eq!(fs::read_dir(written.root.path()).unwrap().count(), 2);
}
