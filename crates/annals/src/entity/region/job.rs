//! What waits for an entity: a command, or a look at it.

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::oneshot;

use super::super::AskError;
use super::super::ending::Next;
use super::super::hosting::{Asking, Hosting, Runs};
use super::super::live::Once;
use crate::{Error, Result};

/// Something to be done with a state.
pub(super) trait Job<H: Hosting>: Send {
    /// Does it, and answers whoever waits; before that, `leaves` is told what becomes of the entity's
    /// place, so that whoever was answered finds it so.
    fn run<'a>(
        self: Box<Self>,
        host: &'a H,
        live: &'a mut H::Live,
        leaves: &'a (dyn Fn(Next) + Sync),
    ) -> BoxFuture<'a, Next>;

    /// Answers that it is not done.
    fn fail(self: Box<Self>, why: Failure);
}

/// Why a job is not done. Nothing was written for it.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The state could not be loaded.
    Unloaded(Error),
    /// The entity was stopped before.
    Stopped,
}

/// A command.
pub(super) struct Ask<C, R, F> {
    pub(super) command: C,
    pub(super) command_id: Option<Box<str>>,
    pub(super) answer: oneshot::Sender<Result<Once<R>, AskError<F>>>,
}

impl<H, C> Job<H> for Ask<C, H::Reply, H::Error>
where
    H: Runs<C>,
    C: Send + Sync + 'static,
{
    fn run<'a>(
        self: Box<Self>,
        host: &'a H,
        live: &'a mut H::Live,
        leaves: &'a (dyn Fn(Next) + Sync),
    ) -> BoxFuture<'a, Next> {
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
            leaves(next);
            // Whoever asked may have lost patience.
            let _ = self.answer.send(reply);
            host.tend_safely(live).await;
            next
        }
        .boxed()
    }

    fn fail(self: Box<Self>, why: Failure) {
        let _ = self.answer.send(Err(match why {
            Failure::Unloaded(error) => AskError::Store(error),
            Failure::Stopped => AskError::Stopped,
        }));
    }
}

/// A look at the state.
pub(super) struct Look<V, R> {
    pub(super) view: V,
    pub(super) answer: oneshot::Sender<Result<R>>,
}

impl<H, V, R> Job<H> for Look<V, R>
where
    H: Hosting,
    V: FnOnce(&H::State) -> R + Send + 'static,
    R: Send + 'static,
{
    fn run<'a>(
        self: Box<Self>,
        host: &'a H,
        live: &'a mut H::Live,
        _: &'a (dyn Fn(Next) + Sync),
    ) -> BoxFuture<'a, Next> {
        async move {
            let Self { view, answer } = *self;
            let settled = host.settle(live).await;
            let _ = answer.send(settled.map(|()| view(H::state(live))));
            Next::Stay
        }
        .boxed()
    }

    fn fail(self: Box<Self>, why: Failure) {
        let _ = self.answer.send(Err(match why {
            Failure::Unloaded(error) => error,
            Failure::Stopped => {
                Error::unavailable("the entity stopped before its turn came; ask again")
            }
        }));
    }
}
