//! What the feed needs to know about the `akka` layout: whose item a key is, and where a purge ends.

use super::format::AkkaRows;
use super::markers::value_of;
use crate::rows::{FedItem, RowFeed};
use annals::items::{Change, Item};
use annals::{PersistenceId, Result};

impl RowFeed for AkkaRows {
    fn fed_item(&self, change: &Change) -> Option<(PersistenceId, FedItem)> {
        self.keys.parse_key(&change.key)
    }

    fn low_in(&self, id: &PersistenceId, marker: &Item) -> Result<u64> {
        value_of(marker, id)
    }

    /// The first row. If deletions remove rows, it may be gone long before, but then there is a low
    /// marker, or several in different shards.
    fn ends_purge(&self, item: FedItem) -> bool {
        match self.jvm_deletes() {
            true => item == FedItem::LowMarker,
            false => item == FedItem::Row(Some(1)),
        }
    }

    fn frees_keys(&self) -> bool {
        self.jvm_deletes()
    }
}
