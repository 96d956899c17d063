//! Replay: buckets in order, page by page, while the next page is read.
//!
//! Guarantees: every event of the window, in order, or an error; memory for a few pages, however long
//! the journal is. The replay ends after the successor's bucket was read, from the successor on,
//! without finding it. If the window begins or ends inside a commit, only its events inside the
//! window are delivered. Relies on deletions in order, in unordered batches of `BATCH`: a commit
//! before a tombstone counts as deleted.
//!
//! The caller's task decodes, so that an event is used by the thread that made it; pages are requested
//! ahead by tasks of their own. The first page is not: most replays need no other.

use std::collections::VecDeque;
use std::vec;

use futures::stream::{self, StreamExt};
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::commit::{Commit, CommitReader};
use super::deletion::BATCH;
use super::journal::AnnalsJournal;
use super::keys::{self, Bucket};
use crate::items::limits::PAGE_BYTES_MAX;
use crate::items::{KeyPart, Page, PageStream, Query, SortRange};
use crate::journal::{EventStream, Window};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// About how many events are decoded at once: few enough to be in the processor's cache when they are
/// used.
const EVENTS_AT_ONCE: usize = 256;
/// Maximum buckets that are read ahead, a page of each.
const AHEAD_MAX: u64 = 8;
/// Buckets that must have been read per bucket of read-ahead, so that useless reads after the end stay
/// a small share.
const READ_FOR_ONE_AHEAD: u64 = 5;

/// The events of the window. Nothing is read before the first poll.
pub(super) fn start(
    journal: AnnalsJournal,
    id: PersistenceId,
    window: Window,
    anchor: Option<SequenceNumber>,
) -> EventStream {
    let reader = Reader {
        commits: CommitReader::new(id.clone(), journal.span),
        journal,
        id,
        window,
        anchor,
        left: window.max,
        next: Some(window.from),
        stage: Stage::Start,
        was_known: false,
        has_delivered: false,
        buckets_read: 0,
        ready: Ready::default(),
        ahead: VecDeque::new(),
    };
    EventStream::of_batches(stream::try_unfold(
        Box::new(reader),
        |mut reader| async move {
            let events = reader.next_events().await?;
            Ok(events.map(|events| (events, reader)))
        },
    ))
}

/// Whether a tombstone may follow these first commits of a replay in their bucket. A deletion in
/// flight, or an interrupted one, has deleted everything up to some commit, and some of the next
/// `BATCH` commits of the same bucket, in no order.
fn may_be_deleted(commits: &[Commit]) -> bool {
    let intact = commits
        .iter()
        .position(|commit| !commit.has_deleted_events());
    intact.is_some_and(|first| commits.len() - first < BATCH)
}

/// A task that ends with its owner.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A task that reads a page, and the pages after it.
type NextPage = AbortOnDrop<(Option<Result<Page>>, PageStream)>;

/// Requests the next page, without waiting for it.
fn request(mut pages: PageStream) -> NextPage {
    let next = async move { (pages.next().await, pages) };
    AbortOnDrop(tokio::spawn(next.in_current_span()))
}

/// A bucket whose first page was requested.
struct Ahead {
    bucket: Bucket,
    first: PageOf,
}

/// The pages of a bucket.
struct BucketPages {
    bucket: Bucket,
    next: PageOf,
    /// Commits that are checked before the first delivery.
    held: Vec<Commit>,
}

/// The next page of a bucket.
enum PageOf {
    /// Not requested yet.
    Stream(PageStream),
    Requested(NextPage),
    Read(Page, PageStream),
    /// There is none.
    End,
}

impl BucketPages {
    async fn next(&mut self) -> Result<Option<Page>> {
        let (page, pages) = match std::mem::replace(&mut self.next, PageOf::End) {
            PageOf::Stream(mut pages) => (pages.next().await, pages),
            PageOf::Read(page, pages) => (Some(Ok(page)), pages),
            PageOf::Requested(mut task) => (&mut task.0)
                .await
                .map_err(|e| Error::unavailable("a read was aborted; try again").because(e))?,
            PageOf::End => return Ok(None),
        };
        let page = page.transpose()?;
        if page.is_some() {
            self.next = PageOf::Stream(pages);
        }
        Ok(page)
    }

