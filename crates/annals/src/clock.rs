//! Clocks: read the time, measure it, sleep.
//!
//! Guarantees: no other code in the workspace reads a clock, sleeps or sets a timer (a lint checks it), so
//! a test with a [`ManualClock`] controls all time. The only exception is [`SystemClock::within`].

use std::fmt;
use std::future::Future;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use tokio::sync::Notify;

/// A source of time.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a clock",
    label = "`annals::Clock` is not implemented for `{Self}`",
    note = "use `annals::SystemClock`, or `annals::ManualClock` in tests"
)]
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. Jumps if the machine's clock is set.
    fn now_ms(&self) -> u64;

    /// Time since an arbitrary moment. Never goes backwards; use it for deadlines.
    fn monotonic(&self) -> Duration;

    /// Sleep.
    async fn sleep(&self, duration: Duration);

    /// Wait in the background until time has passed. Unlike [`sleep`](Self::sleep), this does not advance
    /// a [`ManualClock`].
    async fn passes(&self, duration: Duration) {
        self.sleep(duration).await;
    }
}

/// The machine's clock.
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
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the clock"
    )]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Run a future with a timeout in real time; `None` if it does not complete.
    ///
    /// Use it to wait for a peer, which takes real time even in tests with a [`ManualClock`].
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the clock"
    )]
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
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the clock"
    )]
    fn now_ms(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // A clock before 1970 reads as the epoch.
        since_epoch.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the clock"
    )]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A clock that only tests advance.
///
/// Sleeping advances it and returns at once, so code with long backoffs runs immediately and a test can
/// read how long it would have waited.
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
    /// A clock that starts at `start_ms` milliseconds since the Unix epoch.
    pub fn at_ms(start_ms: u64) -> Self {
        Self {
            start_ms,
            elapsed: Mutex::new(Duration::ZERO),
            moved: Notify::new(),
        }
    }

    /// Advance the clock.
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
