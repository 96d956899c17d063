//! What the feed needs to know about the `j5ik2o` layout: whose item a change is, and where a purge
//! ends.
//!
//! The keys of rows do not have the id, and resolvers may be anything: the item has it. If the value of
//! a row was erased, the item that is there now still has it, since a deletion keeps the row. After a
//! purge it is unknown; the marker names the id then.

use super::format::J5ik2oRows;
use super::marker;
use crate::rows::{FedItem, Row, RowFeed, RowTable};
use annals::items::{Change, Changed, Item, Key};
use annals::{PersistenceId, Result};

impl RowFeed for J5ik2oRows {
    fn fed_item(&self, change: &Change) -> Option<(PersistenceId, FedItem)> {
        if let Some(id) = self.keys.marked_id(&change.key) {
            return Some((id, FedItem::LowMarker));
        }
        match &change.now {
            Changed::Put(item) => Some((self.owner_of(item)?, FedItem::Row(None))),
            Changed::Erased | Changed::Deleted => None,
        }
    }

    fn low_in(&self, _: &PersistenceId, marker: &Item) -> Result<u64> {
        Ok(marker::decode(marker)?.low)
    }

    fn ends_purge(&self, item: FedItem) -> bool {
        item == FedItem::LowMarker
    }

    async fn row_under(&self, key: &Key) -> Result<Option<(PersistenceId, Row)>> {
        let found = self.base.store.get(&self.base.table, vec![key.clone()]);
        let Some(item) = found.await?.items.into_iter().flatten().next() else {
            return Ok(None);
        };
        match self.owner_of(&item) {
            Some(id) => Ok(Some((id, self.row(item)?))),
            None => Ok(None),
        }
    }
}
