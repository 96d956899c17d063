//! A process that runs the projections, with its own view of the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals::items::Items;
use annals::projection::{Rows, RunSettings, Running};
use annals::{Annals, ManualClock, Random};
use annals_jvm::AnyLayout;
use annals_testkit::faulty::{Faults, Faulty};
use annals_testkit::store;
use futures::TryStreamExt;

use super::tamper::{Guard, Tampered};
use super::views::{Cart, Carts, Group, Groups, Mails};

/// What all processes share.
pub(super) struct World {
    pub(super) items: Arc<dyn Items>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) layout: AnyLayout,
    pub(super) guard: Guard,
    pub(super) shares: u16,
    pub(super) settings: RunSettings,
    pub(super) faults: Faults,
    pub(super) mails: Mails,
}

impl World {
    /// Access without faults.
    pub(super) async fn direct(&self, random: &Random) -> Annals {
        let random = Random::seeded(random.bits());
        let store = store(self.items.clone(), self.clock.clone(), random);
        Annals::create(store, &self.layout).await.unwrap()
    }
}

/// A process.
pub(super) struct Process {
    items: Arc<Faulty>,
    running: Option<Runs>,
}

impl Process {
    /// Starts everything. A process that fails to start is started again.
    pub(super) async fn start(world: &World, random: &Random) -> Self {
        for _ in 0..50 {
            let inner = Arc::new(Tampered::over(world.items.clone(), world.guard));
            let seed = Random::seeded(random.bits());
            let items = Arc::new(Faulty::new(inner, seed, world.faults));
            let random = Random::seeded(random.bits());
            let store = store(items.clone(), world.clock.clone(), random);
            let Ok(annals) = Annals::open(store, &world.layout).await else {
                continue;
            };
            if let Ok(running) = run(&annals, world).await {
                let running = Some(running);
                return Self { items, running };
            }
        }
        panic!("a process does not start");
    }

    /// It does nothing for a while, and then goes on as if no time had passed.
    pub(super) fn freeze(&self) {
        self.items.freeze();
    }

    pub(super) fn thaw(&self) {
        self.items.thaw();
    }

    pub(super) fn end_faults(&self) {
        self.items.thaw();
        self.items.revive();
    }

    /// It ends without signing off. What it has in flight may still take effect.
    pub(super) fn crash(&mut self) {
        self.items.crash();
        self.items.thaw();
        self.running = None;
    }
}

type Runs = (
    Running<Rows<Carts>>,
    Running<Rows<Groups>>,
    Running<Arc<Mails>>,
);

async fn run(annals: &Annals, world: &World) -> annals::Result<Runs> {
    let projections = annals.projections();
    let settings = || world.settings.clone();
    let carts = projections.view::<Carts>().shares(world.shares);
    let groups = projections.view::<Groups>().shares(world.shares);
    let mails = projections
        .handler(world.mails.clone())
        .shares(world.shares);
    Ok((
        carts.settings(settings()).start().await?,
        groups.settings(settings()).start().await?,
        mails.settings(settings()).start().await?,
    ))
}

/// What the views have.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Of every build that is not dropped, by id.
    pub(super) carts: BTreeMap<String, Cart>,
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) missed: u64,
}

/// Reads the rows, by key and in order.
pub(super) async fn rows(annals: &Annals) -> Found {
    let projections = annals.projections();
    let carts = projections.rows::<Carts>().unwrap();
    let listed: Vec<(String, Cart)> = carts.list().limit(3).all().try_collect().await.unwrap();
    let ordered: Vec<(String, Cart)> = carts.ordered().limit(2).all().try_collect().await.unwrap();
    let sizes: Vec<usize> = ordered.iter().map(|(_, cart)| cart.0.len()).collect();
    assert!(sizes.is_sorted());
    let by_key: BTreeMap<String, Cart> = listed.iter().cloned().collect();
    assert_eq!(by_key.len(), listed.len());
    assert_eq!(by_key, ordered.into_iter().collect());
    let groups = projections.rows::<Groups>().unwrap();
    let groups = groups.list().all().try_collect().await.unwrap();
    let all = projections.list().await.unwrap();
    let builds = all.iter().flat_map(|projection| &projection.builds);
    Found {
        carts: by_key,
        groups,
        missed: builds.map(|build| build.missed).sum(),
    }
}
