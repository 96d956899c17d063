//! Runs a projection that crashes at every step, one run for each, and lets another process finish.
//!
//! Guarantees: a run is deterministic and takes no time to wait: it has a runtime, a thread and a manual
//! clock of its own. A process that crashes loses everything that it had in memory.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};

use super::super::Projections;
use super::super::running::Starting;
use super::super::settings::RunSettings;
use super::crashing::{Crash, Crashed, Crashing, StepKind, Steps};
use crate::items::{Items, PageBudget};
use crate::journal::Expected;
use crate::layout::{AnnalsLayout, Layout};
use crate::memory::Memory;
use crate::store::Store;
use crate::{Clock, Error, Event, ManualClock, Random, Result, SystemClock};

const LEASE: Duration = Duration::from_secs(10);
const START_MS: u64 = 1_700_000_000_000;
/// Few, so that a run has several batches.
const CHANGES_AT_ONCE: usize = 2;
/// How often other tasks get their turn before time passes.
const TURNS: usize = 20;
/// So much time may pass before a share that stopped counts as stuck.
const STUCK_ROUNDS: usize = 2_000;
/// In real time, for code that waits for something that never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What each process has below it: the store that all share, perhaps with faults.
pub(super) type Decorate<'a> = dyn Fn(Arc<dyn Items>) -> Arc<dyn Items> + Sync + 'a;

/// The first run that went wrong.
#[derive(Debug)]
pub(super) struct Violation {
    step: u64,
    crash: Crash,
    /// `None`: the process did not crash.
    at: Option<Crashed>,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            None => write!(f, "without any crash, {}", self.what),
            Some(Crashed { what, kind }) => {
                let then = match (self.crash, kind) {
                    (Crash::Before, StepKind::Read) => "",
                    (Crash::Before, _) => ", which did not take effect",
                    (Crash::After, _) => ", which took effect without a response",
                    (Crash::Late, _) => ", which took effect only after the next process was done",
                };
                let step = self.step;
                write!(
                    f,
                    "after a crash at step {step} ({what}{then}), {}",
                    self.what
                )
            }
        }
    }
}

/// A projection, and what it must have done.
pub(super) trait Scenario: Sync {
    /// What the processes of a run share besides the store.
    type World;
    type Access;

    /// What is in the journal.
    fn events(&self) -> &[Event];

    fn new_world(&self) -> Self::World;

    /// The projection of a process.
    fn projection(
        &self,
        projections: &Projections,
        world: &Self::World,
        steps: &Arc<Steps>,
    ) -> Starting<Self::Access>;

    /// What is wrong at the end of a run.
    async fn check(&self, projections: &Projections, world: &Self::World) -> Result<(), String>;
}

/// Lets a process crash at its first step, in a new run at its second step, and so on, until a process
/// needs no more steps than that; and checks the end of each run. Returns how many runs there were.
pub(super) fn survives<S: Scenario>(
    scenario: &S,
    decorate: &Decorate<'_>,
) -> Result<u64, Violation> {
    let all = || {
        let mut runs = 0;
        for step in 1.. {
            let mut kind = StepKind::Write;
            for crash in [Crash::Before, Crash::After, Crash::Late] {
                if !kind.crashes().contains(&crash) {
                    break;
                }
                runs += 1;
                let steps = Steps::crashing_at(step, crash);
                let outcome = run(scenario, decorate, &steps);
                let at = steps.crashed();
                let is_last = at.is_none();
                kind = at.as_ref().map_or(StepKind::Read, |at| at.kind);
                outcome.map_err(|what| Violation {
                    step,
                    crash,
                    at,
                    what,
                })?;
                if is_last {
                    return Ok(runs);
                }
            }
        }
        Ok(runs)
    };
    // A runtime cannot run inside another one.
    std::thread::scope(|scope| match scope.spawn(all).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// One run: a process that may crash, another one if it does, and what they leave.
fn run<S: Scenario>(
    scenario: &S,
    decorate: &Decorate<'_>,
    steps: &Arc<Steps>,
) -> Result<(), String> {
    let stage = Stage {
        items: Arc::new(Memory::new()),
        clock: Arc::new(ManualClock::at_ms(START_MS)),
        decorate,
    };
    alone(async { stage.append(scenario.events()).await.map_err(shown) })?;
    let world = scenario.new_world();
    alone(stage.process(scenario, &world, steps))?;
    if steps.crashed().is_some() {
        alone(stage.process(scenario, &world, &Arc::default()))?;
    }
    alone(async {
        if let Some(late) = steps.take_late() {
            late.await;
        }
        let projections = stage.projections(stage.items.clone()).await;
        scenario.check(&projections.map_err(shown)?, &world).await
    })
}

/// Runs a process on a runtime of its own. Whatever it leaves unfinished ends with it.
fn alone(process: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| format!("there is no runtime: {error}"))?;
    runtime.block_on(process)
}

fn shown(error: Error) -> String {
    format!("a call fails: {error:?}")
}

/// What all processes of a run share.
struct Stage<'a> {
    items: Arc<dyn Items>,
    clock: Arc<ManualClock>,
    decorate: &'a Decorate<'a>,
}

