//! Backups of an embedded store: consistent, incremental, and while its owner writes.
//!
//! ```text
//! BACKUP                          marks the folder; locked while it is used
//! MANIFEST                        the files of the backup, with checksums; replaced last
//! 0000000000000000-CHECKSUM.log   copies of segments, up to the end of the log
//! ```
//!
//! Guarantees: the folder always holds a complete backup, the one before or the new one, whenever the
//! process is killed. Every file that is copied is read back and checked frame by frame. A backup only
//! ever extends the history of the one before it in the same folder: one that ends at a frame that the
//! store does not have is of another history, and is refused. A restore checks every file before it
//! puts anything in place.

mod disk;
mod left_out;
mod manifest;
mod restoring;
mod take;

#[cfg(test)]
mod rewritten_tests;
#[cfg(test)]
mod tests;

pub(crate) use self::restoring::Prepared;
pub use self::restoring::{RestorePoint, Restored, restore};
pub use self::take::{BackupReport, backup};
