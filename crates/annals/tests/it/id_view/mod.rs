//! The built-in view of ids: it lists what the journal lists, on every layout and store that has a feed.

mod cost;
mod late;
mod sim;

use std::sync::Arc;

use annals::embedded::Embedded;
use annals::items::Items;
use annals::journal::{Expected, Journal};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::projection::IdView;
use annals::{Annals, NewEvent, PersistenceId, Random};
use annals_jvm::{AnyLayout, LayoutName};
use annals_testkit::journals::{number, text};
use futures::TryStreamExt;
use tempfile::TempDir;
use tokio::task::JoinHandle;

const LAYOUTS: [LayoutName; 3] = [LayoutName::Annals, LayoutName::Akka, LayoutName::J5ik2o];

fn settings(layout: LayoutName) -> AnyLayout {
    AnyLayout {
        layout,
        ..AnyLayout::default()
    }
}

fn id(text: &str) -> PersistenceId {
    text.parse().unwrap()
}

fn events(count: u64) -> Vec<NewEvent> {
    (0..count).map(|n| text(format!("event {n}"))).collect()
}

async fn append(journal: &Journal, id: &PersistenceId, count: u64) {
    let appended = journal.append(id, Expected::Any, events(count)).await;
    appended.unwrap();
}

/// What the journal lists, in order.
async fn listed(journal: &Journal) -> Vec<PersistenceId> {
    let mut ids: Vec<_> = journal.persistence_ids("").try_collect().await.unwrap();
    ids.sort_unstable();
    ids
}

/// A process that runs the view.
struct Running {
    view: IdView,
    task: JoinHandle<()>,
}

impl Running {
    fn start(annals: &Annals) -> Self {
        let view = annals.projections().ids().unwrap().expect("a feed");
        let running = view.clone();
        let task = tokio::spawn(async move {
            let Err(error) = running.run().await;
            panic!("the view stopped: {error}");
        });
        Self { view, task }
    }

    async fn ids(&self) -> Vec<PersistenceId> {
        self.view.caught_up().await.unwrap();
        self.page("", None, None).await
    }

    async fn page(
        &self,
        prefix: &str,
        after: Option<&PersistenceId>,
        limit: Option<u64>,
    ) -> Vec<PersistenceId> {
        let ids = self.view.list(prefix, after, limit);
        ids.try_collect().await.unwrap()
    }

