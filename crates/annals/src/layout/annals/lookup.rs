//! Finding commits by sequence number, without marker items and without a replay.
//!
//! Guarantees: the highest sequence number takes one request with a hint, or for an id in its first
//! bucket; otherwise about twice the logarithm of the number of buckets. The search only ends after
//! the successor's bucket was read without finding it, so a wrong hint, or a bucket that a long
//! commit spans, costs requests and never gives a wrong result. Relies on appends: all earlier
//! sequence numbers are used.

use std::ops::RangeInclusive;

use futures::TryStreamExt;

use super::body::Body;
use super::commit::Commit;
use super::journal::AnnalsJournal;
use super::keys::{self, Bucket};
use crate::items::{Item, KeyPart, Query, Scan, SortRange};
use crate::journal::Signature;
use crate::journal::signature::Signatures;
use crate::{Error, Event, IdStream, PersistenceId, Result, SequenceNumber};

impl AnnalsJournal {
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
    pub(super) fn ids_in(&self, scan: Scan) -> IdStream {
        let all = self.store.scan_all(&self.table, scan);
        let ids = all.try_filter_map(move |item| {
            let is_first = item.u64("n") == Some(1);
            let partition = item.text("p").filter(|_| is_first);
            let id = match partition.and_then(keys::parse_commits) {
                Some((id, Bucket(0))) => Some(id),
                _ => None,
            };
            std::future::ready(Ok(id))
        });
        IdStream::new(ids)
    }

    /// The events of a commit, with its chunks; `None` if they were deleted in the meantime.
    pub(super) async fn events_of(&self, commit: Commit) -> Result<Option<Vec<Event>>> {
        let whole = self.joined(commit).await?;
        whole.map(|commit| commit.events()).transpose()
    }

    /// The commit with its chunks, if it has any; `None` if they were deleted in the meantime.
    pub(super) async fn joined(&self, mut commit: Commit) -> Result<Option<Commit>> {
        if let Some(summary) = commit.chunk_summary() {
            let table = self.chunked_table();
            let joined = table.join(summary, commit.chunk_keys()).await?;
            let Some(body) = joined else {
                return self.check_deleted(&commit).await.map(|()| None);
            };
            commit.stored.body = Body::Inline(body);
        }
        Ok(Some(commit))
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

    /// The last commit of a bucket that starts at or before a sequence number.
    async fn last_in(
        &self,
        id: &PersistenceId,
        bucket: Bucket,
        at_most: SequenceNumber,
    ) -> Result<Option<Commit>> {
        let query = Query::of(keys::commits(id, bucket)).descending().limit(1);
        let query = query.within(SortRange::AtMost(KeyPart::from(at_most.get())));
        let page = self.store.query(&self.table, query).await?;
        let item = page.items.first();
        item.map(|item| self.commit_of(id, item)).transpose()
    }

    /// The commit that includes a sequence number; `None` after the end.
    pub(super) async fn covering(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
    ) -> Result<Option<Commit>> {
        let reaching = |commit: Commit| {
            let reaches = commit.last()? >= number;
            Ok(Some(commit).filter(|_| reaches))
        };
        let bucket = self.span.bucket(number);
        // Nearly always in this bucket, or in the one before if a commit spans both.
        for near in [Some(bucket), bucket.before()].into_iter().flatten() {
            if let Some(commit) = self.last_in(id, near, number).await? {
                return reaching(commit);
            }
        }
        // No commit starts near: the number is after the end, or inside a very long commit.
        let highest = self.find_highest(id).await?;
        if highest.is_none_or(|highest| highest < number) {
            return Ok(None);
        }
        let mut before = bucket.before().and_then(Bucket::before);
        while let Some(bucket) = before {
            if let Some(commit) = self.last_in(id, bucket, number).await? {
                return reaching(commit);
            }
            before = bucket.before();
        }
        Ok(None)
    }

    /// The signatures of the commits in a range; tombstones have the tokens of deleted ones.
    pub(super) async fn find_signatures(
        &self,
        id: &PersistenceId,
        numbers: RangeInclusive<SequenceNumber>,
    ) -> Result<Vec<Signature>> {
        let (from, to) = numbers.into_inner();
        let mut signatures = Signatures::from(from);
        for bucket in self.span.bucket(from).0..=self.span.bucket(to).0 {
            let range = SortRange::Between(KeyPart::from(from.get()), KeyPart::from(to.get()));
            let query = Query::of(keys::commits(id, Bucket(bucket))).within(range);
            let mut all = self.store.query_all(&self.table, query);
            while let Some(item) = all.try_next().await? {
                let commit = self.commit_of(id, &item)?;
                if signatures.has_met_none() && commit.first > from {
                    self.add_covering(id, from, &mut signatures).await?;
                }
                signatures.meet(commit.last()?, Some(commit.token()));
            }
        }
        if signatures.has_met_none() {
            self.add_covering(id, from, &mut signatures).await?;
        }
        Ok(signatures.until(to))
    }

    /// Adds the signature of the commit that includes a sequence number.
    async fn add_covering(
        &self,
        id: &PersistenceId,
        number: SequenceNumber,
        signatures: &mut Signatures,
    ) -> Result<()> {
        if let Some(commit) = self.covering(id, number).await? {
            signatures.meet(commit.last()?, Some(commit.token()));
        }
        Ok(())
    }

    /// The highest sequence number ever appended.
    pub(super) async fn find_highest(&self, id: &PersistenceId) -> Result<Option<SequenceNumber>> {
        Ok(self.search(id).await?.map(|(last, _)| last))
    }

    /// The commit with the last event ever appended.
    pub(super) async fn find_last(&self, id: &PersistenceId) -> Result<Option<Commit>> {
        match self.search(id).await? {
            None => Ok(None),
            Some((_, Some(commit))) => Ok(Some(commit)),
            // Known from the cache, but not read.
            Some((last, None)) => self.covering(id, last).await,
        }
    }

    /// The highest sequence number, and the commit that ends there if it was read.
    async fn search(&self, id: &PersistenceId) -> Result<Option<(SequenceNumber, Option<Commit>)>> {
        let mut last = self.known_last(id);
        let mut newest: Option<Commit> = None;
        let mut seen: Option<Bucket> = None;
        let mut empty: Option<Bucket> = None;
        let mut ahead = 0_u64;
        // Galloping search: strides double while buckets have commits, then bisect towards an empty
        // one. The first two strides are one bucket: most ids never leave their first.
        while let Some(next) = last.map_or(Some(SequenceNumber::FIRST), SequenceNumber::next) {
            let successor = self.span.bucket(next);
            if seen == Some(successor) || empty == Some(successor) {
                break;
            }
            let probe = match empty {
                Some(empty) if empty > successor => Bucket(successor.0.midpoint(empty.0)),
                _ => Bucket(successor.0 + ahead.saturating_sub(1)),
            };
            match self.last_in(id, probe, SequenceNumber::LAST).await? {
                Some(found) => {
                    // The low watermark points past the deleted commits.
                    last = last.max(Some(found.last()?)).max(found.low());
                    newest = Some(found);
                    seen = Some(probe);
                    ahead = (2 * ahead).max(1);
                }
                None => empty = Some(probe),
            }
        }
        let Some(last) = last else {
            return Ok(None);
        };
        self.learn(id, last);
        let ends_there = |commit: &Commit| commit.last().is_ok_and(|end| end == last);
        Ok(Some((last, newest.filter(ends_there))))
    }
}
