//! The door through which time enters: reading it, measuring it, waiting for it.
//!
//! Promises: nothing else in the workspace reads a clock, sleeps or sets a timer (a lint says so),
//! so a test that holds a [`ManualClock`] holds all of time. The one exception is named here:
//! [`SystemClock::within`].
//! Never: decides what time is used for.

use std::fmt;
use std::future::Future;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use tokio::sync::Notify;

/// Where the system gets its time from.
///
/// ```
/// use annals::{Clock, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::at_ms(1_000);
/// clock.advance(Duration::from_millis(5));
/// assert_eq!(clock.now_ms(), 1_005);
/// ```
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. May jump when somebody sets the machine's clock.
    fn now_ms(&self) -> u64;

    /// Time since an arbitrary moment. Never runs backwards; what deadlines are measured with.
    fn monotonic(&self) -> Duration;

    /// Waits.
    async fn sleep(&self, duration: Duration);

    /// Waits for time to pass by itself, for what happens now and then in the background. A clock
    /// that sleeping moves is not moved by this.
    async fn passes(&self, duration: Duration) {
        self.sleep(duration).await;
    }
}

/// The machine's own clock.
///
/// ```
/// use annals::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// let start = clock.monotonic();
/// assert!(clock.now_ms() > 1_700_000_000_000, "it is past 2023");
/// assert!(clock.monotonic() >= start);
/// ```
#[derive(Clone, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// The machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// What `future` answers, if it does so within `limit` of the machine's own time.
    ///
    /// For waiting for a peer and not for a moment: a peer takes its time also where a test holds
    /// a [`ManualClock`], and must not be waited for for ever.
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    pub async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(limit, future).await.ok()
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn now_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // A machine whose clock stands before 1970 gets the epoch rather than a panic.
        since_epoch.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A clock that stands still until it is told to move, or until somebody sleeps on it.
///
/// Sleeping moves it forward by the time slept and returns at once, so code with long backoffs
/// runs in no time and the test can read how long it would have waited.
///
/// ```
/// use annals::{Clock, ManualClock};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let clock = ManualClock::at_ms(0);
/// clock.sleep(Duration::from_secs(3_600)).await; // returns at once
/// assert_eq!(clock.now_ms(), 3_600_000);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ManualClock {
    start_ms: u64,
    elapsed: Mutex<Duration>,
    moved: Notify,
}

impl ManualClock {
    /// A clock that shows `start_ms` milliseconds since the Unix epoch.
    pub fn at_ms(start_ms: u64) -> Self {
        Self {
            start_ms,
            elapsed: Mutex::new(Duration::ZERO),
            moved: Notify::new(),
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *self.elapsed.lock().unwrap_or_else(|e| e.into_inner()) += by;
        self.moved.notify_waiters();
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        let elapsed_ms = u64::try_from(self.monotonic().as_millis()).unwrap_or(u64::MAX);
        self.start_ms.saturating_add(elapsed_ms)
    }

    fn monotonic(&self) -> Duration {
        *self.elapsed.lock().unwrap_or_else(|e| e.into_inner())
    }

    async fn sleep(&self, duration: Duration) {
        self.advance(duration);
        tokio::task::yield_now().await;
    }

    async fn passes(&self, duration: Duration) {
        let until = self.monotonic() + duration;
        loop {
            let moved = self.moved.notified();
            if self.monotonic() >= until {
                return;
            }
            moved.await;
        }
    }
}
