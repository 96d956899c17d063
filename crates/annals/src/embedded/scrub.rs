//! The scrub: reads all files of the store slowly, so that damage is found before it is needed.
//!
//! Guarantees: changes nothing; what it finds is logged as an error and counted. Off by default.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::index::Index;
use super::log;
use crate::{Error, Result};

/// Counts files that are damaged, each time they are read.
const DAMAGED: &str = "annals_embedded_damaged_files_total";
/// Bytes between two pauses.
const STEP: u64 = 1024 * 1024;
/// From the end of one scrub to the begin of the next.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The thread. Dropped, it stops.
#[derive(Debug)]
pub(super) struct Scrub {
    closing: Arc<Closing>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Closing {
    is_closing: Mutex<bool>,
    changed: Condvar,
}

impl Closing {
    /// Waits for a time, or until the store is closed; returns whether it is still open.
    fn pause(&self, time: Duration) -> bool {
        let state = self.is_closing.lock();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, time, |it| !*it);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Scrub {
    /// Starts the thread; `None` if the rate is 0.
    pub(super) fn start(
        folder: PathBuf,
        index: Arc<Index>,
        mib_per_second: u64,
    ) -> Result<Option<Self>> {
        if mib_per_second == 0 {
            return Ok(None);
        }
        metrics::describe_counter!(DAMAGED, "damaged files of the embedded store");
        let closing = Arc::new(Closing::default());
        let its = closing.clone();
        let pause = Duration::from_secs(1) / u32::try_from(mib_per_second).unwrap_or(u32::MAX);
        let thread = super::spawn_background("annals-scrub", move || {
            loop {
                let mut unpaused = 0;
                let mut step = |bytes| {
                    unpaused += bytes;
                    let pauses = unpaused / STEP;
                    unpaused %= STEP;
                    let pauses = u32::try_from(pauses).unwrap_or(u32::MAX);
                    pauses == 0 || its.pause(pause.saturating_mul(pauses))
                };
                scrub(&folder, &index, &mut step, &mut |error| report(&error));
                if !its.pause(DAY) {
                    return;
                }
            }
        })?;
        Ok(Some(Self {
            closing,
            thread: Some(thread),
        }))
    }
}

impl Drop for Scrub {
    fn drop(&mut self) {
        let state = self.closing.is_closing.lock();
        *state.unwrap_or_else(PoisonError::into_inner) = true;
        self.closing.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has found nothing more.
            let _ = thread.join();
        }
    }
}

fn report(error: &Error) {
    metrics::counter!(DAMAGED).increment(1);
    tracing::error!(%error, "the scrub found damage; stop the store and run `annals verify --deep`");
}

/// Reads the sealed segments of the log and the files of the index once. Calls `found` with each error.
fn scrub(
    folder: &Path,
    index: &Index,
    step: &mut dyn FnMut(u64) -> bool,
    found: &mut dyn FnMut(Error),
) {
    let mut is_open = true;
    let mut step = |bytes| {
        is_open = is_open && step(bytes);
        is_open
    };
    // The open segment is written meanwhile.
    for number in (0..).take_while(|number: &u64| log::has_segment(folder, number + 1)) {
        if let Err(error) = log::check_segment(folder, number, &mut step) {
            found(error);
        }
        if !step(0) {
            return;
        }
    }
    index.check_files(&mut step, found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::Embedded;
    use crate::settings::EmbeddedSettings;
    use crate::{Annals, Codec, ErrorKind, NewEvent};

    use crate::journal::Expected;
    use crate::layout::AnnalsLayout;

    fn findings(folder: &Path, index: &Index) -> Vec<Error> {
        let mut found = Vec::new();
        scrub(&folder.join("log"), index, &mut |_| true, &mut |error| {
            found.push(error);
        });
        found
    }

    /// Flips a bit in the middle of a file.
    fn damage(path: &Path) {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }

    #[tokio::test]
    async fn a_scrub_finds_damage_in_the_log_and_in_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let items = Embedded::open(path, &EmbeddedSettings::default()).unwrap();
        let items = Arc::new(items);
        let annals = Annals::create(items.clone(), &AnnalsLayout::default()).await;
        let (annals, id) = (annals.unwrap(), "Cart|1".parse().unwrap());
        for n in 0..20u64 {
            let random = crate::Random::seeded(n);
            let payload: Vec<u8> = std::iter::repeat_with(|| random.bits() as u8)
                .take(100_000)
                .collect();
            let event = NewEvent::new(Codec::Bytes, payload);
            let appended = annals.journal().append(&id, Expected::Any, event).await;
            appended.unwrap();
        }
        items.flush_index().await.unwrap();
        let index = items.index.clone().unwrap();
        assert_eq!(findings(path, &index).len(), 0);
        damage(&path.join("log/0000000000000000.log"));
        let of_log = findings(path, &index);
        assert_eq!(of_log.len(), 1, "{of_log:?}");
        assert_eq!(of_log[0].kind(), ErrorKind::Corrupt);
        let tables = std::fs::read_dir(path.join("index/tables")).unwrap();
        let tables: Vec<_> = tables.map(|entry| entry.unwrap().path()).collect();
        damage(&tables[0]);
        let of_both = findings(path, &index);
        assert_eq!(of_both.len(), 2, "{of_both:?}");
        let table = tables[0].display().to_string();
        assert!(of_both[1].to_string().contains(&table), "{}", of_both[1]);
    }
}
