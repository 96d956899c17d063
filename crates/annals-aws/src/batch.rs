//! Batch get and batch write of any size: split into requests, several in flight at once, and
//! unprocessed entries sent again.
//!
//! Guarantees: every key is read and every write confirmed, or the error names exactly the writes that
//! were not. A partial response is followed up at once (a response holds at most 16 MB); only an empty
//! one counts as throttling. Never sends a key twice in one request, which DynamoDB rejects.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use annals::items::limits::GET_BATCH_MAX;
use annals::items::{
    BatchError, Cost, Got, Item, Key, TableSpec, Write, check_key, check_writes, item_size,
};
use annals::{Error, Result};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::WriteRequest;
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::attribute::item_of;
use crate::client::DynamoDb;
use crate::error::Trouble;
use crate::items::TOTAL;
use crate::retry::Call;
use crate::{capacity, request};

/// The items found under some of the keys.
struct Found {
    items: HashMap<Key, Item>,
    cost: Cost,
}

impl Found {
    fn empty() -> Self {
        Self {
            items: HashMap::new(),
            cost: Cost::ZERO,
        }
    }

    fn add(&mut self, more: Self) {
        self.items.extend(more.items);
        self.cost += more.cost;
    }
}

impl DynamoDb {
    pub(crate) async fn get_batch(&self, table: &TableSpec, keys: &[Key]) -> Result<Got> {
        keys.iter().try_for_each(|key| check_key(table, key))?;
        let mut seen = HashSet::with_capacity(keys.len());
        let distinct: Vec<&Key> = keys.iter().filter(|key| seen.insert(*key)).collect();
        let mut found = match distinct.as_slice() {
            [key] => self.get_one(table, key).await?,
            distinct => self.get_chunks(table, distinct).await?,
        };
        let items = keys.iter().map(|key| match distinct.len() == keys.len() {
            true => found.items.remove(key),
            false => found.items.get(key).cloned(),
        });
        Ok(Got::new(items.collect(), found.cost))
    }

    async fn get_one(&self, table: &TableSpec, key: &Key) -> Result<Found> {
        let mut call = self.sender.call();
        let answer = call.send(|| {
            let request = self.client.get_item().table_name(table.name().as_str());
            request
                .set_key(Some(request::key(table, key)))
                .consistent_read(true)
                .return_consumed_capacity(TOTAL)
                .send()
        });
        let answer = answer.await.map_err(|f| f.into_error(table.name()))?;
        let item = answer.item.map(item_of).transpose()?;
        let size = item.as_ref().map_or(0, item_size);
        let unbilled = || Cost::of_read(size, Default::default());
        let cost = capacity::read(&answer.consumed_capacity).unwrap_or_else(unbilled);
        Ok(Found {
            items: item.map(|item| (key.clone(), item)).into_iter().collect(),
            cost: cost.in_requests(call.requests()),
        })
    }

    async fn get_chunks(&self, table: &TableSpec, keys: &[&Key]) -> Result<Found> {
        let chunks = keys.chunks(GET_BATCH_MAX).map(<[_]>::to_vec);
        let chunks: Vec<_> = chunks.map(|keys| self.get_chunk(table, keys)).collect();
        let answers = stream::iter(chunks).buffer_unordered(self.batch_concurrency);
        let merge = |mut all: Found, some: Found| async move {
            all.add(some);
            Ok(all)
        };
        answers.try_fold(Found::empty(), merge).await
    }

    async fn get_chunk(&self, table: &TableSpec, keys: Vec<&Key>) -> Result<Found> {
        let mut call = self.sender.call();
        let mut wanted: Vec<Key> = keys.into_iter().cloned().collect();
        let mut found = Found::empty();
        while !wanted.is_empty() {
            let (some, left) = self.get_once(table, &wanted, &mut call).await?;
            let is_stuck = left.len() >= wanted.len();
            found.add(some);
            wanted = left;
            if is_stuck {
                let cause = Error::unavailable("DynamoDB left keys unprocessed");
                let cause = cause.fact("keys", wanted.len());
                call.pause(Trouble::Throttled, cause).await?;
            }
        }
        found.cost = found.cost.in_requests(call.requests());
        Ok(found)
    }

    /// Requests the keys once. Returns the items found, and the unprocessed keys.
    async fn get_once(
        &self,
        table: &TableSpec,
        wanted: &[Key],
        call: &mut Call<'_>,
    ) -> Result<(Found, Vec<Key>)> {
        let answer = call.send(|| async {
            let keys = request::keys(table, wanted).map_err(SdkError::construction_failure)?;
            let request = self.client.batch_get_item();
            request
                .request_items(table.name().as_str(), keys)
                .return_consumed_capacity(TOTAL)
                .send()
                .await
        });
        let answer = answer.await.map_err(|f| f.into_error(table.name()))?;
        let unprocessed = answer.unprocessed_keys.unwrap_or_default().into_values();
        let left = unprocessed.flat_map(|keys| keys.keys);
        let left = left.map(|key| table.key_of(&item_of(key)?));
        let left = left.collect::<Result<Vec<Key>>>()?;
        let responses = answer.responses.unwrap_or_default();
        let items = responses.into_values().flatten().map(|item| {
            let item = item_of(item)?;
            Ok((table.key_of(&item)?, item))
        });
        let items = items.collect::<Result<HashMap<Key, Item>>>()?;
        let sizes = items.values().map(item_size);
        // An absent key is billed like the smallest item.
        let missing = wanted.len().saturating_sub(left.len() + items.len());
        let sizes = sizes.chain(std::iter::repeat_n(0, missing));
        let unbilled = sizes.map(|size| Cost::of_read(size, Default::default()));
        let consumed = answer.consumed_capacity.iter().flatten();
        let cost = capacity::read(consumed).unwrap_or_else(|| unbilled.sum());
        Ok((Found { items, cost }, left))
    }
}

