//! How much of everything: bodies, headers, time, connections, requests under way.
//!
//! Promises: nobody's request, however large, slow or unfinished, takes more than its share; who
//! reads nothing of an answer for long is cut off, and sooner when the server is to end.
//! Trusts: hyper to bound the head of a request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use annals::Clock;
use futures::future::select;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::app::App;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most bytes of a body.
    pub(crate) body_bytes: usize,
    /// The most bytes of the bodies of all requests that are under way.
    pub(crate) bodies_bytes: usize,
    /// The most bytes of a request's head.
    pub(crate) head_bytes: usize,
    /// How long a head may take to arrive, and a connection may be idle between requests.
    pub(crate) head_time: Duration,
    /// How long a body may take to arrive.
    pub(crate) body_time: Duration,
    /// How long a peer may read nothing of what waits for it.
    pub(crate) write_time: Duration,
    /// How many connections there may be.
    pub(crate) connections: usize,
    /// How many requests may be under way; what is streamed counts until it begins.
    pub(crate) requests: usize,
    /// How long a shutdown waits for what was accepted.
    pub(crate) grace: Duration,
    /// How often a tail says that it is still there.
    pub(crate) heartbeat: Duration,
    /// How often the log's buffer is swept; none: by somebody else.
    pub(crate) sweep_every: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 8 * 1024 * 1024,
            bodies_bytes: 256 * 1024 * 1024,
            head_bytes: 64 * 1024,
            head_time: Duration::from_secs(30),
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            connections: 16_384,
            requests: 1_024,
            grace: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            sweep_every: Some(Duration::from_secs(60)),
        }
    }
}

impl Limits {
    /// How long a shutdown waits for a peer that reads nothing: so that others still have time.
    fn last_patience(&self) -> Duration {
        (self.grace / 2).min(self.write_time)
    }
}

/// A connection whose peer has to read: where nothing can be written for so long, it fails.
pub(super) struct Patient<S> {
    inner: S,
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
    limit: Duration,
    last_limit: Duration,
    /// Since when nothing could be written.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(inner: S, app: &App) -> Self {
        let limits = app.limits();
        Self {
            inner,
            clock: app.clock().clone(),
            closing: app.closing().clone(),
            limit: limits.write_time,
            last_limit: limits.last_patience(),
            waiting: None,
        }
    }

    fn wait(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (clock, limit, last_limit) = (self.clock.clone(), self.limit, self.last_limit);
        let closing = self.closing.clone();
        Box::pin(async move {
            let last = std::pin::pin!(async {
                closing.cancelled().await;
                clock.sleep(last_limit).await;
            });
            select(clock.sleep(limit), last).await;
        })
    }

    /// The outcome of a write, or that it has been waited for long enough.
    fn patiently<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let mut waiting = self.waiting.take().unwrap_or_else(|| self.wait());
        let waited = waiting.as_mut().poll(cx);
        self.waiting = Some(waiting);
        match waited {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the peer reads nothing",
            ))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.patiently(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.patiently(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.patiently(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.patiently(cx, outcome)
    }
}
