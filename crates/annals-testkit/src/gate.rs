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

use annals::items::{
    BatchError, Billing, Condition, Cost, Got, Item, Items, Key, Page, Query, Scan, TableName,
    TableSpec, Value, Write, WriteError,
};
use annals::{Error, Result};
use async_trait::async_trait;
use tokio::sync::oneshot;

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
#[derive(Debug)]
pub struct Gate {
    inner: Arc<dyn Items>,
    hold: Mutex<Hold>,
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Gate {
    /// In front of a store; holds nothing yet.
    pub fn new(inner: &Arc<dyn Items>) -> Arc<Self> {
        Arc::new(Self {
            inner: inner.clone(),
            hold: Mutex::new(Hold::Nothing),
            waiting: Mutex::default(),
        })
    }

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
#[deny(clippy::missing_trait_methods)]
impl Items for Gate {
    async fn get(&self, table: &TableSpec, keys: Vec<Key>) -> Result<Got> {
        self.pass().await;
        self.inner.get(table, keys).await
    }

    async fn put(
        &self,
        table: &TableSpec,
        item: Item,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.pass().await;
        let number = number_of(&item);
        let hold = *self.hold.lock().unwrap();
        if number.is_some_and(|number| hold == Hold::Put(number)) {
            self.wait().await;
        }
        let answer = self.inner.put(table, item, condition).await;
        match number.is_some_and(|number| hold == Hold::Answer(number)) {
            true => Err(WriteError::Failed(Error::unavailable("the answer is lost"))),
            false => answer,
        }
    }

    async fn delete(
        &self,
        table: &TableSpec,
        key: Key,
        condition: Condition,
    ) -> Result<Cost, WriteError> {
        self.pass().await;
        self.inner.delete(table, key, condition).await
    }

    async fn write(&self, table: &TableSpec, writes: Vec<Write>) -> Result<Cost, BatchError> {
        self.pass().await;
        self.inner.write(table, writes).await
    }

    async fn query(&self, table: &TableSpec, query: Query) -> Result<Page> {
        self.pass().await;
        self.inner.query(table, query).await
    }

    async fn scan(&self, table: &TableSpec, scan: Scan) -> Result<Page> {
        self.pass().await;
        self.inner.scan(table, scan).await
    }

    async fn create_table(&self, spec: &TableSpec, billing: Billing) -> Result<()> {
        self.inner.create_table(spec, billing).await
    }

    async fn describe_table(&self, name: &TableName) -> Result<Option<TableSpec>> {
        self.inner.describe_table(name).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<bool> {
        self.inner.drop_table(name).await
    }
}
