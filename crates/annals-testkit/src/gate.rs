//! A store whose requests wait at a gate, to count concurrent requests and to delay some of them. A
//! round ends when every request in flight is waiting.
//!
//! Guarantees: uses no clock; a test on one thread is deterministic.
#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "for tests: a panic is how they fail"
)]

use std::sync::{Arc, Mutex};

use annals::Error;
use annals::items::{Item, Items, Value};
use annals::store::Verb;
use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::hooked::{Answered, Call, Hook, Hooked};

/// After this many yields, every other task is assumed to be waiting.
const TURNS: usize = 500;

/// Which requests wait at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    Nothing,
    /// Every request.
    Everything,
    /// The put of the event with this number, on the akka layout.
    Put(u64),
    /// Nothing, but that put is stored and then fails.
    Answer(u64),
}

/// A store whose requests wait at a gate.
pub type Gate = Hooked<GateHook>;

/// The gate of a [`Gate`].
#[derive(Debug)]
pub struct GateHook {
    hold: Mutex<Hold>,
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Gate {
    /// A gate in front of a store; it holds nothing yet.
    pub fn new(inner: &Arc<dyn Items>) -> Arc<Self> {
        let gate = GateHook {
            hold: Mutex::new(Hold::Nothing),
            waiting: Mutex::default(),
        };
        Arc::new(Self::over(inner.clone(), gate))
    }
}

impl GateHook {
    /// Sets which requests wait from now on.
    pub fn hold(&self, hold: Hold) {
        *self.hold.lock().unwrap() = hold;
    }

    /// Lets waiting requests continue, and holds no more; returns the number of waiting requests.
    pub fn lift(&self) -> usize {
        self.hold(Hold::Nothing);
        self.open()
    }

    fn open(&self) -> usize {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        let count = waiting.len();
        for one in waiting {
            one.send(()).unwrap();
        }
        count
    }

    /// Runs a task to its end; returns the number of concurrent requests of each round.
    pub async fn rounds(&self, run: impl Future<Output = ()> + Send + 'static) -> Vec<usize> {
        self.hold(Hold::Everything);
        let running = tokio::spawn(run);
        let mut rounds = Vec::new();
        loop {
            turns().await;
            match self.open() {
                0 => break,
                count => rounds.push(count),
            }
        }
        self.hold(Hold::Nothing);
        running.await.unwrap();
        rounds
    }

    async fn pass(&self) {
        if *self.hold.lock().unwrap() == Hold::Everything {
            self.wait().await;
        }
    }

    async fn wait(&self) {
        let (sender, opened) = oneshot::channel();
        self.waiting.lock().unwrap().push(sender);
        opened.await.unwrap();
    }
}

/// Yields until all other tasks are waiting.
pub async fn turns() {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
}

fn number_of(item: &Item) -> Option<u64> {
    item.get("event")?;
    item.get("seq").and_then(Value::as_u64)
}

#[async_trait]
impl Hook for GateHook {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        if call.verb() != Verb::Tables {
            self.pass().await;
        }
        let number = match &call {
            Call::Put(_, item, _) => number_of(item),
            _ => None,
        };
        let hold = Some(*self.hold.lock().unwrap());
        if number.map(Hold::Put) == hold {
            self.wait().await;
        }
        let answer = call.send(inner).await;
        match number.map(Hold::Answer) == hold {
            true => Err(Error::unavailable("the answer is lost").into()),
            false => answer,
        }
    }
}
