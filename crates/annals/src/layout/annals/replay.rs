//! Replay: buckets in order, pages as they come, the next buckets read ahead.
//!
//! Promises: every event of the window, in order, or an error; memory for a few pages however long
//! the journal is. The end is where the bucket of the successor has been read, from the successor
//! to the bucket's end, without finding it. A commit that the window cuts is fetched and its
//! visible part delivered.
//! Trusts: that commits are deleted from the first on, `AT_ONCE` in no order, so what stands before
//! a mark is meant to go.

use std::collections::VecDeque;
use std::pin::Pin;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::commit::Commit;
use super::deletion::AT_ONCE;
use super::journal::AnnalsJournal;
use super::keys::{self, Bucket};
use crate::items::limits::PAGE_BYTES_MAX;
use crate::items::{KeyPart, Page, Query, SortRange, query_pages};
use crate::journal::{EventStream, Window};
use crate::{Error, Event, PersistenceId, Result, SequenceNumber};

/// How many decoded pages wait for the reader.
const PAGES_WAITING: usize = 1;
/// How many buckets are read ahead at the most, a page of each.
const AHEAD_MAX: u64 = 8;
/// One bucket ahead for so many already read, so that what is read in vain past the end stays a
/// small share of the whole.
const READ_FOR_ONE_AHEAD: u64 = 5;

type Pages = Pin<Box<dyn Stream<Item = Result<Page>> + Send>>;

