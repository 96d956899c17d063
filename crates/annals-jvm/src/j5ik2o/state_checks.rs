//! Checks of the state table: findings about its items, and settings that would misread them.

use super::states::J5ik2oStates;
use super::value::{self, Stored};
use annals::items::{Item, KeyPart, TableSpec};
use annals::layout::Hint;
use annals::layout::support::{Damage, Findings, error_chain, stray_item, unreadable_at};
use annals::verify::{Finding, Problem, Remedy, StoredKind, Verify};
use annals::{Error, ErrorKind, PersistenceId, Result};

/// Why a value that other settings read is left alone.
const OTHER_SETTINGS: &str = "it was written with other settings; with those it can be read";

impl J5ik2oStates {
    /// The id of a value or tombstone, where the item has it.
    pub(super) fn id_in(&self, item: &Item) -> Result<Option<PersistenceId>> {
        let key = self.table.key_of(item)?;
        // A tombstone has its id only in its sort key, unless a custom resolver made that.
        Ok(match (value::is_tombstone(&key), &key.sort) {
            (true, Some(KeyPart::S(id))) => id.parse().ok(),
            _ => self.values.owner(item),
        })
    }

    /// # Errors
    /// `Invalid` if an item of this id is under another key than these settings give: it would seem
    /// to be missing.
    pub(super) fn check_location(&self, id: &PersistenceId, item: &Item) -> Result<()> {
        let key = self.table.key_of(item)?;
        let location = self.location(id)?;
        let is_there = [&location.key, &location.tombstone].contains(&&key)
            && location.table.name() == self.table.name();
        match is_there {
            true => Ok(()),
            false => Err(Error::invalid(
                "a value is stored under another key than these settings give; set shard-count, persistence-id-separator and table-name-resolver-class-name of j5ik2o.dynamo-db-state to what the JVM has",
            )
            .fact("id", id)
            .fact("key", key)),
        }
    }

    /// Checks an item of the table.
    pub(super) fn check(&self, item: &Item) -> Result<Vec<Finding>> {
        let key = self.table.key_of(item)?;
        let Some(id) = self.id_in(item)? else {
            return Ok(vec![stray_item(StoredKind::Value, self.table.name(), &key)]);
        };
        let number = self.values.revision_in(item);
        let read = match value::is_tombstone(&key) {
            true => self.values.deleted_revision(item).map(|_| ()),
            false => self.check_value(&id, item),
        };
        let located = self.check_location(&id, item);
        match (read, located) {
            (Err(error), _) if error.kind() == ErrorKind::Corrupt => {
                Ok(unreadable_at(StoredKind::Value, &id, number, &error))
            }
            // A stray item with these settings.
            (_, Err(error)) => {
                let mut found = stray_item(StoredKind::Value, self.table.name(), &key);
                (found.detail, found.remedy) = (error_chain(&error), Remedy::Left(OTHER_SETTINGS));
                Ok(vec![found])
            }
            (Err(error), _) if error.kind() == ErrorKind::Invalid => {
                let check_only = Verify::Check.into();
                let mut findings = Findings::new(StoredKind::Value, &id, &check_only);
                let numbers = number..=number;
                let damage = Damage::new(Problem::Unreadable, numbers, error_chain(&error));
                findings.leave(damage, OTHER_SETTINGS);
                Ok(findings.finish())
            }
            (read, Ok(())) => read.map(|()| Vec::new()),
        }
    }

    fn check_value(&self, id: &PersistenceId, item: &Item) -> Result<()> {
        match self.values.stored(id, item)? {
            Stored::Begun(_) => Ok(()),
            Stored::Written {
                revision,
                is_deleted,
                ..
            } => {
                let state = self.values.state_in(id, item, (revision, is_deleted));
                state.map(|_| ())
            }
        }
    }
}

impl J5ik2oStates {
    /// Hints about items that these settings would misread.
    pub(super) fn hints(&self, table: &TableSpec, items: &[Item]) -> Result<Vec<Hint>> {
        let (mut values, mut elsewhere, mut of_v1) = (0, 0, 0);
        for item in items {
            let Some(id) = self.id_in(item)? else {
                continue;
            };
            values += 1;
            elsewhere += u32::from(self.check_location(&id, item).is_err());
            of_v1 += u32::from(self.values.is_of_v1(item));
        }
        let mut hints = Vec::new();
        if elsewhere > 0 {
            let detail = format!(
                "{elsewhere} of {values} values are stored under other keys than these settings give: they would seem to be missing; set shard-count, persistence-id-separator and table-name-resolver-class-name of j5ik2o.dynamo-db-state to what the JVM has"
            );
            hints.push(Hint::wrong(table, detail));
        }
        if of_v1 > 0 {
            let detail = format!(
                "{of_v1} of {values} values have a revision that only the plugin's v1 module stores: they cannot be read; set stored-revision of j5ik2o.dynamo-db-state to v1"
            );
            hints.push(Hint::wrong(table, detail));
        }
        Ok(hints)
    }
}
