//! Admission: who may call, and how much the server takes on at once.
//!
//! - [`Guard`]: a token, or loopback only.
//! - [`Limits`]: how much of everything.
//! - [`InFlight`]: requests and the bytes of their bodies, never more than the limits.
//! - [`AppendQueue`]: appends without an expectation to the same id, one after the other.
//! - [`DetachedWrites`]: writes of disconnected clients, finished all the same.
//!
//! Promises: remote clients need a token, unless `--insecure` is given; tokens are compared in
//! constant time and never printed. Without a token a request must name a loopback host, so that a
//! page in a browser cannot reach the server under a name of its own (DNS rebinding), and one that
//! changes something must not come from a page of another site, as browsers declare it. A write that
//! was begun is finished, and a shutdown waits for it; it stays in flight until it ends, so that a
//! client does not make room by disconnecting.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use annals::{Error, PersistenceId, Result};
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, StatusCode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;

use super::problem::{Kind, Problem};

/// How many ids can have a queue of their own; some share one by chance.
const QUEUES: usize = 4_096;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most bytes of a body.
    pub(crate) body_bytes: usize,
    /// The most bytes of the bodies of all requests in flight.
    pub(crate) bodies_bytes: usize,
    /// The most bytes of a request's head.
    pub(crate) head_bytes: usize,
    /// How long a head may take to arrive, and a connection may be idle between requests.
    pub(crate) head_time: Duration,
    /// How long a body may take to arrive.
    pub(crate) body_time: Duration,
    /// How long a reader may stall.
    pub(crate) write_time: Duration,
    /// The most connections.
    pub(crate) connections: usize,
    /// The most requests in flight; streams count until they begin.
    pub(crate) requests: usize,
    /// How long a shutdown waits for requests in flight.
    pub(crate) grace: Duration,
    /// How often a silent stream sends a heartbeat.
    pub(crate) heartbeat: Duration,
    /// How often the log's buffer is swept; `None`: another process sweeps it.
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

tokio::task_local! {
    /// The body bytes of the request that is being answered.
    static BODY: usize;
}

/// Requests in flight. Clones share their counts. Never waits or allocates.
#[derive(Clone)]
pub(super) struct InFlight(Arc<Counts>);

struct Counts {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    requests_max: usize,
    bytes_max: usize,
}

/// One request in flight, while this is held.
pub(super) struct Permit {
    of: InFlight,
    bytes: usize,
}

impl InFlight {
    pub(super) fn new(limits: &Limits) -> Self {
        Self(Arc::new(Counts {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            requests_max: limits.requests,
            // A single body within its own limit always fits.
            bytes_max: limits.bodies_bytes.max(limits.body_bytes),
        }))
    }

    /// A permit for a request with so many body bytes; `None` over the limits.
    pub(super) fn admit(&self, bytes: usize) -> Option<Permit> {
        let permit = self.take(bytes);
        let counts = &*self.0;
        let fits = counts.requests.load(Ordering::Relaxed) <= counts.requests_max
            && counts.bytes.load(Ordering::Relaxed) <= counts.bytes_max;
        fits.then_some(permit)
    }

    /// A permit whatever the limits, for a detached write: its request gives up its own at the same
    /// moment.
    fn take(&self, bytes: usize) -> Permit {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        Permit {
            of: self.clone(),
            bytes,
        }
    }
}

