//! Checks every byte of the index's files against the checksums that the tree keeps. Reads only, and
//! does not open the tree: opening removes files that nobody names.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use std::sync::Arc;

use lsm_tree::{Cache, Checksum};
use xxhash_rust::xxh3::Xxh3;

use super::{Applied, Kind, integrity};
use crate::embedded::errors;
use crate::{Error, Result};

const READ: usize = 1024 * 1024;

/// What was found.
#[derive(Debug, Default)]
pub(in super::super) struct Checked {
    pub(in super::super) findings: Vec<Error>,
    pub(in super::super) tables: u64,
    /// Up to where the files hold a log, if nothing is wrong.
    pub(in super::super) applied: Option<Applied>,
}

/// Checks the files of a tree that nobody has open. Calls `step` with the bytes that were read; it
/// returns whether to go on.
pub(in super::super) fn check(tree: &Path, step: &mut dyn FnMut(u64) -> bool) -> Checked {
    let mut checked = Checked::default();
    let tables = match integrity::check(tree).and_then(|()| tables(tree)) {
        Ok(tables) => tables,
        Err(error) => {
            checked.findings.push(error);
            return checked;
        }
    };
    checked.tables = tables.len() as u64;
    for table in &tables {
        let error = check_file(&table.path, table.checksum, step).err();
        checked.findings.extend(error);
    }
    if checked.findings.is_empty() {
        let all: Result<Vec<_>> = tables.iter().map(applied).collect();
        match all {
            Ok(applied) => {
                let newest = applied.into_iter().flatten().max_by_key(|it| it.position);
                checked.applied = newest;
            }
            Err(error) => checked.findings.push(error),
        }
    }
    checked
}

/// The applied place in a table that was checked. Its key is the first of all.
fn applied(table: &Table) -> Result<Option<Applied>> {
    let cache = Arc::new(Cache::with_capacity_bytes(0));
    let checksum = Checksum::from_raw(table.checksum);
    let opened = lsm_tree::Table::recover(
        table.path.clone(),
        checksum,
        0,
        0,
        cache,
        None,
        false,
        false,
    );
    let opened = opened.map_err(errors::on_read)?;
    let first = opened.iter().next().transpose().map_err(errors::on_read)?;
    let first = first.filter(|first| *first.key.user_key == [Kind::Applied as u8]);
    Ok(first.and_then(|first| Applied::decode(&first.value)))
}

/// A file of the tree, and the checksum of its bytes.
struct Table {
    path: PathBuf,
    checksum: u128,
}

/// Compares a file of the tree with its checksum.
///
/// # Errors
/// `Corrupt` if it is missing or damaged.
pub(in super::super) fn check_file(
    path: &Path,
    checksum: u128,
    step: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    let damaged = || {
        Error::corrupt(
            "a file of the index is damaged; the log has everything. close the store and remove its folder `index`, which is then made again",
        )
        .fact("file", path.display())
    };
    let failed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::NotFound => damaged(),
        _ => errors::on_folder(cause, "read the index", path.display()),
    };
    let mut file = File::open(path).map_err(failed)?;
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; READ];
    loop {
        let len = file.read(&mut buffer).map_err(failed)?;
        if len == 0 {
            break;
        }
        hash.update(buffer.get(..len).unwrap_or_default());
        if !step(len as u64) {
            return Ok(());
        }
    }
    match hash.digest128() == checksum {
        true => Ok(()),
        false => Err(damaged()),
    }
}

/// The tables that the tree's version names.
fn tables(tree: &Path) -> Result<Vec<Table>> {
    let damaged =
        || Error::corrupt("the engine's files are damaged").fact("folder", tree.display());
    let current = match std::fs::read(tree.join("current")) {
        Ok(current) => current,
        // The tree was being created.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(errors::on_folder(cause, "read the index", tree.display())),
    };
    let number = current.first_chunk().copied().ok_or_else(damaged)?;
    let version = tree.join(format!("v{}", u64::from_le_bytes(number)));
    let section = || -> Option<Vec<u8>> {
        let archive = sfa::Reader::new(&version).ok()?;
        let mut bytes = Vec::new();
        let mut reader = archive
            .toc()
            .section(b"tables")?
            .buf_reader(&version)
            .ok()?;
        reader.read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let section = section().ok_or_else(damaged)?;
    parse(&section, &tree.join("tables")).ok_or_else(damaged)
}

/// Levels, of runs, of tables: number, kind of checksum, checksum, number added to its versions.
fn parse(section: &[u8], folder: &Path) -> Option<Vec<Table>> {
    let mut rest = section;
    let mut tables = Vec::new();
    let [levels] = take(&mut rest)?;
    for _ in 0..levels {
        let [runs] = take(&mut rest)?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(take(&mut rest)?) {
                let number = u64::from_le_bytes(take(&mut rest)?);
                let [_kind] = take(&mut rest)?;
                let checksum = u128::from_le_bytes(take(&mut rest)?);
                let _added: [u8; 8] = take(&mut rest)?;
                let path = folder.join(number.to_string());
                tables.push(Table { path, checksum });
            }
        }
    }
    rest.is_empty().then_some(tables)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}
