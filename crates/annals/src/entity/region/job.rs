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
    /// Does it, and answers whoever waits.
    fn run<'a>(self: Box<Self>, host: &'a H, live: &'a mut H::Live) -> BoxFuture<'a, Next>;

    /// Answers that the state could not be loaded.
    fn fail(self: Box<Self>, error: Error);
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
    fn run<'a>(self: Box<Self>, host: &'a H, live: &'a mut H::Live) -> BoxFuture<'a, Next> {
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
            host.tend(live).await;
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

impl<H, V, R> Job<H> for Look<V, R>
where
    H: Hosting,
    V: FnOnce(&H::State) -> R + Send + 'static,
    R: Send + 'static,
{
    fn run<'a>(self: Box<Self>, host: &'a H, live: &'a mut H::Live) -> BoxFuture<'a, Next> {
        async move {
            let Self { view, answer } = *self;
            let settled = host.settle(live).await;
            let _ = answer.send(settled.map(|()| view(H::state(live))));
            Next::Stay
        }
        .boxed()
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.answer.send(Err(error));
    }
}
