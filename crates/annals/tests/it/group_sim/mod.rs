//! A consumer group under faults, simulated by seed: members of several processes that acknowledge,
//! refuse, forget and crash, lost responses, conflicts and delays, an operator who retries and discards
//! dead letters, and a writer that appends, deletes and purges meanwhile.
//!
//! Checked at every delivery: at most one commit of an id is in flight, and no commit comes before an
//! earlier one of its id is handled. Checked all the time: the floor never moves back and is never past a
//! commit that is neither acknowledged nor a dead letter; no such commit, nor a dead letter, counts as
//! handled for those who delete events. Checked at the end: every commit is
//! acknowledged, discarded, or was deleted, and the deleted ones are counted as missed. Without the
//! condition on the group's token some run fails.
//!
//! `ANNALS_SEED=n` runs one seed, `ANNALS_SEEDS=n` runs `n` seeds.

mod member;
mod world;

use std::sync::Arc;
use std::time::Duration;

use annals::embedded::Embedded;
use annals::feed::{Filter, LanePosition, Position};
use annals::group::{Group, GroupSettings, Groups, Start};
use annals::items::{Condition, Items};
use annals::journal::{Append, Expected};
use annals::memory::Memory;
use annals::store::Store;
use annals::{Annals, Codec, ManualClock, NewEvent, PersistenceId, Random, SequenceNumber};
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::hooked::{Answered, Call, Hook, Hooked};
use annals_testkit::tck::{AKKA, ANNALS, J5IK2O, Variant};
use async_trait::async_trait;
use futures::TryStreamExt;
use futures::future::{FutureExt, join_all};

use member::Member;
use world::World;

const SEEDS: u64 = 40;
const START_MS: u64 = 1_700_000_000_000;
const GROUP: &str = "workers";
const PROCESSES: u64 = 3;
const MEMBERS: u64 = 2;
/// How many times the writer does something.
const STEPS: u64 = 40;
/// More than any run needs to handle everything.
const DRAINS_MAX: u64 = 5_000;

/// What is removed, to show that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    Kept,
    /// A group is put whatever is stored.
    NoCondition,
}

/// A store without the guard.
struct Tampered(Guard);

#[async_trait]
impl Hook for Tampered {
    async fn call(&self, inner: &dyn Items, mut call: Call<'_>) -> Answered {
        if let Call::Put(table, _, condition) = &mut call
            && self.0 == Guard::NoCondition
            && table.name().as_str() == "annals-projection"
        {
            *condition = Condition::Always;
        }
        call.send(inner).await
    }
}

/// What all tasks of a run share.
pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) clock: Arc<ManualClock>,
    /// Without faults.
    pub(crate) annals: Annals,
}

