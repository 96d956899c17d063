//! Recovery: inline snapshots, the events after a snapshot, damage and deletions.

use std::sync::Arc;

use annals::items::{Condition, Item, Items, Scan, TableSpec, scan_all};
use annals::journal::{Append, Appended, Journal, Window};
use annals::layout::Layout;
use annals::layout::Tables;
use annals::memory::Memory;
use annals::snapshot::{Criteria, Snapshot, SnapshotPosition, Snapshots};
use annals::store::Store;
use annals::{Codec, ErrorKind, Event, ManualClock, NewEvent, Payload, Random};
use annals_jvm::AnyLayout;
use annals_testkit::store;
use futures::TryStreamExt;

use annals_testkit::journals::{after, id, number, open, replay, window};

fn tables() -> Tables {
    let settings = AnyLayout::default();
    settings.tables().unwrap()
}

struct Bed {
    counting: Store,
    items: Arc<dyn Items>,
    snapshots: Snapshots,
    last: u64,
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let random = Random::seeded(seed);
    let words = std::iter::repeat_with(|| random.bits()).flat_map(u64::to_le_bytes);
    words.take(bytes).collect()
}

fn events(count: u64, bytes: usize) -> Vec<NewEvent> {
    let event = |n| NewEvent::new(Codec::Bytes, noise(bytes, n)).manifest("ItemAdded");
    (0..count).map(event).collect()
}

fn state(bytes: usize) -> Payload {
    Payload::new(Codec::Bytes, noise(bytes, 7)).manifest("Cart")
}

impl Bed {
    async fn new() -> Self {
        let counting = Store::from(Arc::new(Memory::new()));
        let items: Arc<dyn Items> = counting.items().clone();
        for table in tables().all() {
            let created = items.create_table(table, Default::default()).await;
            created.unwrap();
        }
        let clock = Arc::new(ManualClock::at_ms(1_700_000_000_000));
        let random = Random::seeded(2);
        let snapshots = AnyLayout::default().snapshots(&store(items.clone(), clock, random));
        Self {
            counting,
            items,
            snapshots: snapshots.unwrap(),
            last: 0,
        }
    }

    /// A journal in a new process.
    async fn journal(&self) -> Journal {
        let journal = open(&self.items).await;
        self.counting.take_counts();
        journal
    }

    async fn append(&mut self, append: impl Into<Append>) -> Appended {
        let journal = open(&self.items).await;
        let appended = journal.append(&id(), after(self.last), append).await;
        let appended = appended.unwrap();
        self.last = appended.last.get();
        appended
    }

    async fn save(&self, at: impl Into<SnapshotPosition>) {
        self.snapshots.save(&id(), at, state(300)).await.unwrap();
    }

    /// Requests and read units since the last call.
    fn spent(&self) -> (u64, u64) {
        let cost = self.counting.take_counts().total().cost;
        assert_eq!((cost.write_units, cost.read_half_units % 2), (0, 0));
        (cost.requests, cost.read_half_units / 2)
    }

    /// A recovery: the snapshot's number, the numbers of the tail, and the cost.
    async fn recover(&self) -> (Option<u64>, Vec<u64>, (u64, u64)) {
        let journal = self.journal().await;
        let recovered = journal.recover(&id(), &self.snapshots).await.unwrap();
        let tail: Vec<Event> = recovered.events.try_collect().await.unwrap();
        let at = recovered.snapshot.map(|found| found.sequence_number.get());
        let tail = tail.iter().map(|event| event.sequence_number.get());
        (at, tail.collect(), self.spent())
    }

    async fn items_of(&self, table: &TableSpec) -> Vec<Item> {
        let all = scan_all(self.items.clone(), Arc::new(table.clone()), Scan::whole());
        all.try_collect().await.unwrap()
    }

    async fn put(&self, table: &TableSpec, item: Item) {
        let put = self.items.put(table, item, Condition::Always).await;
        put.unwrap();
    }
}

