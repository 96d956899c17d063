//! The task that works on an entity while something waits for it.
//!
//! Promises: everybody who waits is answered. A job that panics costs the state, which is loaded
//! again, since half of something may have been done to it; the store knows what counts.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;

use super::super::ending::Next;
use super::super::hosting::Hosting;
use super::directory::Directory;
use super::job::Job;
use super::slot::{Slot, State};
use crate::{Error, Result};

/// Works until nothing waits, or the entity leaves memory.
pub(super) async fn work<H: Hosting>(
    directory: Arc<Directory<H>>,
    slot: Arc<Slot<H>>,
    mut state: State<H>,
) {
    while let Some((job, live)) = slot.next(state.take()) {
        let next;
        (state, next) = done(&directory, &slot, live, job).await;
        let has_left = match next {
            Next::Stay => false,
            Next::Passivate => directory.leave(&slot, true),
            Next::Stop => {
                // Whoever asked is told that the entity stopped.
                drop(slot.waiting());
                directory.leave(&slot, true)
            }
        };
        if has_left {
            break;
        }
    }
    directory.rests.notify_waiters();
}

/// Does one job, on a state that is loaded where there is none.
async fn done<H: Hosting>(
    directory: &Directory<H>,
    slot: &Slot<H>,
    state: State<H>,
    job: Box<dyn Job<H>>,
) -> (State<H>, Next) {
    let host = &directory.host;
    let mut live = match state {
        Some(live) => live,
        None => match Box::pin(load(directory, slot)).await {
            Ok(live) => live,
            Err(error) => {
                // All who wait for it are told; the next one who asks tries again.
                job.fail(error.clone());
                for job in slot.waiting() {
                    job.fail(error.clone());
                }
                return (None, Next::Stay);
            }
        },
    };
    let run = AssertUnwindSafe(job.run(host, &mut live)).catch_unwind();
    let Ok(next) = run.await else {
        tracing::error!(id = %slot.id, "a handler panicked; the entity is loaded again");
        return (None, Next::Stay);
    };
    slot.used(host.clock().monotonic());
    (Some(live), next)
}

async fn load<H: Hosting>(directory: &Directory<H>, slot: &Slot<H>) -> Result<Box<H::Live>> {
    let permit = directory.recoveries.acquire().await;
    let loaded = AssertUnwindSafe(directory.host.load(&slot.id)).catch_unwind();
    let loaded = loaded.await;
    drop(permit);
    let panicked = || {
        let id = &slot.id;
        Error::corrupt(format!("taking in an event panicked. id=`{id}`"))
    };
    loaded.unwrap_or_else(|_| Err(panicked())).map(Box::new)
}
