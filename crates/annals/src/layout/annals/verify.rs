//! Verifying an id of the `annals` layout, commit by commit, and sweeping chunks without a commit.
//!
//! Guarantees: a repair only replaces an unchanged commit by its tombstone, as a deletion does, so
//! concurrent appends lose nothing. Missing commits at the end of an id are not found: no item
//! records the highest sequence number.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use futures::stream::{self, Stream, TryStreamExt};

use super::chunks::Chunk;
use super::commit::Commit;
use super::deletion;
use super::journal::AnnalsJournal;
use super::keys::{self, Bucket};
use crate::items::{Item, Query, Scan, Value};
use crate::verify::report::{
    Damage, Findings, NO_OTHER_COPY, ScannedEntry, SeenIds, error_chain, stray_item,
};
use crate::verify::{Finding, Problem, Repairs, StoredKind, Verify};
use crate::{ErrorKind, PersistenceId, Result, SequenceNumber};

const AMBIGUOUS: &str = "an operator must decide which of the two is right";
const BLOCKED: &str = "some of these events are missing or unreadable; repair those first";

struct Checker<'a> {
    journal: &'a AnnalsJournal,
    id: &'a PersistenceId,
    findings: Findings,
    /// Where the next commit must start; `None` after an unreadable one.
    next: Option<u64>,
    /// The first commit without deleted events.
    first_intact: Option<u64>,
    /// The last deleted sequence number.
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
        findings: Findings::new(StoredKind::Event, id, repairs),
        next: Some(1),
        first_intact: None,
        deleted: 0,
    };
    let known = match journal.find_highest(id).await {
        Ok(known) => known.map_or(0, |known| journal.span.bucket(known).0),
        // The last commit is unreadable: check up to the first empty bucket.
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
    /// Returns whether this bucket or the next may have commits.
    async fn check_bucket(&mut self, bucket: Bucket) -> Result<bool> {
        let query = Query::of(keys::commits(self.id, bucket));
        let mut all = self.journal.store.query_all(&self.journal.table, query);
        let mut is_empty = true;
        while let Some(item) = all.try_next().await? {
            is_empty = false;
            self.check(&item).await?;
        }
        // A commit may span buckets.
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
                self.leave(Problem::Unreadable, number..=number, error_chain(&error));
                self.next = None;
                return Ok(());
            }
        };
        if let Some(next) = self.next.filter(|next| *next < number) {
            let detail = "no event has these sequence numbers".to_owned();
            self.leave(Problem::Gap, next..=number - 1, detail);
        }
        if let Some(next) = self.next.filter(|next| *next > number) {
            let detail = "two commits have these sequence numbers".to_owned();
            let numbers = number..=last.min(next - 1);
            self.findings
                .leave(Damage::new(Problem::Collision, numbers, detail), AMBIGUOUS);
        }
        self.next = self.next.max(Some(last + 1));
        if commit.is_deleted() {
            self.deleted = last;
        } else if commit.has_deleted_events() {
            self.deleted = number + commit.stored.header.gone - 1;
        } else {
            self.first_intact = self.first_intact.or(Some(number));
        }
        self.check_events(commit, last).await
    }

    async fn check_events(&mut self, commit: Commit, last: u64) -> Result<()> {
        let first = commit.first.get();
        match self.journal.events_of(commit).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                self.leave(Problem::Unreadable, first..=last, error_chain(&error));
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    fn leave(&mut self, problem: Problem, numbers: RangeInclusive<u64>, detail: String) {
        self.findings
            .leave(Damage::new(problem, numbers, detail), NO_OTHER_COPY);
    }

    /// Completes an interrupted deletion: events before a tombstone count as deleted.
    async fn finish(mut self) -> Result<Vec<Finding>> {
        let left = self.first_intact.filter(|first| *first < self.deleted);
        let left = left.and_then(SequenceNumber::new);
        if let Some((from, to)) = left.zip(SequenceNumber::new(self.deleted)) {
            let detail =
                "an interrupted deletion left these events, or they were restored".to_owned();
            let numbers = from.get()..=to.get();
            if self
                .findings
                .repair(Damage::new(Problem::Leftover, numbers, detail))
            {
                let deleted = deletion::delete_again(self.journal, self.id, from, to).await;
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

/// The ids in the table, each once, and stray items.
pub(super) fn scan(
    journal: &AnnalsJournal,
) -> impl Stream<Item = Result<ScannedEntry>> + Send + use<> {
    let all = journal.store.scan_all(&journal.table, Scan::whole());
    let scanner = Scanner {
        journal: journal.clone(),
        ids: SeenIds::default(),
        reached: HashMap::new(),
    };
    stream::try_unfold((scanner, all), |(mut scanner, mut all)| async move {
        while let Some(item) = all.try_next().await? {
            if let Some(entry) = scanner.entry(&item).await? {
                return Ok(Some((entry, (scanner, all))));
            }
        }
        Ok(None)
    })
}

struct Scanner {
    journal: AnnalsJournal,
    ids: SeenIds,
    /// The highest sequence number that a search finds, of ids with commits after their first bucket.
    reached: HashMap<PersistenceId, SequenceNumber>,
}

impl Scanner {
    async fn entry(&mut self, item: &Item) -> Result<Option<ScannedEntry>> {
        let key = self.journal.table.key_of(item)?;
        let partition = item.get("p").and_then(Value::as_str).unwrap_or_default();
        let number = item.get("n").and_then(Value::as_u64);
        let number = number.and_then(SequenceNumber::new);
        let is_stray = match (keys::parse_commits(partition), number) {
            (Some((id, bucket)), Some(number)) => {
                if bucket == Bucket(0) || self.is_reached(&id, number).await? {
                    return Ok(self.ids.first_seen(id));
                }
                // Unless it was purged since the scan read it.
                self.journal.item_at(&id, number).await?.is_some()
            }
            // The sweep checks chunks.
            _ => keys::parse_chunk(partition).is_none() && key != keys::record(),
        };
        let table = self.journal.table.name();
        let stray = || ScannedEntry::Stray(stray_item(StoredKind::Event, table, &key));
        Ok(is_stray.then(stray))
    }

    /// Whether readers find the commit: a search that starts in the first bucket ends at an empty one.
    async fn is_reached(&mut self, id: &PersistenceId, number: SequenceNumber) -> Result<bool> {
        if self.reached.get(id).is_some_and(|last| *last >= number) {
            return Ok(true);
        }
        match self.journal.find_highest(id).await {
            Ok(Some(last)) => {
                self.reached.insert(id.clone(), last);
                Ok(last >= number)
            }
            Ok(None) => Ok(false),
            // The check of the id reports what is unreadable.
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Finds chunks whose commit cannot be written any more, and deletes them if that is wanted.
pub(super) async fn orphans(
    journal: &AnnalsJournal,
    older_than: Duration,
    verify: Verify,
) -> Result<Vec<Finding>> {
    let (table, mut swept) = (journal.chunked_table(), Vec::new());
    let mut chunks = table.scan_chunks(older_than, keys::parse_chunk)?;
    while let Some(chunk) = chunks.try_next().await? {
        if is_orphan(journal, &chunk).await? {
            let detail = "a chunk of an append that did not complete";
            swept.extend(table.sweep(chunk, verify, detail).await?);
        }
    }
    Ok(swept)
}

/// Whether a chunk's commit does not exist and cannot be written any more.
async fn is_orphan(journal: &AnnalsJournal, chunk: &Chunk) -> Result<bool> {
    let Some(first) = SequenceNumber::new(chunk.owner.number) else {
        return Ok(chunk.is_old);
    };
    match journal.commit_at(&chunk.id, first).await {
        // The append may be in flight.
        Ok(None) => Ok(chunk.is_old),
        // Used keys are never freed: if the chunk is not this commit's, it never will be used.
        Ok(Some(commit)) => Ok(!commit.chunk_keys().contains(&chunk.key)),
        // A damaged commit may refer to it.
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}
