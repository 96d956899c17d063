//! Losses of power at any point: nothing that was synced is lost, and the log opens.
//!
//! The model is what POSIX allows. What was written before a file's last sync is there. Of what was
//! written later, each block of 512 bytes is there or not, in any combination. Names that changed after
//! the folder's last sync changed or not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::check::check as log_check;
use super::disk::{Op, recording};
use super::rewrite::{Erase, Rewritten, Superseded, key_hash, rewrite};
use super::{Frame, Position, Writer, create, frames_from, recover, segment};
use crate::Random;

const BLOCK: usize = 512;

/// Many take minutes, so only some are tried by default. `ANNALS_DAMAGE=full` tries all of them.
fn images() -> u64 {
    match std::env::var("ANNALS_DAMAGE").is_ok_and(|how| how == "full") {
        true => 1_500,
        false => 60,
    }
}

/// A change: its key tells its position.
fn change(position: u64) -> (Vec<u8>, Vec<u8>) {
    let random = Random::seeded(position);
    // Most are small; some make frames of many blocks, and fill segments.
    let bytes = match position % 7 {
        0 => 60_000,
        1 => 5_000,
        _ => 40,
    };
    let body = std::iter::repeat_with(|| random.bits() as u8).take(bytes);
    (format!("key {position}").into_bytes(), body.collect())
}

/// Whether a change is erased in the end.
fn is_superseded(position: u64) -> bool {
    position.is_multiple_of(5) && position < 60
}

/// Compresses the first segment, or erases from it.
fn rewrite_first(log: &Path, is_erasing: bool) {
    let positions = (1..60).filter(|position| is_erasing && is_superseded(*position));
    let superseded: Vec<Superseded> = positions
        .map(|position| Superseded {
            position: Position(position),
            by: Position(position + 1),
            key: key_hash(&change(position).0),
        })
        .collect();
    let erase = Erase {
        superseded: &superseded,
        dropped: None,
    };
    let done = rewrite(log, 0, &erase, &mut || true).unwrap();
    let want = superseded.len() as u64;
    assert!(matches!(done, Rewritten::Done { erased, .. } if erased == want));
}

/// Appends frames of one to three changes; returns how many operations were recorded and the position
/// reached after each acknowledgement.
fn write(log: &Path, frames: u64) -> Vec<(usize, Position)> {
    let recovered = recover(log).unwrap();
    let mut writer = Writer::open(log, &recovered).unwrap();
    let mut acknowledged = Vec::new();
    for n in 0..frames {
        let mut frame = Frame::at(writer.end().position);
        for _ in 0..=n % 3 {
            let (key, value) = change(frame.end().0);
            frame.push(&key, Some(&value), None);
        }
        writer.append(&mut frame).unwrap();
        if n % 10 == 9 {
            writer.applied(writer.end());
        }
        if n == 90 || n == 120 {
            rewrite_first(log, n == 120);
        }
        acknowledged.push((recording::len(log), frame.end()));
    }
    writer.close().unwrap();
    acknowledged
}

/// A file: what is durable, and what may be.
#[derive(Clone, Default)]
struct Disk {
    durable: Vec<u8>,
    pending: Vec<(u64, Vec<u8>)>,
}

impl Disk {
    fn write(bytes: &mut Vec<u8>, offset: u64, block: &[u8]) {
        let end = offset as usize + block.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(block);
    }

    /// The bytes after a loss of power.
    fn after_loss(&self, random: &Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        // Some losses take almost nothing, others almost everything.
        let kept = random.below(5);
        for (offset, written) in &self.pending {
            let mut at = 0;
            while at < written.len() {
                let here = *offset as usize + at;
                let len = (BLOCK - here % BLOCK).min(written.len() - at);
                if random.below(4) < kept {
                    Self::write(&mut bytes, here as u64, &written[at..at + len]);
                }
                at += len;
            }
        }
        bytes
    }
}

/// The folder as the operations make it.
#[derive(Clone, Default)]
struct Simulated {
    files: BTreeMap<usize, Disk>,
    /// The names that are durable, and those of the running system.
    durable_names: BTreeMap<PathBuf, usize>,
    names: BTreeMap<PathBuf, usize>,
}

