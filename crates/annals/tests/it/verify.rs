//! `Journal::verify`: what it finds, what it repairs, and what it leaves.

use std::sync::Arc;

use annals::items::{Condition, Item, Items, Key, Scan, TableSpec, Write, scan_all};
use annals::journal::{Append, Expected, Finding, Journal, Problem, Remedy, Verify};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::settings::Settings;
use annals::{Codec, Event, ManualClock, NewEvent, Random, SequenceNumber};
use futures::TryStreamExt;

use crate::journals::{id, number, text};

struct Bed {
    items: Arc<dyn Items>,
    settings: Settings,
    table: TableSpec,
}

impl Bed {
    async fn new(layout: Layout) -> Self {
        let settings = Settings {
            layout,
            ..Settings::default()
        };
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let table = layout.tables(&settings).unwrap().journal;
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
        let opened = Journal::open(self.items.clone(), &self.settings, clock, Random::seeded(1));
        opened.await.unwrap()
    }

    /// Appends of so many events each.
    async fn with(layout: Layout, appends: &[u64]) -> Self {
        let bed = Self::new(layout).await;
        let journal = bed.journal().await;
        for count in appends {
            let events = (0..*count).map(|n| text(format!("{n}")));
            let append = Append::of(events.collect::<Vec<_>>());
            journal.append(&id(), Expected::Any, append).await.unwrap();
        }
        bed
    }

    async fn verify(&self, how: Verify) -> Vec<Finding> {
        self.journal().await.verify(&id(), how).await.unwrap()
    }

    /// The problems, with their numbers and whether they can be repaired.
    async fn found(&self) -> Vec<(Problem, u64, u64, bool)> {
        let found = self.verify(Verify::Look).await;
        let brief = found.iter().map(|finding| {
            let (from, to) = finding.numbers;
            let is_repairable = finding.remedy == Remedy::Repairable;
            (finding.problem, from.get(), to.get(), is_repairable)
        });
        brief.collect()
    }

    /// Repairs, after which nothing is found any more; answers what is replayed then.
    async fn repaired(&self) -> Vec<u64> {
        let repaired = self.verify(Verify::Repair).await;
        let is_repaired = |finding: &Finding| finding.remedy == Remedy::Repaired;
        assert!(repaired.iter().all(is_repaired), "{repaired:?}");
        assert_eq!(self.found().await, []);
        let all = self
            .journal()
            .await
            .replay(&id(), annals::journal::Window::ALL);
        let all: Vec<Event> = all.try_collect().await.unwrap();
        all.iter()
            .map(|event| event.sequence_number.get())
            .collect()
    }

    async fn items(&self) -> Vec<Item> {
        let table = Arc::new(self.table.clone());
        let all = scan_all(self.items.clone(), table, Scan::whole());
        all.try_collect().await.unwrap()
    }

    async fn put(&self, item: Item) {
        let put = self.items.put(&self.table, item, Condition::Always).await;
        put.unwrap();
    }

    async fn remove(&self, key: Key) {
        let writes = vec![Write::Delete(key)];
        self.items.write(&self.table, writes).await.unwrap();
    }

    /// The item of a commit, or of an event.
    async fn item(&self, n: u64) -> Item {
        let key = self.key(n);
        let found = self.items.get(&self.table, vec![key]).await.unwrap();
        found.items.into_iter().next().unwrap().unwrap()
    }

    fn key(&self, n: u64) -> Key {
        match self.settings.layout {
            Layout::Akka => Key::new(format!("journal-P-{}-{}", id(), n / 100)).sorted(n % 100),
            _ => Key::new(format!("{}:{}", (n - 1) / 1_000, id())).sorted(n),
        }
    }
}

fn mark(kind: &str, shard: u64, value: u64) -> Item {
    Item::new()
        .with("par", format!("journal-{kind}-{}-{shard}", id()))
        .with("num", 0u64)
        .with("seq", value)
}

#[tokio::test]
async fn sound_journals_have_nothing_to_be_found() {
    for layout in [Layout::Annals, Layout::Akka] {
        let bed = Bed::with(layout, &[1, 1, 3, 99, 1, 250, 2]).await;
        assert_eq!(bed.found().await, []);
        for to in [2, 4, 150, 357] {
            let journal = bed.journal().await;
            journal.delete_to(&id(), number(to)).await.unwrap();
            assert_eq!(bed.found().await, [], "{layout} deleted to {to}");
        }
        let nobody: annals::PersistenceId = "nobody".parse().unwrap();
        let found = bed.journal().await.verify(&nobody, Verify::Look).await;
        assert_eq!(found.unwrap(), []);
    }
}