    fn request_next(&mut self) {
        self.next = match std::mem::replace(&mut self.next, PageOf::End) {
            PageOf::Stream(pages) => PageOf::Requested(request(pages)),
            other => other,
        };
    }
}

/// Where a replay is.
enum Stage {
    Start,
    /// Before a bucket.
    Between,
    Bucket(Box<BucketPages>),
    End,
}

/// Commits to deliver.
#[derive(Default)]
struct Ready {
    commits: vec::IntoIter<Commit>,
    /// How many of them count as deleted.
    deleted: usize,
}

struct Reader {
    journal: AnnalsJournal,
    id: PersistenceId,
    window: Window,
    /// Where an append is believed to begin, at or before the window.
    anchor: Option<SequenceNumber>,
    commits: CommitReader,
    /// The remaining number of events to deliver.
    left: u64,
    /// Where the next commit must start: at 1, or directly after another one. Before the start is
    /// found, the window's start. `None` after the last sequence number there can be.
    next: Option<SequenceNumber>,
    stage: Stage,
    /// Whether the start was known without a read.
    was_known: bool,
    has_delivered: bool,
    buckets_read: u64,
    ready: Ready,
    ahead: VecDeque<Ahead>,
}

impl Reader {
    /// The next events; `None` after the last.
    async fn next_events(&mut self) -> Result<Option<Vec<Event>>> {
        loop {
            let events = self.deliver().await?;
            if !events.is_empty() {
                self.has_delivered = true;
                return Ok(Some(events));
            }
            self.stage = match std::mem::replace(&mut self.stage, Stage::End) {
                Stage::Start => self.begin().await?,
                Stage::Between => self.next_bucket(),
                Stage::Bucket(pages) => self.read_page(pages).await?,
                Stage::End => return Ok(None),
            };
        }
    }

    async fn begin(&mut self) -> Result<Stage> {
        self.was_known = self.is_at_boundary();
        let has_start = self.was_known || self.find_start().await?;
        Ok(match has_start {
            true => Stage::Between,
            false => Stage::End,
        })
    }

    fn next_bucket(&mut self) -> Stage {
        let Some(next) = self.wanted() else {
            return self.end();
        };
        let bucket = self.journal.span.bucket(next);
        let next = match self.take_ahead(bucket) {
            None => PageOf::Stream(self.pages_of(next, self.left)),
            Some(ahead) => ahead.first,
        };
        Stage::Bucket(Box::new(BucketPages {
            bucket,
            next,
            held: Vec::new(),
        }))
    }

    /// Remembers what was read.
    fn end(&mut self) -> Stage {
        // A commit ends directly before the start of the next one.
        let last = self.next.map(|next| SequenceNumber::new(next.get() - 1));
        // Do not cache again what was only read from the cache: a purge may have changed it.
        let is_seen = !self.was_known || self.next != Some(self.window.from);
        if let Some(last) = last.flatten().filter(|_| is_seen) {
            self.journal.learn(&self.id, last);
        }
        Stage::End
    }

    /// Reads a page of a bucket, or leaves the bucket after its last.
    async fn read_page(&mut self, mut pages: Box<BucketPages>) -> Result<Stage> {
        let Some(page) = pages.next().await? else {
            if !pages.held.is_empty() {
                self.prepare(std::mem::take(&mut pages.held))?;
                return Ok(Stage::Bucket(pages));
            }
            let next = self.next.map(|next| self.journal.span.bucket(next));
            // The successor's bucket was read to its end without finding it.
            if next == Some(pages.bucket) {
                return Ok(self.end());
            }
            self.buckets_read += 1;
            return Ok(Stage::Between);
        };
        pages.held.reserve(page.items.len());
        for item in &page.items {
            pages.held.push(self.commits.read(item)?);
        }
        if !page.items.is_empty() {
            self.read_ahead(&mut pages)?;
        }
        if self.has_delivered || !may_be_deleted(&pages.held) {
            self.prepare(std::mem::take(&mut pages.held))?;
        }
        Ok(Stage::Bucket(pages))
    }

