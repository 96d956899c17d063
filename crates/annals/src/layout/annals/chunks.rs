//! Chunks: payloads that are too large for one item.
//!
//! Chunks are written before the item that refers to them and are ignored without it. A write that is
//! interrupted between the two leaves orphaned chunks, and so does an interrupted replacement or
//! deletion. A sweep finds them.
//!
//! Guarantees: an acknowledged item keeps its chunks, also if its writer stalled for longer than the
//! sweep waits. A write never fails because of the cleanup. Relies on the clocks of writers and
//! sweepers differing by less than `SWEEP_AGE_MIN` minus `WRITE_MAX`.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::body::{BodyBytes, CHUNK_TIME, ChunkSummary};
use super::keys::ChunkOwner;
use crate::items::{Condition, Item, Key, Scan, TableSpec, Value, Write, WriteError};
use crate::store::Store;
use crate::verify::report::{Damage, Findings};
use crate::verify::{Finding, Problem, StoredKind, Verify};
use crate::{Error, PersistenceId, Result};

/// Minimum age of swept chunks: younger ones may belong to a write in flight.
const SWEEP_AGE_MIN: Duration = Duration::from_secs(60 * 60);
/// Maximum duration of writing chunks: the item is not put if they are older.
const WRITE_MAX: Duration = Duration::from_secs(10 * 60);
/// Concurrent deletions: each is a conditional request.
const CONCURRENT_DELETES: usize = 16;

/// A table whose items may have chunks.
#[derive(Clone, Debug)]
pub(super) struct ChunkedTable {
    pub(super) store: Store,
    pub(super) table: Arc<TableSpec>,
}

/// The start of a write by both clocks: one may be set back, the other may stop while the machine
/// sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteStart {
    monotonic: Duration,
    time_ms: u64,
}

/// A chunk, as a sweep finds it.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) key: Key,
    pub(super) id: PersistenceId,
    pub(super) owner: ChunkOwner,
    /// Whether it is too old to belong to a write in flight.
    pub(super) is_old: bool,
    time: Option<Value>,
}

/// Parses the partition key of a chunk.
pub(super) type ParseChunk = fn(&str) -> Option<(PersistenceId, ChunkOwner)>;

impl ChunkedTable {
    /// Whether the chunks of a write may be old enough for a sweep.
    fn is_late(&self, start: WriteStart) -> bool {
        let passed = self
            .store
            .clock()
            .monotonic()
            .saturating_sub(start.monotonic);
        let passed_ms = self.store.clock().now_ms().saturating_sub(start.time_ms);
        passed.max(Duration::from_millis(passed_ms)) > WRITE_MAX
    }

    async fn put_all(&self, chunks: Vec<Item>) -> Result<()> {
        // Usually there are no chunks.
        if !chunks.is_empty() {
            let writes = chunks.into_iter().map(Write::Put).collect();
            self.store.write(&self.table, writes).await?;
        }
        Ok(())
    }

    /// Writes chunks, before the item that refers to them; returns when that began. `time_ms` is the
    /// time in the chunks.
    pub(super) async fn write(&self, chunks: &[Item], time_ms: u64) -> Result<WriteStart> {
        let monotonic = self.store.clock().monotonic();
        let start = WriteStart { monotonic, time_ms };
        self.put_all(chunks.to_vec()).await?;
        if !chunks.is_empty() && self.is_late(start) {
            return Err(Error::unavailable(
                "writing a large payload took too long; try again",
            ));
        }
        Ok(start)
    }

    /// Writes the chunks of a completed write again if they may have been swept: because the write
    /// was late, or `is_doubtful`. They get another time, so that a pending deletion is refused.
    pub(super) async fn rewrite_if_late(
        &self,
        chunks: &[Item],
        start: WriteStart,
        is_doubtful: bool,
    ) -> Result<()> {
        if !is_doubtful && !self.is_late(start) {
            return Ok(());
        }
        let time_ms = self
            .store
            .clock()
            .now_ms()
            .max(start.time_ms.saturating_add(1));
        let chunks = chunks.iter();
        let chunks = chunks.map(|chunk| chunk.clone().with(CHUNK_TIME, time_ms));
        self.put_all(chunks.collect()).await
    }