#[tokio::test]
async fn gaps_are_found_and_left() {
    for layout in [Layout::Annals, Layout::Akka] {
        let bed = Bed::with(layout, &[1, 1, 1, 1, 1]).await;
        bed.remove(bed.key(2)).await;
        bed.remove(bed.key(3)).await;
        assert_eq!(bed.found().await, [(Problem::Gap, 2, 3, false)]);
    }
}

#[tokio::test]
async fn a_flipped_byte_is_found_and_what_stands_behind_it_is_looked_at() {
    let bed = Bed::with(Layout::Annals, &[2, 2, 2, 2]).await;
    let item = bed.item(3).await;
    let mut bytes = item.get("c").unwrap().as_bytes().unwrap().to_vec();
    bytes[9] ^= 4;
    bed.put(item.with("c", bytes)).await;
    bed.remove(bed.key(7)).await;
    let journal = bed.journal().await;
    let expected = Expected::Last(SequenceNumber::new(6).unwrap());
    let appended = journal.append(&id(), expected, text("7")).await;
    appended.unwrap();
    assert_eq!(bed.found().await, [(Problem::Unreadable, 3, 3, false)]);

    let bed = Bed::with(Layout::Akka, &[1, 2, 1]).await;
    let whole = bed.item(2).await;
    for damaged in [
        whole.clone().with("event", vec![0xFFu8, 0xFE]),
        whole.clone().with("metadata", "{"),
        whole.clone().with("metadata", 1u64),
        whole.clone().with("tags", "t"),
        whole.clone().with("schema", u64::MAX),
        whole.clone().with("type", 1u64),
    ] {
        bed.put(damaged).await;
        assert_eq!(bed.found().await, [(Problem::Unreadable, 2, 2, false)]);
    }
}

#[tokio::test]
async fn a_missing_part_is_found() {
    let bed = Bed::new(Layout::Annals).await;
    let random = Random::seeded(1);
    let words = (0..70_000).flat_map(|_| random.bits().to_le_bytes());
    let large = NewEvent::new(Codec::Bytes, words.collect::<Vec<_>>());
    let journal = bed.journal().await;
    journal.append(&id(), Expected::Any, large).await.unwrap();
    let part = bed
        .items()
        .await
        .into_iter()
        .find(|item| item.get("b").is_some());
    bed.remove(bed.table.key_of(&part.unwrap()).unwrap()).await;
    assert_eq!(bed.found().await, [(Problem::Unreadable, 1, 1, false)]);
}

#[tokio::test]
async fn a_deletion_that_was_cut_off_is_finished() {
    let bed = Bed::with(Layout::Annals, &[1, 1, 2, 1, 1]).await;
    let before = bed.item(2).await;
    let journal = bed.journal().await;
    journal.delete_to(&id(), number(1)).await.unwrap();
    let first = bed.item(1).await;
    journal.delete_to(&id(), number(4)).await.unwrap();
    bed.put(first).await;
    bed.put(before).await;
    assert_eq!(bed.found().await, [(Problem::Leftover, 2, 4, true)]);
    assert_eq!(bed.repaired().await, [5, 6]);

    let bed = Bed::with(Layout::Akka, &[1, 1, 2, 1, 1]).await;
    let left = bed.item(3).await;
    let journal = bed.journal().await;
    journal.delete_to(&id(), number(4)).await.unwrap();
    bed.put(left).await;
    assert_eq!(bed.found().await, [(Problem::Leftover, 3, 3, true)]);
    assert_eq!(bed.repaired().await, [5, 6]);
    bed.put(mark("SL", 0, 6).with("done", 4u64)).await;
    assert_eq!(bed.found().await, [(Problem::Leftover, 5, 5, true)]);
    assert_eq!(bed.repaired().await, [6]);
}

