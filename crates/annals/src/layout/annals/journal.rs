//! The journal on the `annals` layout: one immutable item per append.
//!
//! An append is one conditional put of one commit, under a key that must be free: that provides order,
//! fencing and atomicity. A commit that ends at v has one successor key, which starts at v + 1.
//!
//! Guarantees: a commit is only put after the end of another, so there are no gaps. Used keys are
//! never freed or overwritten: a deletion leaves a tombstone. A refusal because of our own earlier
//! success is recognised by the token. Relies on unique tokens, and on the store's conditional puts
//! and strongly consistent reads.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use quick_cache::sync::Cache;
use tokio::sync::OnceCell;

use super::body::WriteSet;
use super::chunks::ChunkedTable;
use super::commit::{Commit, Header};
use super::keys::{self, Span};
use super::{deletion, replay, skip, table_record, verify};
use crate::items::{Condition, Cursor, Scan, TableSpec, WriteError};
use crate::journal::scanned::verify_scanned;
use crate::journal::{
    AppendError, Appended, Conflict, EventStream, Expected, FeedLayout, JournalLayout, Signature,
    Skip, Stamped, Window,
};
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::verify::{Finding, FindingStream, Repairs, Verify};
use crate::{Error, Event, IdStream, PersistenceId, Result, SequenceNumber};

/// How many items are read at once for a page of ids.
const IDS_PAGE_ITEMS: u32 = 256;

/// How many ids have their last sequence number in memory.
const HEADS_MAX: usize = 100_000;

/// A journal of the `annals` layout.
#[derive(Clone, Debug)]
pub(super) struct AnnalsJournal {
    pub(super) store: Store,
    pub(super) table: Arc<TableSpec>,
    pub(super) span: Span,
    /// The last sequence numbers that this process has written or read. Each ends a commit that is
    /// in the journal, and commits never leave it, so a successor may be put without a read. A number
    /// that is out of date is harmless: the put is refused.
    heads: Arc<Cache<PersistenceId, SequenceNumber>>,
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
            heads: Arc::new(Cache::new(HEADS_MAX)),
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

    /// The last sequence number of an id, as far as this process knows.
    pub(super) fn known_last(&self, id: &PersistenceId) -> Option<SequenceNumber> {
        self.heads.get(id)
    }

    /// Remembers that a commit ends here. The highest is kept.
    pub(super) fn learn(&self, id: &PersistenceId, last: SequenceNumber) {
        let known = self.heads.get(id);
        if known.is_none_or(|known| known < last) {
            self.heads.insert(id.clone(), last);
        }
    }

    pub(super) fn forget(&self, id: &PersistenceId) {
        self.heads.remove(id);
    }
}

/// Attempts to append after the last event while other writers are faster.
const ANY_ATTEMPTS_MAX: usize = 32;

/// The result of putting a commit.
enum Put {
    Done(Appended),
    /// The key is taken, by this commit if it was read.
    Taken(Option<Box<Commit>>),
}

impl AnnalsJournal {
    pub(super) async fn append_expecting(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: &Stamped,
    ) -> Result<Appended, AppendError> {
        self.record().await?;
        let put = match expected {
            Expected::Empty => self.put_after(id, None, stamped).await?,
            Expected::Last(number) => self.put_after_checked(id, number, stamped).await?,
            Expected::Any => self.put_after_last(id, stamped).await?,
        };
        match put {
            Put::Done(appended) => {
                self.learn(id, appended.last);
                Ok(appended)
            }
            Put::Taken(existing) => {
                let found = match existing {
                    Some(existing) => {
                        self.learn(id, existing.last()?);
                        self.events_of(*existing).await?.unwrap_or_default()
                    }
                    None => Vec::new(),
                };
                Err(AppendError::Conflict(Box::new(Conflict {
                    id: id.clone(),
                    expected,
                    found: directly_after(expected, found),
                })))
            }
        }
    }

    /// Puts after a sequence number, if it is known or found to end a commit.
    async fn put_after_checked(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
        stamped: &Stamped,
    ) -> Result<Put> {
        if self.known_last(id) != Some(number) {
            match self.covering(id, number).await? {
                Some(commit) if commit.last()? == number => {}
                // In the middle of a commit, or after the end.
                other => return Ok(Put::Taken(other.map(Box::new))),
            }
        }
        self.put_after(id, Some(number), stamped).await
    }

    /// Puts after the last event. If one commit was missed, the refusal returns it; if more were
    /// missed, the end is searched.
    async fn put_after_last(&self, id: &PersistenceId, stamped: &Stamped) -> Result<Put> {
        let mut last = match self.known_last(id) {
            Some(known) => Some(known),
            None => self.find_highest(id).await?,
        };
        for lag in 0..ANY_ATTEMPTS_MAX {
            match self.put_after(id, last, stamped).await? {
                Put::Done(appended) => return Ok(Put::Done(appended)),
                Put::Taken(Some(existing)) => {
                    let end = existing.last()?;
                    self.learn(id, end);
                    last = match lag {
                        0 => Some(end),
                        _ => self.find_highest(id).await?,
                    };
                }
                Put::Taken(None) => break,
            }
        }
        Ok(Put::Taken(None))
    }