    /// Ends it between two steps, as a crash would.
    async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Every store that has a feed.
fn stores() -> (TempDir, [Arc<dyn Items>; 2]) {
    let folder = TempDir::new().unwrap();
    let embedded = Embedded::open(folder.path(), &Default::default()).unwrap();
    (folder, [Arc::new(Memory::new()), Arc::new(embedded)])
}

async fn step(random: &Random, journal: &Journal) {
    let id = id(&format!("Cart|p{}-{}", random.below(3), random.below(4)));
    match random.below(10) {
        0..=4 => append(journal, &id, 1 + random.below(3)).await,
        5..=6 => {
            let to = number(1 + random.below(5));
            journal.delete_to(&id, to).await.unwrap();
        }
        _ => {
            journal.purge(&id).await.unwrap();
        }
    }
}

/// Appends, deletions and purges by seed, while the view stops and starts again.
async fn check(items: Arc<dyn Items>, layout: LayoutName, seed: u64) -> usize {
    let random = Random::seeded(seed);
    let mut annals = Annals::create(items.clone(), &settings(layout))
        .await
        .unwrap();
    let mut running = Running::start(&annals);
    let mut changes = 0;
    let mut before = Vec::new();
    for _ in 0..25 {
        for _ in 0..=random.below(4) {
            step(&random, annals.journal()).await;
        }
        if random.happens(300) {
            running.stop().await;
            step(&random, annals.journal()).await;
            annals = Annals::open(items.clone(), &settings(layout))
                .await
                .unwrap();
            running = Running::start(&annals);
        }
        let now = listed(annals.journal()).await;
        assert_eq!(running.ids().await, now, "seed {seed}, {layout:?}");
        changes += usize::from(now != before);
        before = now;
    }
    running.stop().await;
    changes
}

#[tokio::test(flavor = "multi_thread")]
async fn it_has_what_the_journal_lists_after_every_step() {
    for layout in LAYOUTS {
        let mut changes = 0;
        for seed in 0..12 {
            let (_folder, stores) = stores();
            for items in stores {
                changes += check(items, layout, seed).await;
            }
        }
        assert!(changes > 100, "{changes}");
    }
}

#[tokio::test]
async fn an_id_without_events_is_listed_until_it_is_purged() {
    for layout in LAYOUTS {
        let (_folder, stores) = stores();
        for items in stores {
            let annals = Annals::create(items, &settings(layout)).await.unwrap();
            let journal = annals.journal();
            let running = Running::start(&annals);
            let id = id("Cart|p1-1");
            let only = [id.clone()];
            assert_eq!(running.ids().await, []);
            append(journal, &id, 3).await;
            assert_eq!(running.ids().await, only);
            journal.delete_to(&id, number(3)).await.unwrap();
            assert_eq!(running.ids().await, listed(journal).await);
            assert_eq!(running.ids().await, only);
            journal.purge(&id).await.unwrap();
            assert_eq!(running.ids().await, []);
            append(journal, &id, 1).await;
            assert_eq!(running.ids().await, only);
            running.stop().await;
        }
    }
}

#[tokio::test]
async fn pages_continue_after_any_id_with_any_prefix() {
    let (_folder, stores) = stores();
    for items in stores {
        let layout = settings(LayoutName::Annals);
        let annals = Annals::create(items, &layout).await.unwrap();
        let running = Running::start(&annals);
        // Longer than a sort key, also where it would be cut inside a character.
        let long = "ä".repeat(700);
        let odd = format!("x{long}");
        let mut ids = Vec::new();
        for text in [
            "a",
            "a|",
            "a|1",
            "a|10",
            "a|2",
            "b",
            "é",
            &long,
            &odd,
            &format!("{long}1"),
            &format!("{long}2"),
            &format!("{odd}1"),
            &format!("{odd}2"),
        ] {
            ids.push(id(text));
            append(annals.journal(), &id(text), 1).await;
        }
        ids.sort_unstable();
        assert_eq!(running.ids().await, ids);
        let gone = id("a|15");
        let prefixes = [
            "",
            "a",
            "a|",
            "a|1",
            "b",
            "c",
            "é",
            &long,
            &odd,
            &format!("{odd}2"),
        ];
        for prefix in prefixes {
            for after in ids.iter().chain([&gone]).map(Some).chain([None]) {
                let wanted = ids.iter().filter(|id| {
                    id.as_str().starts_with(prefix) && after.is_none_or(|after| *id > after)
                });
                let wanted: Vec<_> = wanted.cloned().collect();
                for limit in [1, 2, 100] {
                    let page = running.page(prefix, after, Some(limit)).await;
                    let wanted = &wanted[..wanted.len().min(limit as usize)];
                    assert_eq!(page, wanted, "prefix {prefix}, after {after:?}");
                }
            }
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn a_journal_that_was_dropped_has_a_new_view() {
    for layout in LAYOUTS {
        let (_folder, stores) = stores();
        for items in stores {
            let layout = settings(layout);
            let table = layout.tables().unwrap().journal;
            let annals = Annals::create(items.clone(), &layout).await.unwrap();
            let running = Running::start(&annals);
            append(annals.journal(), &id("Cart|p1-1"), 1).await;
            assert_eq!(running.ids().await.len(), 1);
            running.stop().await;
            items.drop_table(table.name()).await.unwrap();

            let annals = Annals::create(items.clone(), &layout).await.unwrap();
            let running = Running::start(&annals);
            assert_eq!(running.ids().await, []);
            append(annals.journal(), &id("Cart|p2-2"), 1).await;
            assert_eq!(running.ids().await, [id("Cart|p2-2")]);
            running.stop().await;
        }
    }
}

#[tokio::test]
async fn journals_that_share_a_table_have_views_of_their_own() {
    let (_folder, stores) = stores();
    for items in stores {
        let mut all = Vec::new();
        for name in ["journal", "other"] {
            let mut layout = settings(LayoutName::Akka);
            layout.journal_name = name.to_owned();
            let annals = Annals::create(items.clone(), &layout).await.unwrap();
            let running = Running::start(&annals);
            append(annals.journal(), &id(name), 1).await;
            all.push((running, id(name)));
        }
        for (running, id) in all {
            assert_eq!(running.ids().await, [id]);
            running.stop().await;
        }
    }
}

#[tokio::test]
async fn it_is_not_a_projection_of_users() {
    let annals = Annals::create(Memory::new(), &settings(LayoutName::Annals))
        .await
        .unwrap();
    let running = Running::start(&annals);
    append(annals.journal(), &id("Cart|1"), 1).await;
    running.ids().await;
    assert!(annals.projections().list().await.unwrap().is_empty());
    running.stop().await;
}
