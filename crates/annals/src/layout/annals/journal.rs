//! The journal on the `annals` layout: one immutable item for each append.
//!
//! Promises: the put of a commit, on the condition that its key is free, is the order, the fence
//! and the atomicity. A commit that ends at v has one successor key, the one that starts at v + 1,
//! and keys once taken are never freed: deletion leaves a mark.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;

use super::blob::Header;
use super::commit::{Commit, Written};
use super::heads::Heads;
use super::keys::{self, Bucket, Partition, Span};
use super::{deletion, record, replay};
use crate::items::{
    Condition, Item, Items, KeyPart, Query, Scan, SortRange, TableSpec, Value, Write, WriteError,
    scan_all,
};
use crate::journal::{
    AppendError, Appended, Conflict, EventStream, Expected, IdStream, JournalLayout, Stamped,
    Window,
};
use crate::{Error, PersistenceId, Result, SequenceNumber};

/// How often an append behind whatever is last is tried while others keep being quicker.
const ANY_TRIES_MAX: usize = 32;

/// A journal of the `annals` layout.
#[derive(Clone, Debug)]
pub struct AnnalsJournal {
    pub(super) items: Arc<dyn Items>,
    pub(super) table: Arc<TableSpec>,
    pub(super) span: Span,
    pub(super) heads: Arc<Heads>,
}

impl AnnalsJournal {
    /// Opens the journal in a table, which gets a record of its own if it has none.
    pub(crate) async fn open(items: Arc<dyn Items>, table: Arc<TableSpec>) -> Result<Self> {
        let span = record::span_of(&*items, &table).await?;
        Ok(Self {
            items,
            table,
            span,
            heads: Arc::default(),
        })
    }

    pub(super) fn commit_of(&self, id: &PersistenceId, item: &Item) -> Result<Commit> {
        Commit::from_item(item, id, self.span)
    }

    /// The last commit of a bucket that starts at or before a number.
    pub(super) async fn last_in(
        &self,
        id: &PersistenceId,
        bucket: Bucket,
        at_most: SequenceNumber,
    ) -> Result<Option<Commit>> {
        let query = Query::of(keys::commits(id, bucket)).descending().limit(1);
        let query = query.within(SortRange::AtMost(KeyPart::from(at_most.get())));
        let page = self.items.query(&self.table, query).await?;
        let item = page.items.first();
        item.map(|item| self.commit_of(id, item)).transpose()
    }

    /// The commit that has a number, or the last one before it.
    pub(super) async fn at_or_before(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
    ) -> Result<Option<Commit>> {
        let mut bucket = self.span.bucket(number);
        loop {
            let found = self.last_in(id, bucket, number).await?;
            match (found, bucket) {
                (Some(commit), _) => return Ok(Some(commit)),
                (None, Bucket(0)) => return Ok(None),
                // A commit that reaches into this bucket starts in one before it.
                (None, Bucket(n)) => bucket = Bucket(n - 1),
            }
        }
    }

    /// Whether a commit ends with this number, so that its successor's key may be taken.
    async fn is_boundary(&self, id: &PersistenceId, number: SequenceNumber) -> Result<bool> {
        if self.heads.get(id) == Some(number) {
            return Ok(true);
        }
        match self.at_or_before(id, number).await? {
            Some(commit) => Ok(commit.last()? == number),
            None => Ok(false),
        }
    }

    /// Puts the commit behind `last`; answers the commit that is there where one is.
    async fn put_behind(
        &self,
        id: &PersistenceId,
        last: Option<SequenceNumber>,
        stamped: &Stamped,
    ) -> Result<Put> {
        let first = last.map_or(Some(SequenceNumber::FIRST), SequenceNumber::next);
        let count = stamped.append.events.len() as u64;
        let reach = first.and_then(|first| Some((first, first.plus(count - 1)?)));
        let Some((first, last)) = reach else {
            return Err(Error::invalid(format!(
                "sequence numbers are used up. id=`{id}`"
            )));
        };
        let header = Header {
            count,
            time_ms: stamped.time_ms,
            token: stamped.token,
            gone: 0,
            low: None,
            causation: stamped.append.causation.clone(),
            correlation: stamped.append.correlation.clone(),
        };
        let commit = Commit::of_events(id, first, header, &stamped.append.events)?;
        let appended = Appended {
            first,
            last,
            time_ms: stamped.time_ms,
        };
        let Written { item, parts } = commit.write(self.span)?;
        let part_keys = self.write_parts(parts).await?;
        match self.items.put(&self.table, item, Condition::Absent).await {
            Ok(_) => Ok(Put::Landed(appended)),
            Err(WriteError::Failed(error)) => Err(error),
            Err(WriteError::Refused { existing, .. }) => {
                let Some(existing) = existing else {
                    return Err(Error::unavailable(
                        "the store refused a commit for nothing; try again",
                    ));
                };
                let existing = self.commit_of(id, &existing)?;
                if existing.token() == stamped.token {
                    // Our own, whose answer was lost.
                    let time_ms = existing.blob.header.time_ms;
                    return Ok(Put::Landed(Appended {
                        time_ms,
                        ..appended
                    }));
                }
                if !part_keys.is_empty() {
                    self.items.write(&self.table, part_keys).await?;
                }
                Ok(Put::Taken(Box::new(existing)))
            }
        }
    }

