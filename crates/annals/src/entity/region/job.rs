//! What is put into a mailbox.

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::oneshot;

use super::super::effect::Next;
use super::super::host::{Asking, Host};
use super::super::live::{Live, Once};
use super::super::{AskError, Entity, Handle};
use crate::{Error, Result};

/// What is put into a mailbox.
pub(super) enum Message<E> {
    Job(Box<dyn Job<E>>),
    /// Leave memory, if nothing else waits.
    Passivate,
}

/// Something to be done with a state.
pub(super) trait Job<E>: Send {
    /// Does it, and answers whoever waits.
    fn run<'a>(self: Box<Self>, host: &'a Host<E>, live: &'a mut Live<E>) -> BoxFuture<'a, Next>;

    /// Answers that the state could not be loaded.
    fn fail(self: Box<Self>, error: Error);
}

/// A command.
pub(super) struct Ask<C, R, F> {
    pub(super) command: C,
    pub(super) command_id: Option<Box<str>>,
    pub(super) answer: oneshot::Sender<Result<Once<R>, AskError<F>>>,
}

impl<E, C> Job<E> for Ask<C, E::Reply, E::Error>
where
    E: Handle<C>,
    C: Send + Sync + 'static,
{
    fn run<'a>(self: Box<Self>, host: &'a Host<E>, live: &'a mut Live<E>) -> BoxFuture<'a, Next> {
        async move {
            let asking = Asking {
                command: &self.command,
                id: self.command_id.as_deref(),
            };
            let asked = host.run(live, asking).await;
            let (reply, next) = match asked {
                Ok(asked) => (Ok(asked.reply), asked.next),
                Err(error) => (Err(error), Next::Stay),
            };
            // Whoever asked may have lost patience.
            let _ = self.answer.send(reply);
            next
        }
        .boxed()
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.answer.send(Err(AskError::Store(error)));
    }
}

/// A look at the state.
pub(super) struct Look<V, R> {
    pub(super) view: V,
    pub(super) answer: oneshot::Sender<Result<R>>,
}

impl<E, V, R> Job<E> for Look<V, R>
where
    E: Entity,
    V: FnOnce(&E) -> R + Send + 'static,
    R: Send + 'static,
{
    fn run<'a>(self: Box<Self>, host: &'a Host<E>, live: &'a mut Live<E>) -> BoxFuture<'a, Next> {
        async move {
            let Self { view, answer } = *self;
            let settled = host.settle(live).await;
            let _ = answer.send(settled.map(|()| view(&live.state)));
            Next::Stay
        }
        .boxed()
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.answer.send(Err(error));
    }
}
