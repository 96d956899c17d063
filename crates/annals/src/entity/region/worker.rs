//! The task that runs the queued jobs of an entity.
//!
//! Guarantees: every caller gets a reply, also if the task is dropped with its runtime. After a job
//! panics the entity is loaded again, since its state may be half changed.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt;

use super::super::backend::{self, Backend};
use super::super::effect::AfterCommand;
use super::directory::Directory;
use super::mailbox::{Failure, Job, Mailbox, MaybeLoaded};
use crate::{Error, Result};

/// Removes the entity and fails its queued jobs if the task ends early.
struct Guard<B: Backend> {
    directory: Arc<Directory<B>>,
    mailbox: Arc<Mailbox<B>>,
    is_done: bool,
}

impl<B: Backend> Drop for Guard<B> {
    fn drop(&mut self) {
        if !self.is_done {
            fail_all(self.directory.remove(&self.mailbox), &Failure::Stopped);
        }
        self.directory.idle_changed.notify_waiters();
    }
}

/// Fail jobs. Dropping a command runs application code, which may panic.
fn fail_all<B: Backend>(jobs: VecDeque<Box<dyn Job<B>>>, why: &Failure) {
    for job in jobs {
        let failed = catch_unwind(AssertUnwindSafe(|| job.fail(why.clone())));
        if failed.is_err() {
            tracing::error!("dropping a command panicked");
        }
    }
}

/// Run jobs until none is queued or the entity leaves memory.
pub(super) async fn work<B: Backend>(
    directory: Arc<Directory<B>>,
    mailbox: Arc<Mailbox<B>>,
    mut loaded: MaybeLoaded<B>,
) {
    let mut guard = Guard {
        directory,
        mailbox,
        is_done: false,
    };
    let (directory, mailbox) = (&guard.directory, &guard.mailbox);
    while let Some((job, state)) = mailbox.next(loaded.take()) {
        let ran = AssertUnwindSafe(run(directory, mailbox, state, job)).catch_unwind();
        let Ok((state, after)) = ran.await else {
            tracing::error!(id = %mailbox.id, "a handler panicked; loading the entity again");
            continue;
        };
        loaded = state;
        let has_left = match after {
            AfterCommand::Stay => false,
            AfterCommand::Passivate => directory.remove_idle(mailbox, true),
            AfterCommand::Stop => true,
        };
        if has_left {
            break;
        }
    }
    guard.is_done = true;
}

/// Run one job, loading the entity if needed.
async fn run<B: Backend>(
    directory: &Arc<Directory<B>>,
    mailbox: &Arc<Mailbox<B>>,
    state: MaybeLoaded<B>,
    job: Box<dyn Job<B>>,
) -> (MaybeLoaded<B>, AfterCommand) {
    let host = &directory.backend;
    let mut loaded = match state {
        Some(loaded) => loaded,
        None => match Box::pin(load(host, mailbox)).await {
            Ok(loaded) => loaded,
            Err(error) => {
                // Fail everything queued; the next command tries to load again.
                let mut queued = mailbox.drain();
                queued.push_front(job);
                fail_all(queued, &Failure::LoadFailed(error));
                return (None, AfterCommand::Stay);
            }
        },
    };
    // Remove a stopped entity before its caller gets the reply, so that the next command loads it anew.
    let before_reply = |after: AfterCommand| {
        if after == AfterCommand::Stop {
            fail_all(directory.remove(mailbox), &Failure::Stopped);
        }
    };
    let after = job.run(host, &mut loaded, &before_reply).await;
    mailbox.used(host.shared().clock.monotonic());
    (Some(loaded), after)
}

async fn load<B: Backend>(host: &B, mailbox: &Mailbox<B>) -> Result<Box<B::Loaded>> {
    let loaded = AssertUnwindSafe(backend::load(host, &mailbox.id)).catch_unwind();
    let panicked = || {
        let id = &mailbox.id;
        Error::corrupt("loading an entity panicked; fix `apply` or `from_payload`").fact("id", id)
    };
    let loaded = loaded.await;
    loaded.unwrap_or_else(|_| Err(panicked())).map(Box::new)
}
