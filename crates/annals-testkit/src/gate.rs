//! A store whose requests wait at a gate, to see which are made at once and to hold some of them
//! back: a round ends when everything that is under way waits.
//!
//! Promises: no clocks; a test on one thread runs the same way every time.
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

/// How often others get a turn before everything is taken to wait.
const TURNS: usize = 500;

/// What waits at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    Nothing,
    /// Every request.
    Everything,
    /// The put of the event of this number, on the akka layout.
    Put(u64),
    /// Nothing, but that put is answered with an error when it has landed.
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
    /// In front of a store; holds nothing yet.
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

    /// Lets everything go on that waits, and holds nothing more; answers how many requests that were.
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

    /// Runs something to its end; answers how many requests it made at once, round by round.
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

/// Lets everything run until it waits.
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
