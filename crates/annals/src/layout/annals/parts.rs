//! Parts in a table: what is too large for one item.
//!
//! Parts are written before the item that speaks for them and mean nothing without it, so a write
//! that is cut off between the two leaves orphans, and so does whoever replaces or deletes an item
//! and is cut off before its parts. A sweep finds them.
//!
//! Promises: what was acknowledged never loses its parts while it stands, also where its writer
//! stood still for longer than a sweep waits. Cleaning up is never what a write fails by.
//! Trusts: that the clocks of writers and sweepers do not differ by more than `SWEEP_AGE_MIN` less
//! `WRITE_MAX`.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::body::{BodyBytes, PART_TIME, PartsRecord};
use super::keys::PartsOf;
use crate::items::{Condition, Item, Key, Scan, TableSpec, Value, Write, WriteError};
use crate::store::Store;
use crate::verify::{Finding, Findings, Problem, Verify};
use crate::{Error, PersistenceId, Result};

/// The youngest parts that may be swept while what they belong to may still land.
const SWEEP_AGE_MIN: Duration = Duration::from_secs(60 * 60);
/// How long writing parts may take: what they belong to is not put any more if they are older.
const WRITE_MAX: Duration = Duration::from_secs(10 * 60);
/// How many deletions are under way at once: each is a request, on a condition.
const DELETES_AT_ONCE: usize = 16;

/// A table whose items may have parts.
#[derive(Clone, Debug)]
pub(super) struct PartedTable {
    pub(super) store: Store,
    pub(super) table: Arc<TableSpec>,
}

/// When a write began, by both clocks: one may be set back, and the other may stand still while the
/// machine sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    monotonic: Duration,
    time_ms: u64,
}

/// A part, as a sweep finds it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) key: Key,
    pub(super) id: PersistenceId,
    pub(super) of: PartsOf,
    /// Whether it is old enough that what it belongs to will not land any more.
    pub(super) is_old: bool,
    time: Option<Value>,
}

/// Reads the partition of a part back.
pub(super) type ParsePart = fn(&str) -> Option<(PersistenceId, PartsOf)>;

impl PartedTable {
    /// Now, for a write that is stamped so.
    pub(super) fn begin(&self, time_ms: u64) -> Begun {
        let monotonic = self.store.clock().monotonic();
        Begun { monotonic, time_ms }
    }

    /// Whether the parts of a write may be as old as a sweep takes them for orphans.
    fn is_late(&self, begun: Begun) -> bool {
        let passed = self
            .store
            .clock()
            .monotonic()
            .saturating_sub(begun.monotonic);
        let passed_ms = self.store.clock().now_ms().saturating_sub(begun.time_ms);
        passed.max(Duration::from_millis(passed_ms)) > WRITE_MAX
    }

    async fn put_all(&self, parts: Vec<Item>) -> Result<()> {
        // What is not asked of the store cannot fail: mostly there are no parts.
        if !parts.is_empty() {
            let writes = parts.into_iter().map(Write::Put).collect();
            self.store.write(&self.table, writes).await?;
        }
        Ok(())
    }

    /// Writes parts, before the item that speaks for them.
    pub(super) async fn write(&self, parts: &[Item], begun: Begun) -> Result<()> {
        self.put_all(parts.to_vec()).await?;
        if !parts.is_empty() && self.is_late(begun) {
            return Err(Error::unavailable(
                "writing something large took too long; try again",
            ));
        }
        Ok(())
    }

    /// Sees to the parts of what has landed: if it took long, or there is another doubt, they may
    /// be gone, and are written once more. With another time, so that whoever still means to delete
    /// them is refused.
    pub(super) async fn settle(
        &self,
        parts: &[Item],
        begun: Begun,
        is_doubtful: bool,
    ) -> Result<()> {
        if !is_doubtful && !self.is_late(begun) {
            return Ok(());
        }
        let time_ms = self
            .store
            .clock()
            .now_ms()
            .max(begun.time_ms.saturating_add(1));
        let parts = parts
            .iter()
            .map(|part| part.clone().with(PART_TIME, time_ms));
        self.put_all(parts.collect()).await
    }

