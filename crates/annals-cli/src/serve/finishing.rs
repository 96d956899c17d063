//! Writes that are finished once they are begun.
//!
//! A caller that goes away drops its request, and with it what was under way. A write is handed to
//! a task of its own then, which a shutdown waits for; as long as its caller stays, it costs none.
//! It goes on counting as one that is under way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_util::task::TaskTracker;

use super::under_way::{self, UnderWay};

/// Writes whose callers have gone. Clones are one and the same.
#[derive(Clone)]
pub(super) struct Orphans {
    tasks: TaskTracker,
    under_way: UnderWay,
}

impl Orphans {
    pub(super) fn new(under_way: UnderWay) -> Self {
        Self {
            tasks: TaskTracker::new(),
            under_way,
        }
    }

    /// Takes a write with so long a body over from its request.
    pub(super) fn take(&self, write: impl Future<Output: Send> + Send + 'static, bytes: usize) {
        let place = self.under_way.keep(bytes);
        self.tasks.spawn(async move {
            let _place = place;
            write.await
        });
    }

    /// Waits for all of them; there are no more.
    pub(super) async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// A write under way.
pub(super) struct Finishing<T: Send + 'static> {
    write: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    orphans: Orphans,
    bytes: usize,
}

impl<T: Send + 'static> Finishing<T> {
    /// The write; it becomes one of the `orphans` where its caller leaves it.
    pub(super) fn new(write: impl Future<Output = T> + Send + 'static, orphans: &Orphans) -> Self {
        Self {
            write: Some(Box::pin(write)),
            orphans: orphans.clone(),
            bytes: under_way::body_bytes(),
        }
    }
}

impl<T: Send + 'static> Future for Finishing<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(mut write) = self.write.take() else {
            return Poll::Pending;
        };
        // Out of its place while it is polled, so that one that panics is not polled again.
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
            self.orphans.take(write, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::Limits;
    use tokio::sync::oneshot;

    fn one_request() -> (UnderWay, Orphans) {
        let limits = Limits {
            requests: 1,
            ..Limits::default()
        };
        let under_way = UnderWay::new(&limits);
        (under_way.clone(), Orphans::new(under_way))
    }

    #[tokio::test]
    async fn a_write_whose_caller_left_is_finished_and_counts_until_it_is() {
        let (under_way, orphans) = one_request();
        let (go, gone) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let write = async move {
            gone.await.unwrap();
            done.send(7).unwrap();
        };
        let place = under_way.admit(0).unwrap();
        let mut finishing = Finishing::new(write, &orphans);
        assert!(futures::poll!(&mut finishing).is_pending());
        let is_idle = orphans.tasks.is_empty();
        assert!(is_idle, "it costs no task while its caller stays");
        drop((finishing, place));
        assert!(under_way.admit(0).is_none(), "it is still under way");
        go.send(()).unwrap();
        orphans.finish().await;
        assert_eq!(is_done.await.unwrap(), 7);
        assert!(under_way.admit(0).is_some());
    }

    #[tokio::test]
    async fn a_write_that_was_left_keeps_the_bytes_of_its_body() {
        let limits = Limits {
            body_bytes: 10,
            bodies_bytes: 10,
            ..Limits::default()
        };
        let under_way = UnderWay::new(&limits);
        let orphans = Orphans::new(under_way.clone());
        let place = under_way.admit(10).unwrap();
        let write = std::future::pending::<()>();
        let answering = place.hold(async { drop(Finishing::new(write, &orphans)) });
        answering.await;
        assert!(under_way.admit(1).is_none());
        assert!(under_way.admit(0).is_some());
    }

    #[tokio::test]
    async fn a_write_that_ended_leaves_nothing() {
        let (_, orphans) = one_request();
        assert_eq!(Finishing::new(async { 7 }, &orphans).await, 7);
        assert!(orphans.tasks.is_empty());
    }
}
