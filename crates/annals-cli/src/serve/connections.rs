//! Connections: accepting, limiting, serving and closing them.
//!
//! Promises: connections over the limit get a 503 and are closed. Stalled readers are disconnected,
//! and sooner during a shutdown. A shutdown accepts no more connections, ends tails, and waits for
//! every request and detached write in flight, within its deadline. Every task that was begun here has
//! ended then, or was aborted and has released the store.
//! Trusts: hyper to limit the head of a request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use annals::{Clock, Result, SystemClock};
use futures::future::select;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::admission::Limits;
use super::app::App;
use super::health;
use super::id_view;
use super::metrics::{self, Held, REFUSED};
use super::problem::{PROBLEM_JSON, Problem};
use super::router::Router;
use super::sweeper;

/// How long to wait after an error in accepting: out of file descriptors, say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// After how long an idle peer is probed.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// How long an aborted task may take to end: one step of it.
const ABORT_TIME: Duration = Duration::from_secs(5);
/// How long a refused peer may take to read why.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Serves until `stop`, and then finishes the requests in flight.
///
/// # Errors
/// `Unavailable` where some were not finished within the deadline.
pub(crate) async fn run(
    listener: TcpListener,
    app: App,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let graceful = GracefulShutdown::new();
    let router = Arc::new(Router::new(app.clone())?);
    let mut background = JoinSet::new();
    background.spawn(upkeep(app.clone()));
    background.spawn(health::report(app.clone()));
    background.spawn(id_view::run(app.clone()));
    if let Some(every) = app.limits().sweep_every {
        background.spawn(sweeper::sweep(app.clone(), every));
    }
    let mut connections = JoinSet::new();
    {
        let tasks = (&graceful, &mut connections);
        let (stop, accepting) = (
            std::pin::pin!(stop),
            accept(&listener, (&app, &router), tasks),
        );
        select(stop, std::pin::pin!(accepting)).await;
    }
    // From now on the system refuses connections.
    drop(listener);
    tracing::info!("stopping: finishing the requests in flight");
    app.closing().cancel();
    let finish = async {
        graceful.shutdown().await;
        app.finish_detached().await;
    };
    let finished = SystemClock::within(app.limits().grace, finish).await;
    // Aborting alone is not enough: until a task has ended, it has the store open.
    let ended = async {
        background.shutdown().await;
        connections.shutdown().await;
    };
    if SystemClock::within(ABORT_TIME, ended).await.is_none() {
        tracing::warn!("a task does not end");
    }
    finished.ok_or_else(|| {
        annals::Error::unavailable(
            "requests were still in flight at the deadline; writes among them may be stored",
        )
    })
}

async fn upkeep(app: App) {
    loop {
        app.clock().sleep(metrics::UPKEEP).await;
        app.metrics().run_upkeep();
    }
}

async fn accept(
    listener: &TcpListener,
    (app, router): (&App, &Arc<Router>),
    (graceful, connections): (&GracefulShutdown, &mut JoinSet<()>),
) {
    let permits = Arc::new(Semaphore::new(app.limits().connections));
    let http = http(app.limits());
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                app.clock().sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            ::metrics::counter!(REFUSED).increment(1);
            tokio::spawn(SystemClock::within(REFUSAL_TIME, refuse(stream)));
            continue;
        };
        if let Err(error) = prepare(&stream) {
            tracing::debug!(%error, "a connection ended before it began");
            continue;
        }
        let stream = Unstalled::new(stream, Patience::new(app));
        let connection = http.serve_connection(TokioIo::new(stream), router.service());
        let watcher: Watcher = graceful.watcher();
        let held = (permit, Held::connection());
        // Those that have ended.
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let _held = held;
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

fn http(limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head_bytes);
    http
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Answers that there are too many connections, and closes this one.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    let body = Problem::unavailable("too many connections").body();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Its bytes are read, or the system would drop our answer with them.
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// How long a reader may stall, and how long during a shutdown: so that others have time, too.
#[derive(Clone)]
struct Patience {
    clock: Arc<dyn Clock>,
    closing: CancellationToken,
    limit: Duration,
    last_limit: Duration,
}

impl Patience {
    fn new(app: &App) -> Self {
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

/// A connection that fails where its reader stalls for too long.
struct Unstalled<S> {
    inner: S,
    patience: Patience,
    /// Since when nothing could be written.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Unstalled<S> {
    fn new(inner: S, patience: Patience) -> Self {
        Self {
            inner,
            patience,
            waiting: None,
        }
    }

    /// The outcome of a write, or an error where the reader has stalled for too long.
    fn or_stalled<T>(
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
                "the reader has stalled",
            ))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.or_stalled(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.or_stalled(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.or_stalled(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.or_stalled(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals::ManualClock;

    /// A connection with room for ten bytes, whose peer reads none of them.
    fn stalled() -> (
        Unstalled<tokio::io::DuplexStream>,
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
        (Unstalled::new(ours, patience), theirs, clock)
    }

    #[tokio::test]
    async fn a_stalled_reader_is_disconnected() {
        let (mut stream, _theirs, clock) = stalled();
        let mut writing = Box::pin(stream.write_all(&[0; 20]));
        assert!(futures::poll!(&mut writing).is_pending());
        clock.advance(Duration::from_secs(29));
        assert!(futures::poll!(&mut writing).is_pending());
        clock.advance(Duration::from_secs(1));
        let cut = writing.await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_stalled_reader_is_disconnected_sooner_during_a_shutdown() {
        let (mut stream, _theirs, clock) = stalled();
        let closing = stream.patience.closing.clone();
        let mut writing = Box::pin(stream.write_all(&[0; 20]));
        assert!(futures::poll!(&mut writing).is_pending());
        closing.cancel();
        assert!(futures::poll!(&mut writing).is_pending());
        clock.advance(Duration::from_secs(15));
        let cut = writing.await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
    }
}
