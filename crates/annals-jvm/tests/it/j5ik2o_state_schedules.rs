//! Durable state of the `j5ik2o` layout with writers that may stall at any request: every request of
//! every writer is a step, and a schedule chooses who makes the next one. Two writers run through all
//! schedules, more writers through those of many seeds.
//!
//! With every schedule, each revision is acknowledged once, none is skipped, and the last one is
//! found. A writer that stalls for ever does not undo an acknowledged write.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use annals::items::Items;
use annals::layout::Layout;
use annals::memory::Memory;
use annals::state::{StateError, States};
use annals::store::Verb;
use annals::{Codec, ManualClock, Payload, PersistenceId, Random};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_jvm::settings::StoredRevision;
use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
use annals_testkit::store;
use async_trait::async_trait;

/// A store in which each request waits for its turn.
pub(crate) struct Stepped {
    /// Whether every put is made twice, as clients do whose first answer was lost.
    repeats: bool,
    /// Draws how many steps each request takes; one by default.
    slow: Option<Random>,
}

impl Stepped {
    pub(crate) fn new(memory: &Arc<Memory>, repeats: bool) -> Hooked<Self> {
        let slow = None;
        Hooked::over(memory.clone(), Self { repeats, slow })
    }

    /// One whose requests take some steps each, so that those made at once do not end at once.
    pub(crate) fn slow(memory: &Arc<Memory>, random: Random) -> Hooked<Self> {
        let (repeats, slow) = (false, Some(random));
        Hooked::over(memory.clone(), Self { repeats, slow })
    }