#[tokio::test]
async fn a_snapshot_and_an_empty_tail_cost_two_requests_and_two_units() {
    for count in [1, 10] {
        let mut bed = Bed::new().await;
        bed.append(events(3, 200)).await;
        let appended = bed.append(events(count, 200)).await;
        bed.save(appended).await;
        let want = (Some(3 + count), Vec::new(), (2, 2));
        assert_eq!(bed.recover().await, want);
    }
}

#[tokio::test]
async fn a_snapshot_and_its_tail_cost_two_requests_and_the_units_read() {
    let mut bed = Bed::new().await;
    bed.append(events(3, 200)).await;
    let appended = bed.append(events(10, 200)).await;
    bed.save(appended).await;
    for _ in 0..40 {
        bed.append(events(1, 200)).await;
    }
    // The tail has 40 commits of some 270 B, and is read from the commit of 2 KiB before it on.
    assert_eq!(
        bed.recover().await,
        (Some(13), (14..=53).collect(), (2, 1 + 4))
    );
}

#[tokio::test]
async fn a_snapshot_without_anchor_is_as_cheap_if_appends_have_one_event() {
    let mut bed = Bed::new().await;
    for _ in 0..5 {
        bed.append(events(1, 200)).await;
    }
    bed.save(number(5)).await;
    assert_eq!(bed.recover().await, (Some(5), Vec::new(), (2, 2)));
    let mut bed = Bed::new().await;
    bed.append(events(5, 200)).await;
    bed.save(number(5)).await;
    let dearer = bed.recover().await;
    assert_eq!(dearer, (Some(5), Vec::new(), (3, 3)), "inside a batch?");
}

#[tokio::test]
async fn a_wrong_anchor_only_costs_requests() {
    let mut bed = Bed::new().await;
    for _ in 0..4 {
        bed.append(events(5, 100)).await;
    }
    for at in 1..=21 {
        for anchor in 1..=25 {
            let place = SnapshotPosition::new(number(at), Some(number(anchor)));
            bed.save(place).await;
            let (found, tail, _) = bed.recover().await;
            assert_eq!(found, Some(at));
            assert_eq!(tail, (at + 1..=20).collect::<Vec<_>>(), "anchor {anchor}");
        }
    }
}

#[tokio::test]
async fn a_snapshot_after_the_journals_end_has_no_tail() {
    let mut bed = Bed::new().await;
    bed.append(events(3, 100)).await;
    bed.save(number(1_700)).await;
    let (at, tail, _) = bed.recover().await;
    assert_eq!((at, tail), (Some(1_700), Vec::new()));
}

#[tokio::test]
async fn damaged_snapshots_are_skipped_down_to_a_full_replay() {
    let mut bed = Bed::new().await;
    let table = tables().snapshot;
    for _ in 0..3 {
        let appended = bed.append(events(2, 100)).await;
        bed.save(appended).await;
    }
    for at in [6, 4, 2] {
        let (found, read, _) = bed.recover().await;
        assert_eq!((found, read), (Some(at), (at + 1..=6).collect()));
        let all = bed.items_of(&table).await;
        let newest = all
            .iter()
            .find(|item| item.get("n").and_then(|n| n.as_u64()) == Some(at));
        let bytes = newest.unwrap().get("c").unwrap().as_bytes().unwrap();
        let mut bytes = bytes.to_vec();
        bytes[20] ^= 1;
        bed.put(&table, newest.unwrap().clone().with("c", bytes))
            .await;
    }
    let (found, read, _) = bed.recover().await;
    assert_eq!((found, read), (None, (1..=6).collect()));
}

