//! Injects faults into any store, by seed or by script: failed requests, lost responses,
//! throttling, crashes.
//!
//! Guarantees: the same seed and the same schedule of tasks give the same faults; [`Faults::none`]
//! changes nothing. Random faults are `Unavailable`, as callers of [`Items`] must expect anyway;
//! scripted ones have the kind that the script sets.
//! Relies on: all calls come from one thread, if a run must be reproducible.
//! Never: waits for time to pass. A delay yields to other tasks.

mod plan;
mod script;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::hooked::{Answer, Answered, Call, Failure, Hook, Hooked};
use annals::items::{BatchError, Items, Write, check_writes};
use annals::store::Verb;
use annals::{Error, ErrorKind, Random, Result};
use plan::{Fault, Plan, Side};
use script::Script;

pub use plan::Faults;

/// Any store, with faults from a seed or a script.
///
/// ```
/// use annals_testkit::faulty::{Faults, Faulty};
/// use annals::items::{Condition, Item, Items, Key, KeyAttribute, KeySchema, TableSpec};
/// use annals::memory::Memory;
/// use annals::{ErrorKind, Random};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> annals::Result<()> {
/// let table = TableSpec::new("notes".parse()?, KeySchema::new(KeyAttribute::text("id")))?;
/// let memory = Arc::new(Memory::new());
/// memory.create_table(&table, Default::default()).await?;
///
/// let always = Faults { lost_answer: 1_000, ..Faults::none() };
/// let items = Faulty::new(memory.clone(), Random::seeded(7), always);
/// let put = items.put(&table, Item::new().with("id", "a"), Condition::Absent).await;
/// assert_eq!(annals::Error::from(put.unwrap_err()).kind(), ErrorKind::Unavailable);
/// // The caller cannot know it, but the item is stored.
/// assert!(memory.get(&table, vec![Key::new("a")]).await?.items[0].is_some());
/// # Ok(())
/// # }
/// ```
pub type Faulty = Hooked<FaultHook>;

/// Injects the faults of a [`Faulty`] store.
#[derive(Debug)]
pub struct FaultHook {
    random: Random,
    faults: Faults,
    /// Counts crashes and revivals: even while it is up, odd while it is crashed.
    life: AtomicU64,
    is_frozen: watch::Sender<bool>,
    script: Script,
}

impl Faulty {
    /// The store `inner` with faults drawn from `random`.
    pub fn new(inner: Arc<dyn Items>, random: Random, faults: Faults) -> Self {
        let hook = FaultHook {
            random,
            faults,
            life: AtomicU64::new(0),
            is_frozen: watch::Sender::new(false),
            script: Script::default(),
        };
        Self::over(inner, hook)
    }
}

impl FaultHook {
    /// Crashes now: calls in flight lose their answers, later ones fail, until [`revive`].
    ///
    /// [`revive`]: Self::revive
    pub fn crash(&self) {
        self.life.fetch_or(1, Ordering::SeqCst);
    }

    /// Recovers from a crash, with everything that was written before it.
    pub fn revive(&self) {
        let up = |life: u64| (life % 2 == 1).then_some(life + 1);
        // An error means that it was not crashed.
        let _ = self
            .life
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, up);
    }

    /// Whether it has crashed and was not revived.
    pub fn is_crashed(&self) -> bool {
        self.life.load(Ordering::SeqCst) % 2 == 1
    }

    /// From now on calls on items wait until [`thaw`](Self::thaw), each before or after it takes
    /// effect, by seed.
    pub fn freeze(&self) {
        self.is_frozen.send_replace(true);
    }

    /// Lets waiting calls continue.
    pub fn thaw(&self) {
        self.is_frozen.send_replace(false);
    }

    /// The current life; an error while it is crashed.
    fn alive(&self) -> Result<u64> {
        let life = self.life.load(Ordering::SeqCst);
        if life % 2 == 1 {
            return Err(crashed());
        }
        Ok(life)
    }

    /// An error if it has crashed since the call began, even if it was revived.
    fn still(&self, life: u64) -> Result<()> {
        if self.life.load(Ordering::SeqCst) != life {
            return Err(crashed());
        }
        Ok(())
    }

    /// Delays and waits before or after a call.
    async fn dawdle(&self, plan: &Plan, side: Side) {
        if plan.yields_at == side {
            for _ in 0..plan.yields {
                tokio::task::yield_now().await;
            }
        }
        if plan.freezes_at == Some(side) && *self.is_frozen.borrow() {
            let mut is_frozen = self.is_frozen.subscribe();
            // Cannot fail: `self` owns the sender.
            let _ = is_frozen.wait_for(|is_frozen| !is_frozen).await;
        }
    }

    /// Begins a call; returns its faults and the current life.
    async fn before(&self, verb: Verb) -> Result<(Plan, u64)> {
        let life = self.alive()?;
        let mut plan = match verb {
            Verb::Tables => Plan::NONE,
            _ => Plan::draw(self.faults, &self.random),
        };
        if let Some(said) = self.script.next(verb) {
            plan.fault = said;
        }
        self.dawdle(&plan, Side::Before).await;
        self.script.pass(verb, Side::Before).await;
        self.still(life)?;
        match plan.fault {
            Some(Fault::Error) => Err(Error::unavailable("connection failed")),
            Some(Fault::Throttled) => Err(Error::unavailable("throttled")),
            Some(Fault::Said(kind)) => Err(said(kind)),
            Some(Fault::Crash(Side::Before)) => {
                self.crash();
                Err(crashed())
            }
            _ => Ok((plan, life)),
        }
    }

    /// Ends a call after the inner store has responded.
    async fn after(&self, verb: Verb, plan: Plan, life: u64) -> Result<()> {
        if plan.fault == Some(Fault::Crash(Side::After)) {
            self.still(life)?;
            self.crash();
        }
        self.dawdle(&plan, Side::After).await;
        self.script.pass(verb, Side::After).await;
        self.still(life)?;
        match plan.fault {
            Some(Fault::LostAnswer) => Err(lost()),
            _ => Ok(()),
        }
    }

    /// Removes some writes of a batch, at least one, and returns them.
    fn divide(&self, writes: &mut Vec<Write>) -> Vec<Write> {
        let spared = self.random.below(writes.len() as u64);
        let mut at = 0..;
        let is_left = |_: &mut Write| at.next() == Some(spared) || self.random.below(2) == 0;
        writes.extract_if(.., is_left).collect()
    }
}

fn said(kind: ErrorKind) -> Error {
    Error::new(kind, "the script says so")
}

fn lost() -> Error {
    Error::unavailable("answer lost")
}

fn crashed() -> Error {
    Error::unavailable("crashed")
}

#[async_trait]
impl Hook for FaultHook {
    async fn call(&self, inner: &dyn Items, mut call: Call<'_>) -> Answered {
        let verb = call.verb();
        let (plan, life) = self.before(verb).await?;
        let left = match &mut call {
            // An invalid batch must be refused completely, so it is not divided.
            Call::Write(table, writes)
                if plan.is_unprocessed
                    && !writes.is_empty()
                    && check_writes(table, writes).is_ok() =>
            {
                self.divide(writes)
            }
            _ => Vec::new(),
        };
        let answer = call.send(inner).await;
        self.after(verb, plan, life).await?;
        match answer {
            Ok(Answer::Written(cost)) if !left.is_empty() => Err(Failure::Batch(BatchError::new(
                left,
                cost,
                Error::unavailable("unprocessed"),
            ))),
            Err(Failure::Batch(mut error)) => {
                error.remaining.extend(left);
                Err(error.into())
            }
            answer => answer,
        }
    }
}