    /// Yields.
    async fn step(&self) {
        let mut left = 1 + self.slow.as_ref().map_or(0, |random| random.below(12));
        std::future::poll_fn(|context| match left {
            0 => Poll::Ready(()),
            _ => {
                left -= 1;
                // A task that polls several requests polls those that are ready.
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }
}

#[async_trait]
impl Hook for Stepped {
    async fn call(&self, inner: &dyn Items, call: Call<'_>) -> Answered {
        if !matches!(call.verb(), Verb::Scan | Verb::Tables) {
            self.step().await;
        }
        if self.repeats && call.verb() == Verb::Put {
            let _ = call.clone().send(inner).await;
        }
        call.send(inner).await
    }
}

/// The operations of a writer, in order, whatever their results.
#[derive(Clone, Copy, Debug)]
enum Act {
    Upsert(u64),
    Delete(u64),
    /// With the next revision.
    DeleteAny,
    Get,
}
use Act::{Delete, DeleteAny, Get, Upsert};

/// What was acknowledged: by revision, the value, or none for a deletion.
type Told = Arc<Mutex<BTreeMap<u64, Option<String>>>>;

fn id() -> PersistenceId {
    "cart-1".parse().unwrap()
}

fn settings() -> AnyLayout {
    let mut settings = AnyLayout {
        layout: LayoutName::J5ik2o,
        ..AnyLayout::default()
    };
    settings.j5ik2o.dynamo_db_state.stored_revision = StoredRevision::V1;
    settings
}

fn states(items: Arc<dyn Items>, seed: u64) -> States {
    let clock = Arc::new(ManualClock::at_ms(1_000));
    settings()
        .states(&store(items, clock, Random::seeded(seed)))
        .unwrap()
}

async fn act(states: States, acts: &'static [Act], who: usize, told: Told) {
    for act in acts {
        let ended = match *act {
            Upsert(revision) => {
                let value = format!("{revision} by {who}");
                let payload = Payload::new(Codec::Text, value.clone());
                let ended = states.upsert(&id(), revision, payload).await;
                ended.map(|()| Some((revision, Some(value))))
            }
            Delete(revision) => {
                let ended = states.delete(&id(), Some(revision)).await;
                ended.map(|_| Some((revision, None)))
            }
            // The revision is not returned.
            DeleteAny => states.delete(&id(), None).await.map(|_| None),
            Get => states.last(&id()).await.map(|_| None).map_err(Into::into),
        };
        match ended {
            Ok(None) | Err(StateError::Conflict { .. }) => {}
            Ok(Some((revision, value))) => {
                let before = told.lock().unwrap().insert(revision, value);
                assert_eq!(before, None, "revision {revision} was acknowledged before");
            }
            Err(error) => panic!("no schedule is a failure of the store: {error}"),
        }
    }
}

type Running = Pin<Box<dyn Future<Output = ()>>>;

/// The writers of a schedule.
struct Run {
    memory: Arc<Memory>,
    told: Told,
    writers: Vec<Option<Running>>,
}

impl Run {
    fn new(scripts: &[&'static [Act]]) -> Self {
        let memory = Arc::new(Memory::new());
        let table = settings().tables().unwrap().state.unwrap();
        now(memory.create_table(&table, Default::default())).unwrap();
        let told = Told::default();
        let writers = scripts.iter().enumerate().map(|(who, acts)| {
            let items = Arc::new(Stepped::new(&memory, false));
            let running = act(states(items, who as u64), acts, who, told.clone());
            Some(Box::pin(running) as Running)
        });
        Self {
            writers: writers.collect(),
            memory,
            told,
        }
    }

    /// The writers that are not done.
    fn waiting(&self) -> Vec<usize> {
        let all = self.writers.iter().enumerate();
        all.filter_map(|(who, writer)| writer.is_some().then_some(who))
            .collect()
    }

    fn step(&mut self, who: usize) {
        let writer = self.writers[who].as_mut().unwrap();
        let mut context = Context::from_waker(Waker::noop());
        if writer.as_mut().poll(&mut context).is_ready() {
            self.writers[who] = None;
        }
    }

    /// The revision and value at the end.
    fn found(&self) -> (u64, Option<String>) {
        let states = states(self.memory.clone(), 99);
        let last = now(states.last(&id())).unwrap();
        let text = |payload: Payload| String::from_utf8(payload.bytes.to_vec()).unwrap();
        last.map_or((0, None), |last| (last.revision, last.value.map(text)))
    }

    /// All writers are done: every revision was acknowledged, and the last one is found.
    fn check(&self, exact: bool) {
        let told = self.told.lock().unwrap();
        let last = told.last_key_value();
        let last = last.map_or((0, None), |(n, value)| (*n, value.clone()));
        let found = self.found();
        if exact {
            let numbers: Vec<u64> = told.keys().copied().collect();
            let all: Vec<u64> = (1..=last.0).collect();
            assert_eq!(numbers, all, "every revision was acknowledged");
            assert_eq!(found, last);
        } else {
            assert!(found.0 >= last.0, "{found:?} {last:?}");
            assert!(found.0 > last.0 || found.1 == last.1, "{found:?} {last:?}");
        }
    }

    /// Another writer can continue.
    fn check_goes_on(&self) {
        let (revision, _) = self.found();
        let states = states(self.memory.clone(), 98);
        let value = Payload::new(Codec::Text, "on");
        now(states.upsert(&id(), revision + 1, value)).unwrap();
        assert_eq!(self.found(), (revision + 1, Some("on".to_owned())));
        now(states.delete(&id(), Some(revision + 2))).unwrap();
        assert_eq!(self.found(), (revision + 2, None));
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

/// Runs a schedule, and the first ready writer after its end; returns the number of ready writers at
/// each step.
fn run_by(scripts: &[&'static [Act]], schedule: &[usize]) -> Vec<usize> {
    let mut run = Run::new(scripts);
    let mut widths = Vec::new();
    loop {
        let waiting = run.waiting();
        if waiting.is_empty() {
            break;
        }
        let choice = schedule.get(widths.len()).copied().unwrap_or(0);
        widths.push(waiting.len());
        run.step(waiting[choice]);
    }
    run.check(
        !scripts
            .iter()
            .any(|acts| acts.iter().any(|act| matches!(act, DeleteAny))),
    );
    run.check_goes_on();
    widths
}

/// Runs all schedules of two writers; returns their number.
fn all_schedules(scripts: &[&'static [Act]]) -> usize {
    let mut schedule = Vec::new();
    for n in 1.. {
        let widths = run_by(scripts, &schedule);
        schedule.resize(widths.len(), 0);
        // The next schedule: change the last choice that has an alternative.
        while let Some(last) = schedule.pop() {
            if last + 1 < widths[schedule.len()] {
                schedule.push(last + 1);
                break;
            }
        }
        if schedule.is_empty() {
            return n;
        }
    }
    0
}

#[test]
fn two_writers_agree_under_every_schedule() {
    let pairs: [[&[Act]; 2]; 6] = [
        [&[Upsert(1)], &[Upsert(1)]],
        [&[Upsert(1), Delete(2)], &[Upsert(1)]],
        [&[Upsert(1), Delete(2)], &[Upsert(2)]],
        [&[Delete(1)], &[Upsert(1), Delete(2)]],
        [&[Upsert(1), Delete(2)], &[Delete(2)]],
        [&[Upsert(1), DeleteAny], &[Upsert(2), Get]],
    ];
    for scripts in pairs {
        let n = all_schedules(&scripts);
        println!("{scripts:?}: {n} schedules");
        assert!(n > 10, "{n}");
    }
}

/// Writers after deletions, and writers that stalled before them.
const MANY: &[&[&[Act]]] = &[
    // The first is done before the others, which started earlier, make their first step.
    &[
        &[Upsert(1), Delete(2)],
        &[Upsert(1)],
        &[Upsert(2)],
        &[Upsert(3)],
    ],
    &[
        &[Upsert(1), Delete(2), Upsert(3), Delete(4)],
        &[Upsert(1), Upsert(2)],
        &[Upsert(3), Delete(4)],
        &[Get, Upsert(5), Get],
    ],
    &[
        &[Delete(1), Upsert(2), Delete(3)],
        &[Upsert(1), Delete(2)],
        &[Upsert(2), Delete(3), Upsert(4)],
    ],
    &[
        &[Upsert(1), Upsert(2), DeleteAny],
        &[Upsert(1), DeleteAny, Upsert(3)],
        &[Get, Upsert(2), Upsert(4)],
    ],
];

fn seeds() -> u64 {
    let set = std::env::var("ANNALS_SCHEDULES").ok();
    set.map_or(200, |seeds| seeds.parse().unwrap())
}

/// A schedule with long stalls: each writer makes many steps in a row.
fn run_seed(scripts: &[&'static [Act]], seed: u64, dies: bool) {
    let random = Random::seeded(seed);
    let mut run = Run::new(scripts);
    let mut steps = random.below(60);
    loop {
        let waiting = run.waiting();
        let Some(last) = waiting.len().checked_sub(1) else {
            break;
        };
        let who = waiting[random.below(last as u64 + 1) as usize];
        for _ in 0..=random.below(6) {
            if run.writers[who].is_some() {
                run.step(who);
            }
        }
        steps = steps.saturating_sub(1);
        if dies && steps == 0 {
            run.writers[who] = None;
            steps = u64::MAX;
        }
    }
    let is_told = !scripts
        .iter()
        .any(|acts| acts.iter().any(|act| matches!(act, DeleteAny)));
    run.check(is_told && !dies);
    run.check_goes_on();
}

#[test]
fn many_writers_agree_while_any_of_them_stalls() {
    for seed in 0..seeds() {
        for scripts in MANY {
            for dies in [false, true] {
                let ran = std::panic::AssertUnwindSafe(|| run_seed(scripts, seed, dies));
                if let Err(panic) = std::panic::catch_unwind(ran) {
                    println!("seed {seed}, dies {dies}: {scripts:?}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}