    /// Makes commits ready to be delivered.
    fn prepare(&mut self, commits: Vec<Commit>) -> Result<()> {
        // Deletions go in order. A commit before a tombstone counts as deleted, even if a deletion in
        // flight, or an interrupted one, has not reached it.
        let deleted = commits.iter().rposition(Commit::has_deleted_events);
        if deleted.is_some() && self.has_delivered {
            return Err(self.overtaken());
        }
        self.ready = Ready {
            commits: commits.into_iter(),
            deleted: deleted.unwrap_or(0),
        };
        Ok(())
    }

    /// Checks that the commits which are ready follow each other, and returns events of some.
    async fn deliver(&mut self) -> Result<Vec<Event>> {
        let ready = self.ready.commits.len();
        let (mut events, mut bytes) = (Vec::with_capacity(ready.min(EVENTS_AT_ONCE)), 0);
        while let Some(mut commit) = self.ready.commits.next() {
            let last = commit.last()?;
            if self.next != Some(commit.first) {
                return Err(self.gap(commit.first));
            }
            let low = commit.low().unwrap_or(last).max(last);
            self.next = low.next();
            match self.ready.deleted {
                0 => {
                    // Most have no chunks, and are not moved.
                    if commit.chunk_summary().is_some() {
                        commit = self.join(commit).await?;
                    }
                    bytes += self.push_visible(&mut commit, &mut events)?;
                }
                _ => self.ready.deleted -= 1,
            }
            if low > last || self.wanted().is_none() {
                // Continue after the low watermark, or not at all; what was read after this commit
                // does not count.
                self.ready = Ready::default();
                self.ahead.clear();
                self.stage = Stage::Between;
            }
            if events.len() >= EVENTS_AT_ONCE || bytes >= PAGE_BYTES_MAX {
                break;
            }
        }
        Ok(events)
    }

    /// Where the next commit must start, if it is inside the window.
    fn wanted(&self) -> Option<SequenceNumber> {
        let next = self.next.filter(|next| *next <= self.window.to);
        next.filter(|_| self.left > 0)
    }

    /// Whether the cache knows that a commit ends directly before the window.
    fn is_at_boundary(&self) -> bool {
        match SequenceNumber::new(self.window.from.get() - 1) {
            None => true,
            before => self.journal.known_last(&self.id) == before,
        }
    }

    /// Finds the commit at the start of the window; returns whether there is one. Any commit that
    /// starts at or before the window is good enough, so the read begins where one is likely: at the
    /// anchor, or directly before the window, which also proves that nothing is missing if the window
    /// is empty.
    async fn find_start(&mut self) -> Result<bool> {
        let from = self.window.from;
        let mut pages = self.pages_of(self.first_read(), self.left);
        let first = pages.next().await.transpose()?;
        let item = first.as_ref().and_then(|page| page.items.first());
        let found = item.map(|item| self.commits.read(item));
        let found = found.transpose()?.map(|found| found.first);
        if let Some(start) = found.filter(|found| *found <= from) {
            self.next = Some(start);
            self.ahead.push_back(Ahead {
                bucket: self.journal.span.bucket(start),
                first: first.map_or(PageOf::End, |first| PageOf::Read(first, pages)),
            });
            return Ok(true);
        }
        let Some(commit) = self.journal.covering(&self.id, from).await? else {
            // The window is after the end, unless there is a later commit.
            return found.map_or(Ok(false), |found| Err(self.gap(found)));
        };
        self.next = Some(commit.first);
        Ok(true)
    }

    /// A sequence number in the window's first bucket, at or before the window.
    fn first_read(&self) -> SequenceNumber {
        let from = self.window.from;
        let before = self.anchor.filter(|anchor| *anchor <= from);
        let before = before.or_else(|| SequenceNumber::new(from.get() - 1));
        let span = self.journal.span;
        let near = before.filter(|before| span.bucket(*before) == span.bucket(from));
        near.unwrap_or(from)
    }

    /// The read-ahead of a bucket, if there is one; earlier ones are dropped.
    fn take_ahead(&mut self, bucket: Bucket) -> Option<Ahead> {
        while self
            .ahead
            .front()
            .is_some_and(|ahead| ahead.bucket < bucket)
        {
            self.ahead.pop_front();
        }
        let is_next = |ahead: &Ahead| ahead.bucket == bucket;
        match self.ahead.front().is_some_and(is_next) {
            true => self.ahead.pop_front(),
            false => None,
        }
    }