async fn yields(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

impl Run {
    /// The groups of a process: the base store with faults.
    async fn process(&self, faulty: &Arc<Faulty>, random: &Random, variant: Variant) -> Groups {
        let items: Arc<dyn Items> = faulty.clone();
        let store = Store::from_items(items)
            .with_clock(self.clock.clone())
            .with_random(Random::seeded(random.bits()));
        let layout = variant.on_default_tables();
        loop {
            // It may fail.
            if let Ok(journal) = layout.journal(&store).await {
                return Groups::of(&journal).unwrap();
            }
            faulty.revive();
        }
    }

    /// Appends, deletes and purges.
    async fn write(&self, random: &Random) {
        for _ in 0..STEPS {
            let category = if random.happens(800) { "Cart" } else { "Order" };
            let id = format!("{category}|p{0}-{0}", random.below(4));
            let id: PersistenceId = id.parse().unwrap();
            match random.below(100) {
                0..88 => self.append(&id, random).await,
                88..95 => self.delete(&id, random).await,
                _ => {
                    self.world.purging(&id);
                    self.annals.purge(&id).await.unwrap();
                }
            }
            yields(random.below(20)).await;
        }
    }

    async fn append(&self, id: &PersistenceId, random: &Random) {
        let event = |_| NewEvent::new(Codec::Text, "happened").tag(format!("t{}", random.below(3)));
        let events: Vec<NewEvent> = (0..1 + random.below(3)).map(event).collect();
        let head = self.annals.feed().head().await.unwrap();
        let append = Append::of(events);
        let journal = self.annals.journal();
        self.world.appending(id);
        journal.append(id, Expected::Any, append).await.unwrap();
        let batches = self.annals.feed().after(head).batches();
        let batches: Vec<_> = batches.try_collect().await.unwrap();
        self.world.appended(&batches);
    }

    async fn delete(&self, id: &PersistenceId, random: &Random) {
        let journal = self.annals.journal();
        if let Some(last) = journal.highest(id).await.unwrap() {
            let to = SequenceNumber::new(1 + random.below(last.get())).unwrap();
            self.world.deleting(id, to);
            journal.delete_to(id, to).await.unwrap();
        }
    }

    /// Lets time pass, handles dead letters, and checks the floor.
    async fn operate(&self, random: &Random, groups: &Groups) {
        let own = self.annals.groups().group(GROUP).unwrap();
        let group = groups.group(GROUP).unwrap();
        let discards = random.happens(300);
        for _ in 0..STEPS {
            self.clock.advance(Duration::from_millis(random.below(400)));
            if random.happens(150) {
                // It may fail.
                let _ = group.retry(None).await;
            }
            if discards && random.happens(50) {
                for dead in own.dead_letters().await.unwrap().unwrap() {
                    self.world.discarding(&dead);
                    let _ = group.discard(Some(&dead.persistence_id)).await;
                    self.world.discarding(&dead);
                }
            }
            self.check_floor().await;
            yields(random.below(20)).await;
        }
    }

    async fn check_floor(&self) {
        let group = self.annals.groups().group(GROUP).unwrap();
        let status = group.status().await.unwrap().unwrap();
        let dead = group.dead_letters().await.unwrap().unwrap();
        self.world.check_floor(&status, &dead);
        self.check_handled(&group).await;
    }

    /// What is not handled must not be deleted by those who ask.
    async fn check_handled(&self, group: &Group) {
        for (id, place) in self.world.open() {
            let has_handled = self.has_handled(group, &id, place).await;
            // It may have been handled meanwhile.
            if has_handled && self.world.open().get(&id) == Some(&place) {
                let violation = format!("{place} of {id} counts as handled");
                self.world.violation(violation);
            }
        }
    }

    async fn has_handled(&self, group: &Group, id: &PersistenceId, place: u64) -> bool {
        let head = self.annals.feed().head().await.unwrap();
        let position = head.with_lane(0, LanePosition::after(place));
        group.has_handled(&position, id).await.unwrap().unwrap()
    }

    /// Handles everything that is left, without faults.
    async fn drain(&self) {
        let group = self.annals.groups().group(GROUP).unwrap();
        let mut member = Member::careful(group.clone(), self);
        for _ in 0..DRAINS_MAX {
            group.retry(None).await.unwrap();
            if !member.turn().await {
                self.clock.advance(Duration::from_millis(200));
            }
            self.check_floor().await;
            let status = group.status().await.unwrap().unwrap();
            if status.lag.events + status.in_flight + status.dead_ids == 0 {
                // There may be notices after the last event.
                member.turn().await;
                for (id, place) in self.world.last() {
                    if !self.has_handled(&group, &id, place).await {
                        let violation = format!("{place} of {id} does not count as handled");
                        self.world.violation(violation);
                    }
                }
                let status = group.status().await.unwrap().unwrap();
                let head = self.annals.feed().head().await.unwrap();
                return self.world.check_end(&status, &head);
            }
        }
        self.world.violation("not everything is handled".to_owned());
    }
}

fn settings(random: &Random, positions: &[Position]) -> GroupSettings {
    let filter = match random.below(3) {
        0 => Filter::new(),
        1 => Filter::new().category("Cart"),
        _ => Filter::new().tag("t0").tag("t1"),
    };
    let start = match random.below(4) {
        0 => Start::Now,
        1 => Start::After(positions[random.below(positions.len() as u64) as usize].clone()),
        _ => Start::Beginning,
    };
    GroupSettings::new()
        .filter(filter)
        .start(start)
        .in_flight(1 + random.below(6) as u32)
        .ack_within(Duration::from_millis(500 + random.below(1_500)))
        .retries(random.below(3) as u32)
}

/// Runs a seed, and returns what was wrong.
async fn run(items: Arc<dyn Items>, (variant, guard): (Variant, Guard), seed: u64) -> Vec<String> {
    let random = Random::seeded(seed);
    let clock = Arc::new(ManualClock::at_ms(START_MS));
    let store = Store::from_items(items.clone()).with_clock(clock.clone());
    let store = store.with_random(Random::seeded(random.bits()));
    let layout = variant.on_default_tables();
    let annals = Annals::create(store, &*layout).await.unwrap();
    let mut run = Run {
        world: World::default(),
        clock,
        annals,
    };
    for n in 0..4 {
        let id = format!("Cart|p{n}-{n}").parse().unwrap();
        run.append(&id, &random).await;
    }
    let batches: Vec<_> = run.annals.feed().batches().try_collect().await.unwrap();
    let events = batches.iter().flat_map(|batch| batch.events());
    let positions: Vec<Position> = events.map(|(_, position)| position).collect();
    let settings = settings(&random, &positions);
    let start = match settings.start.clone().unwrap() {
        Start::Beginning => Position::start(positions[0].generation(), 1),
        Start::Now => run.annals.feed().head().await.unwrap(),
        Start::After(position) => position,
    };
    run.world = World::new(settings.filter.clone().unwrap(), &start);
    run.world.appended(&batches);
    let group = run.annals.groups().group(GROUP).unwrap();
    assert!(group.put(&settings).await.unwrap());

    let faults = Faults {
        error: 20,
        lost_answer: 60,
        delay: 300,
        crash: 3,
        ..Faults::none()
    };
    let mut stores = Vec::new();
    for _ in 0..PROCESSES {
        let tampered: Arc<dyn Items> = Arc::new(Hooked::over(items.clone(), Tampered(guard)));
        let random = Random::seeded(random.bits());
        stores.push(Arc::new(Faulty::new(tampered, random, faults)));
    }
    let operator = run.process(&stores[0], &random, variant).await;
    let of_operator = Random::seeded(random.bits());
    let mut tasks = vec![
        run.write(&random).boxed_local(),
        run.operate(&of_operator, &operator).boxed_local(),
    ];
    for faulty in &stores {
        let groups = run.process(faulty, &random, variant).await;
        for _ in 0..MEMBERS {
            let group = groups.group(GROUP).unwrap();
            let random = Random::seeded(random.bits());
            let mut member = Member::careless(group, &run, (random, faulty.clone()));
            tasks.push(async move { member.work().await }.boxed_local());
        }
    }
    join_all(tasks).await;
    run.drain().await;
    run.world.violations()
}

fn seeds(most: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match (number("ANNALS_SEED"), number("ANNALS_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(seeds)) => 0..seeds,
        (None, None) => 0..most,
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

#[track_caller]
fn check(variant: Variant) {
    for seed in seeds(SEEDS) {
        let violations = block_on(run(Arc::new(Memory::new()), (variant, Guard::Kept), seed));
        assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
    }
}

#[test]
fn every_commit_is_handled_once_and_in_order_on_annals() {
    check(ANNALS);
}

#[test]
fn every_commit_is_handled_once_and_in_order_on_akka() {
    check(AKKA);
}

#[test]
fn every_commit_is_handled_once_and_in_order_on_j5ik2o() {
    check(J5IK2O);
}

#[test]
fn the_same_on_the_embedded_store() {
    for variant in [ANNALS, AKKA, J5IK2O] {
        // Each waits for the disk.
        for seed in seeds(5).take(30) {
            let folder = tempfile::tempdir().unwrap();
            let violations = block_on(async {
                let store = Embedded::open(folder.path(), &Default::default()).unwrap();
                run(Arc::new(store), (variant, Guard::Kept), seed).await
            });
            assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
        }
    }
}

#[test]
fn without_the_condition_some_run_fails() {
    let fails = |seed| {
        let scenario = (ANNALS, Guard::NoCondition);
        !block_on(run(Arc::new(Memory::new()), scenario, seed)).is_empty()
    };
    assert!((0..10 * SEEDS).any(fails));
}
