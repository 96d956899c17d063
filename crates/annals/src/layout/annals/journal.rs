//! The journal on the `annals` layout: one immutable item per append.
//!
//! Guarantees: the conditional put of a commit, whose key must be free, provides order, fencing and
//! atomicity. A commit that ends at v has one successor key, which starts at v + 1. Used keys are
//! never freed: a deletion leaves a tombstone. Relies on the store's conditional puts and strongly
//! consistent reads.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use tokio::sync::OnceCell;

use super::body::Body;
use super::chunks::ChunkedTable;
use super::commit::Commit;
use super::keys::{self, Bucket, Span};
use super::{deletion, replay, skip, table_record, verify};
use crate::items::{Cursor, Item, Scan, TableSpec, Value};
use crate::journal::{
    AppendError, Appended, EventStream, Expected, Finding, IdStream, JournalLayout, Signature,
    Skip, Stamped, Verify, Window, verify_scanned,
};
use crate::layout::recent_cache::Known;
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::verify::{FindingStream, Repairs};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How many items are read at once for a page of ids.
const IDS_PAGE_ITEMS: u32 = 256;

/// The last sequence numbers that this process has written or read. Each ends a commit that is in the
/// journal, and commits never leave it, so a successor may be put without a read. A number that is
/// out of date is harmless: the put is refused.
#[derive(Debug, Default)]
pub(super) struct Heads(Known<PersistenceId, SequenceNumber>);

impl Heads {
    pub(super) fn get(&self, id: &PersistenceId) -> Option<SequenceNumber> {
        self.0.get(id)
    }

    pub(super) fn forget(&self, id: &PersistenceId) {
        self.0.forget(id);
    }

    /// Remembers that a commit ends here. The highest is kept.
    pub(super) fn learn(&self, id: &PersistenceId, last: SequenceNumber) {
        self.0.update(id.clone(), |known| {
            known.map_or(last, |known| known.max(last))
        });
    }
}

/// A journal of the `annals` layout.
#[derive(Clone, Debug)]
pub(super) struct AnnalsJournal {
    pub(super) store: Store,
    pub(super) table: Arc<TableSpec>,
    pub(super) span: Span,
    pub(super) heads: Arc<Heads>,
    recorded: Arc<OnceCell<()>>,
}

impl AnnalsJournal {
    /// Opens the journal in a table. Nothing is written before the first append.
    pub(super) async fn open(store: Store, table: Arc<TableSpec>) -> Result<Self> {
        let (span, is_recorded) = table_record::span_of(&*store, &table).await?;
        Ok(Self {
            store,
            table,
            span,
            heads: Arc::default(),
            recorded: Arc::new(OnceCell::new_with(is_recorded.then_some(()))),
        })
    }

    /// Writes the table's record before its first commit.
    pub(super) async fn record(&self) -> Result<()> {
        let put = || table_record::put(&*self.store, &self.table);
        self.recorded.get_or_try_init(put).await.copied()
    }

    /// The journal's table, for chunks.
    pub(super) fn chunked_table(&self) -> ChunkedTable {
        ChunkedTable {
            store: self.store.clone(),
            table: self.table.clone(),
        }
    }

    pub(super) fn commit_of(&self, id: &PersistenceId, item: &Item) -> Result<Commit> {
        Commit::from_item(item, id, self.span)
    }

    /// The item of the commit that starts at a sequence number.
    pub(super) async fn item_at(
        &self,
        id: &PersistenceId,
        first: SequenceNumber,
    ) -> Result<Option<Item>> {
        let key = keys::commit(id, first, self.span);
        let found = self.store.get(&self.table, vec![key]).await?.items;
        Ok(found.into_iter().next().flatten())
    }

    /// The commit that starts at a sequence number.
    pub(super) async fn commit_at(
        &self,
        id: &PersistenceId,
        first: SequenceNumber,
    ) -> Result<Option<Commit>> {
        let item = self.item_at(id, first).await?;
        item.map(|item| self.commit_of(id, &item)).transpose()
    }

    /// The ids that a scan finds. The first commit of an id is never removed, only emptied, so each
    /// id has exactly one.
    fn ids_in(&self, scan: Scan) -> IdStream {
        let all = self.store.scan_all(&self.table, scan);
        let ids = all.try_filter_map(move |item| {
            let is_first = item.get("n").and_then(Value::as_u64) == Some(1);
            let partition = item.get("p").and_then(Value::as_str).filter(|_| is_first);
            let id = match partition.and_then(keys::parse_commits) {
                Some((id, Bucket(0))) => Some(id),
                _ => None,
            };
            std::future::ready(Ok(id))
        });
        Box::pin(ids)
    }

