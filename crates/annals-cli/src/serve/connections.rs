//! Connections: accepted, bounded, served, and in the end let go.
//!
//! Promises: more connections than are allowed are told so and closed; a shutdown accepts no
//! more, ends tails, lets every request that was begun end, and every write that was accepted,
//! within its deadline.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use annals::{Result, SystemClock};
use futures::future::select;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::app::App;
use super::entrance::Entrance;
use super::limits::{Limits, Patience, Patient};
use super::metrics::{self, Held, REFUSED};
use super::problem::{PROBLEM_JSON, Problem};
use super::sweeper;

/// How long to wait where no connection can be accepted: out of file descriptors, say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// After how long a silent peer is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// How long somebody who is turned away may take to hear it.
const TURNED_AWAY: Duration = Duration::from_secs(1);

/// Serves until `stop`, and then finishes what was accepted.
///
/// # Errors
/// `Unavailable` where something was still under way when the time for it was over.
pub(crate) async fn run(
    listener: TcpListener,
    app: App,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let graceful = GracefulShutdown::new();
    let upkeep = tokio::spawn(upkeep(app.clone()));
    let sweeping = app.limits().sweep_every.map(|every| {
        let sweeping = sweeper::sweep(app.clone(), every);
        tokio::spawn(sweeping)
    });
    {
        let (stop, accepting) = (std::pin::pin!(stop), accept(&listener, &app, &graceful));
        select(stop, std::pin::pin!(accepting)).await;
    }
    // Whoever connects from now on is refused by the system.
    drop(listener);
    tracing::info!("stopping: what was accepted is finished");
    app.closing().cancel();
    let finish = async {
        graceful.shutdown().await;
        app.finish_accepted().await;
    };
    let finished = SystemClock::within(app.limits().grace, finish).await;
    upkeep.abort();
    if let Some(sweeping) = sweeping {
        sweeping.abort();
    }
    finished.ok_or_else(|| {
        annals::Error::unavailable(
            "requests were still under way when the time for them was over; writes among them may have landed",
        )
    })
}

async fn upkeep(app: App) {
    loop {
        app.clock().sleep(metrics::UPKEEP).await;
        app.metrics().run_upkeep();
    }
}

async fn accept(listener: &TcpListener, app: &App, graceful: &GracefulShutdown) {
    let places = Arc::new(Semaphore::new(app.limits().connections));
    let entrance = Arc::new(Entrance::new(app.clone()));
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
        let Ok(place) = places.clone().try_acquire_owned() else {
            ::metrics::counter!(REFUSED).increment(1);
            tokio::spawn(SystemClock::within(TURNED_AWAY, turn_away(stream)));
            continue;
        };
        if let Err(error) = prepare(&stream) {
            tracing::debug!(%error, "a connection is gone before it began");
            continue;
        }
        let patient = Patient::new(stream, Patience::of(app));
        let connection = http.serve_connection(TokioIo::new(patient), entrance.service());
        let watcher: Watcher = graceful.watcher();
        let held = (place, Held::connection());
        tokio::spawn(async move {
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

/// Tells somebody that there are too many, and hangs up.
async fn turn_away(mut stream: TcpStream) -> io::Result<()> {
    let body = Problem::unavailable("too many connections").body();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: {PROBLEM_JSON}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // What it has sent is read, or the system would drop our answer with it.
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}