    /// Writes the parts of a commit; answers how to take them back.
    async fn write_parts(&self, parts: Vec<Item>) -> Result<Vec<Write>> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let keys = parts
            .iter()
            .map(|part| self.table.key_of(part).map(Write::Delete));
        let keys = keys.collect::<Result<_>>()?;
        let parts = parts.into_iter().map(Write::Put).collect();
        self.items.write(&self.table, parts).await?;
        Ok(keys)
    }

    /// The events of a commit, its parts fetched where it has any.
    pub(super) async fn events_of(&self, commit: Commit) -> Result<Vec<crate::Event>> {
        let keys = commit.part_keys();
        if keys.is_empty() {
            return commit.events();
        }
        let parts = self.items.get(&self.table, keys).await?.items;
        commit.with_parts(parts)?.events()
    }

    async fn conflict(
        &self,
        id: &PersistenceId,
        expected: Expected,
        found: Option<Commit>,
    ) -> Result<AppendError> {
        let found = match found {
            Some(commit) => self.events_of(commit).await?,
            None => Vec::new(),
        };
        Ok(AppendError::Conflict(Box::new(Conflict {
            id: id.clone(),
            expected,
            found,
        })))
    }

    /// Behind whatever is last. A lag of one commit is repaired from what the refusal shows.
    async fn append_behind_any(
        &self,
        id: &PersistenceId,
        stamped: &Stamped,
    ) -> Result<Option<Appended>> {
        let mut last = match self.heads.get(id) {
            Some(known) => Some(known),
            None => self.highest(id).await?,
        };
        for _ in 0..ANY_TRIES_MAX {
            match self.put_behind(id, last, stamped).await? {
                Put::Landed(appended) => return Ok(Some(appended)),
                Put::Taken(existing) => {
                    let end = existing.last()?;
                    self.heads.learn(id, end);
                    last = Some(end);
                }
            }
        }
        Ok(None)
    }
}

/// How the put of a commit ended.
enum Put {
    Landed(Appended),
    Taken(Box<Commit>),
}

#[async_trait]
impl JournalLayout for AnnalsJournal {
    async fn append(
        &self,
        id: &PersistenceId,
        expected: Expected,
        stamped: Stamped,
    ) -> Result<Appended, AppendError> {
        let last = match expected {
            Expected::Empty => None,
            Expected::Last(number) if self.is_boundary(id, number).await? => Some(number),
            Expected::Last(_) => return Err(self.conflict(id, expected, None).await?),
            Expected::Any => {
                let appended = self.append_behind_any(id, &stamped).await?;
                let Some(appended) = appended else {
                    return Err(self.conflict(id, expected, None).await?);
                };
                self.heads.learn(id, appended.last);
                return Ok(appended);
            }
        };
        match self.put_behind(id, last, &stamped).await? {
            Put::Landed(appended) => {
                self.heads.learn(id, appended.last);
                Ok(appended)
            }
            Put::Taken(existing) => {
                self.heads.learn(id, existing.last()?);
                Err(self.conflict(id, expected, Some(*existing)).await?)
            }
        }
    }

    fn replay(&self, id: &PersistenceId, window: Window) -> EventStream {
        replay::start(self.clone(), id.clone(), window)
    }

    async fn highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>> {
        super::highest::find(self, id).await
    }

    async fn delete_to(&self, id: &PersistenceId, to: SequenceNumber) -> Result<()> {
        deletion::delete_to(self, id, to).await
    }

    /// The first commit of an id is never removed, only emptied, so each id has exactly one.
    fn persistence_ids(&self, prefix: &str) -> IdStream {
        let prefix = prefix.to_owned();
        let all = scan_all(self.items.clone(), self.table.clone(), Scan::whole());
        let ids = all.try_filter_map(move |item| {
            let is_first = item.get("n").and_then(Value::as_u64) == Some(1);
            let partition = item.get("p").and_then(Value::as_str).filter(|_| is_first);
            let id = match partition.and_then(keys::parse) {
                Some(Partition::Commits(id, Bucket(0))) => Some(id),
                _ => None,
            };
            let id = id.filter(|id| id.as_str().starts_with(&prefix));
            std::future::ready(Ok(id))
        });
        Box::pin(ids)
    }
}
