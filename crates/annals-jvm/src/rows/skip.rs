//! Skips sequence numbers without events, for a copy that keeps the numbers of its source.
//!
//! Stored as a deleted history, or as an abandoned batch. Repeatable and resumable; never overwrites
//! a key. Numbers that are skipped as deleted must have no events.

use super::format::{RowDelete, RowTable};
use super::row::Row;
use annals::items::Item;
use annals::journal::Skip;
use annals::{Error, PersistenceId, Result};

pub(super) async fn skip<F: RowDelete>(format: &F, id: &PersistenceId, skip: Skip) -> Result<()> {
    format.prepare().await?;
    let tail = format.tail(id).await?;
    match skip.is_deleted {
        true => format.skip_deleted(id, skip, &tail).await,
        false => format.skip_between(id, skip, &tail).await,
    }
}

/// Puts a row that does not count, unless an equivalent one is stored.
pub(crate) async fn put_placeholder<F: RowTable>(
    format: &F,
    id: &PersistenceId,
    item: Item,
    is_same: impl Fn(&Row, &Row) -> bool,
) -> Result<()> {
    let row = format.row(item.clone())?;
    let Some(existing) = format.base().put_new(item).await? else {
        return Ok(());
    };
    format.check_owner(id, row.number, &existing)?;
    match is_same(&row, &format.row(existing)?) {
        true => Ok(()),
        false => Err(in_use(id, row.number)),
    }
}

pub(crate) fn in_use(id: &PersistenceId, number: u64) -> Error {
    Error::conflict("another writer appends to this id; skip again when none does")
        .fact("id", id)
        .fact("number", number)
}