/// Events are deleted because a snapshot replaces them. If it is damaged, the remaining events lead
/// to another state.
#[tokio::test]
async fn a_damaged_snapshot_whose_events_are_deleted_is_corrupt() {
    for (older, deleted) in [(Some(2), 4), (Some(2), 6), (None, 1), (None, 6)] {
        let mut bed = Bed::new().await;
        let table = tables().snapshot;
        for _ in 0..3 {
            bed.append(events(2, 100)).await;
        }
        for at in older.into_iter().chain([5]) {
            bed.save(number(at)).await;
        }
        bed.journal()
            .await
            .delete_to(&id(), number(deleted))
            .await
            .unwrap();
        let all = bed.items_of(&table).await;
        let n = |item: &&Item| item.get("n").and_then(|n| n.as_u64()) == Some(5);
        let damaged = all.iter().find(n).unwrap().clone().with("c", vec![1u8]);
        bed.put(&table, damaged).await;
        let journal = bed.journal().await;
        let recovered = journal.recover(&id(), &bed.snapshots).await.unwrap();
        let at = recovered.snapshot.map(|found| found.sequence_number.get());
        assert_eq!(at, older);
        let tail: annals::Result<Vec<Event>> = recovered.events.try_collect().await;
        let error = tail.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{deleted}: {error}");
    }
}

#[tokio::test]
async fn listing_snapshots_costs_two_requests_and_loading_one() {
    let bed = Bed::new().await;
    for at in 1..=50 {
        bed.save(number(at)).await;
    }
    bed.counting.take_counts();
    let all: Vec<Snapshot> = bed
        .snapshots
        .find(&id(), Criteria::ALL)
        .try_collect()
        .await
        .unwrap();
    let numbers = all.iter().map(|found| found.sequence_number.get());
    assert!(numbers.eq((1..=50).rev()));
    // 50 of some 380 B, the newest by itself.
    assert_eq!(bed.spent(), (2, 1 + 5));
    let newest = bed.snapshots.load(&id(), Criteria::ALL).await.unwrap();
    assert_eq!(newest.unwrap().sequence_number, number(50));
    assert_eq!(bed.spent(), (1, 1));
}

#[tokio::test]
async fn a_snapshot_is_stored_inline_if_it_is_free_and_read_in_one_request() {
    let mut bed = Bed::new().await;
    bed.append(events(1, 200)).await;
    bed.counting.take_counts();
    let append = Append::of(events(1, 200)).snapshot(state(600));
    let appended = bed.append(append).await;
    assert!(appended.has_snapshot);
    let journal = bed.journal().await;
    let found = journal.last_snapshot(&id()).await.unwrap().unwrap();
    assert_eq!(bed.spent(), (1, 1));
    assert_eq!(found.payload, state(600));
    assert_eq!(found.sequence_number, appended.last);
    assert_eq!(found.time_ms, appended.time_ms);
    assert_eq!(replay(&journal, Window::ALL).await.unwrap().len(), 2);
}

/// For every size of the state, the append costs the same as without it.
#[tokio::test]
async fn an_inline_snapshot_does_not_raise_the_cost_of_a_commit() {
    for (count, plain_units) in [(1, 1), (4, 1), (7, 2), (10, 3)] {
        let (mut rode, mut was_left) = (false, false);
        for bytes in (0..1_100).step_by(7) {
            let bed = Bed::new().await;
            let journal = bed.journal().await;
            let append = Append::of(events(count, 200)).snapshot(state(bytes));
            let appended = journal.append(&id(), after(0), append).await.unwrap();
            let cost = bed.counting.take_counts().total().cost;
            assert_eq!((cost.requests, cost.write_units), (1, plain_units));
            let found = bed.journal().await.last_snapshot(&id()).await.unwrap();
            assert_eq!(found.is_some(), appended.has_snapshot);
            assert!(found.is_none_or(|found| found.payload == state(bytes)));
            rode |= appended.has_snapshot;
            was_left |= !appended.has_snapshot;
        }
        assert!(rode && was_left, "{count} events");
    }
}

