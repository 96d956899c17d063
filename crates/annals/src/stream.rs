//! The stream type of every read.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

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

    /// A stream of nothing.
    pub fn empty() -> Self {
        Self::new(stream::empty())
    }

    /// A stream of one error.
    pub fn failed(error: Error) -> Self {
        Self::new(stream::once(async { Err(error) }))
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
