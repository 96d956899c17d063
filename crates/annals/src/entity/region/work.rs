//! The task that works on an entity while something waits for it.
//!
//! Promises: everybody who waits is answered, also where the task is dropped with its runtime. A job
//! that panics costs the state, which is loaded again, since half of something may have been done to
//! it; the store knows what counts.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt;

use super::super::ending::Next;
use super::super::hosting::{self, Hosting};
use super::directory::Directory;
use super::job::{Failure, Job};
use super::slot::{Slot, State};
use crate::{Error, Result};

/// A task at work. Where it ends before its work does, the entity leaves, and nobody waits for ever.
struct Working<H: Hosting> {
    directory: Arc<Directory<H>>,
    slot: Arc<Slot<H>>,
    is_done: bool,
}

impl<H: Hosting> Drop for Working<H> {
    fn drop(&mut self) {
        if !self.is_done {
            fail_all(self.directory.give_up(&self.slot), &Failure::Stopped);
        }
        self.directory.rests.notify_waiters();
    }
}

/// Tells all that they are not done. What they are is the application's, and may panic when it is
/// dropped.
fn fail_all<H: Hosting>(jobs: VecDeque<Box<dyn Job<H>>>, why: &Failure) {
    for job in jobs {
        let failed = catch_unwind(AssertUnwindSafe(|| job.fail(why.clone())));
        if failed.is_err() {
            tracing::error!("a command panicked when it was dropped");
        }
    }
}

/// Works until nothing waits, or the entity leaves memory.
pub(super) async fn work<H: Hosting>(
    directory: Arc<Directory<H>>,
    slot: Arc<Slot<H>>,
    mut state: State<H>,
) {
    let mut working = Working {
        directory,
        slot,
        is_done: false,
    };
    let (directory, slot) = (&working.directory, &working.slot);
    while let Some((job, live)) = slot.next(state.take()) {
        let done = AssertUnwindSafe(done(directory, slot, live, job)).catch_unwind();
        let Ok((live, next)) = done.await else {
            tracing::error!(id = %slot.id, "a handler panicked; the entity is loaded again");
            continue;
        };
        state = live;
        let has_left = match next {
            Next::Stay => false,
            Next::Passivate => directory.leave(slot, true),
            Next::Stop => true,
        };
        if has_left {
            break;
        }
    }
    working.is_done = true;
}

/// Does one job, on a state that is loaded where there is none.
async fn done<H: Hosting>(
    directory: &Arc<Directory<H>>,
    slot: &Arc<Slot<H>>,
    state: State<H>,
    job: Box<dyn Job<H>>,
) -> (State<H>, Next) {
    let host = &directory.host;
    let mut live = match state {
        Some(live) => live,
        None => match Box::pin(load(host, slot)).await {
            Ok(live) => live,
            Err(error) => {
                // All who wait for it are told; the next one who asks tries again.
                let mut waiting = slot.waiting();
                waiting.push_front(job);
                fail_all(waiting, &Failure::Unloaded(error));
                return (None, Next::Stay);
            }
        },
    };
    // Whoever is answered by what stops the entity meets the next one, and not what is left of this.
    let leaves = |next: Next| {
        if next == Next::Stop {
            fail_all(directory.give_up(slot), &Failure::Stopped);
        }
    };
    let next = job.run(host, &mut live, &leaves).await;
    slot.used(host.clock().monotonic());
    (Some(live), next)
}

async fn load<H: Hosting>(host: &H, slot: &Slot<H>) -> Result<Box<H::Live>> {
    let loaded = AssertUnwindSafe(hosting::load(host, &slot.id)).catch_unwind();
    let panicked = || {
        let id = &slot.id;
        Error::corrupt(format!("loading an entity panicked. id=`{id}`"))
    };
    let loaded = loaded.await;
    loaded.unwrap_or_else(|_| Err(panicked())).map(Box::new)
}
