//! Batches with a bounded number of requests under way.

use std::collections::HashSet;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};

use super::Log;
use crate::items::limits::{GET_BATCH_MAX, WRITE_BATCH_MAX};
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
        let chunks: Vec<Vec<Key>> = keys.chunks(GET_BATCH_MAX).map(<[Key]>::to_vec).collect();
        let got = stream::iter(chunks)
            .map(|keys| self.items.get(table, keys))
            .buffered(self.settings.concurrency);
        let got: Vec<_> = got.map_ok(|got| got.items).try_collect().await?;
        Ok(got.into_iter().flatten().collect())
    }

    /// Puts and deletes, each once. What was not confirmed is named.
    pub(super) async fn write_all(&self, table: &Arc<TableSpec>, writes: Vec<Write>) -> Batch {
        let chunks: Vec<Vec<Write>> = writes
            .chunks(WRITE_BATCH_MAX)
            .map(<[Write]>::to_vec)
            .collect();
        let ended = stream::iter(chunks)
            .map(|writes| self.items.write(table, writes))
            .buffer_unordered(self.settings.concurrency);
        let key_of = |write: &Write| match write {
            Write::Put(item) => table.key_of(item).ok(),
            Write::Delete(key) => Some(key.clone()),
        };
        let fold = |mut batch: Batch, ended| async move {
            if let Err(error) = ended {
                let error: crate::items::BatchError = error;
                batch
                    .remaining
                    .extend(error.remaining.iter().filter_map(key_of));
                batch.failure.get_or_insert(error.into());
            }
            batch
        };
        ended.fold(Batch::default(), fold).await
    }
}
