//! Checks every byte of a store that nobody has open. Changes nothing.

use std::path::Path;

use super::errors;
use super::folder::Folder;
use super::index;
use super::log;
use crate::{Error, Result};

/// What [`Embedded::check_files`](super::Embedded::check_files) found.
#[derive(Debug)]
#[non_exhaustive]
#[doc(hidden)]
pub struct CheckedFiles {
    /// What is wrong: errors that name the file.
    pub findings: Vec<Error>,
    /// Frames of the log.
    pub frames: u64,
    /// Changes in them.
    pub changes: u64,
    /// Files of the index.
    pub tables: u64,
}

/// Checks the store in a folder. Calls `step` with the bytes that were read.
pub(super) fn check(folder: &Path, step: &mut dyn FnMut(u64)) -> Result<CheckedFiles> {
    // Held while reading.
    let _lock = Folder::lock_to_read(folder)?;
    let mut step = |bytes| {
        step(bytes);
        true
    };
    let log_folder = folder.join("log");
    let (mut findings, recovered, read) = log::check(&log_folder, &mut step);
    let tree = folder.join("index");
    let of_index = index::check::check(&tree, &mut step);
    findings.extend(of_index.findings);
    if let (Some(applied), Some(recovered)) = (of_index.applied, recovered) {
        let end = recovered.end.position;
        // An error is one of the log, which was found.
        if let Ok(false) = recovered.has_made(&log_folder, applied) {
            findings.push(errors::foreign_index(&tree));
        } else if applied.position > end {
            let lost = "the end of the log is lost; keep a copy of the folder and restore a backup";
            let lost = Error::corrupt(lost).fact("log ends at", end);
            findings.push(lost.fact("index ends at", applied.position));
        }
    }
    Ok(CheckedFiles {
        findings,
        frames: read.frames,
        changes: read.changes,
        tables: of_index.tables,
    })
}
