//! Batches, and what remains of them.
//!
//! Trusts: the store to cut a batch into requests and to bound how many are under way. One call for
//! all of them lets a store on one machine make them durable with one sync.

use std::collections::HashSet;
use std::sync::Arc;

use super::Log;
use crate::items::{Item, Key, TableSpec, Write};
use crate::{Error, Result};

/// How a batch of writes ended.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The keys of what was not confirmed.
    pub(super) remaining: HashSet<Key>,
    /// Why, where something was not.
    pub(super) failure: Option<Error>,
}

impl Log {
    /// What the keys name, in their order.
    pub(super) async fn get_all(
        &self,
        table: &Arc<TableSpec>,
        keys: Vec<Key>,
    ) -> Result<Vec<Option<Item>>> {
        Ok(self.items.get(table, keys).await?.items)
    }

    /// Puts and deletes, each once. What was not confirmed is named.
    pub(super) async fn write_all(&self, table: &Arc<TableSpec>, writes: Vec<Write>) -> Batch {
        let Err(error) = self.items.write(table, writes).await else {
            return Batch::default();
        };
        let key_of = |write: &Write| match write {
            Write::Put(item) => table.key_of(item).ok(),
            Write::Delete(key) => Some(key.clone()),
        };
        Batch {
            remaining: error.remaining.iter().filter_map(key_of).collect(),
            failure: Some(error.into()),
        }
    }
}
