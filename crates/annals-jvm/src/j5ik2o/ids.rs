//! Persistence ids: by a scan, as in the plugin.
//!
//! Guarantees: every id that has a row or a marker, each once.
//! Trusts: that all ids fit in memory.

use std::collections::HashSet;

use futures::stream::{BoxStream, StreamExt, TryStreamExt};

use super::format::J5ik2oRows;
use super::row::owner;
use crate::rows::{RowAppend, RowIds};
use annals::IdStream;
use annals::items::{Item, Scan};
use annals::layout::support::{ScannedEntry, SeenIds, stray_item};
use annals::verify::StoredKind;
use annals::{PersistenceId, Result};

impl RowIds for J5ik2oRows {
    fn scan_entries(&self) -> BoxStream<'static, Result<ScannedEntry>> {
        let format = self.clone();
        let mut ids = SeenIds::default();
        let items = self.base.store.scan_all(&self.base.table, Scan::whole());
        let entries = items.try_filter_map(move |item| {
            let entry = match format.owner_of(&item) {
                Some(id) => Ok(ids.first_seen(id)),
                None => format.base.table.key_of(&item).map(|key| {
                    let stray = stray_item(StoredKind::Event, format.base.table.name(), &key);
                    Some(ScannedEntry::Stray(stray))
                }),
            };
            std::future::ready(entry)
        });
        entries.boxed()
    }

    fn ids(&self, prefix: &str) -> IdStream {
        let (format, prefix) = (self.clone(), prefix.to_owned());
        let mut seen: HashSet<PersistenceId> = HashSet::new();
        let items = self.base.store.scan_all(&self.base.table, Scan::whole());
        let ids = items.try_filter_map(move |item| {
            let id = format.owner_of(&item);
            let id = id.filter(|id| id.as_str().starts_with(&prefix));
            std::future::ready(Ok(id.filter(|id| seen.insert(id.clone()))))
        });
        IdStream::new(ids)
    }

    async fn is_listed(&self, id: &PersistenceId) -> Result<bool> {
        if self.find(id, 1).await?.is_some() || self.marker_item(id).await?.is_some() {
            return Ok(true);
        }
        // Rows that were imported without the first ones.
        Ok(self.tail(id).await?.highest > 0)
    }
}

impl J5ik2oRows {
    pub(super) fn owner_of(&self, item: &Item) -> Option<PersistenceId> {
        owner(item, self.columns())?.parse().ok()
    }
}
