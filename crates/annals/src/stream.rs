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
pub struct ResultStream<T> {
    source: Source<T>,
    /// What is added to errors, in this order.
    annotate: Vec<Annotate>,
}

type Results<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;
type Annotate = Box<dyn Fn(Error) -> Error + Send>;

enum Source<T> {
    Members(Results<T>),
    Batches {
        batches: Results<Vec<T>>,
        batch: vec::IntoIter<T>,
    },
}

// Nothing in it is pinned but the boxes.
impl<T> Unpin for Source<T> {}

impl<T: Send + 'static> ResultStream<T> {
    /// The results of another stream.
    pub fn new(stream: impl Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self::from_source(Source::Members(Box::pin(stream)))
    }

    fn from_source(source: Source<T>) -> Self {
        let annotate = Vec::new();
        Self { source, annotate }
    }

    /// The members of each batch, in order. A batch is polled for once, not once for each member.
    pub(crate) fn of_batches(batches: impl Stream<Item = Result<Vec<T>>> + Send + 'static) -> Self {
        Self::from_source(Source::Batches {
            batches: Box::pin(batches),
            batch: Vec::new().into_iter(),
        })
    }

    /// The same stream, with something added to its errors.
    pub(crate) fn annotated(mut self, annotate: impl Fn(Error) -> Error + Send + 'static) -> Self {
        self.annotate.push(Box::new(annotate));
        self
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

impl<T> Source<T> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        let (batches, batch) = match self {
            Self::Members(members) => return members.as_mut().poll_next(cx),
            Self::Batches { batches, batch } => (batches, batch),
        };
        loop {
            if let Some(next) = batch.next() {
                return Poll::Ready(Some(Ok(next)));
            }
            match ready!(batches.as_mut().poll_next(cx)) {
                Some(Ok(next)) => *batch = next.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<T> Stream for ResultStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.source.poll_next(cx);
        match next {
            Poll::Ready(Some(Err(error))) => {
                let annotate = self.annotate.iter();
                let error = annotate.fold(error, |error, annotate| annotate(error));
                Poll::Ready(Some(Err(error)))
            }
            next => next,
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.source {
            Source::Members(members) => members.size_hint(),
            Source::Batches { batch, .. } => (batch.len(), None),
        }
    }
}

impl<T> fmt::Debug for ResultStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResultStream")
    }
}
