//! One entity in memory: its task.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::mpsc;

use super::super::Entity;
use super::super::effect::Next;
use super::super::live::Live;
use super::directory::{Directory, Slot};
use super::job::{Job, Message};
use crate::{Error, PersistenceId};

/// One entity in memory.
pub(super) struct Resident<E: Entity> {
    pub(super) directory: Arc<Directory<E>>,
    pub(super) id: PersistenceId,
    pub(super) slot: Arc<Slot<E>>,
    pub(super) mailbox: mpsc::Receiver<Message<E>>,
}

impl<E: Entity> Resident<E> {
    /// Handles what comes until it leaves memory.
    pub(super) async fn live(mut self) {
        let mut live: Option<Box<Live<E>>> = None;
        while let Some(message) = self.mailbox.recv().await {
            let next = match message {
                Message::Job(job) => self.handle(&mut live, job).await,
                Message::Passivate => Next::Passivate,
            };
            let has_left = match next {
                Next::Stay => false,
                Next::Passivate => self.directory.leave(&self.id, &mut self.mailbox),
                Next::Stop => {
                    self.refuse_waiting();
                    self.directory.leave(&self.id, &mut self.mailbox)
                }
            };
            if has_left {
                break;
            }
        }
        // What came between the last look and the closing goes to whoever comes next.
        while let Ok(message) = self.mailbox.try_recv() {
            if let Message::Job(job) = message {
                self.directory.send_again(self.id.clone(), job);
            }
        }
        self.slot.has_left.notify_waiters();
    }

    /// Drops what waits: whoever asked is told that the entity stopped.
    fn refuse_waiting(&mut self) {
        while self.mailbox.try_recv().is_ok() {}
    }

    async fn handle(&mut self, live: &mut Option<Box<Live<E>>>, job: Box<dyn Job<E>>) -> Next {
        let host = &self.directory.host;
        let mut state = match live.take() {
            Some(state) => state,
            None => match self.recover().await {
                Ok(state) => state,
                Err(error) => {
                    self.fail_waiting(job, &error);
                    return Next::Stay;
                }
            },
        };
        let run = AssertUnwindSafe(job.run(host, &mut state)).catch_unwind();
        let Ok(next) = run.await else {
            // Half of something may have been done to the state; the journal knows what counts.
            let id = &self.id;
            tracing::error!(%id, "a handler panicked; the entity recovers");
            return Next::Stay;
        };
        if host.is_due(&state) {
            host.retain(&mut state).await;
        }
        *live = Some(state);
        self.slot.used(host.clock.monotonic());
        next
    }

    async fn recover(&self) -> crate::Result<Box<Live<E>>> {
        let directory = &self.directory;
        let permit = directory.recoveries.acquire().await;
        let recovered = AssertUnwindSafe(directory.host.load(&self.id)).catch_unwind();
        let recovered = recovered.await;
        drop(permit);
        let panicked = || {
            let id = &self.id;
            Error::corrupt(format!("taking in an event panicked. id=`{id}`"))
        };
        recovered.unwrap_or_else(|_| Err(panicked())).map(Box::new)
    }

    /// Answers all who wait for a state that cannot be loaded: the next one who asks tries again.
    fn fail_waiting(&mut self, job: Box<dyn Job<E>>, error: &Error) {
        job.fail(error.clone());
        while let Ok(Message::Job(job)) = self.mailbox.try_recv() {
            job.fail(error.clone());
        }
    }
}
