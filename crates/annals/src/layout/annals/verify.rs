//! Verifying an id of the `annals` layout, commit by commit, and sweeping parts without a commit.
//!
//! Promises: every write of a repair replaces a commit by its mark, as a deletion does, on the
//! condition that its bytes are as they were read, so appends beside it lose nothing.
//! Never: finds that the last commits of an id are gone. There is no mark of how far it went.

use std::time::Duration;

use futures::{Stream, TryStreamExt};

use super::commit::Commit;
use super::deletion;
use super::journal::AnnalsJournal;
use super::keys::{self, Bucket};
use super::parts::Part;
use crate::items::{Item, Query, Scan, Value, query_all};
use crate::verify::{
    Finding, Findings, Ids, Kept, LOST, Met, Problem, Repairs, Verify, stray, told,
};
use crate::{ErrorKind, PersistenceId, Result, SequenceNumber};

const OTHERS: &str = "which of the two is right is for a person to say";
const BLOCKED: &str = "events are missing or unreadable among them; see to those first";

struct Checker<'a> {
    journal: &'a AnnalsJournal,
    id: &'a PersistenceId,
    findings: Findings,
    /// Where the next commit must start; `None` behind one that does not tell where it ends.
    next: Option<u64>,
    /// The first commit of which nothing was deleted.
    whole: Option<u64>,
    /// The last number that was deleted.
    deleted: u64,
}

pub(super) async fn verify(
    journal: &AnnalsJournal,
    id: &PersistenceId,
    repairs: &Repairs,
) -> Result<Vec<Finding>> {
    let mut checker = Checker {
        journal,
        id,
        findings: Findings::about(id, repairs),
        next: Some(1),
        whole: None,
        deleted: 0,
    };
    let known = match journal.find_highest(id).await {
        Ok(known) => known.map_or(0, |known| journal.span.bucket(known).0),
        // The end does not parse: then the last bucket is the one before an empty one.
        Err(error) if error.kind() == ErrorKind::Corrupt => 0,
        Err(error) => return Err(error),
    };
    let mut bucket = Bucket(0);
    while checker.check_bucket(bucket).await? || bucket.0 < known {
        bucket.0 += 1;
    }
    checker.finish().await
}

impl Checker<'_> {
    /// Answers whether the bucket, or one behind it, has to do with commits.
    async fn check_bucket(&mut self, bucket: Bucket) -> Result<bool> {
        let query = Query::of(keys::commits(self.id, bucket));
        let (items, table) = (
            self.journal.store.items().clone(),
            self.journal.table.clone(),
        );
        let mut all = query_all(items, table, query);
        let mut is_empty = true;
        while let Some(item) = all.try_next().await? {
            is_empty = false;
            self.check(&item).await?;
        }
        // A commit may reach over buckets.
        let next = self.next.and_then(SequenceNumber::new);
        let reaches = next.is_some_and(|next| self.journal.span.bucket(next) > bucket);
        Ok(!is_empty || reaches)
    }

    async fn check(&mut self, item: &Item) -> Result<()> {
        let number = item.get("n").and_then(Value::as_u64).unwrap_or(0);
        let commit = self.journal.commit_of(self.id, item);
        let ended = commit.and_then(|commit| Ok((commit.last()?.get(), commit)));
        let (last, commit) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                self.leave(Problem::Unreadable, (number, number), told(&error));
                self.next = None;
                return Ok(());
            }
        };
        if let Some(next) = self.next.filter(|next| *next < number) {
            let detail = "no event has these numbers".to_owned();
            self.leave(Problem::Gap, (next, number - 1), detail);
        }
        if let Some(next) = self.next.filter(|next| *next > number) {
            let detail = "two commits have these numbers".to_owned();
            let numbers = (number, last.min(next - 1));
            self.findings
                .leave(Problem::Collision, numbers, (detail, OTHERS));
        }
        self.next = self.next.max(Some(last + 1));
        if commit.is_deleted() {
            self.deleted = last;
        } else if commit.is_touched() {
            self.deleted = number + commit.blob.header.gone - 1;
        } else {
            self.whole = self.whole.or(Some(number));
        }
        self.check_events(commit, last).await
    }

    async fn check_events(&mut self, commit: Commit, last: u64) -> Result<()> {
        let first = commit.first.get();
        match self.journal.events_of(commit).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                self.leave(Problem::Unreadable, (first, last), told(&error));
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    fn leave(&mut self, problem: Problem, numbers: (u64, u64), detail: String) {
        self.findings.leave(problem, numbers, (detail, LOST));
    }

    /// A deletion that was cut off is finished: what stands before a mark is meant to go.
    async fn finish(mut self) -> Result<Vec<Finding>> {
        let left = self.whole.filter(|whole| *whole < self.deleted);
        let left = left.and_then(SequenceNumber::new);
        if let Some((from, to)) = left.zip(SequenceNumber::new(self.deleted)) {
            let detail = "a deletion was cut off, or something came back behind it".to_owned();
            let numbers = (from.get(), to.get());
            if self.findings.repair(Problem::Leftover, numbers, detail) {
                let deleted = deletion::delete_again(self.journal, self.id, (from, to)).await;
                match deleted {
                    Err(error) if error.kind() == ErrorKind::Corrupt => {
                        self.findings.give_up(BLOCKED);
                    }
                    ended => ended?,
                }
            }
        }
        Ok(self.findings.finish())
    }
}

/// Everything there is in the table: whose it is, each id once, or that it is nobody's.
pub(super) fn met(journal: &AnnalsJournal) -> impl Stream<Item = Result<Met>> + Send + use<> {
    let table = journal.table.clone();
    let mut ids = Ids::default();
    let all = journal.store.scan_all(&table, Scan::whole());
    all.try_filter_map(move |item| {
        let key = table.key_of(&item);
        let partition = item.get("p").and_then(Value::as_str).unwrap_or_default();
        let place = item.get("n").and_then(Value::as_u64);
        let met = match (keys::parse_commits(partition), place) {
            (Some((id, _)), Some(1..)) => Ok(ids.meet(id)),
            // Whether something speaks for a part is the sweep's to say.
            _ if keys::parse_part(partition).is_some() => Ok(None),
            _ => key.map(|key| {
                let stray = || Met::Stray(stray(Kept::Event, table.name(), &key));
                (key != keys::record()).then(stray)
            }),
        };
        std::future::ready(met)
    })
}

/// Finds parts whose commit cannot land any more, or has not for so long, and deletes them where
/// that is wanted.
pub(super) async fn orphans(
    journal: &AnnalsJournal,
    older_than: Duration,
    verify: Verify,
) -> Result<Vec<Finding>> {
    let (table, mut swept) = (journal.parted(), Vec::new());
    let mut parts = table.parts(older_than, keys::parse_part)?;
    while let Some(part) = parts.try_next().await? {
        if is_orphan(journal, &part).await? {
            let detail = "a part of an append that did not land";
            swept.extend(table.sweep(part, verify, detail).await?);
        }
    }
    Ok(swept)
}

/// Whether a part's commit is not there, and will not come.
async fn is_orphan(journal: &AnnalsJournal, part: &Part) -> Result<bool> {
    let Some(first) = SequenceNumber::new(part.of.number) else {
        return Ok(part.is_old);
    };
    match journal.commit_at(&part.id, first).await {
        // An append may be about to land.
        Ok(None) => Ok(part.is_old),
        // Keys once taken are never freed: if it is not that commit's, it never will be.
        Ok(Some(commit)) => Ok(!commit.part_keys().contains(&part.key)),
        // One that does not parse may have spoken for it.
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}