/// The events of the window. Reading goes on in a task of its own until the stream is dropped.
pub(super) fn start(journal: AnnalsJournal, id: PersistenceId, window: Window) -> EventStream {
    // Without a first poll nothing is read.
    let begin = stream::once(async move {
        let (pages, waiting) = mpsc::channel(PAGES_WAITING);
        let reader = Reader {
            journal,
            id,
            window,
            left: window.max,
            next: Some(window.from),
            has_delivered: false,
            buckets_read: 0,
            ahead: VecDeque::new(),
            pages,
        };
        let task = AbortOnDrop(tokio::spawn(reader.run().in_current_span()));
        stream::unfold((waiting, task), |(mut waiting, task)| async move {
            let page = waiting.recv().await?;
            let page: Vec<Result<Event>> = match page {
                Ok(events) => events.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            Some((stream::iter(page), (waiting, task)))
        })
        .flatten()
    });
    Box::pin(begin.flatten())
}

/// Whether a mark may still follow these first commits of a replay in their bucket. A deletion that
/// is under way or was cut off has marked everything up to some commit, and some of the next
/// `AT_ONCE` commits, in no order, none of them in another bucket.
fn is_in_doubt(commits: &[Commit]) -> bool {
    let unmarked = commits.iter().position(|commit| !commit.is_touched());
    unmarked.is_some_and(|first| commits.len() - first < AT_ONCE)
}

/// A task that ends with its owner.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A bucket whose first page has been asked for, from its beginning or from where it is wanted.
struct Ahead {
    bucket: Bucket,
    pages: AbortOnDrop<(Option<Result<Page>>, Pages)>,
}

struct Reader {
    journal: AnnalsJournal,
    id: PersistenceId,
    window: Window,
    /// How many more events may be delivered.
    left: u64,
    /// Where the next commit must start: at 1, or right behind another. Before the start is found,
    /// where the window does. `None` where there are no more numbers.
    next: Option<SequenceNumber>,
    has_delivered: bool,
    buckets_read: u64,
    ahead: VecDeque<Ahead>,
    pages: mpsc::Sender<Result<Vec<Event>>>,
}

/// What a stretch of reading came to.
#[derive(PartialEq, Eq)]
enum Then {
    /// All was read, up to its end or as far as it is wanted.
    Read,
    /// A low mark leads further; what was read behind it does not count.
    Jump,
    /// Nobody listens any more.
    Closed,
}

impl Reader {
    async fn run(mut self) {
        if let Err(error) = self.read().await {
            // A reader that went away wants no error either.
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
                Then::Closed => return Ok(()),
                Then::Jump => self.ahead.clear(),
                // The successor's own bucket was read to its end, and it was not there.
                Then::Read
                    if self.next.map(|next| self.journal.span.bucket(next)) == Some(bucket) =>
                {
                    break;
                }
                Then::Read => self.buckets_read += 1,
            }
        }
        // Commits end right before wherever the next one must start.
        let last = self.next.map(|next| SequenceNumber::new(next.get() - 1));
        // What was only believed is not taught again: a purge may have made it untrue meanwhile.
        let is_seen = !was_known || self.next != Some(self.window.from);
        if let Some(last) = last.flatten().filter(|_| is_seen) {
            self.journal.heads.learn(&self.id, last);
        }
        Ok(())
    }

    /// Where the next commit must start, if it is still wanted.
    fn wanted(&self) -> Option<SequenceNumber> {
        let next = self.next.filter(|next| *next <= self.window.to);
        next.filter(|_| self.left > 0)
    }

    /// Whether a commit is known to start where the window does, or to come there.
    fn is_at_boundary(&self) -> bool {
        match SequenceNumber::new(self.window.from.get() - 1) {
            None => true,
            before => self.journal.heads.get(&self.id) == before,
        }
    }

    /// Finds the commit that the window begins with, or begins inside of; answers whether there is
    /// one. Any commit that starts at or before the window will do to go on from, so the reading
    /// begins where one is likely to: at the anchor, or right before the window, which proves that
    /// nothing is missing also where the window turns out empty.
    async fn find_start(&mut self) -> Result<bool> {
        let from = self.window.from;
        let anchor = self.anchor();
        let mut pages = self.pages_of(anchor);
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
            // The window begins past the end, unless something stands behind its beginning.
            return found.map_or(Ok(false), |found| Err(self.gap(found)));
        };
        self.next = Some(commit.first);
        Ok(true)
    }

    /// A number of the window's first bucket, at or before the window.
    fn anchor(&self) -> SequenceNumber {
        let from = self.window.from;
        let before = self.window.anchor.filter(|anchor| *anchor <= from);
        let before = before.or_else(|| SequenceNumber::new(from.get() - 1));
        let span = self.journal.span;
        let near = before.filter(|before| span.bucket(*before) == span.bucket(from));
        near.unwrap_or(from)
    }

    /// Reads a bucket from `next` on.
    async fn read_bucket(&mut self, bucket: Bucket, next: SequenceNumber) -> Result<Then> {
        let mut pages = match self.take_ahead(bucket) {
            None => self.pages_of(next),
            Some(mut ahead) => {
                let read = (&mut ahead.pages.0).await;
                let (first, rest) =
                    read.map_err(|e| Error::unavailable("a read was cut off").because(e))?;
                Box::pin(stream::iter(first).chain(rest)) as Pages
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
            if !self.has_delivered && is_in_doubt(&held) {
                continue;
            }
            let then = self.deliver(std::mem::take(&mut held)).await?;
            if then != Then::Read || self.wanted().is_none() {
                return Ok(then);
            }
        }
        self.deliver(held).await
    }

    /// The bucket as it was asked for before, if it was; others before it are of no use any more.
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

    /// The commits of a number's bucket that start at that number or behind it.
    fn pages_of(&self, from: SequenceNumber) -> Pages {
        let (from_key, to_key) = (from.get(), self.window.to.get());
        let range = SortRange::Between(KeyPart::from(from_key), KeyPart::from(to_key));
        let bucket = self.journal.span.bucket(from);
        let mut query = Query::of(keys::commits(&self.id, bucket)).within(range);
        // Every commit has an event at least, so no more commits than events are of use, besides
        // those before the window, and those that are looked at before the first is delivered.
        let before = self.window.from.get().saturating_sub(from_key);
        let wanted = self.left.saturating_add(before);
        let looked_at = if self.has_delivered {
            0
        } else {
            AT_ONCE as u64
        };
        if let Ok(limit) = u32::try_from(wanted.max(looked_at)) {
            query = query.limit(limit);
        }
        let (items, table) = (
            self.journal.store.items().clone(),
            self.journal.table.clone(),
        );
        Box::pin(query_pages(items, table, query))
    }

    /// Asks for the first pages of the buckets behind this one.
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

    /// Checks that commits follow one another and hands their events on.
    async fn deliver(&mut self, commits: Vec<Commit>) -> Result<Then> {
        // Deletions go from the first commit on. What stands before a mark was not reached yet by
        // one that is under way or was cut off: it is deleted all the same.
        let deleted = commits.iter().rposition(Commit::is_touched);
        if deleted.is_some() && self.has_delivered {
            return Err(self.overtaken());
        }
        let mut out = Vec::new();
        let mut bytes = 0;
        for (place, commit) in commits.into_iter().enumerate() {
            let last = commit.last()?;
            if self.next != Some(commit.first) {
                return Err(self.gap(commit.first));
            }
            let low = commit.low().unwrap_or(last).max(last);
            self.next = low.next();
            if deleted.is_none_or(|deleted| deleted <= place) {
                for event in self.visible(commit).await? {
                    bytes += event.data.payload.len();
                    out.push(event);
                }
            }
            if low > last || self.wanted().is_none() || bytes >= PAGE_BYTES_MAX {
                bytes = 0;
                if !self.hand_on(std::mem::take(&mut out)).await {
                    return Ok(Then::Closed);
                }
            }
            if low > last {
                return Ok(Then::Jump);
            }
            if self.wanted().is_none() {
                return Ok(Then::Read);
            }
        }
        Ok(match self.hand_on(out).await {
            true => Then::Read,
            false => Then::Closed,
        })
    }

    /// The events of a commit that the window shows.
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

    /// Answers whether somebody still listens.
    async fn hand_on(&mut self, events: Vec<Event>) -> bool {
        if events.is_empty() {
            return true;
        }
        self.has_delivered = true;
        self.pages.send(Ok(events)).await.is_ok()
    }

    fn gap(&self, found: SequenceNumber) -> Error {
        let (id, next) = (&self.id, self.next.map_or(0, SequenceNumber::get));
        Error::corrupt(format!(
            "events are missing from the journal; an operator must look. id=`{id}`, missing from=`{next}`, next found=`{found}`"
        ))
    }

    /// Going on would leave out events between what was delivered and what follows.
    fn overtaken(&self) -> Error {
        let id = &self.id;
        Error::unavailable(format!(
            "events were deleted while they were read; replay again, and repeat a deletion that was cut off. id=`{id}`"
        ))
    }
}
