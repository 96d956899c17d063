//! The rows of the view of ids.
//!
//! | attribute | |
//! | --- | --- |
//! | `w` | version: 16 hex digits, drawn anew for every write |
//! | `a` | a place of the feed: the row says what was true then or later |
//! | `q` `k` | for the index `by-key`: ids and tombstones; the id, cut to the size of a sort key |
//!
//! Guarantees: a row is written only over the version that was read. Ids are listed in the order of their
//! bytes, also those that are longer than a sort key.

use std::sync::Arc;

use futures::TryStreamExt;

use crate::items::{Condition, Cursor, Item, Query, SortRange, Write, WriteError};
use crate::projection::record::Records;
use crate::projection::table::{self, BY_KEY, IdsKey};
use crate::{Error, PersistenceId, Random, Result};

/// A stored row or tombstone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IdRow {
    /// The version to replace; empty: there is no item.
    version: String,
    /// It says what was true at this place of the feed or later.
    pub(super) at: u64,
    /// Whether the id is listed.
    pub(super) is_listed: bool,
}

impl IdRow {
    fn from_item(item: Option<&Item>, build: &IdsKey) -> Result<Self> {
        let Some(item) = item else {
            return Ok(Self::default());
        };
        let parse = || {
            Some(Self {
                version: item.text("w")?.to_owned(),
                at: item.u64("a")?,
                is_listed: item.text("q")? == build.rows(),
            })
        };
        parse().ok_or_else(|| {
            Error::corrupt(
                "a row of the view of ids does not parse; restore the store from a backup",
            )
            .fact("row", item.text("p").unwrap_or_default())
        })
    }

    fn to_item(&self, build: &IdsKey, id: &PersistenceId) -> Item {
        let partition = match self.is_listed {
            true => build.rows(),
            false => build.tombstones(),
        };
        table::item_of(&build.row(id))
            .with("w", self.version.as_str())
            .with("a", self.at)
            .with("q", partition)
            .with("k", table::sort_of_id(id.as_str()))
    }

    /// The condition of a write over this version.
    fn unchanged(&self) -> Condition {
        match self.version.is_empty() {
            true => Condition::Absent,
            false => Condition::Equals("w".into(), self.version.as_str().into()),
        }
    }

    fn renew(&mut self, random: &Random) {
        self.version = format!("{:016x}", random.bits());
    }
}

/// Which ids are wanted.
#[derive(Clone, Debug)]
pub(super) struct IdRange {
    pub(super) prefix: Arc<str>,
    pub(super) after: Option<PersistenceId>,
}

/// The rows of a build.
#[derive(Clone, Debug)]
pub(super) struct IdRows {
    pub(super) records: Records,
    pub(super) build: IdsKey,
}

impl IdRows {
    /// The rows of some ids, in their order.
    pub(super) async fn get(
        &self,
        ids: impl Iterator<Item = &PersistenceId>,
    ) -> Result<Vec<IdRow>> {
        let keys: Vec<_> = ids.map(|id| self.build.row(id)).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.records.store.get(&self.records.table, keys).await?;
        let found = found.items.iter();
        found
            .map(|item| IdRow::from_item(item.as_ref(), &self.build))
            .collect()
    }

    /// Writes a row over the version that it has. Returns the row that was there instead, if it changed.
    pub(super) async fn put(&self, id: &PersistenceId, mut row: IdRow) -> Result<Option<IdRow>> {
        let condition = row.unchanged();
        row.renew(self.records.store.random());
        let item = row.to_item(&self.build, id);
        let put = self.records.store.put(&self.records.table, item, condition);
        match put.await {
            Ok(_) => Ok(None),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => {
                let found = IdRow::from_item(existing.as_deref(), &self.build)?;
                // Our own, if its response was lost.
                Ok((found.version != row.version).then_some(found))
            }
        }
    }

    /// A page of ids, and what follows it.
    pub(super) async fn page(
        &self,
        mut range: IdRange,
        limit: u32,
    ) -> Result<(Vec<PersistenceId>, Option<IdRange>)> {
        let prefix = range.prefix.clone();
        // A prefix may be longer than a sort key.
        let sort = table::sort_of_id(&prefix);
        let mut query = Query::of(self.build.rows())
            .on(BY_KEY)
            .eventually()
            .limit(limit);
        if !sort.is_empty() {
            query = query.within(SortRange::BeginsWith(sort.into()));
        }
        if let Some(after) = &range.after {
            match after.as_str() {
                id if id.starts_with(sort) => query = query.after(self.cursor(after)),
                // All ids with the prefix are before it.
                id if id > &*prefix => return Ok((Vec::new(), None)),
                _ => {}
            }
        }
        let store = &self.records.store;
        let page = store.query(&self.records.table, query).await?;
        let is_last = page.next.is_none();
        let ids = page.items.iter().filter_map(|row| self.build.id_of(row));
        let mut ids: Vec<_> = ids.collect();
        let last = ids.last().cloned().filter(|_| !is_last);
        ids.retain(|id| id.as_str().starts_with(&*prefix));
        let rest = last.map(|last| {
            range.after = Some(last);
            range
        });
        Ok((ids, rest))
    }

    /// The position after an id, which need not have a row.
    fn cursor(&self, after: &PersistenceId) -> Cursor {
        let row = table::item_of(&self.build.row(after));
        let sort = table::sort_of_id(after.as_str());
        Cursor::new(row.with("q", self.build.rows()).with("k", sort))
    }

    /// Deletes everything of the build. Repeatable.
    pub(super) async fn drop_all(&self) -> Result<()> {
        let Records { store, table } = &self.records;
        for partition in [self.build.rows(), self.build.tombstones()] {
            let query = Query::of(partition).on(BY_KEY).eventually();
            let mut pages = store.query_pages(table, query);
            while let Some(page) = pages.try_next().await? {
                let keys = page.items.iter().map(|item| table.key_of(item));
                let deletes: Result<_> = keys.map(|key| Ok(Write::Delete(key?))).collect();
                store.write(table, deletes?).await?;
            }
        }
        Ok(())
    }
}