    /// Deletes the parts of a write that was refused, but for those that what is there speaks for.
    /// What cannot be deleted now is swept later; the refusal is the answer either way.
    pub(super) async fn take_back(&self, parts: &[Item], kept: &[Key]) {
        let keys = parts.iter().filter_map(|part| self.table.key_of(part).ok());
        let keys = keys.filter(|key| !kept.contains(key));
        let writes: Vec<Write> = keys.map(Write::Delete).collect();
        if writes.is_empty() {
            return;
        }
        if let Err(error) = self.store.write(&self.table, writes).await {
            left_behind(&error.into());
        }
    }

    /// Deletes the parts of an item that was replaced or deleted, as they were first written: if
    /// that item has landed once more, its writer has written them once more.
    /// What cannot be deleted now is swept later.
    pub(super) async fn clean_up(&self, keys: Vec<Key>, time_ms: u64) {
        let time = Value::from(time_ms);
        let deletes = keys.into_iter().map(|key| self.delete(key, time.clone()));
        let mut deletes = stream::iter(deletes).buffer_unordered(DELETES_AT_ONCE);
        while let Some(deleted) = deletes.next().await {
            if let Err(error) = deleted {
                left_behind(&error);
            }
        }
    }

    /// Deletes a part, unless it was written anew; answers whether it did.
    async fn delete(&self, key: Key, time: Value) -> Result<bool> {
        let condition = Condition::Equals(PART_TIME.to_owned(), time);
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

    /// The parts under these keys, put together; none where one is missing or damaged.
    pub(super) async fn join(
        &self,
        record: PartsRecord,
        keys: Vec<Key>,
    ) -> Result<Option<BodyBytes>> {
        let found = self.store.get(&self.table, keys).await?.items;
        Ok(record.join(&found))
    }

    /// Every part there is. Reads the whole table.
    ///
    /// # Errors
    /// `Invalid` where what is that old may be under way.
    pub(super) fn parts(
        &self,
        older_than: Duration,
        parse: ParsePart,
    ) -> Result<impl Stream<Item = Result<Part>> + Send + Unpin + use<>> {
        if older_than < SWEEP_AGE_MIN {
            let (least, asked) = (SWEEP_AGE_MIN.as_millis(), older_than.as_millis());
            return Err(Error::invalid(format!(
                "writes may be under way; sweep what is older. least=`{least} ms`, asked=`{asked} ms`"
            )));
        }
        let age_ms = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
        let until_ms = self.store.clock().now_ms().saturating_sub(age_ms);
        let all = self.store.scan_all(&self.table, Scan::whole());
        let table = self.table.clone();
        Ok(all.try_filter_map(move |item| {
            let partition = item.get("p").and_then(Value::as_str);
            let part = partition.and_then(parse).map(|(id, of)| {
                let time = item.get(PART_TIME).cloned();
                Ok(Part {
                    key: table.key_of(&item)?,
                    id,
                    of,
                    is_old: time.as_ref().and_then(Value::as_u64) < Some(until_ms),
                    time,
                })
            });
            std::future::ready(part.transpose())
        }))
    }

    /// Tells of a part that is an orphan, and deletes it where that is wanted and it was not
    /// written anew.
    pub(super) async fn sweep(
        &self,
        part: Part,
        verify: Verify,
        detail: &str,
    ) -> Result<Vec<Finding>> {
        let mut found = Findings::about(&part.id, &verify.into());
        let numbers = (part.of.number, part.of.number);
        if found.repair(Problem::Orphan, numbers, detail.to_owned()) {
            let key = &part.key;
            let time = part
                .time
                .ok_or_else(|| Error::corrupt(format!("a part has no time. key=`{key}`")))?;
            if !self.delete(part.key, time).await? {
                return Ok(Vec::new());
            }
        }
        Ok(found.finish())
    }
}

fn left_behind(error: &Error) {
    tracing::warn!(%error, "parts are left that nothing speaks for; a sweep takes them");
}
