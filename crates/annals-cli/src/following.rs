//! Following the embedded store of another process: it is opened for reading whenever it has changed.
//!
//! Guarantees: no lock is taken, so the application starts, writes and stops as if nobody followed.
//! Nothing is kept open while nothing changes.

use std::path::PathBuf;
use std::time::Duration;

use annals::embedded::change_note;
use annals::{Clock, Error, ErrorKind, Result, SystemClock};

/// How often to look for changes.
const POLL: Duration = Duration::from_millis(200);
/// How often in a row the store may be unavailable: its owner may replace files faster than they are read.
const FAILURES_MAX: u32 = 10;

/// The store in a folder, and what was seen of it.
pub(crate) struct Following {
    folder: PathBuf,
    seen: Option<Vec<u8>>,
    /// How long to wait before the next look.
    pause: Duration,
    failures: u32,
    clock: SystemClock,
}

impl Following {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            seen: None,
            pause: Duration::ZERO,
            failures: 0,
            clock: SystemClock::new(),
        }
    }

    /// Waits until something has changed since the last call; returns at once the first time.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        loop {
            self.clock.sleep(self.pause).await;
            self.pause = POLL;
            // Taken before the store is opened, so that no change is overlooked.
            let now = change_note(&self.folder)?;
            if self.seen.as_ref() != Some(&now) {
                self.seen = Some(now);
                return Ok(());
            }
        }
    }

    /// What became of a read: a store that is unavailable for a moment is read again.
    pub(crate) fn read<T>(&mut self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(read) => {
                self.failures = 0;
                Ok(Some(read))
            }
            Err(error) => self.again(error).map(|()| None),
        }
    }

    fn again(&mut self, error: Error) -> Result<()> {
        self.failures += 1;
        if error.kind() != ErrorKind::Unavailable || self.failures > FAILURES_MAX {
            return Err(error);
        }
        self.seen = None;
        Ok(())
    }
}
