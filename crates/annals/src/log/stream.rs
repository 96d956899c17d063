//! The stream type that the log returns.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{self, Stream};

use super::LogEvent;
use crate::{Error, Result};

/// A stream of events, or of other items of the log, read page by page. An error ends it.
///
/// See [`Log`](super::Log) for an example.
#[must_use = "streams do nothing unless polled"]
pub struct LogStream<T = LogEvent>(Pin<Box<dyn Stream<Item = Result<T>> + Send>>);

impl<T: Send + 'static> LogStream<T> {
    pub(super) fn new(stream: impl Stream<Item = Result<T>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// A stream of one error.
    pub(super) fn failed(error: Error) -> Self {
        Self::new(stream::once(async { Err(error) }))
    }
}

impl<T> Stream for LogStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl<T> fmt::Debug for LogStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogStream")
    }
}
