//! Copies that crash by seed, at any call to either store, and are restarted.

use std::sync::Arc;

use annals::Random;
use annals::copy::{Copier, CopyEndpoint};
use annals::items::Items;
use annals::memory::Memory;
use annals_jvm::LayoutName;
use annals_testkit::faulty::{Faults, Faulty};
use futures::TryStreamExt;

use super::stage::{Seen, Stage, copy, fill};

/// How often a copy may be restarted.
const RUNS_MAX: usize = 500;
/// Seeds for each pair of layouts.
const SEEDS: u64 = 6;

/// Copies in processes that crash, until one succeeds; returns the number of crashes.
async fn copy_dying(
    from: &Arc<dyn Items>,
    to: &Arc<dyn Items>,
    how: (LayoutName, LayoutName, u64),
) -> usize {
    let (source, target, seed) = how;
    let mut failures = Vec::new();
    for run in 0..RUNS_MAX {
        let random = Random::seeded(seed.wrapping_mul(10_007).wrapping_add(run as u64));
        let faults = Faults {
            error: 5,
            lost_answer: 5,
            unprocessed: 20,
            crash: 15,
            ..Faults::none()
        };
        let faulty = |items: &Arc<dyn Items>, faults| -> Arc<dyn Items> {
            Arc::new(Faulty::new(items.clone(), random.clone(), faults))
        };
        let opened = async {
            let from = open(
                faulty(
                    from,
                    Faults {
                        crash: 1,
                        ..Faults::none()
                    },
                ),
                source,
            )
            .await?;
            let to = open(faulty(to, faults), target).await?;
            Ok::<_, annals::Error>(Copier::new(from, to).concurrency(3))
        };
        let Ok(copier) = opened.await else { continue };
        let mut outcomes = copier.all("");
        let mut is_done = true;
        failures.clear();
        loop {
            match outcomes.try_next().await {
                Ok(None) => break,
                Ok(Some(outcome)) => {
                    is_done &= outcome.failure.is_none();
                    failures.extend(outcome.failure);
                }
                Err(error) => {
                    is_done = false;
                    failures.push(error);
                    break;
                }
            }
        }
        if is_done {
            return run;
        }
    }
    panic!("no copy got through: {how:?}, {failures:?}");
}

async fn open(items: Arc<dyn Items>, layout: LayoutName) -> annals::Result<CopyEndpoint> {
    let settings = super::stage::settings(layout);
    let annals = annals::Annals::open(items, &settings).await?;
    Ok(CopyEndpoint::from(&annals))
}

#[tokio::test]
async fn a_copy_that_crashes_anywhere_resumes_with_the_same_result() {
    let mut deaths = 0;
    for source in LayoutName::ALL {
        let from: Arc<dyn Items> = Arc::new(Memory::new());
        let stage = Stage::on(from.clone(), source).await;
        fill(&stage).await;
        let wanted = stage.seen().await;
        for target in LayoutName::ALL {
            for seed in 0..SEEDS {
                let to: Arc<dyn Items> = Arc::new(Memory::new());
                let arrived = Stage::on(to.clone(), target).await;
                deaths += copy_dying(&from, &to, (source, target, seed)).await;
                let mut wanted_there = Seen {
                    journals: wanted.journals.clone(),
                    states: Default::default(),
                };
                if arrived.has_states() {
                    wanted_there.states = wanted.states.clone();
                }
                // As a new process sees it.
                let arrived = Stage::on(to.clone(), target).await;
                let name = format!("{source} to {target}, seed {seed}");
                assert_eq!(arrived.seen().await, wanted_there, "{name}");
                arrived.check().await;
                assert_eq!(copy(&stage, &arrived).await.events, 0, "{name}");
            }
        }
    }
    // Without crashes this would prove nothing.
    assert!(deaths > 200, "{deaths}");
}
