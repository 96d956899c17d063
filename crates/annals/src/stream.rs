//! The stream type of every read.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

use futures::stream::{self, Stream};

use crate::{Error, Result};

/// A stream of results, read page by page as it is polled. An error ends it.
///
/// The streams of events ([`EventStream`](crate::journal::EventStream)), ids
/// ([`IdStream`](crate::IdStream)) and so on are all of this type. Layouts make them with
/// [`new`](Self::new):
///
/// ```
/// use annals::{Error, ResultStream};
/// use futures::{StreamExt, TryStreamExt, stream};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let numbers = ResultStream::new(stream::iter([Ok(1), Ok(2)]));
/// assert_eq!(numbers.try_collect::<Vec<_>>().await?, [1, 2]);
///
/// assert_eq!(ResultStream::<u64>::empty().count().await, 0);
/// let mut failed = ResultStream::<u64>::failed(Error::invalid("no such table"));
/// assert!(failed.try_next().await.is_err());
/// # Ok(())
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct ResultStream<T>(Pin<Box<dyn Stream<Item = Result<T>> + Send>>);

impl<T: Send + 'static> ResultStream<T> {
    /// The results of another stream.
    pub fn new(stream: impl Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The members of each batch, in order. A batch is polled for once, not once for each member.
    pub(crate) fn of_batches(batches: impl Stream<Item = Result<Vec<T>>> + Send + 'static) -> Self {
        Self::new(Flattened {
            batches: Box::pin(batches),
            batch: Vec::new().into_iter(),
        })
    }

    /// A stream of nothing.
    pub fn empty() -> Self {
        Self::new(stream::empty())
    }

    /// A stream of one error.
    pub fn failed(error: Error) -> Self {
        Self::new(stream::once(async { Err(error) }))
    }
}

/// The members of batches.
struct Flattened<S, T> {
    batches: Pin<Box<S>>,
    batch: vec::IntoIter<T>,
}

// Nothing in it is pinned but the box.
impl<S, T> Unpin for Flattened<S, T> {}

impl<S: Stream<Item = Result<Vec<T>>>, T> Stream for Flattened<S, T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(next) = self.batch.next() {
                return Poll::Ready(Some(Ok(next)));
            }
            match ready!(self.batches.as_mut().poll_next(cx)) {
                Some(Ok(batch)) => self.batch = batch.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<T> Stream for ResultStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> fmt::Debug for ResultStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResultStream")
    }
}
