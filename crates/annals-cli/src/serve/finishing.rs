//! Writes that are finished once they are begun.
//!
//! A caller that goes away drops its request, and with it what was under way. A write is handed to
//! a task of its own then, which a shutdown waits for; as long as its caller stays, it costs none.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_util::task::TaskTracker;

/// A write under way.
pub(super) struct Finishing<T: Send + 'static> {
    write: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    orphans: TaskTracker,
}

impl<T: Send + 'static> Finishing<T> {
    /// The write; it becomes one of the `orphans` where its caller leaves it.
    pub(super) fn new(
        write: impl Future<Output = T> + Send + 'static,
        orphans: &TaskTracker,
    ) -> Self {
        Self {
            write: Some(Box::pin(write)),
            orphans: orphans.clone(),
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
            self.orphans.spawn(write);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_write_whose_caller_left_is_finished() {
        let (orphans, (go, gone)) = (TaskTracker::new(), oneshot::channel::<()>());
        let (done, is_done) = oneshot::channel();
        let write = async move {
            gone.await.unwrap();
            done.send(7).unwrap();
        };
        let mut finishing = Finishing::new(write, &orphans);
        assert!(futures::poll!(&mut finishing).is_pending());
        assert!(
            orphans.is_empty(),
            "it costs no task while its caller stays"
        );
        drop(finishing);
        go.send(()).unwrap();
        orphans.close();
        orphans.wait().await;
        assert_eq!(is_done.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_write_that_ended_leaves_nothing() {
        let orphans = TaskTracker::new();
        assert_eq!(Finishing::new(async { 7 }, &orphans).await, 7);
        assert!(orphans.is_empty());
    }
}
