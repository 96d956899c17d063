//! The mailbox of an entity: queued jobs, and the state while no task uses it.
//!
//! Guarantees: at most one task works on an entity, and only while jobs are queued. An idle entity is
//! little more than its state. An accepted job is run or failed, never dropped silently.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::oneshot;

use super::super::backend::{Backend, CommandIds, Execute, Request};
use super::super::effect::AfterCommand;
use super::super::{AskError, Once};
use crate::{Error, PersistenceId, Result};

/// Capacity that an empty queue keeps.
const QUEUE_CAPACITY_KEPT: usize = 4;

/// The entity in memory; `None` if it must be loaded.
pub(super) type MaybeLoaded<B> = Option<Box<<B as Backend>::Loaded>>;

/// The mailbox of an entity.
pub(super) struct Mailbox<B: Backend> {
    pub(super) id: PersistenceId,
    /// When it was last used, in milliseconds of the monotonic clock.
    used_ms: AtomicU64,
    inner: Mutex<Inner<B>>,
}

struct Inner<B: Backend> {
    queue: VecDeque<Box<dyn Job<B>>>,
    phase: Phase<B>,
}

enum Phase<B: Backend> {
    /// No task works on it.
    Idle(MaybeLoaded<B>),
    /// A task has the state.
    Busy,
    /// The entity left memory: callers look up the next mailbox.
    Closed,
}

/// The result of queueing a job.
pub(super) enum Enqueued<B: Backend> {
    /// Queued; a task is working on the entity.
    Queued,
    /// Queued; the caller must start a task with this state.
    Start(MaybeLoaded<B>),
    /// The queue is full.
    Full,
    /// The entity left memory.
    Closed(Box<dyn Job<B>>),
}

impl<B: Backend> Mailbox<B> {
    pub(super) fn new(id: PersistenceId) -> Self {
        Self {
            id,
            used_ms: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                queue: VecDeque::new(),
                phase: Phase::Idle(None),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<B>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn used(&self, now: Duration) {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.used_ms.store(now, Ordering::Relaxed);
    }

    pub(super) fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }

    /// Queue a job, if fewer than `most` are queued.
    pub(super) fn enqueue(&self, job: Box<dyn Job<B>>, most: usize) -> Enqueued<B> {
        let mut inner = self.lock();
        match &inner.phase {
            Phase::Closed => return Enqueued::Closed(job),
            Phase::Busy | Phase::Idle(_) if inner.queue.len() >= most => return Enqueued::Full,
            Phase::Busy | Phase::Idle(_) => {}
        }
        inner.queue.push_back(job);
        match std::mem::replace(&mut inner.phase, Phase::Busy) {
            Phase::Idle(loaded) => Enqueued::Start(loaded),
            Phase::Busy | Phase::Closed => Enqueued::Queued,
        }
    }

    /// The next job for the task that works on the entity, with the state. If there is none, the
    /// entity becomes idle.
    pub(super) fn next(&self, loaded: MaybeLoaded<B>) -> Option<(Box<dyn Job<B>>, MaybeLoaded<B>)> {
        let mut inner = self.lock();
        if matches!(inner.phase, Phase::Closed) {
            return None;
        }
        match inner.queue.pop_front() {
            Some(job) => Some((job, loaded)),
            None => {
                inner.phase = Phase::Idle(loaded);
                inner.queue.shrink_to(QUEUE_CAPACITY_KEPT);
                None
            }
        }
    }

    /// Take all queued jobs.
    pub(super) fn drain(&self) -> VecDeque<Box<dyn Job<B>>> {
        std::mem::take(&mut self.lock().queue)
    }

    /// Close the mailbox, if nothing is queued and no task but the caller's works on the entity. Must
    /// be called under the directory's lock, by the code that then removes the mailbox.
    pub(super) fn close_if_idle(&self, is_own_task: bool) -> bool {
        let mut inner = self.lock();
        let may_close = match inner.phase {
            Phase::Idle(_) => true,
            Phase::Busy => is_own_task,
            Phase::Closed => false,
        };
        if !may_close || !inner.queue.is_empty() {
            return false;
        }
        let state = std::mem::replace(&mut inner.phase, Phase::Closed);
        drop(inner);
        // Outside the lock: dropping the state runs application code.
        drop(state);
        true
    }

    /// Close the mailbox and return the queued jobs.
    pub(super) fn close(&self) -> VecDeque<Box<dyn Job<B>>> {
        let mut inner = self.lock();
        inner.phase = Phase::Closed;
        std::mem::take(&mut inner.queue)
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.lock().phase, Phase::Idle(_))
    }
}

