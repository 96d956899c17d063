//! Followers of the view of ids under faults, simulated by seed: three processes follow at the same time;
//! two of them fail, pause between reading and writing, wake up late and crash, while ids are appended,
//! deleted and purged. The third is never behind for long: what another one writes wrongly, it does not
//! look at again.
//!
//! Checked after each run: the rows are what the journal lists. `late.rs` shows that the guards are needed.
//!
//! `ANNALS_SEED=n` runs one seed.

use std::sync::Arc;

use annals::items::Items;
use annals::memory::Memory;
use annals::projection::IdView;
use annals::{Annals, ManualClock, PersistenceId, Random};
use annals_jvm::LayoutName;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::store;
use futures::TryStreamExt;
use tokio::task::{JoinHandle, yield_now};

use super::{LAYOUTS, listed, settings, step};

const SEEDS: u64 = 150;
const STEPS: u64 = 60;

struct Process {
    items: Arc<Faulty>,
    view: IdView,
    task: JoinHandle<()>,
}

impl Process {
    async fn start(
        (items, layout): (&Arc<dyn Items>, LayoutName),
        random: &Random,
        faults: Faults,
    ) -> Self {
        let seed = |random: &Random| Random::seeded(random.bits());
        let items = Arc::new(Faulty::new(items.clone(), seed(random), faults));
        let clock = Arc::new(ManualClock::at_ms(0));
        let store = store(items.clone(), clock, seed(random));
        let annals = loop {
            if let Ok(annals) = Annals::open(store.clone(), &settings(layout)).await {
                break annals;
            }
        };
        let view = annals.projections().ids().unwrap().expect("a feed");
        let running = view.clone();
        let task = tokio::spawn(async move {
            loop {
                let _ = running.run().await;
                yield_now().await;
            }
        });
        Self { items, view, task }
    }

    /// Lets it follow, as far as it gets.
    async fn wake(&self) {
        let waiting = self.view.caught_up();
        let turns = async {
            for _ in 0..20 {
                yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = waiting => {}
            () = turns => {}
        }
    }
}

/// A run. Returns what the view has and what the journal lists.
async fn run(seed: u64, layout: LayoutName) -> (Vec<PersistenceId>, Vec<PersistenceId>) {
    let random = Random::seeded(seed);
    let items: Arc<dyn Items> = Arc::new(Memory::new());
    let direct = Annals::create(items.clone(), &settings(layout))
        .await
        .unwrap();
    let journal = direct.journal();
    let world = (&items, layout);
    let slow = Faults {
        delay: 300,
        ..Faults::none()
    };
    let bad = Faults {
        unprocessed: 0,
        ..Faults::bad_day()
    };
    let sound = Process::start(world, &random, slow).await;
    let mut others = Vec::new();
    for _ in 0..2 {
        others.push(Process::start(world, &random, bad).await);
    }
    for _ in 0..STEPS {
        let at = random.below(2) as usize;
        match random.below(10) {
            0..=3 => step(&random, journal).await,
            4..=5 => others[at].wake().await,
            6 => {
                others[at].items.freeze();
                others[at].wake().await;
            }
            7 => others[at].items.thaw(),
            8 => sound.view.caught_up().await.unwrap(),
            _ => {
                // Of what it was doing, some more is done.
                others[at].items.thaw();
                for _ in 0..random.below(6) {
                    yield_now().await;
                }
                others[at].items.crash();
                others[at].task.abort();
                others[at] = Process::start(world, &random, bad).await;
            }
        }
    }
    // What is late is done now, and no more.
    sound.view.caught_up().await.unwrap();
    for other in &others {
        other.items.thaw();
        for _ in 0..random.below(6) {
            yield_now().await;
        }
        other.items.crash();
        other.task.abort();
    }
    sound.view.caught_up().await.unwrap();
    let found = sound.view.list("", None, None).try_collect().await.unwrap();
    let wanted = listed(journal).await;
    sound.task.abort();
    (found, wanted)
}

#[tokio::test]
async fn late_writes_of_other_followers_change_nothing() {
    if let Ok(seed) = std::env::var("ANNALS_SEED") {
        for layout in LAYOUTS {
            let (found, wanted) = run(seed.parse().unwrap(), layout).await;
            assert_eq!(found, wanted, "{layout:?}");
        }
        return;
    }
    let mut ids = 0;
    for seed in 0..SEEDS {
        for layout in LAYOUTS {
            let (found, wanted) = run(seed, layout).await;
            assert_eq!(found, wanted, "ANNALS_SEED={seed}, {layout:?}");
            ids += found.len();
        }
    }
    assert!(ids > 500, "{ids}");
}