    /// The events of a commit, with its chunks; `None` if they were deleted in the meantime.
    pub(super) async fn events_of(&self, mut commit: Commit) -> Result<Option<Vec<Event>>> {
        if let Some(summary) = commit.chunk_summary() {
            let table = self.chunked_table();
            let joined = table.join(summary, commit.chunk_keys()).await?;
            let Some(body) = joined else {
                return self.check_deleted(&commit).await.map(|()| None);
            };
            commit.stored.body = Body::Inline(body);
        }
        commit.events().map(Some)
    }

    /// Checks that a commit without its chunks was deleted in the meantime: a deletion writes the
    /// tombstone before it deletes the chunks.
    async fn check_deleted(&self, commit: &Commit) -> Result<()> {
        let (id, first) = (&commit.id, commit.first);
        match self.commit_at(id, first).await? {
            Some(now) if now.is_deleted() => Ok(()),
            _ => Err(Error::corrupt("a chunk of a commit is missing or damaged")
                .fact("id", id)
                .fact("number", first)),
        }
    }
}

#[async_trait]
impl JournalLayout for AnnalsJournal {
    async fn prepare(&self) -> Result<()> {
        self.record().await
    }

    async fn append(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: Stamped,
    ) -> Result<Appended, AppendError> {
        self.append_expecting(id, expected, &stamped).await
    }

    fn replay(&self, id: &PersistenceId, window: Window) -> EventStream {
        replay::start(self.clone(), id.clone(), window, None)
    }

    fn replay_anchored(
        &self,
        id: &PersistenceId,
        window: Window,
        anchor: SequenceNumber,
    ) -> EventStream {
        replay::start(self.clone(), id.clone(), window, Some(anchor))
    }

    async fn highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>> {
        self.find_highest(id).await
    }

    async fn last_snapshot(&self, id: &PersistenceId) -> Result<Option<Snapshot>> {
        let last = self.find_last(id).await?;
        last.map_or(Ok(None), |commit| commit.snapshot())
    }

    async fn signatures(
        &self,
        id: &PersistenceId,
        numbers: (SequenceNumber, SequenceNumber),
    ) -> Result<Vec<Signature>> {
        self.find_signatures(id, numbers).await
    }

    async fn delete_to(&self, id: &PersistenceId, to: SequenceNumber) -> Result<()> {
        deletion::delete_to(self, id, to).await
    }

    async fn deleted_to(&self, id: &PersistenceId) -> Result<Option<u64>> {
        deletion::deleted_to(self, id).await.map(Some)
    }

    /// One put writes all events of an append.
    fn lands_whole(&self) -> bool {
        true
    }

    async fn skip(&self, id: &PersistenceId, skip: Skip) -> Result<()> {
        skip::skip(self, id, skip).await
    }

    async fn purge(&self, id: &PersistenceId) -> Result<()> {
        deletion::purge(self, id).await
    }

    fn persistence_ids(&self, prefix: &str) -> IdStream {
        let prefix = prefix.to_owned();
        let ids = self.ids_in(Scan::whole());
        let ids = ids.try_filter(move |id| std::future::ready(id.as_str().starts_with(&prefix)));
        Box::pin(ids)
    }

    /// In the order of a scan, which the key of an id's first commit tells.
    fn persistence_ids_after(&self, after: Option<&PersistenceId>) -> IdStream {
        let scan = Scan::whole().limit(IDS_PAGE_ITEMS);
        self.ids_in(match after {
            None => scan,
            Some(id) => {
                let first = keys::commit(id, SequenceNumber::FIRST, self.span);
                scan.after(Cursor::new(keys::item_of(&first)))
            }
        })
    }

    fn verify_all(self: Arc<Self>) -> FindingStream {
        let entries = verify::scan(&self);
        verify_scanned((*self).clone(), entries)
    }

    async fn verify(&self, id: &PersistenceId, repairs: &Repairs) -> Result<Vec<Finding>> {
        verify::verify(self, id, repairs).await
    }

    async fn orphans(&self, older_than: Duration, verify: Verify) -> Result<Vec<Finding>> {
        verify::orphans(self, older_than, verify).await
    }
}
