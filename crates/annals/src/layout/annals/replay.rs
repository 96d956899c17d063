//! Replay: buckets in order, pages as they come, the next buckets read ahead.
//!
//! Promises: every event of the window, in order, or an error; memory for a few pages however long
//! the journal is. A commit that the window cuts is fetched and its visible part delivered.

use std::collections::VecDeque;
use std::pin::Pin;

use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::commit::Commit;
use super::journal::AnnalsJournal;
use super::keys::{self, Bucket};
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
            next: None,
            ahead: VecDeque::new(),
            pages,
        };
        let task = AbortOnDrop(tokio::spawn(reader.run()));
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

/// A task that ends with its owner.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A bucket whose first page has been asked for.
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
    /// Where the next commit must start; `None` until the first one is found.
    next: Option<SequenceNumber>,
    ahead: VecDeque<Ahead>,
    pages: mpsc::Sender<Result<Vec<Event>>>,
}

/// Whether to go on.
#[derive(PartialEq, Eq)]
enum Then {
    Go,
    Stop,
}

impl Reader {
    async fn run(mut self) {
        if let Err(error) = self.read().await {
            // A reader that went away wants no error either.
            let _ = self.pages.send(Err(error)).await;
        }
    }

    async fn read(&mut self) -> Result<()> {
        let from = self.window.from;
        let is_start = match SequenceNumber::new(from.get() - 1) {
            None => true,
            Some(before) => self.journal.heads.get(&self.id) == Some(before),
        };
        if is_start {
            self.next = Some(from);
        }
        let mut bucket = self.journal.span.bucket(from);
        let mut buckets_read = 0;
        loop {
            if self.read_bucket(bucket).await? == Then::Stop {
                return Ok(());
            }
            buckets_read += 1;
            let Some(next) = self.next.filter(|next| *next <= self.window.to) else {
                return Ok(());
            };
            let following = self.journal.span.bucket(next);
            if following == bucket {
                // The successor's own bucket has been read, and it was not there: the end.
                self.learn_end();
                return Ok(());
            }
            bucket = following;
            self.read_ahead(bucket, buckets_read);
        }
    }

    fn learn_end(&self) {
        let last = self
            .next
            .and_then(|next| SequenceNumber::new(next.get() - 1));
        if let Some(last) = last {
            self.journal.heads.learn(&self.id, last);
        }
    }

    async fn read_bucket(&mut self, bucket: Bucket) -> Result<Then> {
        while self
            .ahead
            .front()
            .is_some_and(|ahead| ahead.bucket < bucket)
        {
            self.ahead.pop_front();
        }
        let is_ahead = self
            .ahead
            .front()
            .is_some_and(|ahead| ahead.bucket == bucket);
        let ready = if is_ahead {
            self.ahead.pop_front()
        } else {
            None
        };
        let mut pages = match ready {
            None => self.pages_of(bucket),
            Some(mut ahead) => {
                let read = (&mut ahead.pages.0).await;
                let (first, rest) =
                    read.map_err(|e| Error::unavailable("a read was cut off").because(e))?;
                Box::pin(stream::iter(first).chain(rest)) as Pages
            }
        };
        let mut is_first_page = true;
        while let Some(page) = pages.try_next().await? {
            let commits = page
                .items
                .iter()
                .map(|item| self.journal.commit_of(&self.id, item));
            let mut commits = commits.collect::<Result<Vec<_>>>()?;
            if std::mem::take(&mut is_first_page) && self.next.is_none() {
                self.find_start(&mut commits).await?;
            }
            if self.deliver(commits).await? == Then::Stop {
                return Ok(Then::Stop);
            }
        }
        Ok(Then::Go)
    }

    fn pages_of(&self, bucket: Bucket) -> Pages {
        let low = self.next.unwrap_or(self.window.from);
        let low = KeyPart::from(low.get().max(1));
        let range = SortRange::Between(low, KeyPart::from(self.window.to.get()));
        let mut query = Query::of(keys::commits(&self.id, bucket)).within(range);
        // Every commit has an event at least, so no more commits than events are of use.
        if let Ok(limit) = u32::try_from(self.left) {
            query = query.limit(limit);
        }
        let (items, table) = (self.journal.items.clone(), self.journal.table.clone());
        Box::pin(query_pages(items, table, query))
    }

    /// Where the window begins inside a commit, that commit comes first.
    async fn find_start(&mut self, commits: &mut Vec<Commit>) -> Result<()> {
        let from = self.window.from;
        self.next = Some(from);
        if commits.first().is_some_and(|commit| commit.first == from) {
            return Ok(());
        }
        if let Some(commit) = self.journal.at_or_before(&self.id, from).await?
            && commit.last()? >= from
        {
            self.next = Some(commit.first);
            commits.insert(0, commit);
        }
        Ok(())
    }

    /// Checks that the commits follow one another and hands their events on.
    async fn deliver(&mut self, commits: Vec<Commit>) -> Result<Then> {
        let mut page = Vec::new();
        for commit in commits {
            let last = commit.last()?;
            if self.next != Some(commit.first) {
                return Err(self.gap(commit.first));
            }
            self.next = commit.low().unwrap_or(last).max(last).next();
            let (low, is_past) = (commit.low(), commit.first > self.window.to);
            if is_past {
                break;
            }
            for event in self.journal.events_of(commit).await? {
                let number = event.sequence_number;
                if number >= self.window.from && number <= self.window.to && self.left > 0 {
                    self.left -= 1;
                    page.push(event);
                }
            }
            // Behind a low mark the pages at hand hold marks alone.
            if low.is_some_and(|low| low > last) {
                break;
            }
        }
        if !page.is_empty() && self.pages.send(Ok(page)).await.is_err() {
            return Ok(Then::Stop);
        }
        let is_done = self.left == 0 || self.next.is_none_or(|next| next > self.window.to);
        Ok(if is_done { Then::Stop } else { Then::Go })
    }

    fn gap(&self, found: SequenceNumber) -> Error {
        let (id, next) = (&self.id, self.next.map_or(0, SequenceNumber::get));
        Error::corrupt(format!(
            "events are missing from the journal; an operator must look. id=`{id}`, missing from=`{next}`, next found=`{found}`"
        ))
    }

    /// Asks for the first pages of the buckets behind this one.
    fn read_ahead(&mut self, bucket: Bucket, buckets_read: u64) {
        let wanted = (buckets_read / READ_FOR_ONE_AHEAD).min(AHEAD_MAX);
        let last = self.journal.span.bucket(self.window.to);
        let known = self.ahead.back().map_or(bucket, |ahead| ahead.bucket);
        for number in known.0 + 1..=(bucket.0 + wanted).min(last.0) {
            let mut pages = self.pages_of(Bucket(number));
            let first = async move { (pages.next().await, pages) };
            self.ahead.push_back(Ahead {
                bucket: Bucket(number),
                pages: AbortOnDrop(tokio::spawn(first)),
            });
        }
    }
}