#[tokio::test]
async fn only_an_inline_snapshot_of_the_last_commit_is_loaded() {
    let mut bed = Bed::new().await;
    let riding = || Append::of(events(2, 100)).snapshot(state(300));
    assert_eq!(
        bed.journal().await.last_snapshot(&id()).await.unwrap(),
        None
    );
    bed.append(riding()).await;
    bed.append(events(1, 100)).await;
    let found = bed.journal().await.last_snapshot(&id()).await.unwrap();
    assert_eq!(found, None, "an event follows it");
    bed.append(riding()).await;
    let journal = bed.journal().await;
    journal.delete_to(&id(), number(4)).await.unwrap();
    let found = bed.journal().await.last_snapshot(&id()).await.unwrap();
    assert_eq!(found.unwrap().sequence_number, number(5), "partly deleted");
    journal.delete_to(&id(), number(5)).await.unwrap();
    let found = bed.journal().await.last_snapshot(&id()).await.unwrap();
    assert_eq!(found, None, "deleted with its events");
    let append = Append::of(vec![NewEvent::new(Codec::Bytes, noise(500_000, 1))]);
    let append = append.snapshot(state(10));
    assert!(!bed.append(append).await.has_snapshot, "in chunks");
}

#[tokio::test]
async fn an_inline_snapshot_is_found_in_any_bucket() {
    for last in [998, 999, 1_000, 1_001, 2_000, 5_432] {
        let mut bed = Bed::new().await;
        bed.append(events(last - 1, 1)).await;
        bed.append(Append::of(events(1, 1)).snapshot(state(100)))
            .await;
        let journal = bed.journal().await;
        for _ in 0..2 {
            let found = journal.last_snapshot(&id()).await.unwrap();
            assert_eq!(found.unwrap().sequence_number, number(last));
        }
    }
}

/// A deletion is interrupted after any of the tombstones of a batch, at any end of a page.
#[tokio::test]
async fn an_interrupted_deletion_leaves_a_journal_that_replays() {
    const COMMITS: u64 = 30;
    const DELETED: u64 = 24;
    let mut bed = Bed::new().await;
    let table = tables().journal;
    for _ in 0..COMMITS {
        bed.append(events(1, 150_000)).await;
    }
    let before = bed.items_of(&table).await;
    let journal = bed.journal().await;
    journal.delete_to(&id(), number(1)).await.unwrap();
    let first = bed.items_of(&table).await;
    journal.delete_to(&id(), number(DELETED)).await.unwrap();
    let marks = bed.items_of(&table).await;
    let at = |all: &[Item], n: u64| {
        let is_it = |item: &&Item| item.get("n").and_then(|n| n.as_u64()) == Some(n);
        all.iter().find(is_it).unwrap().clone()
    };
    bed.put(&table, at(&first, 1)).await;
    let random = Random::seeded(11);
    for _ in 0..10 {
        for n in 2..=DELETED {
            let is_marked = random.below(4) == 0;
            let left = if is_marked { &marks } else { &before };
            bed.put(&table, at(left, n)).await;
        }
        for from in 1..=COMMITS {
            let found = replay(&bed.journal().await, window(from..=u64::MAX, u64::MAX)).await;
            let found = found.unwrap_or_else(|error| panic!("from {from}: {error}"));
            let numbers: Vec<u64> = found.iter().map(|e| e.sequence_number.get()).collect();
            let begin = *numbers.first().unwrap();
            assert!(begin >= from && begin <= from.max(DELETED + 1));
            assert_eq!(numbers, (begin..=COMMITS).collect::<Vec<_>>());
        }
    }
}

/// A deletion overtakes a follower: deleted events are skipped, and the rest is delivered.
#[tokio::test]
async fn following_continues_after_a_deletion_that_overtakes_it() {
    const COMMITS: u64 = 60;
    let mut bed = Bed::new().await;
    // Several pages.
    for _ in 0..COMMITS {
        bed.append(events(1, 80_000)).await;
    }
    let journal = bed.journal().await;
    let mut followed = journal.follow(&id(), number(1));
    let first = followed.try_next().await.unwrap().unwrap();
    assert_eq!(first.sequence_number, number(1));
    journal.delete_to(&id(), number(COMMITS - 1)).await.unwrap();
    let mut last = 1;
    while last < COMMITS {
        let event = followed.try_next().await.unwrap().unwrap();
        assert!(event.sequence_number.get() > last);
        last = event.sequence_number.get();
    }
}
