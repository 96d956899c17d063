//! Durable state on the `annals` layout: one item for each id, under `s:ID`.
//!
//! A deleted value leaves its item behind, emptied, with the revision of the deletion.
//!
//! Promises: a value that was written is whole; a write that has landed is told so, also where the
//! parts of the value before it could not be deleted.
//! Never: deletes an item, so a revision never comes back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;

use super::body::Written;
use super::parts::PartedTable;
use super::sealed::{self, Kind, Sealed};
use super::{keys, opening};
use crate::IdStream;
use crate::items::{Condition, Item, Scan, TableSpec, Value, WriteError, scan_all};
use crate::state::{Revision, State, StateError, StateLayout};
use crate::store::Store;
use crate::verify::{Finding, FindingStream, Verify};
use crate::{PersistenceId, Result, Token};

/// Durable state of the `annals` layout.
#[derive(Clone, Debug)]
pub(super) struct AnnalsStates {
    table: PartedTable,
}

impl AnnalsStates {
    pub(super) fn open(store: Store, table: Arc<TableSpec>) -> Self {
        let table = PartedTable { store, table };
        Self { table }
    }

    async fn state_in(&self, id: &PersistenceId, item: &Item) -> Result<State> {
        Sealed::state(id, item)?.open_state(&self.table).await
    }

    /// Puts the item if the revision before it is there; answers what that was, if it had parts.
    async fn replace(
        &self,
        (state, before, token): (&State, Revision, Token),
        item: Item,
    ) -> Result<Option<Sealed>, StateError> {
        let (items, table) = (&self.table.store, &self.table.table);
        let mut condition = match before {
            0 => Condition::Absent,
            _ => sealed::at_revision(before, false),
        };
        let mut replaced = None;
        loop {
            let existing = match items.put(table, item.clone(), condition).await {
                Ok(_) => return Ok(replaced),
                Err(WriteError::Failed(error)) => return Err(error.into()),
                Err(WriteError::Refused { existing, .. }) => existing,
            };
            let found = existing.map(|item| Sealed::state(&state.persistence_id, &item));
            let found = found.transpose()?;
            let revision = found.as_ref().map_or(0, |found| found.number);
            match found {
                // Our own, whose answer was lost.
                Some(found) if found.token == token => return Ok(replaced),
                Some(found) if found.is_in_parts() && revision == before && replaced.is_none() => {
                    condition = sealed::at_revision(before, true);
                    replaced = Some(found);
                }
                _ => {
                    return Err(StateError::Conflict {
                        id: state.persistence_id.clone(),
                        revision: state.revision,
                        found: revision,
                    });
                }
            }
        }
    }
}

#[async_trait]
impl StateLayout for AnnalsStates {
    async fn get(&self, id: &PersistenceId) -> Result<Option<State>> {
        let mut found = self.table.get(keys::state(id)).await?;
        while let Some(item) = found {
            match self.state_in(id, &item).await {
                Ok(state) => return Ok(Some(state)),
                Err(lost) => found = opening::reread(&self.table, &item, lost).await?,
            }
        }
        Ok(None)
    }

    async fn put(&self, state: State) -> Result<(), StateError> {
        let before = state.revision - 1;
        self.put_over(state, before).await
    }

    async fn put_over(&self, state: State, before: Revision) -> Result<(), StateError> {
        let token = Token::draw(self.table.store.random());
        let begun = self.table.begin(state.time_ms);
        let Written { item, parts } = Sealed::of_state(&state, token)?.write()?;
        self.table.write(&parts, begun).await?;
        match self.replace((&state, before, token), item).await {
            Ok(replaced) => {
                self.table.settle(&parts, begun, false).await?;
                if let Some(old) = replaced {
                    self.table.clean_up(old.part_keys(), old.time_ms).await;
                }
                Ok(())
            }
            Err(conflict @ StateError::Conflict { .. }) => {
                self.table.take_back(&parts, &[]).await;
                Err(conflict)
            }
            Err(error) => Err(error),
        }
    }

    fn verify(&self, whose: Option<&PersistenceId>) -> FindingStream {
        opening::verify((&self.table, Kind::State), whose)
    }

    fn ids(&self, prefix: &str) -> IdStream {
        let (items, table) = (self.table.store.items().clone(), self.table.table.clone());
        let prefix = prefix.to_owned();
        let all = scan_all(items, table, Scan::whole());
        let ids = all.try_filter_map(move |item| {
            let partition = item.get("p").and_then(Value::as_str);
            let id = partition.and_then(keys::parse_state);
            let id = id.filter(|id| id.as_str().starts_with(&prefix));
            std::future::ready(Ok(id))
        });
        Box::pin(ids)
    }

    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        opening::orphans((&self.table, Kind::State), older_than, verify).await
    }
}
