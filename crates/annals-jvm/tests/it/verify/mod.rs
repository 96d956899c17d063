//! Verification: every kind of damage to stored items, on every layout.
//!
//! `damages` has them one by one, with findings, repair and replay; `flips` alters every stored bit;
//! `stores` is about snapshots, values and stray items; `beyond` about snapshots beyond the last
//! event; `races` about appends during a repair, `live`
//! about verification during writes; `disk` about the files of the embedded store.

mod beyond;
mod damages;
mod disk;
mod flips;
mod live;
mod races;
mod stores;

use std::collections::BTreeMap;
use std::sync::Arc;

use annals::items::{Condition, Item, Items, Key, Scan, TableSpec, Value, scan_all};
use annals::journal::{Append, Expected, Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::verify::{Finding, Problem, Remedy, Verify};
use annals::{ErrorKind, Event, ManualClock, PersistenceId, Random};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_testkit::store;
use futures::TryStreamExt;

use annals_testkit::journals::{id, number, text};

/// A finding in brief: from and to, and whether it can be repaired.
type Brief = (Problem, u64, u64, bool);

/// A journal, and tools to damage it with.
struct Bed {
    items: Arc<dyn Items>,
    settings: AnyLayout,
    table: TableSpec,
}

impl Bed {
    async fn new(layout: LayoutName) -> Self {
        let settings = AnyLayout {
            layout,
            ..AnyLayout::default()
        };
        Self::on(Arc::new(Memory::new()), settings).await
    }

    async fn on(items: Arc<dyn Items>, settings: AnyLayout) -> Self {
        let tables = settings.tables().unwrap();
        for table in tables.all() {
            let created = items.create_table(table, Default::default()).await;
            created.unwrap();
        }
        Self {
            items,
            settings,
            table: tables.journal,
        }
    }

    /// Appends of these numbers of events.
    async fn with(layout: LayoutName, appends: &[u64]) -> Self {
        let bed = Self::new(layout).await;
        bed.fill(&id(), appends).await;
        bed
    }

    async fn fill(&self, id: &PersistenceId, appends: &[u64]) {
        let journal = self.journal().await;
        for count in appends {
            let events = (0..*count).map(|n| text(format!("event {n} of {count}")));
            let append = Append::of(events.collect::<Vec<_>>());
            journal.append(id, Expected::Any, append).await.unwrap();
        }
    }

    async fn journal(&self) -> Journal {
        self.journal_on(self.items.clone()).await
    }

    /// A journal on the same tables through another store, as in another process.
    async fn journal_on(&self, items: Arc<dyn Items>) -> Journal {
        let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
        let store = store(items, clock, Random::from_machine());
        let opened = self.settings.journal(&store);
        opened.await.unwrap()
    }

    async fn verify(&self, how: Verify) -> Vec<Finding> {
        self.journal().await.verify(&id(), how).await.unwrap()
    }

    /// The problems, with their numbers and whether they can be repaired.
    async fn found(&self) -> Vec<Brief> {
        brief(&self.verify(Verify::Check).await, &Remedy::Repairable)
    }

    async fn replay(&self) -> Result<Vec<Event>, ErrorKind> {
        let all = self.journal().await.replay(&id(), Window::ALL);
        let all: Result<Vec<Event>, _> = all.try_collect().await;
        all.map_err(|error| error.kind())
    }

    /// The numbers that are replayed.
    async fn numbers(&self) -> Result<Vec<u64>, ErrorKind> {
        let events = self.replay().await?;
        let numbers = events.iter().map(|event| event.sequence_number.get());
        Ok(numbers.collect())
    }

    async fn delete_to(&self, to: u64) {
        let journal = self.journal().await;
        journal.delete_to(&id(), number(to)).await.unwrap();
    }

    /// Everything that is stored.
    async fn items(&self) -> Vec<Item> {
        let table = Arc::new(self.table.clone());
        let all = scan_all(self.items.clone(), table, Scan::whole());
        all.try_collect().await.unwrap()
    }

    /// The items of commits, or of events, by their numbers.
    async fn rows(&self) -> BTreeMap<u64, Item> {
        let all = self.items().await.into_iter();
        all.filter_map(|item| Some((self.number_of(&item)?, item)))
            .collect()
    }

    fn number_of(&self, item: &Item) -> Option<u64> {
        let of = |name: &str| item.get(name).and_then(Value::as_u64);
        match self.settings.layout {
            LayoutName::Annals => item.get("c").and(of("n")),
            LayoutName::Akka => {
                let (kind, hundred) = item.get("par")?.as_str()?.rsplit_once('-')?;
                let is_event = kind.starts_with("journal-P-");
                is_event.then_some(hundred.parse::<u64>().ok()? * 100 + of("num")?)
            }
            LayoutName::J5ik2o => of("sequence-nr"),
            other => panic!("{other} has no rows here"),
        }
    }

    async fn row(&self, n: u64) -> Item {
        self.rows().await.remove(&n).unwrap()
    }

    async fn put(&self, item: Item) {
        let put = self.items.put(&self.table, item, Condition::Always).await;
        put.unwrap();
    }

    async fn remove(&self, item: &Item) {
        self.remove_at(self.table.key_of(item).unwrap()).await;
    }

    async fn remove_at(&self, key: Key) {
        let removed = self.items.delete(&self.table, key, Condition::Always);
        removed.await.unwrap();
    }

    async fn get(&self, key: Key) -> Option<Item> {
        let got = self.items.get(&self.table, vec![key]).await.unwrap();
        got.items.into_iter().next().unwrap()
    }

    /// The key of the low marker in use.
    fn low_mark(&self) -> Key {
        match self.settings.layout {
            LayoutName::J5ik2o => Key::new(format!("annals|{}", id())).sorted("mark"),
            _ => mark("SL", 0),
        }
    }
}

/// The key of a marker on the `akka` layout.
fn mark(kind: &str, shard: u64) -> Key {
    Key::new(format!("journal-{kind}-{}-{shard}", id())).sorted(0u64)
}

/// An item without our checksum, as the plugin writes it.
fn unsealed(mut item: Item) -> Item {
    item.remove("crc");
    item
}

/// Findings in brief, checking their remedy.
fn brief(found: &[Finding], becomes: &Remedy) -> Vec<Brief> {
    let brief = found.iter().map(|finding| {
        let (from, to) = finding.numbers.unwrap();
        let is_repairable = finding.remedy == *becomes;
        let is_left = matches!(finding.remedy, Remedy::Left(why) if !why.is_empty());
        assert!(is_repairable != is_left, "{finding:?}");
        (finding.problem, from.get(), to.get(), is_repairable)
    });
    brief.collect()
}
