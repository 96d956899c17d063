//! Converts a folder of format 1, which had no log of ours: the engine fjall kept everything.
//!
//! Guarantees: the files of format 1 are not touched before the new ones are complete and durable. The
//! engine runs on a copy, as it changes files while it opens. A crash starts the conversion over; a
//! damaged store is refused and stays as it is.
//!
//! ```text
//! engine/, REACHED   format 1
//! converting/        the copy of engine/: links to its tables, copies of everything else
//! log/               written from the copy
//! FORMAT             replaced: from here on the store has format 2
//!                    engine/, REACHED and converting/ are removed, now or at the next open
//! ```

use std::fs;
use std::io;
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, Readable};

use super::errors;
use super::folder::{Folder, remove_part};
use super::index::{Kind, integrity};
use super::log::{self, Frame, Writer};
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
    tracing::info!(folder = %folder.path().display(), "converting the store to format 2");
    let converted = write_log(folder, step);
    let copy = folder.path().join(CONVERTING);
    if converted.is_err() {
        let removed = remove_part(&copy).and_then(|()| remove_part(&folder.log()));
        if let Err(error) = removed {
            tracing::warn!(%error, "cannot remove an unfinished conversion");
        }
    }
    converted?;
    folder.finish()?;
    step();
    clean_in_steps(folder, step)?;
    tracing::info!("the store has format 2");
    Ok(())
}

/// Removes what is left of format 1.
pub(super) fn clean(folder: &Folder) -> Result<()> {
    clean_in_steps(folder, &|| ())
}

fn clean_in_steps(folder: &Folder, step: &dyn Fn()) -> Result<()> {
    for part in [CONVERTING, "engine", REACHED, "REACHED.new"] {
        remove_part(&folder.path().join(part))?;
        step();
    }
    Ok(())
}

fn write_log(folder: &Folder, step: &dyn Fn()) -> Result<()> {
    let failed = |cause| errors::on_folder(cause, "convert the store", folder.path().display());
    let copy = folder.path().join(CONVERTING);
    // What a crash left.
    remove_part(&copy)?;
    remove_part(&folder.log())?;
    check_trees(&folder.engine())?;
    let closes = closes_in_file(folder.path())?;
    copy_engine(&folder.engine(), &copy).map_err(failed)?;
    step();
    let old = Old::open(&copy).map_err(|error| damaged(folder.path()).because(error))??;
    if old.closes()? < closes {
        return Err(damaged(folder.path()));
    }
    log::create(&folder.log(), Random::from_machine().bits())?;
    step();
    let recovered = log::recover(&folder.log())?;
    let mut writer = LogWriter {
        log: Writer::open(&folder.log(), &recovered)?,
        frame: Frame::at(recovered.end.position),
        folder: folder.path(),
        step,
    };
    old.each(|key, value| writer.push(key, value))?;
    writer.close()?;
    step();
    Ok(())
}

fn damaged(folder: &Path) -> Error {
    Error::corrupt(
        "the store is damaged and was not converted; keep a copy of the folder and restore a backup. nothing was changed",
    )
    .fact("folder", folder.display())
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
        Ok(Ok(Self { db, trees }))
    }

    /// How often the store was closed, according to the engine.
    fn closes(&self) -> Result<u64> {
        let [(_, catalog), ..] = &self.trees;
        let found = catalog.get(CLOSES).map_err(read_failed)?;
        let found = found.and_then(|bytes| Some(u64::from_be_bytes(*bytes.first_chunk()?)));
        Ok(found.unwrap_or(0))
    }

    /// Calls `push` with every key and value, as format 2 has them.
    fn each(&self, mut push: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let snapshot = self.db.snapshot();
        let of_kind = |kind: Kind, bytes: &[u8]| [&[kind as u8], bytes].concat();
        for (kind, tree) in &self.trees {
            for entry in snapshot.iter(tree) {
                let (key, value) = entry.into_inner().map_err(read_failed)?;
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
    step: &'a dyn Fn(),
}

impl LogWriter<'_> {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.frame.push(key, Some(value), None);
        match self.frame.len() < FRAME_BYTES {
            true => Ok(()),
            false => self.append(),
        }
    }

    fn append(&mut self) -> Result<()> {
        let failed = |cause| errors::on_folder(cause, "convert the store", self.folder.display());
        self.log.append(&mut self.frame).map_err(failed)?;
        self.frame = Frame::at(self.frame.end());
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
#[path = "convert_tests.rs"]
mod tests;
