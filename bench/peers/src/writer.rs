//! What a contender does for appends, and group commit for those that have none of their own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::Result;

pub(crate) type Appending = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Events of one append: they follow the event with the number `after` of the id.
#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) id: Arc<str>,
    pub(crate) after: u64,
    pub(crate) payload: Bytes,
    /// How many events, each with the payload.
    pub(crate) events: u64,
}

/// Appends durably, if the last event of the id is the expected one.
pub(crate) trait Writer: Send + Sync {
    fn name(&self) -> &'static str;
    fn append(&self, append: Append) -> Appending;
}

/// More than there are writers.
const GROUP_MAX: usize = 1024;

type Outcome = std::result::Result<(), String>;

/// A thread that takes all queued appends, makes them durable together, and replies.
pub(crate) struct Grouped(mpsc::Sender<(Append, oneshot::Sender<Outcome>)>);

impl Grouped {
    pub(crate) fn start(mut commit: impl FnMut(&[Append]) -> Outcome + Send + 'static) -> Self {
        let (jobs, mut queue) = mpsc::channel::<(Append, oneshot::Sender<Outcome>)>(GROUP_MAX);
        std::thread::spawn(move || {
            let mut waiting = Vec::new();
            while queue.blocking_recv_many(&mut waiting, GROUP_MAX) > 0 {
                let (appends, answers): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
                let outcome = commit(&appends);
                for answer in answers {
                    let _ = answer.send(outcome.clone());
                }
            }
        });
        Self(jobs)
    }

    pub(crate) fn append(&self, append: Append) -> Appending {
        let jobs = self.0.clone();
        Box::pin(async move {
            let (answer, outcome) = oneshot::channel();
            jobs.send((append, answer)).await.map_err(|_| "stopped")?;
            Ok(outcome.await??)
        })
    }
}