impl Stage<'_> {
    async fn projections(&self, items: Arc<dyn Items>) -> Result<Projections> {
        let store = Store::from_items(items).with_clock(self.clock.clone());
        // Each process draws other numbers, as it begins at another time.
        let store = store.with_random(Random::seeded(self.clock.now_ms()));
        let layout = AnnalsLayout::default();
        layout.tables()?.create_missing(&store).await?;
        Ok(Projections::of(&layout.journal(&store).await?))
    }

    async fn append(&self, events: &[Event]) -> Result<()> {
        let journal = self.projections(self.items.clone()).await?.journal;
        for event in events {
            let (id, data) = (&event.persistence_id, event.data.clone());
            journal.append(id, Expected::Any, data).await?;
        }
        Ok(())
    }

    /// A process, until it is done or crashes.
    async fn process<S: Scenario>(
        &self,
        scenario: &S,
        world: &S::World,
        steps: &Arc<Steps>,
    ) -> Result<(), String> {
        self.clock.advance(Duration::from_millis(1));
        let working = pin!(self.work(scenario, world, steps));
        let interrupted = pin!(async {
            tokio::select! {
                () = steps.stopped() => Ok(()),
                why = self.time_passes() => Err(why),
            }
        });
        match select(working, interrupted).await {
            Either::Left((done, _)) | Either::Right((done, _)) => done,
        }
    }

    async fn work<S: Scenario>(
        &self,
        scenario: &S,
        world: &S::World,
        steps: &Arc<Steps>,
    ) -> Result<(), String> {
        let inner = (self.decorate)(self.items.clone());
        let steps = steps.clone();
        let crashing = Crashing {
            inner,
            steps: steps.clone(),
        };
        let projections = self.projections(Arc::new(crashing)).await.map_err(shown)?;
        let budget = PageBudget {
            changes: CHANGES_AT_ONCE,
            ..PageBudget::default()
        };
        let settings = RunSettings::default().lease(LEASE).budget(budget);
        let starting = scenario.projection(&projections, world, &steps);
        let running = starting.settings(settings).start().await.map_err(shown)?;
        match SystemClock::within(PATIENCE, running.caught_up()).await {
            None => Err("the projection does not catch up".to_owned()),
            Some(caught_up) => {
                running.stop().await;
                caught_up.map_err(shown)
            }
        }
    }

    /// Lets leases expire and retries begin. Returns why a share does not go on.
    async fn time_passes(&self) -> String {
        loop {
            for _ in 0..STUCK_ROUNDS {
                self.clock.advance(LEASE / 8);
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
            }
            match self.reason_to_stop().await {
                Ok(None) => {}
                Ok(Some(reason)) => return format!("the projection stops: {reason}"),
                Err(error) => return shown(error),
            }
        }
    }

    async fn reason_to_stop(&self) -> Result<Option<String>> {
        let projections = self.projections(self.items.clone()).await?;
        let all = projections.list().await?;
        let builds = all.iter().flat_map(|projection| &projection.builds);
        let mut shares = builds.flat_map(|build| &build.shares);
        Ok(shares.find_map(|share| share.stopped.clone()))
    }
}
