//! Many appends at once, with results in the order in which the appends were given.
//!
//! Guarantees: appends to one id run one after the other, in the order given; one that fails stops no
//! other. Of the appends whose results were not taken yet, there are at most [`OPEN_MAX`], with about
//! [`BYTES_MAX`] bytes of payloads: the input is read no further, so memory is bounded. All of them run
//! in the task that polls the stream, without a task each.
//! Relies on the caller to poll the stream: appends in flight only make progress while it is polled.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{self, FuturesUnordered, Stream, StreamExt};

use super::BulkAppend;
use crate::PersistenceId;

/// The most appends whose results were not taken yet.
const OPEN_MAX: usize = 256;
/// About the most bytes of payloads in them. A single append may have more.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Appends with a function, many at once; the results have the order of the appends. An error in the
/// input is passed on in its place.
///
/// For [`Journal::append_many`](super::Journal::append_many), and for the server, which does more for
/// each append.
#[doc(hidden)]
pub fn in_order<T, E, R>(
    appends: impl Stream<Item = Result<BulkAppend, E>> + Send + 'static,
    run: impl Fn(BulkAppend) -> R + Send + 'static,
) -> impl Stream<Item = Result<T, E>> + Send + Unpin
where
    T: Send + 'static,
    E: Send + 'static,
    R: Future<Output = T> + Send + 'static,
{
    let begin = move |number: u64, append: BulkAppend| {
        let (id, bytes) = (append.persistence_id.clone(), append.payload_bytes());
        let running = run(append);
        async move {
            let result = running.await;
            Ended {
                number,
                id,
                bytes,
                result,
            }
        }
    };
    let mut open = Open {
        appends: Some(Box::pin(appends)),
        begin,
        running: FuturesUnordered::new(),
        queued: HashMap::new(),
        bytes: 0,
        results: VecDeque::new(),
        taken: 0,
    };
    stream::poll_fn(move |cx| open.poll_next(cx))
}

/// An append that has ended.
struct Ended<T> {
    number: u64,
    id: PersistenceId,
    bytes: usize,
    result: T,
}

/// The appends whose results were not taken yet, numbered in the order given.
struct Open<S, T, E, F, R> {
    /// `None` after the last one.
    appends: Option<Pin<Box<S>>>,
    begin: F,
    running: FuturesUnordered<R>,
    /// The ids of the running appends, and the appends that wait for them.
    queued: HashMap<PersistenceId, VecDeque<(u64, BulkAppend)>>,
    /// The bytes of running and queued appends.
    bytes: usize,
    /// From the first result that was not taken; `None` where an append has not ended.
    results: VecDeque<Option<Result<T, E>>>,
    /// How many results were taken.
    taken: u64,
}

impl<S, T, E, F, R> Open<S, T, E, F, R>
where
    S: Stream<Item = Result<BulkAppend, E>>,
    F: Fn(u64, BulkAppend) -> R,
    R: Future<Output = Ended<T>>,
{
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, E>>> {
        loop {
            self.read(cx);
            if let Some(result) = self.results.front_mut().and_then(Option::take) {
                self.results.pop_front();
                self.taken += 1;
                return Poll::Ready(Some(result));
            }
            match self.running.poll_next_unpin(cx) {
                Poll::Ready(Some(ended)) => self.end(ended),
                Poll::Ready(None) if self.appends.is_none() => return Poll::Ready(None),
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Reads appends while there is room for them, and begins those whose id is free.
    fn read(&mut self, cx: &mut Context<'_>) {
        while self.results.len() < OPEN_MAX && self.bytes < BYTES_MAX {
            let Some(appends) = &mut self.appends else {
                return;
            };
            match appends.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(append))) => {
                    let number = self.taken + self.results.len() as u64;
                    self.results.push_back(None);
                    self.add(number, append);
                }
                Poll::Ready(Some(Err(error))) => self.results.push_back(Some(Err(error))),
                Poll::Ready(None) => self.appends = None,
                Poll::Pending => return,
            }
        }
    }

    fn add(&mut self, number: u64, append: BulkAppend) {
        self.bytes += append.payload_bytes();
        match self.queued.get_mut(&append.persistence_id) {
            Some(queue) => queue.push_back((number, append)),
            None => {
                let id = append.persistence_id.clone();
                self.queued.insert(id, VecDeque::new());
                self.running.push((self.begin)(number, append));
            }
        }
    }

    /// Keeps the result, and begins the next append to the same id.
    fn end(&mut self, ended: Ended<T>) {
        self.bytes = self.bytes.saturating_sub(ended.bytes);
        let next = self.queued.get_mut(&ended.id).and_then(VecDeque::pop_front);
        match next {
            Some((number, append)) => self.running.push((self.begin)(number, append)),
            None => drop(self.queued.remove(&ended.id)),
        }
        let place = usize::try_from(ended.number.saturating_sub(self.taken));
        let place = place.ok().and_then(|place| self.results.get_mut(place));
        if let Some(place) = place {
            *place = Some(Ok(ended.result));
        }
    }
}

#[cfg(test)]
#[path = "in_order_tests.rs"]
mod tests;
