//! Reading a store that another process may have open, without its help and without its lock.
//!
//! Guarantees: a consistent point in time that has every change acknowledged before, all of it on
//! stable storage. No file of the owner is changed, so it does not matter whether one runs, was killed
//! or starts meanwhile. Memory is bounded as in the owner: what is too much is written to files.
//!
//! ```text
//! readers/annals-reader-PID-…/   locked while the process lives (`private_folder.rs`)
//!     index/                     links to the tables of the owner's index
//! ```
//!
//! *The index.* `current` names a version file, which names tables. None of these changes once it is
//! named; the owner removes a table only after it has replaced `current`. So a copy that lacks a file
//! is made again if `current` has changed since, and is damaged otherwise.
//!
//! *The log.* It is read after the index was copied, so it holds everything that the index does. The
//! owner acknowledges a frame after it has written it, so every frame acknowledged before is found. The
//! last one may not be synced yet: then it is synced here before anybody sees it. A frame that is being
//! written is invalid, and is after the point in time. If the owner has erased a value since that it
//! superseded only after the point in time, another point is taken.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::catalog::Catalog;
use super::history::History;
use super::index::Index;
use super::opening::Opening;
use super::private_folder::{PrivateFolder, remove_dead};
use super::{folder, forks, log};
use crate::embedded::errors;
use crate::{Error, ErrorKind, Result};

pub(super) const PREFIX: &str = "annals-reader-";
/// Copies that the owner's merging may make incomplete, before it is an error.
const TRIES_MAX: usize = 100;
/// Copies that are damaged without a change of the owner's, before it is an error. The owner may just
/// have replaced a segment.
const DAMAGED_MAX: usize = 3;

/// A store as it was when it was opened.
pub(super) struct PointInTime {
    pub(super) index: Arc<Index>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) history: History,
    /// What is wrong with the store's index, if it could not be used.
    pub(super) damage: Option<Error>,
    /// The copy of the index; removed when this is dropped.
    pub(super) copy: PrivateFolder,
}

/// Opens the store as it is now.
///
/// # Errors
/// `Invalid` if there is no store of this format; `Corrupt` if it is damaged.
pub(super) fn open(store: &Path, cache_bytes: u64) -> Result<PointInTime> {
    open_in_steps(store, cache_bytes, &|| ())
}

/// Opens the store and calls `step` when the point in time was taken, before the log is read.
fn open_in_steps(store: &Path, cache_bytes: u64, step: &dyn Fn()) -> Result<PointInTime> {
    let log = folder::log_beside(store)?;
    let current = folder::index(store).join("current");
    let mut damaged = 0;
    for _ in 0..TRIES_MAX {
        let before = fs::read(&current).ok();
        let is_last = damaged + 1 >= DAMAGED_MAX;
        match attempt(store, &log, (cache_bytes, is_last), step) {
            Ok(None) => {}
            Ok(Some(opened)) => return Ok(opened),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let is_unchanged = fs::read(&current).ok() == before;
                if is_unchanged && is_last {
                    return Err(error);
                }
                damaged = if is_unchanged { damaged + 1 } else { 0 };
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::unavailable(
        "the owner of the store replaces its files faster than they can be read; try again",
    )
    .fact("folder", store.display()))
}

/// `None`: the owner erased values of this point in time.
fn attempt(
    store: &Path,
    log: &Path,
    (cache_bytes, can_rebuild): (u64, bool),
    step: &dyn Fn(),
) -> Result<Option<PointInTime>> {
    let failed = |cause| errors::on_folder(cause, "read the store", store.display());
    let copy = private_copy(store).map_err(failed)?;
    let index = folder::index(copy.path());
    let recovered = log::recover_beside(log)?;
    recovered.sync_end(log).map_err(failed)?;
    step();
    let opening = Opening {
        folder: store,
        log_folder: log,
        index_folder: index,
        log: &recovered,
        catalog: Arc::default(),
        cache_bytes,
    };
    let (index, upkeep, damage) = match can_rebuild {
        true => opening.index()?,
        false => {
            let (index, upkeep) = opening.intact_index()?;
            (index, upkeep, None)
        }
    };
    // Everything is inserted.
    drop(upkeep);
    if recovered.has_lost_values(log)? {
        return Ok(None);
    }
    opening.catalog.load(&index.snapshot())?;
    let forks = forks::load(&index.snapshot())?;
    let (_, end) = watch::channel(recovered.log_end());
    Ok(Some(PointInTime {
        history: History::new(log.to_owned(), (recovered.mark(), &forks), end),
        index,
        catalog: opening.catalog,
        damage,
        copy,
    }))
}

/// A folder with a copy of the index: in the store, where files can be linked, or a temporary one if
/// the store cannot be written or its disk is full.
fn private_copy(store: &Path) -> io::Result<PrivateFolder> {
    let copy_in = |parent: &Path| {
        remove_dead(parent, PREFIX);
        let copy = PrivateFolder::create(parent, PREFIX)?;
        copy_index(&folder::index(store), &folder::index(copy.path()))?;
        Ok(copy)
    };
    let readers = folder::readers(store);
    let in_store = fs::create_dir_all(&readers).and_then(|()| copy_in(&readers));
    in_store.or_else(|_| copy_in(&std::env::temp_dir()))
}

/// Copies an index. Without a file that was removed meanwhile, the copy is incomplete.
fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    const TABLES: &str = "tables";
    fs::create_dir_all(to.join(TABLES))?;
    let Some(current) = if_there(fs::read(from.join("current")))? else {
        return Ok(());
    };
    if let Some(number) = current.first_chunk() {
        let version = format!("v{}", u64::from_le_bytes(*number));
        if_there(fs::copy(from.join(&version), to.join(&version)))?;
    }
    if let Some(tables) = if_there(fs::read_dir(from.join(TABLES)))? {
        for table in tables {
            let table = table?;
            if_there(link(
                &table.path(),
                &to.join(TABLES).join(table.file_name()),
            ))?;
        }
    }
    fs::write(to.join("current"), current)
}

