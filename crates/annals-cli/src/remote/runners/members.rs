//! The records of the view's shares and runners, read as they are stored (`docs/format.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use annals::Annals;
use annals::items::{KeyAttribute, KeySchema, Query, TableSpec};
use annals::projection::View;
use futures::TryStreamExt;
use serde_json::Value as Json;

use super::chains::Chains;

/// The table of projections.
pub(super) fn table() -> Arc<TableSpec> {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::text("n"));
    Arc::new(TableSpec::new("annals-projection".parse().unwrap(), key).unwrap())
}

/// The shares and runners at one moment.
#[derive(Debug)]
pub(super) struct Members {
    /// The owner of each share; empty: nobody.
    pub(super) owners: Vec<String>,
    /// How often each runner has looked around.
    pub(super) looks: BTreeMap<String, u64>,
}

impl Members {
    pub(super) async fn read(annals: &Annals, table: &Arc<TableSpec>) -> Self {
        let query = Query::of(format!("s:{}:1", Chains::NAME));
        let items = annals.store().query_all(table, query);
        let items: Vec<_> = items.try_collect().await.unwrap();
        let (mut owners, mut looks) = (Vec::new(), BTreeMap::new());
        for item in items {
            let name = item.text("n").unwrap();
            if let Some(id) = name.strip_prefix("runner:") {
                // A runner counts its announcements in the version.
                let (_, count) = item.text("w").unwrap().split_once('.').unwrap();
                looks.insert(id.to_owned(), count.parse().unwrap());
            } else if name.starts_with("share:") {
                let content: Json = serde_json::from_str(item.text("c").unwrap()).unwrap();
                owners.push(content["owner"].as_str().unwrap().to_owned());
            }
        }
        Self { owners, looks }
    }

    /// Whether there are so many runners, and only they own shares.
    pub(super) fn are_settled(&self, runners: usize, shares: u16) -> bool {
        self.looks.len() == runners
            && self.owners.len() == usize::from(shares)
            && self
                .owners
                .iter()
                .all(|owner| self.looks.contains_key(owner))
    }

    /// The runners that have looked around at least twice since an earlier moment.
    pub(super) fn alive_since(&self, before: &Self) -> BTreeSet<String> {
        let looked = |id: &&String| {
            let since = before.looks.get(*id).copied().unwrap_or(0);
            self.looks.get(*id).is_some_and(|looks| *looks >= since + 2)
        };
        self.looks.keys().filter(looked).cloned().collect()
    }
}