    async fn put_after(
        &self,
        id: &PersistenceId,
        last: Option<SequenceNumber>,
        stamped: &Stamped,
    ) -> Result<Put> {
        let (table, commit) = (self.chunked_table(), commit_after(id, last, stamped)?);
        let (first, last) = (commit.first, commit.last()?);
        let (WriteSet { item, mut chunks }, has_snapshot) = commit.write(self.span)?;
        let written = match chunks.is_empty() {
            true => None,
            false => Some(table.write(&chunks, stamped.time_ms).await?),
        };
        match self.store.put(&self.table, item, Condition::Absent).await {
            Ok(_) => {
                if let Some(start) = written {
                    table.rewrite_if_late(&chunks, start, false).await?;
                }
                Ok(Put::Done(Appended {
                    first,
                    last,
                    time_ms: stamped.time_ms,
                    has_snapshot,
                }))
            }
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => {
                let existing = existing.ok_or_else(|| {
                    Error::unavailable(
                        "the store refused a commit without an existing item; try again",
                    )
                })?;
                let existing = self.commit_of(id, &existing)?;
                let kept = existing.chunk_keys();
                table.remove_refused(&chunks, &kept).await;
                if existing.token() != stamped.token {
                    return Ok(Put::Taken(Some(Box::new(existing))));
                }
                // Our own: its response was lost.
                chunks.retain(|chunk| {
                    self.table
                        .key_of(chunk)
                        .is_ok_and(|key| kept.contains(&key))
                });
                if let Some(start) = written {
                    table.rewrite_if_late(&chunks, start, false).await?;
                }
                Ok(Put::Done(Appended {
                    first,
                    last: existing.last()?,
                    time_ms: existing.stored.header.time_ms,
                    has_snapshot: existing.stored.header.snapshot.is_some(),
                }))
            }
        }
    }
}

fn commit_after(
    id: &PersistenceId,
    last: Option<SequenceNumber>,
    stamped: &Stamped,
) -> Result<Commit> {
    let first = last.map_or(Some(SequenceNumber::FIRST), SequenceNumber::next);
    let count = stamped.append.events.len() as u64;
    let used_up =
        || Error::invalid("there are no more sequence numbers for this id").fact("id", id);
    let first = first.ok_or_else(used_up)?;
    first.plus(count.saturating_sub(1)).ok_or_else(used_up)?;
    let header = Header {
        count,
        time_ms: stamped.time_ms,
        token: stamped.token,
        gone: 0,
        low: None,
        causation: stamped.append.causation.clone(),
        correlation: stamped.append.correlation.clone(),
        snapshot: stamped.append.snapshot.clone(),
    };
    Commit::of_events(id, first, header, &stamped.append.events)
}

/// The found events, if they begin directly after the expected sequence number.
fn directly_after(expected: Expected, mut found: Vec<Event>) -> Vec<Event> {
    let next = match expected {
        Expected::Empty => Some(SequenceNumber::FIRST),
        Expected::Last(number) => number.next(),
        Expected::Any => None,
    };
    found.retain(|event| next.is_some_and(|next| event.sequence_number >= next));
    if found.first().map(|event| event.sequence_number) != next {
        found.clear();
    }
    found
}

#[async_trait]
impl JournalLayout for AnnalsJournal {
    fn feed(&self) -> Option<&dyn FeedLayout> {
        Some(self)
    }

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
        numbers: RangeInclusive<SequenceNumber>,
    ) -> Result<Vec<Signature>> {
        self.find_signatures(id, numbers).await
    }

    async fn delete_to(
        &self,
        id: &PersistenceId,
        to: SequenceNumber,
    ) -> Result<Option<SequenceNumber>> {
        deletion::delete_to(self, id, to).await
    }

    async fn deleted_to(&self, id: &PersistenceId) -> Result<Option<u64>> {
        deletion::deleted_to(self, id).await.map(Some)
    }

    /// One put writes all events of an append.
    fn is_atomic(&self) -> bool {
        true
    }

    async fn skip(&self, id: &PersistenceId, skip: Skip) -> Result<()> {
        skip::skip(self, id, skip).await
    }

    fn forget_cached(&self) {
        self.heads.clear();
    }

    async fn purge(&self, id: &PersistenceId) -> Result<bool> {
        deletion::purge(self, id).await
    }

    fn persistence_ids(&self, prefix: &str) -> IdStream {
        let prefix = prefix.to_owned();
        let ids = self.ids_in(Scan::whole());
        let ids = ids.try_filter(move |id| std::future::ready(id.as_str().starts_with(&prefix)));
        IdStream::new(ids)
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