impl Permit {
    /// Answers the request under this permit.
    pub(super) async fn hold<T>(self, answering: impl Future<Output = T>) -> T {
        BODY.scope(self.bytes, answering).await
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.0.requests.fetch_sub(1, Ordering::Relaxed);
        self.of.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The body bytes of the request that is being answered.
pub(super) fn body_bytes() -> usize {
    BODY.try_with(|bytes| *bytes).unwrap_or_default()
}

/// Appends without an expectation, queued by id.
///
/// Two of them at once want the same sequence number, and one would have to try again. Queued, each
/// is put once. Nothing relies on it: other servers have queues of their own, and the journal decides.
pub(super) struct AppendQueue {
    queues: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl AppendQueue {
    pub(super) fn new() -> Self {
        Self {
            queues: (0..QUEUES).map(|_| Mutex::new(())).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Waits until this append is the next one of its id, until the guard is dropped.
    pub(super) async fn turn(&self, id: &PersistenceId) -> Option<MutexGuard<'_, ()>> {
        let hash = self.hasher.hash_one(id);
        let queue = usize::try_from(hash % QUEUES as u64).unwrap_or_default();
        match self.queues.get(queue) {
            Some(queue) => Some(queue.lock().await),
            None => None,
        }
    }
}

/// Writes of disconnected clients. Clones share them.
#[derive(Clone)]
pub(super) struct DetachedWrites {
    tasks: TaskTracker,
    in_flight: InFlight,
}

impl DetachedWrites {
    pub(super) fn new(in_flight: InFlight) -> Self {
        Self {
            tasks: TaskTracker::new(),
            in_flight,
        }
    }

    /// Runs a write that came with so many body bytes in a task of its own.
    pub(super) fn spawn(&self, write: impl Future<Output: Send> + Send + 'static, bytes: usize) {
        let permit = self.in_flight.take(bytes);
        self.tasks.spawn(async move {
            let _permit = permit;
            write.await
        });
    }

    /// Waits for all of them; no more may be spawned.
    pub(super) async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A write that is finished once it is begun: dropped before, it becomes a detached write. While
/// its client stays connected it costs no task.
pub(super) struct Finishing<T: Send + 'static> {
    write: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    detached: DetachedWrites,
    bytes: usize,
}

impl<T: Send + 'static> Finishing<T> {
    pub(super) fn new(
        write: impl Future<Output = T> + Send + 'static,
        detached: &DetachedWrites,
    ) -> Self {
        Self {
            write: Some(Box::pin(write)),
            detached: detached.clone(),
            bytes: body_bytes(),
        }
    }
}

impl<T: Send + 'static> Future for Finishing<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(mut write) = self.write.take() else {
            return Poll::Pending;
        };
        // Taken out while it is polled, so that one that panics is not polled again.
        let polled = write.as_mut().poll(cx);
        if polled.is_pending() {
            self.write = Some(write);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Finishing<T> {
    fn drop(&mut self) {
        if let Some(write) = self.write.take() {
            self.detached.spawn(write, self.bytes);
        }
    }
}

/// The fewest bytes of a token: too many to guess.
const TOKEN_BYTES_MIN: usize = 16;
/// Browsers name the site that a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a request needs to be let in.
#[derive(Clone)]
pub(crate) enum Guard {
    /// A loopback name in `Host`.
    Loopback,
    /// The token with this hash.
    Token([u8; 32]),
    /// Nothing.
    Open,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "Loopback",
            Self::Token(_) => "Token",
            Self::Open => "Open",
        })
    }
}

impl Guard {
    /// The guard of a server at this address.
    ///
    /// # Errors
    /// `Invalid` where remote clients would need no token, or the token is too short.
    pub(crate) fn new(address: SocketAddr, token: Option<&str>, is_insecure: bool) -> Result<Self> {
        match token.map(str::trim) {
            Some(token) if token.len() < TOKEN_BYTES_MIN => Err(Error::invalid(format!(
                "a token has at least {TOKEN_BYTES_MIN} bytes; make one with `openssl rand -hex 32`"
            ))),
            Some(token) => Ok(Self::Token(hash(token.as_bytes()))),
            None if is_insecure => Ok(Self::Open),
            None if address.ip().is_loopback() => Ok(Self::Loopback),
            None => Err(Error::invalid(
                "remote clients need a token: set --token-file or ANNALS_TOKEN, or pass --insecure",
            )
            .fact("listen", address)),
        }
    }

    /// Lets a request in, or not.
    pub(super) fn admit(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        match self {
            // A page of another site does not know the token.
            Self::Open | Self::Loopback if !method.is_safe() && is_cross_site(headers) => {
                Err(Problem::new(
                    StatusCode::FORBIDDEN,
                    Kind::Unauthorized,
                    "without a token, pages of other sites may not change anything; check the headers Origin and Sec-Fetch-Site",
                ))
            }
            Self::Open => Ok(()),
            Self::Token(wanted) => match bearer(headers) {
                Some(given) if bool::from(hash(given).ct_eq(wanted)) => Ok(()),
                Some(_) => Err(Problem::unauthorized("wrong token")),
                None => Err(Problem::unauthorized(
                    "send the token: `Authorization: Bearer TOKEN`",
                )),
            },
            Self::Loopback if names_loopback(headers) => Ok(()),
            Self::Loopback => Err(Problem::new(
                StatusCode::FORBIDDEN,
                Kind::Unauthorized,
                "without a token, only loopback names such as localhost are answered; check the header Host",
            )),
        }
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
    is_bearer.then_some(token.trim_ascii())
}

/// Whether the request comes from a page of another site. Older browsers send the page's origin
/// alone, and programs neither.
fn is_cross_site(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(ORIGIN) else {
        return false;
    };
    let authority = origin.to_str().ok().and_then(|it| it.split_once("://"));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    authority
        .zip(host)
        .is_none_or(|((_, authority), host)| !authority.eq_ignore_ascii_case(host))
}

fn names_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    // `name`, `name:port`, `[v6]` or `[v6]:port`.
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address: Option<IpAddr> = name.parse().ok();
    address.map_or_else(
        || name.eq_ignore_ascii_case("localhost"),
        |address| address.is_loopback(),
    )
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
