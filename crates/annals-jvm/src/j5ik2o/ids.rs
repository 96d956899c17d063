//! Persistence ids: by a scan, as the plugin had no other way either.
//!
//! Promises: every id that has a row or a mark, each once.
//! Trusts: that all ids fit in memory.

use std::collections::HashSet;
use std::sync::Arc;

use futures::{Stream, TryStreamExt};

use super::journal::J5ik2oJournal;
use super::row::owner;
use annals::items::Scan;
use annals::journal::IdStream;
use annals::layout::support::{ScannedEntry, SeenIds, stray_item};
use annals::verify::StoredKind;
use annals::{PersistenceId, Result};

/// Everything there is in the table, row by row: whose it is, each id once, or that it is nobody's.
pub(super) fn met(
    journal: &J5ik2oJournal,
) -> impl Stream<Item = Result<ScannedEntry>> + Send + use<> {
    let (settings, table) = (journal.settings.clone(), journal.table.clone());
    let mut ids = SeenIds::default();
    let items = journal.store.scan_all(&table, Scan::whole());
    items.try_filter_map(move |item| {
        let columns = &settings.j5ik2o.dynamo_db_journal.columns_def;
        let owner = owner(&item, columns);
        let met = match owner.and_then(|id| id.parse::<PersistenceId>().ok()) {
            Some(id) => Ok(ids.first_seen(id)),
            None => table.key_of(&item).map(|key| {
                let stray = stray_item(StoredKind::Event, table.name(), &key);
                Some(ScannedEntry::Stray(stray))
            }),
        };
        std::future::ready(met)
    })
}

pub(super) fn all(journal: &J5ik2oJournal, prefix: &str) -> IdStream {
    let (settings, prefix) = (journal.settings.clone(), prefix.to_owned());
    let mut seen: HashSet<Arc<str>> = HashSet::new();
    let items = journal.store.scan_all(&journal.table, Scan::whole());
    let ids = items.try_filter_map(move |item| {
        let columns = &settings.j5ik2o.dynamo_db_journal.columns_def;
        let id = owner(&item, columns).filter(|id| id.starts_with(&prefix));
        let id = id.filter(|id| !seen.contains(*id));
        let found = id.map(|id| {
            seen.insert(id.into());
            id.parse::<PersistenceId>()
        });
        std::future::ready(found.transpose())
    });
    Box::pin(ids)
}
