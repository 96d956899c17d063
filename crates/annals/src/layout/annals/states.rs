//! Durable state on the `annals` layout: one item per id, under `s:ID`.
//!
//! A deletion leaves an empty item with its revision.
//!
//! Guarantees: a written value is complete. A completed write is acknowledged, even if the chunks of
//! the previous value cannot be deleted. Items are never deleted, so a revision is never reused.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;

use super::body::WriteSet;
use super::chunks::ChunkedTable;
use super::envelope::{self, Envelope, Kind};
use super::{envelope_store, keys};
use crate::IdStream;
use crate::items::{Condition, Item, Scan, TableSpec, Value, WriteError};
use crate::state::{Revision, State, StateError, StateLayout};
use crate::store::Store;
use crate::verify::{Finding, FindingStream, Verify};
use crate::{PersistenceId, Result, Token};

/// A write of a value.
struct ValueWrite {
    /// The revision to replace; 0 for none.
    before: Revision,
    token: Token,
    item: Item,
}

/// Durable state of the `annals` layout.
#[derive(Clone, Debug)]
pub(super) struct AnnalsStates {
    table: ChunkedTable,
}

impl AnnalsStates {
    pub(super) fn open(store: Store, table: Arc<TableSpec>) -> Self {
        let table = ChunkedTable { store, table };
        Self { table }
    }

    async fn state_in(&self, id: &PersistenceId, item: &Item) -> Result<State> {
        Envelope::state(id, item)?.open_state(&self.table).await
    }

    /// Puts the item if the current revision is the one to replace; returns the replaced value if it
    /// had chunks.
    async fn replace(
        &self,
        state: &State,
        write: ValueWrite,
    ) -> Result<Option<Envelope>, StateError> {
        let (store, table) = (&self.table.store, &self.table.table);
        let ValueWrite {
            before,
            token,
            item,
        } = write;
        let mut condition = match before {
            0 => Condition::Absent,
            _ => envelope::at_revision(before, false),
        };
        let mut replaced = None;
        loop {
            let existing = match store.put(table, item.clone(), condition).await {
                Ok(_) => return Ok(replaced),
                Err(WriteError::Failed(error)) => return Err(error.into()),
                Err(WriteError::Refused { existing, .. }) => existing,
            };
            let found = existing.map(|item| Envelope::state(&state.persistence_id, &item));
            let found = found.transpose()?;
            let revision = found.as_ref().map_or(0, |found| found.number);
            match found {
                // Our own: its response was lost.
                Some(found) if found.token == token => return Ok(replaced),
                Some(found) if found.is_chunked() && revision == before && replaced.is_none() => {
                    condition = envelope::at_revision(before, true);
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
                Err(error) => found = envelope_store::reread(&self.table, &item, error).await?,
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
        let WriteSet { item, chunks } = Envelope::of_state(&state, token)?.write()?;
        let start = self.table.write(&chunks, state.time_ms).await?;
        let write = ValueWrite {
            before,
            token,
            item,
        };
        match self.replace(&state, write).await {
            Ok(replaced) => {
                self.table.rewrite_if_late(&chunks, start, false).await?;
                if let Some(old) = replaced {
                    self.table
                        .remove_obsolete(old.chunk_keys(), old.time_ms)
                        .await;
                }
                Ok(())
            }
            Err(conflict @ StateError::Conflict { .. }) => {
                self.table.remove_refused(&chunks, &[]).await;
                Err(conflict)
            }
            Err(error) => Err(error),
        }
    }

    fn verify(&self, id: Option<&PersistenceId>) -> FindingStream {
        envelope_store::verify(&self.table, Kind::State, id)
    }

    fn ids(&self, prefix: &str) -> IdStream {
        let prefix = prefix.to_owned();
        let all = self.table.store.scan_all(&self.table.table, Scan::whole());
        let ids = all.try_filter_map(move |item| {
            let partition = item.get("p").and_then(Value::as_str);
            let id = partition.and_then(keys::parse_owner);
            let id = id.filter(|id| id.as_str().starts_with(&prefix));
            std::future::ready(Ok(id))
        });
        IdStream::new(ids)
    }

    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        envelope_store::orphans(&self.table, Kind::State, older_than, verify).await
    }
}
