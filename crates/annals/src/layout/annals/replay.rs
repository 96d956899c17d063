//! Replay: buckets in order, page by page, with read-ahead of the next buckets.
//!
//! Guarantees: every event of the window, in order, or an error; memory for a few pages, however long
//! the journal is. The replay ends after the successor's bucket was read, from the successor on,
//! without finding it. If the window begins or ends inside a commit, only its events inside the
//! window are delivered. Relies on deletions in order, in unordered batches of `BATCH`: a commit
//! before a tombstone counts as deleted.

use std::collections::VecDeque;

use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::commit::Commit;
use super::deletion::BATCH;
use super::journal::AnnalsJournal;
use super::keys::{self, Bucket};
use crate::items::limits::PAGE_BYTES_MAX;
use crate::items::{KeyPart, Page, PageStream, Query, SortRange};
use crate::journal::{EventStream, Window};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// Decoded pages that are queued for the reader.
const PAGES_QUEUED: usize = 1;
/// Maximum buckets that are read ahead, a page of each.
const AHEAD_MAX: u64 = 8;
/// Buckets that must have been read per bucket of read-ahead, so that useless reads after the end stay
/// a small share.
const READ_FOR_ONE_AHEAD: u64 = 5;

/// The events of the window, read by a task of its own until the stream is dropped.
pub(super) fn start(
    journal: AnnalsJournal,
    id: PersistenceId,
    window: Window,
    anchor: Option<SequenceNumber>,
) -> EventStream {
    // Nothing is read before the first poll.
    let begin = stream::once(async move {
        let (pages, queue) = mpsc::channel(PAGES_QUEUED);
        let reader = Reader {
            journal,
            id,
            window,
            anchor,
            left: window.max,
            next: Some(window.from),
            has_delivered: false,
            buckets_read: 0,
            ahead: VecDeque::new(),
            pages,
        };
        let task = AbortOnDrop(tokio::spawn(reader.run().in_current_span()));
        stream::unfold((queue, task), |(mut queue, task)| async move {
            let page = queue.recv().await?;
            let page: Vec<Result<Event>> = match page {
                Ok(events) => events.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            Some((stream::iter(page), (queue, task)))
        })
        .flatten()
    });
    EventStream::new(begin.flatten())
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

/// A bucket whose first page was requested.
struct Ahead {
    bucket: Bucket,
    pages: AbortOnDrop<(Option<Result<Page>>, PageStream)>,
}

struct Reader {
    journal: AnnalsJournal,
    id: PersistenceId,
    window: Window,
    /// Where an append is believed to begin, at or before the window.
    anchor: Option<SequenceNumber>,
    /// The remaining number of events to deliver.
    left: u64,
    /// Where the next commit must start: at 1, or directly after another one. Before the start is
    /// found, the window's start. `None` after the last sequence number there can be.
    next: Option<SequenceNumber>,
    has_delivered: bool,
    buckets_read: u64,
    ahead: VecDeque<Ahead>,
    pages: mpsc::Sender<Result<Vec<Event>>>,
}

/// The result of reading some commits.
#[derive(PartialEq, Eq)]
enum Progress {
    /// Read to the end, or as far as wanted.
    Done,
    /// Continue after the low watermark; commits read after it do not count.
    Jump,
    /// The reader is gone.
    Closed,
}

impl Reader {
    async fn run(mut self) {
        if let Err(error) = self.read().await {
            // If the reader is gone, so is its interest in errors.
            let _ = self.pages.send(Err(error)).await;
        }
    }

    async fn read(&mut self) -> Result<()> {
        let was_known = self.is_at_boundary();
        if !was_known && !self.find_start().await? {
            return Ok(());
        }
        while let Some(next) = self.wanted() {
            let bucket = self.journal.span.bucket(next);
            match self.read_bucket(bucket, next).await? {
                Progress::Closed => return Ok(()),
                Progress::Jump => self.ahead.clear(),
                // The successor's bucket was read to its end without finding it.
                Progress::Done
                    if self.next.map(|next| self.journal.span.bucket(next)) == Some(bucket) =>
                {
                    break;
                }
                Progress::Done => self.buckets_read += 1,
            }
        }
        // A commit ends directly before the start of the next one.
        let last = self.next.map(|next| SequenceNumber::new(next.get() - 1));
        // Do not cache again what was only read from the cache: a purge may have changed it.
        let is_seen = !was_known || self.next != Some(self.window.from);
        if let Some(last) = last.flatten().filter(|_| is_seen) {
            self.journal.learn(&self.id, last);
        }
        Ok(())
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
        let mut pages = self.pages_of(self.first_read());
        let first = pages.next().await.transpose()?;
        let item = first.as_ref().and_then(|page| page.items.first());
        let found = item.map(|item| self.journal.commit_of(&self.id, item));
        let found = found.transpose()?.map(|found| found.first);
        if let Some(start) = found.filter(|found| *found <= from) {
            self.next = Some(start);
            self.ahead.push_back(Ahead {
                bucket: self.journal.span.bucket(start),
                pages: AbortOnDrop(tokio::spawn(async { (first.map(Ok), pages) })),
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

    /// Reads a bucket from `next` on.
    async fn read_bucket(&mut self, bucket: Bucket, next: SequenceNumber) -> Result<Progress> {
        let mut pages = match self.take_ahead(bucket) {
            None => self.pages_of(next),
            Some(mut ahead) => {
                let read = (&mut ahead.pages.0).await;
                let (first, rest) = read
                    .map_err(|e| Error::unavailable("a read was aborted; try again").because(e))?;
                PageStream::new(stream::iter(first).chain(rest))
            }
        };
        let mut held = Vec::new();
        while let Some(page) = pages.try_next().await? {
            for item in &page.items {
                held.push(self.journal.commit_of(&self.id, item)?);
            }
            if !page.items.is_empty() {
                self.read_ahead(bucket);
            }
            if !self.has_delivered && may_be_deleted(&held) {
                continue;
            }
            let progress = self.deliver(std::mem::take(&mut held)).await?;
            if progress != Progress::Done || self.wanted().is_none() {
                return Ok(progress);
            }
        }
        self.deliver(held).await
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

    /// The pages of a bucket, from a sequence number on.
    fn pages_of(&self, from: SequenceNumber) -> PageStream {
        let (from_key, to_key) = (from.get(), self.window.to.get());
        let range = SortRange::Between(KeyPart::from(from_key), KeyPart::from(to_key));
        let bucket = self.journal.span.bucket(from);
        let mut query = Query::of(keys::commits(&self.id, bucket)).within(range);
        // Every commit has at least one event, so no more commits than events are needed, besides
        // those before the window and those that are checked before the first delivery.
        let before = self.window.from.get().saturating_sub(from_key);
        let wanted = self.left.saturating_add(before);
        let checked = if self.has_delivered { 0 } else { BATCH as u64 };
        if let Ok(limit) = u32::try_from(wanted.max(checked)) {
            query = query.limit(limit);
        }
        self.journal.store.query_pages(&self.journal.table, query)
    }

    /// Requests the first pages of the buckets after this one.
    fn read_ahead(&mut self, bucket: Bucket) {
        let span = self.journal.span;
        let wanted = (self.buckets_read / READ_FOR_ONE_AHEAD).min(AHEAD_MAX);
        let wanted = wanted.min(self.left / span.0);
        let last = span.bucket(self.window.to);
        let known = self.ahead.back().map_or(bucket, |ahead| ahead.bucket);
        for number in known.0 + 1..=(bucket.0 + wanted).min(last.0) {
            let bucket = Bucket(number);
            let Some(first) = span.first_of(bucket) else {
                return;
            };
            let mut pages = self.pages_of(first);
            let first = async move { (pages.next().await, pages) };
            self.ahead.push_back(Ahead {
                bucket,
                pages: AbortOnDrop(tokio::spawn(first.in_current_span())),
            });
        }
    }

    /// Checks that commits follow each other, and delivers their events.
    async fn deliver(&mut self, commits: Vec<Commit>) -> Result<Progress> {
        // Deletions go in order. A commit before a tombstone counts as deleted, even if a deletion in
        // flight, or an interrupted one, has not reached it.
        let deleted = commits.iter().rposition(Commit::has_deleted_events);
        if deleted.is_some() && self.has_delivered {
            return Err(self.overtaken());
        }
        let mut out = Vec::new();
        let mut bytes = 0;
        for (index, commit) in commits.into_iter().enumerate() {
            let last = commit.last()?;
            if self.next != Some(commit.first) {
                return Err(self.gap(commit.first));
            }
            let low = commit.low().unwrap_or(last).max(last);
            self.next = low.next();
            if deleted.is_none_or(|deleted| deleted <= index) {
                for event in self.visible(commit).await? {
                    bytes += event.data.payload.len();
                    out.push(event);
                }
            }
            if low > last || self.wanted().is_none() || bytes >= PAGE_BYTES_MAX {
                bytes = 0;
                if !self.send(std::mem::take(&mut out)).await {
                    return Ok(Progress::Closed);
                }
            }
            if low > last {
                return Ok(Progress::Jump);
            }
            if self.wanted().is_none() {
                return Ok(Progress::Done);
            }
        }
        Ok(match self.send(out).await {
            true => Progress::Done,
            false => Progress::Closed,
        })
    }

    /// The events of a commit inside the window.
    async fn visible(&mut self, commit: Commit) -> Result<Vec<Event>> {
        let Some(mut events) = self.journal.events_of(commit).await? else {
            return Err(self.overtaken());
        };
        let window = self.window.from..=self.window.to;
        events.retain(|event| window.contains(&event.sequence_number));
        events.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= events.len() as u64;
        Ok(events)
    }

    /// Sends events; returns whether the reader is still there.
    async fn send(&mut self, events: Vec<Event>) -> bool {
        if events.is_empty() {
            return true;
        }
        self.has_delivered = true;
        self.pages.send(Ok(events)).await.is_ok()
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
