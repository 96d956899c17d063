//! Converts a folder of format 1, which had no log of ours: the engine fjall kept everything.
//!
//! Guarantees: the files of format 1 are not touched before the new ones are complete and durable. The
//! engine runs on a copy, as it changes files while it opens. A crash starts the conversion over; a
//! damaged store is refused and stays as it is. The engine drops what follows damage in its journal, so
//! the journal is read without it first (`journal.rs`), and everything in it is looked for in what the
//! engine returns. One incomplete batch at the end of the journal may be an interrupted append and is
//! left out, with a warning; then the files of format 1 are kept.
//!
//! What cannot be found: the end of the journal is missing exactly as if it had never been written (see
//! `journal.rs`), and neither a closing of the store nor a table of the engine came after it.
//!
//! ```text
//! engine/, REACHED   format 1
//! converting/        the copy of engine/: links to its tables, copies of everything else
//! log/               written from the copy
//! format-1/          created, if a part of the journal was left out
//! FORMAT             replaced: from here on the store has format 2
//!                    engine/ and REACHED are moved to format-1/, or removed if there is none, now or
//!                    at the next open; so is converting/
//! ```

mod journal;
mod latest;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, Readable};
use lsm_tree::AbstractTree;

use self::journal::{Damage, Failure, Journal, Torn};
use self::latest::Latest;
use super::errors;
use super::folder::{Folder, KEPT, remove_part};
use super::index::{Kind, integrity};
use super::log::{self, Frame, Writer};
use super::opening::{PROGRESS, Progress};
use crate::{Error, Random, Result};

const CONVERTING: &str = "converting";
/// How often the store was closed, according to this file and to the engine.
const REACHED: &str = "REACHED";
const CLOSES: &[u8] = b"##";
/// Changes of a frame, roughly.
const FRAME_BYTES: usize = 1024 * 1024;

/// Converts the folder.
///
/// # Errors
/// `Corrupt` if the store is damaged; `Unavailable` if the disk is full. The store is as it was.
pub(super) fn convert(folder: &Folder) -> Result<()> {
    convert_in_steps(folder, &|| ())
}

/// Converts the folder and calls `step` after every change of it.
fn convert_in_steps(folder: &Folder, step: &dyn Fn()) -> Result<()> {
    tracing::info!(target: PROGRESS, folder = %folder.path().display(), "converting the store to format 2");
    let converted = write_log(folder, step);
    let copy = folder.path().join(CONVERTING);
    if converted.is_err() {
        let removed = remove_part(&copy).and_then(|()| remove_part(&folder.log()));
        if let Err(error) = removed {
            tracing::warn!(%error, "cannot remove an unfinished conversion");
        }
    }
    if let Some(torn) = converted? {
        let kept = folder.path().join(KEPT);
        fs::create_dir(&kept)
            .map_err(|cause| errors::on_folder(cause, "convert the store", kept.display()))?;
        step();
        tracing::warn!(
            file = %torn.file.display(),
            offset = torn.offset,
            bytes = torn.bytes,
            kept = %kept.display(),
            "the old journal ends with an incomplete write, which was left out: it was never acknowledged, unless the end of the file is lost. the old files are kept; remove them when nothing is missing"
        );
    }
    folder.finish()?;
    step();
    clean_in_steps(folder, step)?;
    tracing::info!(target: PROGRESS, "the store has format 2");
    Ok(())
}

/// Removes what is left of format 1, or moves it to where it is kept.
pub(super) fn clean(folder: &Folder) -> Result<()> {
    clean_in_steps(folder, &|| ())
}

fn clean_in_steps(folder: &Folder, step: &dyn Fn()) -> Result<()> {
    let kept = folder.path().join(KEPT);
    let failed = |cause| errors::on_folder(cause, "open the store", kept.display());
    let is_kept = kept.try_exists().map_err(failed)?;
    for part in ["engine", REACHED] {
        let from = folder.path().join(part);
        if is_kept && from.try_exists().map_err(failed)? {
            fs::rename(from, kept.join(part)).map_err(failed)?;
        } else {
            remove_part(&from)?;
        }
        step();
    }
    for part in [CONVERTING, "REACHED.new"] {
        remove_part(&folder.path().join(part))?;
        step();
    }
    Ok(())
}

