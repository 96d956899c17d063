//! A store on which writes too large for an item are interrupted at the worst moments.
//!
//! Guarantees: only the faults that a test sets.
//! Relies on: every put is of an item that may have chunks: a commit, a snapshot or a state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals::items::{
    Condition, Cost, Item, Items, Key, KeyPart, Scan, TableSpec, Write, WriteError, scan_all,
};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::{Error, ManualClock, Random};
use annals_jvm::AnyLayout;
use annals_testkit::hooked::{Answer, Answered, Call, Failure, Hook, Hooked};
use async_trait::async_trait;
use futures::TryStreamExt;
use futures::future::BoxFuture;

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// Runs once, in the middle of a put.
#[derive(Default)]
pub(crate) struct Interlude(Mutex<Option<BoxFuture<'static, ()>>>);

impl Interlude {
    pub(crate) fn set(&self, run: impl Future<Output = ()> + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::pin(run));
    }

    fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.lock().unwrap().take()
    }
}

pub(crate) struct Stage {
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: Arc<ManualClock>,
    /// Puts fail, and store nothing.
    pub(crate) loses_items: AtomicBool,
    /// Puts succeed, and their responses are lost.
    pub(crate) loses_answers: AtomicBool,
    /// Chunks cannot be deleted.
    pub(crate) loses_deletes: AtomicBool,
    /// Deletions of single chunks wait in `held`.
    pub(crate) holds_deletes: AtomicBool,
    pub(crate) held: Mutex<Vec<(TableSpec, Key, Condition)>>,
    /// A batch takes longer than an append may.
    pub(crate) is_slow: AtomicBool,
    /// Runs before the next put.
    pub(crate) before_put: Interlude,
    /// Runs after the next put, whose response is lost, and before the client repeats it.
    pub(crate) between_puts: Interlude,
}

pub(crate) fn is_set(switch: &AtomicBool) -> bool {
    switch.load(Ordering::SeqCst)
}

pub(crate) fn set(switch: &AtomicBool, on: bool) {
    switch.store(on, Ordering::SeqCst);
}

fn is_chunk(key: &Key) -> bool {
    matches!(&key.partition, KeyPart::S(partition) if partition.starts_with("p:"))
}

fn cut_off() -> Answered {
    Err(Error::unavailable("cut off").into())
}

/// This many incompressible words of 8 bytes.
pub(crate) fn noise(random: &Random, words: usize) -> Vec<u8> {
    let words = (0..words).flat_map(|_| random.bits().to_le_bytes());
    words.collect()
}

impl Stage {
    /// With the tables of the `annals` layout.
    pub(crate) async fn new() -> Arc<Hooked<Self>> {
        let memory = Arc::new(Memory::new());
        for table in AnyLayout::default().tables().unwrap().all() {
            let created = memory.create_table(table, Default::default());
            created.await.unwrap();
        }
        let stage = Self {
            memory: memory.clone(),
            clock: Arc::new(ManualClock::at_ms(1_700_000_000_000)),
            loses_items: AtomicBool::default(),
            loses_answers: AtomicBool::default(),
            loses_deletes: AtomicBool::default(),
            holds_deletes: AtomicBool::default(),
            held: Mutex::default(),
            is_slow: AtomicBool::default(),
            before_put: Interlude::default(),
            between_puts: Interlude::default(),
        };
        Arc::new(Hooked::over(memory, stage))
    }

    /// How many chunks are stored.
    pub(crate) async fn chunks(&self) -> usize {
        let mut chunks = 0;
        for table in AnyLayout::default().tables().unwrap().all() {
            let all = scan_all(self.memory.clone(), table.clone().into(), Scan::whole());
            let all: Vec<Item> = all.try_collect().await.unwrap();
            chunks += all.iter().filter(|item| item.get("b").is_some()).count();
        }
        chunks
    }

    async fn put(&self, inner: &dyn Items, put: Call<'_>) -> Answered {
        if is_set(&self.loses_items) {
            return cut_off();
        }
        if let Some(interlude) = self.before_put.take() {
            interlude.await;
        }
        if let Some(interlude) = self.between_puts.take() {
            put.clone().send(inner).await?;
            interlude.await;
            return two_requests(put.send(inner).await);
        }
        let answer = put.send(inner).await;
        match is_set(&self.loses_answers) {
            true => Err(Error::unavailable("answer lost").into()),
            false => answer,
        }
    }
}

/// The result of a client that repeated a put.
fn two_requests(answer: Answered) -> Answered {
    let two = |cost: Cost| Cost {
        requests: 2,
        ..cost
    };
    match answer {
        Ok(Answer::Written(cost)) => Ok(two(cost).into()),
        Err(Failure::Write(WriteError::Refused { existing, cost })) => {
            let cost = two(cost);
            Err(WriteError::Refused { existing, cost }.into())
        }
        other => other,
    }
}

#[async_trait]
impl Hook for Stage {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        match &call {
            Call::Put(..) => return self.put(inner, call).await,
            Call::Delete(table, key, condition) if is_chunk(key) => {
                if is_set(&self.loses_deletes) {
                    return cut_off();
                }
                if is_set(&self.holds_deletes) {
                    let held = (TableSpec::clone(table), key.clone(), condition.clone());
                    self.held.lock().unwrap().push(held);
                    return Ok(Cost::request().into());
                }
            }
            Call::Write(_, writes) => {
                let is_delete =
                    |write: &Write| matches!(write, Write::Delete(key) if is_chunk(key));
                if is_set(&self.loses_deletes) && writes.iter().any(is_delete) {
                    return cut_off();
                }
                if is_set(&self.is_slow) {
                    self.clock.advance(Duration::from_secs(11 * 60));
                }
            }
            _ => {}
        }
        call.send(inner).await
    }
}