impl Simulated {
    fn of(folder: &Path) -> Self {
        let mut simulated = Self::default();
        for (number, entry) in fs::read_dir(folder).unwrap().enumerate() {
            let path = entry.unwrap().path();
            let durable = fs::read(&path).unwrap();
            let pending = Vec::new();
            simulated.files.insert(number, Disk { durable, pending });
            simulated.names.insert(path, number);
        }
        simulated.durable_names = simulated.names.clone();
        simulated
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Create(path) => {
                let number = self.files.keys().last().map_or(0, |last| last + 1);
                self.files.insert(number, Disk::default());
                self.names.insert(path.clone(), number);
            }
            Op::Write(path, offset, bytes) => {
                let number = self.names[path];
                let file = self.files.get_mut(&number).unwrap();
                file.pending.push((*offset, bytes.clone()));
            }
            Op::Sync(path) => {
                let file = self.files.get_mut(&self.names[path]).unwrap();
                for (offset, bytes) in std::mem::take(&mut file.pending) {
                    Disk::write(&mut file.durable, offset, &bytes);
                }
            }
            Op::Rename(from, to) => {
                let number = self.names.remove(from).unwrap();
                self.names.insert(to.clone(), number);
            }
            Op::SyncFolder => self.durable_names = self.names.clone(),
        }
    }

    /// Writes what a loss of power leaves.
    fn lose_power(&self, random: &Random, to: &Path) {
        let names = match random.below(2) {
            0 => &self.durable_names,
            _ => &self.names,
        };
        for (path, number) in names {
            let bytes = self.files[number].after_loss(random);
            fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
        }
    }
}

/// The log opens, and has what was acknowledged. Returns its end.
fn check(log: &Path, least: Position, case: &str) -> Position {
    let recovered = recover(log).unwrap_or_else(|error| panic!("{case}: {error}"));
    let end = recovered.end.position;
    assert!(
        end >= least,
        "{case}: ends at {end}, {least} was acknowledged"
    );
    let mut next = Position::FIRST;
    let read = frames_from(log, recovered.first(), end, |changes, _| {
        for found in changes {
            while found.position > next && is_superseded(next.0) {
                next = next.plus(1);
            }
            let (key, value) = change(next.0);
            assert_eq!((found.position, found.key), (next, &*key), "{case}");
            assert_eq!(found.value, Some(&*value), "{case}");
            next = next.plus(1);
        }
        Ok(())
    });
    read.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(next, end, "{case}");
    end
}

#[test]
fn a_loss_of_power_loses_nothing_that_was_acknowledged() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    create(&log, 77).unwrap();
    let start = Simulated::of(&log);
    recording::begin(&log);
    let acknowledged = write(&log, 150);
    let ops = recording::end(&log);
    let has = |is: fn(&Op) -> bool| ops.iter().any(is);
    assert!(
        has(|op| matches!(op, Op::Rename(..))),
        "a segment was begun"
    );
    let seed = std::env::var("ANNALS_SEED").map_or(1, |seed| seed.parse().unwrap());
    let random = Random::seeded(seed);
    let mut points: Vec<usize> = (0..images())
        .map(|_| random.below(ops.len() as u64 + 1) as usize)
        .collect();
    // A segment begins seldom, and most can go wrong there.
    let renames = ops
        .iter()
        .zip(0..)
        .filter(|(op, _)| matches!(op, Op::Rename(..)));
    for (_, rename) in renames {
        points.extend((rename - 2..rename + 4).flat_map(|point| [point; 4]));
    }
    points.sort_unstable();
    let count = points.len();
    let (mut simulated, mut done, mut torn) = (start, 0, 0);
    for (image, point) in points.into_iter().enumerate() {
        for op in &ops[done..point] {
            simulated.apply(op);
        }
        done = point;
        let least = acknowledged.iter().rev().find(|(len, _)| *len <= point);
        let least = least.map_or(Position::FIRST, |(_, position)| *position);
        let lost = folder.path().join("lost");
        fs::create_dir(&lost).unwrap();
        simulated.lose_power(&random, &lost);
        let case = format!("seed {seed}, image {image} after {point} operations");
        let end = check(&lost, least, &case);
        torn += u64::from(recover(&lost).unwrap().torn_to > 0);
        // It goes on from there, and is whole after a restart.
        write(&lost, 3);
        let again = check(&lost, end.plus(1), &case);
        assert!(again > end, "{case}");
        fs::remove_dir_all(&lost).unwrap();
    }
    assert!(torn > 0, "no image had a torn frame");
    println!(
        "{count} images of {} operations, {torn} with a torn frame",
        ops.len()
    );
}