/// Writes the log. Returns what was left out of it.
fn write_log(folder: &Folder, step: &dyn Fn()) -> Result<Option<Torn>> {
    let failed = |cause| errors::on_folder(cause, "convert the store", folder.path().display());
    let copy = folder.path().join(CONVERTING);
    // What a crash left.
    remove_part(&copy)?;
    remove_part(&folder.log())?;
    remove_empty(&folder.path().join(KEPT)).map_err(failed)?;
    check_trees(&folder.engine())?;
    let closes = closes_in_file(folder.path())?;
    let journal = Journal::read(&folder.engine()).map_err(|failure| match failure {
        Failure::Unreadable(cause) => failed(cause),
        Failure::Damaged(damage) => in_journal(folder.path(), &damage),
    })?;
    copy_engine(&folder.engine(), &copy).map_err(failed)?;
    step();
    let old = Old::open(&copy).map_err(|error| damaged(folder.path()).because(error))??;
    if old.closes()? < closes || old.is_beyond(&journal) {
        return Err(damaged(folder.path()).fact("problem", "the end of the journal is missing"));
    }
    if old.is_empty(&journal) {
        return Err(Error::corrupt(
            "the store is empty, or has lost its journal; if nothing was ever written to it, remove the folder. nothing was changed",
        )
        .fact("folder", folder.path().display()));
    }
    log::create(&folder.log(), Random::from_machine().bits())?;
    step();
    let recovered = log::recover(&folder.log())?;
    let mut writer = LogWriter {
        log: Writer::open(&folder.log(), &recovered)?,
        frame: Frame::at(recovered.end.position),
        folder: folder.path(),
        progress: Progress::new("converting the store", old.len()),
        written: 0,
        step,
    };
    let mut latest = journal.latest;
    old.each(&mut latest, |key, value| writer.push(key, value))?;
    if !latest.is_complete() {
        return Err(out_of_order(folder.path()));
    }
    writer.close()?;
    step();
    Ok(journal.torn)
}

/// Removes the folder if a crash left it. One with files is somebody's.
fn remove_empty(folder: &Path) -> io::Result<()> {
    match fs::remove_dir(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}

fn damaged(folder: &Path) -> Error {
    Error::corrupt(
        "the store is damaged and was not converted; keep a copy of the folder and restore a backup. nothing was changed",
    )
    .fact("folder", folder.display())
}

fn in_journal(folder: &Path, damage: &Damage) -> Error {
    damaged(folder)
        .fact("problem", damage.problem)
        .fact("file", damage.file.display())
        .fact("offset", damage.offset)
}

/// The engine does not return what its journal wrote last.
fn out_of_order(folder: &Path) -> Error {
    damaged(folder).fact("problem", "the sequence numbers of the journal are damaged")
}

/// Compares the files that name tables with their checksums.
fn check_trees(engine: &Path) -> Result<()> {
    let trees = match fs::read_dir(engine.join("keyspaces")) {
        Ok(trees) => trees,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Err(damaged(engine)),
        Err(cause) => return Err(errors::on_folder(cause, "open the store", engine.display())),
    };
    for tree in trees {
        let tree =
            tree.map_err(|cause| errors::on_folder(cause, "open the store", engine.display()))?;
        integrity::check(&tree.path())?;
    }
    Ok(())
}

/// How often the store was closed, according to the file; 0 without one.
fn closes_in_file(folder: &Path) -> Result<u64> {
    let path = folder.join(REACHED);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(cause) => return Err(errors::on_folder(cause, "open the store", path.display())),
    };
    let text = String::from_utf8(bytes).unwrap_or_default();
    let number = text.trim().strip_prefix("closed");
    let number = number.and_then(|rest| rest.trim().split_once(' '));
    let number = number.and_then(|(number, check)| {
        let sum = format!("{:08x}", crc32fast::hash(number.as_bytes()));
        number.parse().ok().filter(|_| sum == check)
    });
    number.ok_or_else(|| {
        Error::corrupt("the file REACHED is damaged; verify the store, then remove the file")
            .fact("folder", folder.display())
    })
}

/// Copies the engine's files. Tables never change, so a link is enough.
fn copy_engine(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_engine(&source, &target)?;
        } else if !from.ends_with("tables") || fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// The engine of format 1. Its keyspaces had the keys of one kind each.
struct Old {
    db: Database,
    trees: [(Kind, Keyspace); 3],
    /// For errors.
    folder: PathBuf,
}