/// Links a file that never changes, or copies it to another file system.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => fs::copy(from, to).map(drop),
        other => other,
    }
}

fn if_there<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Bytes that differ after every change of the store in a folder, by any process: for readers that
/// open it again when there is something new. Takes no lock.
///
/// # Errors
/// `Invalid` if there is no store of this format.
#[doc(hidden)]
pub fn change_note(store: &Path) -> Result<Vec<u8>> {
    // The owner writes it before a change is acknowledged.
    let path = folder::log_beside(store)?.join(log::REACHED);
    let failed = |cause| errors::on_folder(cause, "read the store", path.display());
    // Without it, its owner makes it again.
    Ok(if_there(fs::read(&path))
        .map_err(failed)?
        .unwrap_or_default())
}

/// The error of a write to a store that was opened for reading.
pub(super) fn read_only(store: &Path) -> Error {
    let owner = folder::owner(store);
    let error = Error::invalid(match owner {
        Some(_) => "this store was opened for reading; write through the process that has it open",
        None => "this store was opened for reading; open it for writing",
    });
    let error = error.fact("folder", store.display());
    match owner {
        Some(process) => error.fact("process", process),
        None => error,
    }
}

/// Where a store is, and why no other process changes it.
pub(super) enum Home {
    /// Only this process has the folder open.
    Owner(folder::Folder),
    /// A point in time of the folder.
    Reader {
        store: PathBuf,
        _copy: PrivateFolder,
    },
}

impl Home {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Owner(folder) => folder.path(),
            Self::Reader { store, .. } => store,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::embedded::{Embedded, reads};
    use crate::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec};

    #[test]
    fn a_value_that_is_erased_while_the_store_is_opened_is_not_missing() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("data");
        let table = TableSpec::new(
            "notes".parse().unwrap(),
            KeySchema::new(KeyAttribute::text("id")),
        );
        let table = table.unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let owner = Embedded::open(&store, &Default::default()).unwrap();
        let put = |n: i64| {
            let item = Item::new().with("id", "a").with("n", n);
            let put = owner.put(&table, item, Condition::Always);
            runtime.block_on(put).unwrap();
        };
        runtime
            .block_on(owner.create_table(&table, Default::default()))
            .unwrap();
        put(1);
        let is_first = Cell::new(true);
        let opened = open_in_steps(&store, 0, &|| {
            if is_first.replace(false) {
                put(2);
                runtime.block_on(owner.erase_now()).unwrap();
            }
        });
        let opened = opened.unwrap();
        let stored = opened.catalog.table(&table).unwrap();
        let got = reads::get(&opened.index, &stored, &[Key::new("a")]).unwrap();
        let want = Item::new().with("id", "a").with("n", 2_i64);
        assert_eq!(got.items, [Some(want)]);
    }
}