    /// Deletes the chunks of a refused write, except those `kept` by the existing item. If that fails,
    /// a sweep deletes them later.
    pub(super) async fn remove_refused(&self, chunks: &[Item], kept: &[Key]) {
        let keys = chunks
            .iter()
            .filter_map(|chunk| self.table.key_of(chunk).ok());
        let keys = keys.filter(|key| !kept.contains(key));
        let writes: Vec<Write> = keys.map(Write::Delete).collect();
        if writes.is_empty() {
            return;
        }
        if let Err(error) = self.store.write(&self.table, writes).await {
            warn_orphans(&error.into());
        }
    }

    /// Deletes the chunks of a replaced or deleted item, unless they were written again with another
    /// time: the item was then written again, too. If that fails, a sweep deletes them later.
    pub(super) async fn remove_obsolete(&self, keys: Vec<Key>, time_ms: u64) {
        let time = Value::from(time_ms);
        let deletes = keys.into_iter().map(|key| self.delete(key, time.clone()));
        let mut deletes = stream::iter(deletes).buffer_unordered(CONCURRENT_DELETES);
        while let Some(deleted) = deletes.next().await {
            if let Err(error) = deleted {
                warn_orphans(&error);
            }
        }
    }

    /// Deletes a chunk, unless it was written again; returns whether it was deleted.
    async fn delete(&self, key: Key, time: Value) -> Result<bool> {
        let condition = Condition::Equals(CHUNK_TIME.to_owned(), time);
        match self.store.delete(&self.table, key, condition).await {
            Ok(_) => Ok(true),
            Err(WriteError::Refused { .. }) => Ok(false),
            Err(WriteError::Failed(error)) => Err(error),
        }
    }

    pub(super) async fn get(&self, key: Key) -> Result<Option<Item>> {
        let found = self.store.get(&self.table, vec![key]).await?.items;
        Ok(found.into_iter().next().flatten())
    }

    /// The joined chunks of these keys; `None` if one is missing or damaged.
    pub(super) async fn join(
        &self,
        summary: ChunkSummary,
        keys: Vec<Key>,
    ) -> Result<Option<BodyBytes>> {
        let found = self.store.get(&self.table, keys).await?.items;
        Ok(summary.join(&found))
    }

    /// Streams all chunks. Reads the whole table.
    ///
    /// # Errors
    /// `Invalid` if chunks of that age may belong to a write in flight.
    pub(super) fn scan_chunks(
        &self,
        older_than: Duration,
        parse: ParseChunk,
    ) -> Result<impl Stream<Item = Result<Chunk>> + Send + Unpin + use<>> {
        if older_than < SWEEP_AGE_MIN {
            let (least, age) = (SWEEP_AGE_MIN.as_millis(), older_than.as_millis());
            return Err(Error::invalid(
                "chunks of that age may belong to a write in flight; use a greater age",
            )
            .fact("least", format!("{least} ms"))
            .fact("age", format!("{age} ms")));
        }
        let age_ms = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
        let until_ms = self.store.clock().now_ms().saturating_sub(age_ms);
        let all = self.store.scan_all(&self.table, Scan::whole());
        let table = self.table.clone();
        Ok(all.try_filter_map(move |item| {
            let partition = item.get("p").and_then(Value::as_str);
            let chunk = partition.and_then(parse).map(|(id, owner)| {
                let time = item.get(CHUNK_TIME).cloned();
                Ok(Chunk {
                    key: table.key_of(&item)?,
                    id,
                    owner,
                    is_old: time.as_ref().and_then(Value::as_u64) < Some(until_ms),
                    time,
                })
            });
            std::future::ready(chunk.transpose())
        }))
    }

    /// Reports an orphaned chunk, and deletes it if that is wanted and it was not written again.
    pub(super) async fn sweep(
        &self,
        chunk: Chunk,
        verify: Verify,
        detail: &str,
    ) -> Result<Vec<Finding>> {
        let mut found = Findings::new(StoredKind::Event, &chunk.id, &verify.into());
        let numbers = chunk.owner.number..=chunk.owner.number;
        if found.repair(Damage::new(Problem::Orphan, numbers, detail)) {
            let key = &chunk.key;
            let time = chunk
                .time
                .ok_or_else(|| Error::corrupt("a chunk has no time").fact("key", key))?;
            if !self.delete(chunk.key, time).await? {
                return Ok(Vec::new());
            }
        }
        Ok(found.finish())
    }
}

fn warn_orphans(error: &Error) {
    tracing::warn!(%error, "orphaned chunks remain; `annals verify --repair` deletes them");
}
