//! Our own tables, and the journal in them: `docs/format.md` tells their bytes.

mod append;
mod blob;
mod body;
mod commit;
mod deletion;
mod frame;
mod heads;
mod journal;
mod keys;
mod lookup;
mod opening;
mod packing;
mod parts;
mod record;
mod replay;
mod sealed;
mod skipping;
mod snapshots;
mod states;
mod verify;

pub use journal::AnnalsJournal;
pub use snapshots::AnnalsSnapshots;
pub use states::AnnalsStates;

use super::{Tables, name_or};
use crate::Result;
use crate::items::{KeyAttribute, KeySchema, TableSpec};
use crate::settings::Settings;

/// One-letter names, because every item pays for them: `p` is the partition, `n` the number.
pub(super) fn tables(settings: &Settings) -> Result<Tables> {
    let partition = KeySchema::new(KeyAttribute::text("p"));
    let numbered = partition.clone().sorted(KeyAttribute::number("n"));
    let journal = name_or(settings.journal_table.as_ref(), "annals-journal")?;
    let snapshot = name_or(settings.snapshot_table.as_ref(), "annals-snapshot")?;
    let state = name_or(settings.state_table.as_ref(), "annals-state")?;
    Ok(Tables {
        journal: TableSpec::new(journal, numbered.clone())?,
        snapshot: TableSpec::new(snapshot, numbered)?,
        state: Some(TableSpec::new(state, partition)?),
    })
}
