//! Changes as the decider takes them: items with their keys, encoded by the caller to relieve it.

use lsm_tree::Slice;

use super::catalog::Table;
use super::codec;
use super::decider::{self, Change, NewItem};
use super::group::GROUP_BYTES_MAX;
use crate::Result;
use crate::items::check::{Checked, check_item};
use crate::items::{Cost, Item, Key, TableSpec, Write};

pub(super) fn put_change(table: &Table, item: &Item, checked: &Checked) -> Result<Change> {
    let key = stored_key(table, &checked.key);
    let cost = match table.spec.indexes() {
        [] => Cost::of_sizes(None, Some(checked.size)),
        _ => Cost::of_write(&table.spec, None, Some(item)),
    };
    let new = NewItem {
        bytes: Slice::from(codec::encode_item(item, checked.size)),
        size: checked.size,
        entry_keys: decider::entry_keys(table, &key, item)?,
        cost,
    };
    Ok(Change {
        key,
        new: Some(new),
    })
}

/// The key in the engine: the table's number, then the key.
pub(super) fn stored_key(table: &Table, key: &Key) -> Slice {
    codec::with_key(codec::items_prefix(table.number), key).into()
}

pub(super) fn delete_change(table: &Table, key: &Key) -> Change {
    Change {
        key: stored_key(table, key),
        new: None,
    }
}

/// The changes of writes that were checked by `spec`. Puts are checked by the stored spec too, as the
/// caller's may lack indexes.
pub(super) fn changes_of(
    table: &Table,
    spec: &TableSpec,
    writes: &[Write],
    checked: Vec<Checked>,
) -> Result<Vec<Change>> {
    let is_same = table.spec == *spec;
    let changes = writes
        .iter()
        .zip(checked)
        .map(|(write, checked)| match write {
            Write::Put(item) => {
                let checked = match is_same {
                    true => checked,
                    false => check_item(&table.spec, item)?,
                };
                put_change(table, item, &checked)
            }
            Write::Delete(key) => Ok(delete_change(table, key)),
        });
    changes.collect()
}

/// How many of the changes make a group, at least one.
pub(super) fn group_len(changes: &[Change]) -> usize {
    let sizes = changes.iter().scan(0, |bytes, change| {
        *bytes += change.bytes();
        Some(*bytes)
    });
    let fitting = sizes.take_while(|bytes| *bytes <= GROUP_BYTES_MAX);
    fitting.count().max(1)
}
