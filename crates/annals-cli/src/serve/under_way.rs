//! How much is under way: requests, writes whose callers have gone, and the bytes of their bodies.
//!
//! Promises: no more of them, and no more bytes, than is allowed; a write that its caller left keeps
//! its place until it ends, so that nobody makes room by hanging up.
//! Never: waits, or allocates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::limits::Limits;

tokio::task_local! {
    /// The bytes of the body of the request that is being answered.
    static BODY: usize;
}

/// What is under way in a server. Clones are one and the same.
#[derive(Clone)]
pub(super) struct UnderWay(Arc<Counts>);

struct Counts {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    requests_max: usize,
    bytes_max: usize,
}

/// One that is under way, while this is held.
pub(super) struct Place {
    of: UnderWay,
    bytes: usize,
}

impl UnderWay {
    pub(super) fn new(limits: &Limits) -> Self {
        Self(Arc::new(Counts {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            requests_max: limits.requests,
            // One body that is allowed is allowed.
            bytes_max: limits.bodies_bytes.max(limits.body_bytes),
        }))
    }

    /// A place for a request with so long a body; `None` where there is none.
    pub(super) fn admit(&self, bytes: usize) -> Option<Place> {
        let place = self.take(bytes);
        let Counts {
            requests_max,
            bytes_max,
            ..
        } = *self.0;
        let fits = self.0.requests.load(Ordering::Relaxed) <= requests_max
            && self.0.bytes.load(Ordering::Relaxed) <= bytes_max;
        fits.then_some(place)
    }

    /// A place for a write whose caller leaves it, there being room or not: the request gives up its
    /// own in the same moment.
    pub(super) fn keep(&self, bytes: usize) -> Place {
        self.take(bytes)
    }

    fn take(&self, bytes: usize) -> Place {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        Place {
            of: self.clone(),
            bytes,
        }
    }
}

impl Place {
    /// Answers a request in this place.
    pub(super) async fn hold<T>(self, answering: impl Future<Output = T>) -> T {
        BODY.scope(self.bytes, answering).await
    }
}

/// How long the body is of the request that is being answered; 0 outside of one.
pub(super) fn body_bytes() -> usize {
    BODY.try_with(|bytes| *bytes).unwrap_or_default()
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.0.requests.fetch_sub(1, Ordering::Relaxed);
        self.of.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_requests_of_ten_bytes() -> UnderWay {
        UnderWay::new(&Limits {
            requests: 2,
            body_bytes: 10,
            bodies_bytes: 10,
            ..Limits::default()
        })
    }

    #[test]
    fn there_are_no_more_requests_than_are_allowed() {
        let all = two_requests_of_ten_bytes();
        let (one, two) = (all.admit(0), all.admit(0));
        assert!(one.is_some() && two.is_some());
        assert!(all.admit(0).is_none());
        assert!(all.admit(0).is_none(), "who is refused takes no place");
        drop(one);
        assert!(all.admit(0).is_some());
    }

    #[test]
    fn there_are_no_more_bytes_than_are_allowed() {
        let all = two_requests_of_ten_bytes();
        let most = all.admit(9);
        assert!(most.is_some());
        assert!(all.admit(2).is_none());
        assert!(all.admit(1).is_some());
        drop(most);
        assert!(all.admit(10).is_some());
    }

    #[test]
    fn one_body_that_is_allowed_fits() {
        let limits = Limits {
            body_bytes: 100,
            bodies_bytes: 10,
            ..Limits::default()
        };
        assert!(UnderWay::new(&limits).admit(100).is_some());
    }

    #[test]
    fn what_is_kept_takes_its_place_though_there_is_none() {
        let all = two_requests_of_ten_bytes();
        let (one, two) = (all.admit(10), all.admit(0));
        let kept = all.keep(10);
        drop((one, two));
        assert!(all.admit(1).is_none(), "its bytes are still there");
        let other = all.admit(0);
        assert!(other.is_some() && all.admit(0).is_none());
        drop(kept);
        assert!(all.admit(10).is_some());
    }
}
