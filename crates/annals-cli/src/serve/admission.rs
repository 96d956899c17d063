//! Admission: how much the server takes on at once, and what becomes of it.
//!
//! - [`Limits`]: how much of everything.
//! - [`InFlight`]: requests and the bytes of their bodies, never more than the limits.
//! - [`AppendQueue`]: appends without an expectation to the same id, one after the other.
//! - [`DetachedWrites`]: writes of disconnected clients, finished all the same.
//!
//! Promises: a write that was begun is finished, and a shutdown waits for it; it stays in flight
//! until it ends, so that nobody makes room by hanging up.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use annals::PersistenceId;
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;

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
            bytes: BODY.try_with(|bytes| *bytes).unwrap_or_default(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn two_requests_of_ten_bytes() -> InFlight {
        InFlight::new(&Limits {
            requests: 2,
            body_bytes: 10,
            bodies_bytes: 10,
            ..Limits::default()
        })
    }

    #[test]
    fn requests_over_the_limit_are_refused() {
        let all = two_requests_of_ten_bytes();
        let (one, two) = (all.admit(0), all.admit(0));
        assert!(one.is_some() && two.is_some());
        assert!(all.admit(0).is_none());
        assert!(all.admit(0).is_none(), "a refused request takes no permit");
        drop(one);
        assert!(all.admit(0).is_some());
    }

    #[test]
    fn bytes_over_the_limit_are_refused() {
        let all = two_requests_of_ten_bytes();
        let most = all.admit(9);
        assert!(most.is_some());
        assert!(all.admit(2).is_none());
        assert!(all.admit(1).is_some());
        drop(most);
        assert!(all.admit(10).is_some());
    }

    #[test]
    fn one_body_within_its_limit_fits() {
        let limits = Limits {
            body_bytes: 100,
            bodies_bytes: 10,
            ..Limits::default()
        };
        assert!(InFlight::new(&limits).admit(100).is_some());
    }

    #[test]
    fn a_detached_write_is_counted_over_the_limit() {
        let all = two_requests_of_ten_bytes();
        let (one, two) = (all.admit(10), all.admit(0));
        let kept = all.take(10);
        drop((one, two));
        assert!(all.admit(1).is_none(), "its bytes are still there");
        let other = all.admit(0);
        assert!(other.is_some() && all.admit(0).is_none());
        drop(kept);
        assert!(all.admit(10).is_some());
    }

    #[tokio::test]
    async fn the_write_of_a_disconnected_client_is_finished_and_in_flight_until_then() {
        let in_flight = InFlight::new(&Limits {
            requests: 1,
            ..Limits::default()
        });
        let detached = DetachedWrites::new(in_flight.clone());
        let (go, gone) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let write = async move {
            gone.await.unwrap();
            done.send(7).unwrap();
        };
        let permit = in_flight.admit(0).unwrap();
        let mut finishing = Finishing::new(write, &detached);
        assert!(futures::poll!(&mut finishing).is_pending());
        assert!(detached.tasks.is_empty(), "no task while it is connected");
        drop((finishing, permit));
        assert!(in_flight.admit(0).is_none(), "it is still in flight");
        go.send(()).unwrap();
        detached.finish().await;
        assert_eq!(is_done.await.unwrap(), 7);
        assert!(in_flight.admit(0).is_some());
    }

    #[tokio::test]
    async fn a_detached_write_keeps_the_bytes_of_its_body() {
        let in_flight = two_requests_of_ten_bytes();
        let detached = DetachedWrites::new(in_flight.clone());
        let permit = in_flight.admit(10).unwrap();
        let write = std::future::pending::<()>();
        let answering = permit.hold(async { drop(Finishing::new(write, &detached)) });
        answering.await;
        assert!(in_flight.admit(1).is_none());
        assert!(in_flight.admit(0).is_some());
    }

    #[tokio::test]
    async fn a_finished_write_leaves_no_task() {
        let detached = DetachedWrites::new(two_requests_of_ten_bytes());
        assert_eq!(Finishing::new(async { 7 }, &detached).await, 7);
        assert!(detached.tasks.is_empty());
    }
}
