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

/// How long a peer may read nothing of what waits for it, and for how long still when the server is to
/// end: so that others have time, too.
#[derive(Clone)]
pub(super) struct Patience {
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
    limit: Duration,
    last_limit: Duration,
}

impl Patience {
    pub(super) fn of(app: &App) -> Self {
        let limits = app.limits();
        Self {
            clock: app.clock().clone(),
            closing: app.closing().clone(),
            limit: limits.write_time,
            last_limit: (limits.grace / 2).min(limits.write_time),
        }
    }

    async fn wait(self) {
        let last = std::pin::pin!(async {
            self.closing.cancelled().await;
            self.clock.passes(self.last_limit).await;
        });
        select(self.clock.passes(self.limit), last).await;
    }
}

/// A connection whose peer has to read: where nothing can be written for so long, it fails.
pub(super) struct Patient<S> {
    inner: S,
    patience: Patience,
    /// Since when nothing could be written.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(inner: S, patience: Patience) -> Self {
        Self {
            inner,
            patience,
            waiting: None,
        }
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
        let patience = &self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(patience.clone().wait()));
        match waiting.as_mut().poll(cx) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use annals::ManualClock;
    use tokio::io::AsyncWriteExt;

    /// A connection with room for ten bytes, whose peer reads none of them; and who is patient.
    fn unread() -> (
        Patient<tokio::io::DuplexStream>,
        tokio::io::DuplexStream,
        Arc<ManualClock>,
    ) {
        let (ours, theirs) = tokio::io::duplex(10);
        let clock = Arc::new(ManualClock::at_ms(0));
        let patience = Patience {
            clock: clock.clone(),
            closing: CancellationToken::new(),
            limit: Duration::from_secs(30),
            last_limit: Duration::from_secs(15),
        };
        (Patient::new(ours, patience), theirs, clock)
    }

    #[tokio::test]
    async fn who_reads_nothing_is_cut_off() {
        let (mut patient, _theirs, clock) = unread();
        let mut writing = Box::pin(patient.write_all(&[0; 20]));
        assert!(futures::poll!(&mut writing).is_pending());
        clock.advance(Duration::from_secs(29));
        assert!(futures::poll!(&mut writing).is_pending());
        clock.advance(Duration::from_secs(1));
        let cut = writing.await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_reads_nothing_is_cut_off_sooner_when_the_server_ends() {
        let (mut patient, _theirs, clock) = unread();
        let closing = patient.patience.closing.clone();
        let mut writing = Box::pin(patient.write_all(&[0; 20]));
        assert!(futures::poll!(&mut writing).is_pending());
        closing.cancel();
        assert!(futures::poll!(&mut writing).is_pending());
        clock.advance(Duration::from_secs(15));
        let cut = writing.await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
    }
}