    /// The pages of a bucket, from a sequence number on, for so many events.
    fn pages_of(&self, from: SequenceNumber, left: u64) -> PageStream {
        let (from_key, to_key) = (from.get(), self.window.to.get());
        let range = SortRange::Between(KeyPart::from(from_key), KeyPart::from(to_key));
        let bucket = self.journal.span.bucket(from);
        let mut query = Query::of(keys::commits(&self.id, bucket)).within(range);
        // Every commit has at least one event, so no more commits than events are needed, besides
        // those before the window and those that are checked before the first delivery.
        let before = self.window.from.get().saturating_sub(from_key);
        let wanted = left.saturating_add(before);
        let checked = if self.has_delivered { 0 } else { BATCH as u64 };
        if let Ok(limit) = u32::try_from(wanted.max(checked)) {
            query = query.limit(limit);
        }
        self.journal.store.query_pages(&self.journal.table, query)
    }

    /// Requests what is read after these pages: their next one, and the first ones of the buckets
    /// after them.
    fn read_ahead(&mut self, pages: &mut BucketPages) -> Result<()> {
        let jumps = pages.held.iter().any(|commit| commit.low().is_some());
        let (Some(first), Some(last), false) = (pages.held.first(), pages.held.last(), jumps)
        else {
            return Ok(());
        };
        let next = last.last()?.next().filter(|next| *next <= self.window.to);
        let after = next.map_or(u64::MAX, SequenceNumber::get);
        let held = after.saturating_sub(first.first.max(self.window.from).get());
        let left = self.left.saturating_sub(held);
        let Some(next) = next.filter(|_| left > 0) else {
            // Enough was read.
            return Ok(());
        };
        let (span, bucket) = (self.journal.span, pages.bucket);
        let successor = span.bucket(next);
        if successor > bucket {
            // The next bucket that is read in any case.
            self.request_bucket(successor, next, left);
        } else if self.has_delivered {
            pages.request_next();
        }
        let wanted = (self.buckets_read / READ_FOR_ONE_AHEAD).min(AHEAD_MAX);
        let wanted = wanted.min(self.left / span.0);
        let last = span.bucket(self.window.to);
        for number in bucket.0 + 1..=(bucket.0 + wanted).min(last.0) {
            let bucket = Bucket(number);
            let Some(first) = span.first_of(bucket) else {
                break;
            };
            self.request_bucket(bucket, first, self.left);
        }
        Ok(())
    }

    /// Requests the first page of a bucket, if it is not requested yet.
    fn request_bucket(&mut self, bucket: Bucket, from: SequenceNumber, left: u64) {
        let last = self.ahead.back().map(|ahead| ahead.bucket);
        if last.is_none_or(|last| last < bucket) {
            let first = PageOf::Requested(request(self.pages_of(from, left)));
            self.ahead.push_back(Ahead { bucket, first });
        }
    }

    /// The commit with its chunks.
    async fn join(&mut self, commit: Commit) -> Result<Commit> {
        let whole = self.journal.joined(commit).await?;
        whole.ok_or_else(|| self.overtaken())
    }

    /// Adds the events of a commit inside the window; returns the bytes of their payloads.
    fn push_visible(&mut self, commit: &mut Commit, events: &mut Vec<Event>) -> Result<usize> {
        let before = events.len();
        let (from, to) = (self.window.from, self.window.to);
        let left = &mut self.left;
        commit.drain_events(events, |number| {
            let is_wanted = *left > 0 && from <= number && number <= to;
            *left -= u64::from(is_wanted);
            is_wanted
        })?;
        let added = events.iter().skip(before);
        Ok(added.map(|event| event.data.payload.len()).sum())
    }

    fn gap(&self, found: SequenceNumber) -> Error {
        let (id, next) = (&self.id, self.next.map_or(0, SequenceNumber::get));
        Error::corrupt("events are missing from the journal; run `annals verify`")
            .fact("id", id)
            .fact("missing from", next)
            .fact("next found", found)
    }

    /// Continuing would omit events between those delivered and the next ones.
    fn overtaken(&self) -> Error {
        let id = &self.id;
        Error::unavailable(
            "events were deleted during the replay; replay again, and repeat an interrupted deletion",
        )
        .fact("id", id)
    }
}
