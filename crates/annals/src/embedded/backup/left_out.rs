//! What an earlier point lacks, because it was deleted or overwritten later and is erased from the backup.
//!
//! Guarantees: an item may be left out only if it is known to be of a table whose items may be left out.
//! A value whose key is not known, or that is of any other table, makes the point one that cannot be
//! restored.
//!
//! One pass over all changes. An erased value was current at a point if it was written before it, and the
//! change that supersedes it comes after. The superseding change has the key if the erased one lost it.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::super::log::{self, Change, Position};
use super::super::{catalog, codec};
use super::manifest::Manifest;
use crate::items::{Key, TableName, TableSpec};
use crate::{Error, Result};

/// An item that is left out of the restored store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) table: TableName,
    pub(super) key: Key,
    /// Its key in the log, and its position.
    stored_key: Vec<u8>,
    position: Position,
}

impl LeftOut {
    /// What deletes it from the log: its key, and the change that the deletion supersedes.
    pub(super) fn deletion(&self) -> (&[u8], Position) {
        (&self.stored_key, self.position)
    }
}

/// Finds what a store that ends before `stop` has to leave out, which is of `tables`.
///
/// # Errors
/// `Invalid` if it would lack anything else.
pub(super) fn find(
    manifest: &Manifest,
    from: &Path,
    (stop, tables): (Position, &[TableName]),
) -> Result<Vec<LeftOut>> {
    let mut scan = Scan {
        stop,
        names: tables,
        ..Scan::default()
    };
    let mut erased_to = Position(0);
    for stored in &manifest.segments {
        let path = from.join(&stored.file);
        let erased = log::erased_in(&path, stored.number)?;
        erased_to = erased_to.max(erased.unwrap_or(Position(0)));
        log::each_change(&path, stored.number, |change| scan.take(change))?;
    }
    // Nothing superseded these: the tables were dropped.
    let dropped: Vec<_> = scan.pending.drain().collect();
    for (position, _) in dropped {
        scan.refuse(position, erased_to);
    }
    match scan.needs_refusal {
        true => Err(Error::invalid(
            "values of this point were deleted or overwritten later, and are erased from the backup; name a later one, or use an older backup",
        )
        .fact("earliest position", scan.earliest)),
        false => Ok(scan.left_out()),
    }
}

/// The pass over the changes.
#[derive(Default)]
struct Scan<'a> {
    stop: Position,
    /// Items of these tables may be left out.
    names: &'a [TableName],
    /// The tables whose items may be left out, by their number.
    tables: HashMap<u32, TableSpec>,
    /// Erased changes that nothing has superseded so far, each with its key if it has one.
    pending: HashMap<Position, Option<Vec<u8>>>,
    /// Changes of items before the stop that may be left out, and that nothing has superseded so far.
    current: HashMap<Position, Vec<u8>>,
    /// Those of them that were superseded after the stop.
    later: Vec<(Position, Vec<u8>)>,
    has_erased: bool,
    needs_refusal: bool,
    /// Every point from here on has all that must not be left out.
    earliest: Position,
}

impl Scan<'_> {
    fn take(&mut self, change: &Change<'_>) {
        if let Some((number, spec)) = catalog::record(change.key, change.value)
            && self.names.contains(spec.name())
            // Its entries would be left without their item.
            && spec.indexes().is_empty()
        {
            self.tables.insert(number, spec);
        }
        if let Some(superseded) = change.supersedes {
            self.supersede(superseded, change);
        }
        let is_optional = self.is_optional(change.key);
        if change.is_erased() {
            let key = codec::is_item(change.key).then(|| change.key.to_vec());
            self.pending.insert(change.position, key);
        }
        if is_optional && change.value.is_some() && change.position < self.stop {
            self.current.insert(change.position, change.key.to_vec());
        }
    }

    fn supersede(&mut self, superseded: Position, change: &Change<'_>) {
        if let Some(key) = self.current.remove(&superseded)
            && change.position >= self.stop
        {
            self.later.push((superseded, key));
        }
        let Some(key) = self.pending.remove(&superseded) else {
            return;
        };
        let key = key.as_deref().unwrap_or(change.key);
        match self.is_optional(key) {
            true => self.has_erased |= self.was_current(superseded, change.position),
            false => self.refuse(superseded, change.position),
        }
    }

    /// Whether a change was current at the stop.
    fn was_current(&self, position: Position, by: Position) -> bool {
        position < self.stop && by >= self.stop
    }

    /// An erased value must not be left out of a store in which it was current.
    fn refuse(&mut self, position: Position, by: Position) {
        self.needs_refusal |= self.was_current(position, by);
        self.earliest = self.earliest.max(by);
    }

    /// Whether the key is of an item that may be left out.
    fn is_optional(&self, key: &[u8]) -> bool {
        let table = codec::table_of(key).filter(|_| codec::is_item(key));
        table.is_some_and(|number| self.tables.contains_key(&number))
    }

    /// What to leave out. If a value is erased, also what was deleted later and is not erased yet: items
    /// may belong together.
    fn left_out(self) -> Vec<LeftOut> {
        let mut seen = HashSet::new();
        let later = self.later.into_iter().filter(|_| self.has_erased);
        let found = later.filter_map(|(position, stored_key)| {
            let table = self.tables.get(&codec::table_of(&stored_key)?)?;
            let prefix = codec::items_prefix(codec::table_of(&stored_key)?);
            let key = codec::decode_key(table.key(), stored_key.strip_prefix(&*prefix)?).ok()?;
            seen.insert(stored_key.clone()).then(|| LeftOut {
                table: table.name().clone(),
                key,
                stored_key,
                position,
            })
        });
        found.collect()
    }
}