/// Work for an entity.
pub(super) trait Job<B: Backend>: Send {
    /// Run the job and reply. `before_reply` runs first, so that a caller with a reply to a command
    /// that stopped the entity finds it stopped.
    fn run<'a>(
        self: Box<Self>,
        backend: &'a B,
        loaded: &'a mut B::Loaded,
        before_reply: &'a (dyn Fn(AfterCommand) + Sync),
    ) -> BoxFuture<'a, AfterCommand>;

    /// Reply that the job was not run.
    fn fail(self: Box<Self>, why: Failure);
}

/// Why a job was not run. Nothing was written for it.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Loading the entity failed.
    LoadFailed(Error),
    /// The entity was stopped before.
    Stopped,
}

/// A command.
pub(super) struct Ask<C, R, F> {
    pub(super) command: C,
    pub(super) ids: CommandIds,
    pub(super) reply: oneshot::Sender<Result<Once<R>, AskError<F>>>,
}

impl<B, C> Job<B> for Ask<C, B::Reply, B::Error>
where
    B: Execute<C>,
    C: Send + Sync + 'static,
{
    fn run<'a>(
        self: Box<Self>,
        backend: &'a B,
        loaded: &'a mut B::Loaded,
        before_reply: &'a (dyn Fn(AfterCommand) + Sync),
    ) -> BoxFuture<'a, AfterCommand> {
        async move {
            let request = Request {
                command: &self.command,
                ids: &self.ids,
            };
            let (reply, after) = match backend.execute(loaded, request).await {
                Ok(completed) => (Ok(completed.reply), completed.after),
                Err(error) => (Err(error), AfterCommand::Stay),
            };
            before_reply(after);
            // The caller may have stopped waiting.
            let _ = self.reply.send(reply);
            backend.maintain_safely(loaded).await;
            after
        }
        .boxed()
    }

    fn fail(self: Box<Self>, why: Failure) {
        let _ = self.reply.send(Err(match why {
            Failure::LoadFailed(error) => AskError::Store(error),
            Failure::Stopped => AskError::Stopped,
        }));
    }
}

/// A read of the state.
pub(super) struct View<V, R> {
    pub(super) view: V,
    pub(super) reply: oneshot::Sender<Result<R>>,
}

impl<B, V, R> Job<B> for View<V, R>
where
    B: Backend,
    V: FnOnce(&B::State) -> R + Send + 'static,
    R: Send + 'static,
{
    fn run<'a>(
        self: Box<Self>,
        backend: &'a B,
        loaded: &'a mut B::Loaded,
        _: &'a (dyn Fn(AfterCommand) + Sync),
    ) -> BoxFuture<'a, AfterCommand> {
        async move {
            let Self { view, reply } = *self;
            let refreshed = backend.refresh(loaded).await;
            let _ = reply.send(refreshed.map(|()| view(B::state(loaded))));
            AfterCommand::Stay
        }
        .boxed()
    }

    fn fail(self: Box<Self>, why: Failure) {
        let _ = self.reply.send(Err(match why {
            Failure::LoadFailed(error) => error,
            Failure::Stopped => {
                Error::unavailable("the entity stopped before it was read; ask again")
            }
        }));
    }
}