impl Old {
    fn open(engine: &Path) -> fjall::Result<Result<Self>> {
        let db = Database::builder(engine).open()?;
        let names = ["catalog", "items", "entries"];
        // The engine would create a missing keyspace: tables would silently be empty.
        if !names.iter().all(|name| db.keyspace_exists(name)) {
            return Ok(Err(damaged(engine)));
        }
        let tree = |name| db.keyspace(name, KeyspaceCreateOptions::default);
        let trees = [
            (Kind::Table, tree("catalog")?),
            (Kind::Item, tree("items")?),
            (Kind::Entry, tree("entries")?),
        ];
        Ok(Ok(Self {
            db,
            trees,
            folder: engine.to_owned(),
        }))
    }

    /// How often the store was closed, according to the engine.
    fn closes(&self) -> Result<u64> {
        let [(_, catalog), ..] = &self.trees;
        let found = catalog.get(CLOSES).map_err(read_failed)?;
        let found = found.and_then(|bytes| Some(u64::from_be_bytes(*bytes.first_chunk()?)));
        Ok(found.unwrap_or(0))
    }

    /// Whether the tables have something later than the journal, whose end is lost then. What was in
    /// files of the journal that were removed since is only in the tables.
    fn is_beyond(&self, journal: &Journal) -> bool {
        match (self.persisted(), journal.last) {
            (Some(persisted), Some(last)) => persisted > last,
            (Some(_), None) => !journal.is_shortened,
            (None, _) => journal.is_shortened,
        }
    }

    /// The highest sequence number in the tables.
    fn persisted(&self) -> Option<u64> {
        let trees = self.trees.iter();
        trees
            .filter_map(|(_, tree)| tree.tree.get_highest_persisted_seqno())
            .max()
    }

    /// Nothing was ever written, or everything is lost.
    fn is_empty(&self, journal: &Journal) -> bool {
        journal.last.is_none() && self.persisted().is_none()
    }

    /// Keys and values, roughly: also those that were overwritten.
    fn len(&self) -> u64 {
        let trees = self.trees.iter();
        trees.map(|(_, tree)| tree.approximate_len() as u64).sum()
    }

    /// Calls `push` with every key and value, as format 2 has them.
    ///
    /// # Errors
    /// `Corrupt` if one is not what the journal wrote last.
    fn each(
        &self,
        latest: &mut Latest,
        mut push: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let snapshot = self.db.snapshot();
        let of_kind = |kind: Kind, bytes: &[u8]| [&[kind as u8], bytes].concat();
        for (kind, tree) in &self.trees {
            for entry in snapshot.iter(tree) {
                let (key, value) = entry.into_inner().map_err(read_failed)?;
                if !latest.is_found(tree.id(), &key, &value) {
                    return Err(out_of_order(&self.folder));
                }
                match kind {
                    Kind::Table if &*key == CLOSES => {}
                    Kind::Entry => {
                        // The key of an entry ends with its item's, which is also its value.
                        let Some(own) = key.strip_suffix(&*value) else {
                            return Err(Error::corrupt("an index entry does not name its item"));
                        };
                        let item = of_kind(Kind::Item, &value);
                        push(&[&*of_kind(Kind::Entry, own), &*item].concat(), &item)?;
                    }
                    _ => push(&of_kind(*kind, &key), &value)?,
                }
            }
        }
        Ok(())
    }
}

fn read_failed(error: fjall::Error) -> Error {
    match error {
        fjall::Error::Storage(error) => errors::on_read(error),
        other => Error::corrupt("the store does not read back").because(other),
    }
}

/// Collects changes into frames.
struct LogWriter<'a> {
    log: Writer,
    frame: Frame,
    folder: &'a Path,
    progress: Progress,
    written: u64,
    step: &'a dyn Fn(),
}

impl LogWriter<'_> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.frame.push(key, Some(value), None);
        self.written += 1;
        match self.frame.len() < FRAME_BYTES {
            true => Ok(()),
            false => self.append(),
        }
    }

    fn append(&mut self) -> Result<()> {
        let failed = |cause| errors::on_folder(cause, "convert the store", self.folder.display());
        self.log.append(&mut self.frame).map_err(failed)?;
        self.frame = Frame::at(self.frame.end());
        self.progress.at(self.written);
        (self.step)();
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        if !self.frame.is_empty() {
            self.append()?;
        }
        let folder = self.folder;
        let closed = self.log.close();
        closed.map_err(|cause| errors::on_folder(cause, "convert the store", folder.display()))
    }
}

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
