//! The `akka` layout when the JVM deletes events of the same ids: it removes items, which frees their
//! keys, while our process has the old end cached.

use std::sync::Arc;

use annals::items::{Item, Items, Key, TableSpec, Write};
use annals::journal::{AppendError, Expected, Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::{Event, ManualClock, Random};
use annals_jvm::AnyLayout;
use annals_jvm::LayoutName;
use annals_jvm::settings::Format;
use annals_testkit::store;
use futures::TryStreamExt;

use annals_testkit::journals::{after, id, number, text};

struct Bed {
    items: Arc<dyn Items>,
    settings: AnyLayout,
    table: TableSpec,
}

impl Bed {
    async fn new(jvm_deletes: bool, format: Format) -> Self {
        let settings = AnyLayout {
            layout: LayoutName::Akka,
            jvm_deletes,
            format,
            ..AnyLayout::default()
        };
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let table = settings.tables().unwrap().journal;
        let created = items.create_table(&table, Default::default()).await;
        created.unwrap();
        Self {
            items,
            settings,
            table,
        }
    }

    async fn journal(&self) -> Journal {
        let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
        let random = Random::from_machine();
        let store = store(self.items.clone(), clock, random);
        let opened = self.settings.journal(&store);
        opened.await.unwrap()
    }

    /// As the plugin does it: the low marker, then the items.
    async fn jvm_deletes_to(&self, to: u64) {
        let shard = (to + 1) / 100 % 10;
        let mark = Item::new()
            .with("par", format!("journal-SL-{}-{shard}", id()))
            .with("num", 0u64)
            .with("seq", to + 1);
        let keys = (1..=to).map(|n| {
            let key = Key::new(format!("journal-P-{}-{}", id(), n / 100));
            Write::Delete(key.sorted(n % 100))
        });
        let writes = std::iter::once(Write::Put(mark)).chain(keys).collect();
        self.items.write(&self.table, writes).await.unwrap();
    }

    async fn replayed(&self) -> Vec<u64> {
        let all = self.journal().await.replay(&id(), Window::ALL);
        let all: Vec<Event> = all.try_collect().await.unwrap();
        all.iter().map(|e| e.sequence_number.get()).collect()
    }
}

async fn append(journal: &Journal, expected: Expected, count: u64) -> Result<u64, AppendError> {
    let events: Vec<_> = (0..count).map(|n| text(format!("{n}"))).collect();
    let appended = journal.append(&id(), expected, events).await?;
    Ok(appended.first.get())
}

/// Five events that a journal has cached, three more by another writer, and all of them removed.
async fn stale(bed: &Bed) -> Journal {
    let journal = bed.journal().await;
    append(&journal, Expected::Any, 5).await.unwrap();
    append(&bed.journal().await, Expected::Any, 3)
        .await
        .unwrap();
    bed.jvm_deletes_to(8).await;
    journal
}

#[tokio::test]
async fn an_append_from_memory_is_not_acknowledged_below_the_low_marker() {
    for format in [Format::A, Format::B] {
        for count in [1, 2, 5] {
            let bed = Bed::new(true, format).await;
            let journal = stale(&bed).await;
            let first = append(&journal, Expected::Any, count).await.unwrap();
            assert_eq!(first, 9);
            assert_eq!(bed.replayed().await, (9..9 + count).collect::<Vec<_>>());

            let bed = Bed::new(true, format).await;
            let journal = stale(&bed).await;
            let refused = append(&journal, after(5), count).await;
            assert!(matches!(refused, Err(AppendError::Conflict(_))));
            assert_eq!(bed.replayed().await, [0u64; 0]);
            let highest = bed.journal().await.highest(&id()).await.unwrap();
            assert_eq!(highest, Some(number(8)));
            // No item is left below the low marker that the plugin would take as the end.
            assert_eq!(append(&journal, after(8), count).await.unwrap(), 9);
        }
    }
}

/// Why the setting exists.
#[tokio::test]
async fn without_the_setting_such_an_append_is_lost() {
    let bed = Bed::new(false, Format::B).await;
    let journal = stale(&bed).await;
    assert_eq!(append(&journal, Expected::Any, 1).await.unwrap(), 6);
    assert_eq!(bed.replayed().await, [0u64; 0]);
}

#[tokio::test]
async fn our_deletions_remove_items_as_the_plugin_does() {
    let bed = Bed::new(true, Format::B).await;
    let journal = bed.journal().await;
    append(&journal, Expected::Any, 120).await.unwrap();
    for to in [3, 99, 110, 120] {
        journal.delete_to(&id(), number(to)).await.unwrap();
        let keys =
            (1..=to).map(|n| Key::new(format!("journal-P-{}-{}", id(), n / 100)).sorted(n % 100));
        let found = bed.items.get(&bed.table, keys.collect()).await.unwrap();
        assert!(found.items.iter().all(Option::is_none), "deleted to {to}");
        assert_eq!(bed.replayed().await, (to + 1..=120).collect::<Vec<_>>());
    }
    assert_eq!(append(&journal, after(120), 2).await.unwrap(), 121);
    assert_eq!(bed.replayed().await, [121, 122]);
    assert_eq!(
        journal
            .verify(&id(), annals::verify::Verify::Check)
            .await
            .unwrap(),
        []
    );
}