#[tokio::test]
async fn marks_that_are_behind_are_raised() {
    let bed = Bed::with(Layout::Akka, &[1; 105]).await;
    bed.remove(Key::new(format!("journal-SH-{}-1", id())).sorted(0u64))
        .await;
    assert_eq!(bed.found().await, [(Problem::HighMark, 100, 105, true)]);
    assert_eq!(bed.repaired().await.len(), 105);

    let bed = Bed::with(Layout::Akka, &[1; 5]).await;
    let journal = bed.journal().await;
    journal.delete_to(&id(), number(2)).await.unwrap();
    bed.remove(Key::new(format!("journal-SL-{}-0", id())).sorted(0u64))
        .await;
    let want = [
        (Problem::LowMark, 1, 1, true),
        (Problem::LowMark, 2, 2, true),
    ];
    assert_eq!(bed.found().await, want);
    assert_eq!(bed.repaired().await, [3, 4, 5]);
}

#[tokio::test]
async fn incomplete_batches_and_collisions_are_found_and_left() {
    let bed = Bed::with(Layout::Akka, &[1, 3, 1]).await;
    bed.remove(bed.key(3)).await;
    assert_eq!(bed.found().await, [(Problem::IncompleteBatch, 2, 4, false)]);

    let bed = Bed::with(Layout::Akka, &[1, 1]).await;
    let item = bed.item(2).await.with("persistence_id", "another");
    bed.put(item).await;
    assert_eq!(bed.found().await, [(Problem::Collision, 2, 2, false)]);
    let repaired = bed.verify(Verify::Repair).await;
    assert!(matches!(repaired[0].remedy, Remedy::Left(_)));
}

#[tokio::test]
async fn a_low_mark_that_nobody_can_have_set_is_found_and_left() {
    let bed = Bed::with(Layout::Akka, &[1, 1]).await;
    bed.put(mark("SL", 5, 500)).await;
    let found = bed.found().await;
    assert!(
        found.contains(&(Problem::LowMark, 500, 500, false)),
        "{found:?}"
    );
}

/// What a damaged item claims about its place must not be believed, nor bring anything down.
#[tokio::test]
async fn places_and_marks_that_cannot_be_are_told() {
    for (index, last) in [
        (5, 9),
        (0, u64::MAX),
        (2, u64::MAX - 1),
        (u64::MAX, u64::MAX),
    ] {
        let bed = Bed::with(Layout::Akka, &[1, 1, 1]).await;
        let item = bed.item(2).await.with("idx", index).with("cnt", last);
        bed.put(item).await;
        assert_eq!(bed.found().await[0], (Problem::Unreadable, 2, 2, false));
        let all = bed
            .journal()
            .await
            .replay(&id(), annals::journal::Window::ALL);
        let all: Result<Vec<Event>, _> = all.try_collect().await;
        assert_eq!(all.unwrap_err().kind(), annals::ErrorKind::Corrupt);
    }
    for kind in ["SH", "SL"] {
        let bed = Bed::with(Layout::Akka, &[1, 1, 1]).await;
        bed.put(mark(kind, 0, u64::MAX)).await;
        let journal = bed.journal().await;
        // The highest is told without the low marks, where a row of ours tells it.
        let highest = journal.highest(&id()).await;
        assert_eq!(highest.is_err(), kind == "SH");
        let read = journal.replay(&id(), annals::journal::Window::ALL);
        let read: Result<Vec<Event>, _> = read.try_collect().await;
        assert_eq!(read.unwrap_err().kind(), annals::ErrorKind::Corrupt);
        let appended = journal.append(&id(), Expected::Any, text("4")).await;
        let told = annals::Error::from(appended.unwrap_err());
        assert_eq!(told.kind(), annals::ErrorKind::Corrupt);
        let found = journal.verify(&id(), Verify::Look).await;
        assert_eq!(found.unwrap_err().kind(), annals::ErrorKind::Corrupt);
    }
}

/// Where the JVM deletes too, an emptied item would mislead it: leftovers are removed.
#[tokio::test]
async fn leftovers_are_removed_where_the_jvm_deletes_too() {
    let mut bed = Bed::new(Layout::Akka).await;
    bed.settings.jvm_deletes = true;
    let journal = bed.journal().await;
    for n in 1..=4 {
        let event = text(format!("{n}"));
        journal.append(&id(), Expected::Any, event).await.unwrap();
    }
    let left = bed.item(2).await;
    journal.delete_to(&id(), number(3)).await.unwrap();
    bed.put(left).await;
    assert_eq!(bed.found().await, [(Problem::Leftover, 2, 2, true)]);
    assert_eq!(bed.repaired().await, [4]);
    let found = bed.items.get(&bed.table, vec![bed.key(2)]).await.unwrap();
    assert_eq!(found.items, [None]);
}