impl Simulated {
    /// The folder as the next process finds it after a kill: everything that was written is there, and
    /// is as durable as before. After a failed sync, the system forgets what is not.
    fn after_kill(&self, to: &Path, is_sync_failed: bool) -> Self {
        let moved = |names: &BTreeMap<PathBuf, usize>| {
            let name = |path: &PathBuf| to.join(path.file_name().unwrap());
            names.iter().map(|(path, at)| (name(path), *at)).collect()
        };
        let mut killed = Self {
            files: self.files.clone(),
            durable_names: moved(&self.durable_names),
            names: moved(&self.names),
        };
        for (path, number) in &killed.names {
            let Disk { durable, pending } = &killed.files[number];
            let mut bytes = durable.clone();
            for (offset, written) in pending {
                Disk::write(&mut bytes, *offset, written);
            }
            fs::write(path, bytes).unwrap();
        }
        if is_sync_failed {
            for file in killed.files.values_mut() {
                file.pending.clear();
            }
        }
        killed
    }
}

#[test]
fn what_is_acknowledged_after_a_kill_survives_a_loss_of_power() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    create(&log, 77).unwrap();
    let mut simulated = Simulated::of(&log);
    recording::begin(&log);
    write(&log, 60);
    let ops = recording::end(&log);
    let random = Random::seeded(1);
    let renames = ops.iter().zip(0..).filter_map(|(op, at)| match op {
        Op::Rename(..) => Some(at),
        _ => None,
    });
    let mut points: Vec<usize> = renames.flat_map(|at: usize| at - 2..at + 4).collect();
    points.extend((0..10).map(|_| random.below(ops.len() as u64) as usize));
    points.sort_unstable();
    let mut done = 0;
    for (point, is_sync_failed) in points.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        for op in &ops[done..point] {
            simulated.apply(op);
        }
        done = point;
        let killed = folder.path().join("killed");
        fs::create_dir(&killed).unwrap();
        let mut next = simulated.after_kill(&killed, is_sync_failed);
        recording::begin(&killed);
        let acknowledged = write(&killed, 2);
        // Only as far as the second acknowledgement.
        let (len, least) = acknowledged[1];
        for op in &recording::end(&killed)[..len] {
            next.apply(op);
        }
        for image in 0..4 {
            let lost = folder.path().join("lost");
            fs::create_dir(&lost).unwrap();
            next.lose_power(&random, &lost);
            let case =
                format!("image {image}, ended after {point} operations, failed: {is_sync_failed}");
            check(&lost, least, &case);
            fs::remove_dir_all(&lost).unwrap();
        }
        fs::remove_dir_all(&killed).unwrap();
    }
}

#[test]
fn a_torn_first_frame_after_a_closed_end_is_removed() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    create(&log, 77).unwrap();
    let closed = write(&log, 5).last().unwrap().1;
    let end = recover(&log).unwrap().end;
    drop(Writer::open(&log, &recover(&log).unwrap()).unwrap());
    // Half of a frame, as a loss of power leaves it.
    let path = log.join(segment::name(end.segment));
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[7; 300], end.offset + 20).unwrap();
    let recovered = recover(&log).unwrap();
    assert!(recovered.torn_to > end.offset, "{recovered:?}");
    write(&log, 1);
    check(&log, closed.plus(1), "after the torn frame");
    let (findings, _, _) = log_check(&log, &mut |_| true);
    assert_eq!(findings.len(), 0, "{findings:?}");
}