/// A write that is not confirmed yet: its index among the caller's writes, and its key.
#[derive(Clone, Copy)]
struct Pending<'a> {
    index: usize,
    key: &'a Key,
    write: &'a Write,
}

/// The outcome of a chunk of writes: its cost, the unconfirmed writes, and why.
struct ChunkOutcome<'a> {
    cost: Cost,
    pending: Vec<Pending<'a>>,
    cause: Option<Error>,
}

impl DynamoDb {
    pub(crate) async fn write_batch(
        &self,
        table: &TableSpec,
        writes: Vec<Write>,
    ) -> Result<Cost, BatchError> {
        let keys = match check_writes(table, &writes) {
            Ok(keys) => keys,
            Err(cause) => {
                return Err(BatchError::new(writes, Cost::ZERO, cause));
            }
        };
        let (cost, pending, cause) = self.write_chunks(table, &writes, &keys).await;
        let Some(cause) = cause else {
            return Ok(cost);
        };
        let all = writes.into_iter().enumerate();
        let remaining = all.filter(|(index, _)| pending.contains(index));
        let remaining = remaining.map(|(_, write)| write).collect();
        Err(BatchError::new(remaining, cost, cause))
    }

    /// Writes the chunks. Returns the cost, the indexes of the unconfirmed writes, and why.
    async fn write_chunks(
        &self,
        table: &TableSpec,
        writes: &[Write],
        keys: &[Key],
    ) -> (Cost, BTreeSet<usize>, Option<Error>) {
        let pending = writes.iter().zip(keys).enumerate();
        let pending = pending.map(|(index, (write, key))| Pending { index, key, write });
        let has_failed = AtomicBool::new(false);
        let chunks = request::chunks(pending, |pending| pending.write);
        let chunks: Vec<_> = chunks
            .into_iter()
            .map(|chunk| self.write_chunk(table, chunk, &has_failed))
            .collect();
        let mut outcomes = stream::iter(chunks).buffer_unordered(self.batch_concurrency);
        let (mut cost, mut remaining, mut cause) = (Cost::ZERO, BTreeSet::new(), None);
        while let Some(chunk) = outcomes.next().await {
            cost += chunk.cost;
            remaining.extend(chunk.pending.iter().map(|pending| pending.index));
            cause = cause.or(chunk.cause);
        }
        (cost, remaining, cause)
    }

    async fn write_chunk<'a>(
        &self,
        table: &TableSpec,
        mut pending: Vec<Pending<'a>>,
        has_failed: &AtomicBool,
    ) -> ChunkOutcome<'a> {
        let mut call = self.sender.call();
        let mut units = Cost::ZERO;
        let mut cause = None;
        // After a failure no other chunk starts: it would wait for another deadline to fail the same
        // way. Chunks in flight finish.
        while cause.is_none() && !pending.is_empty() {
            if call.requests() == 0 && has_failed.load(Ordering::Relaxed) {
                break;
            }
            let sent = self.write_once(table, &pending, &mut call).await;
            match sent {
                Ok((cost, left)) => {
                    units += cost;
                    let before = pending.len();
                    pending.retain(|pending| left.contains(pending.key));
                    let n = pending.len();
                    if n == before {
                        let left = Error::unavailable("DynamoDB left writes unprocessed");
                        let left = left.fact("writes", n);
                        cause = call.pause(Trouble::Throttled, left).await.err();
                    }
                }
                Err(error) => cause = Some(error),
            }
        }
        if cause.is_some() {
            has_failed.store(true, Ordering::Relaxed);
        }
        ChunkOutcome {
            cost: units.in_requests(call.requests()),
            pending,
            cause,
        }
    }

    /// Sends the writes once. Returns the cost and the unprocessed keys.
    async fn write_once(
        &self,
        table: &TableSpec,
        pending: &[Pending<'_>],
        call: &mut Call<'_>,
    ) -> Result<(Cost, HashSet<Key>)> {
        let answer = call.send(|| async {
            let writes = pending.iter().map(|p| request::write(table, p.write));
            let writes = writes.collect::<Result<Vec<_>, _>>();
            let writes = writes.map_err(SdkError::construction_failure)?;
            let request = self.client.batch_write_item();
            request
                .request_items(table.name().as_str(), writes)
                .return_consumed_capacity(TOTAL)
                .send()
                .await
        });
        let answer = answer.await.map_err(|f| f.into_error(table.name()))?;
        let unprocessed = answer.unprocessed_items.unwrap_or_default();
        let unprocessed = unprocessed.into_values().flatten();
        let left = unprocessed.filter_map(|write| unprocessed_key(table, write).transpose());
        let left = left.collect::<Result<HashSet<Key>>>()?;
        let confirmed = pending.iter().filter(|p| !left.contains(p.key));
        let unbilled = confirmed.map(|p| match p.write {
            Write::Put(item) => Cost::of_write(table, None, Some(item)),
            Write::Delete(_) => Cost::of_sizes(None, None),
        });
        let consumed = answer.consumed_capacity.iter().flatten();
        let cost = capacity::written(consumed).unwrap_or_else(|| unbilled.sum());
        Ok((cost, left))
    }
}

/// The key of an unprocessed write.
fn unprocessed_key(table: &TableSpec, write: WriteRequest) -> Result<Option<Key>> {
    let put = write.put_request.map(|put| put.item);
    let attributes = put.or(write.delete_request.map(|delete| delete.key));
    let item = attributes.map(item_of).transpose()?;
    item.map(|item| table.key_of(&item)).transpose()
}
