//! The `annals` layout at the boundaries of its buckets, compared with a model without buckets.

use std::sync::Arc;

use annals::embedded::Embedded;
use annals::items::Items;
use annals::journal::{Expected, Journal};
use annals::memory::Memory;
use annals::store::Store;
use annals::{NewEvent, Random};
use tempfile::TempDir;

use annals_testkit::journals::{after, append, create, id, number, open, replay, text, window};

/// Lengths of commits around the span of a bucket, and longer than one.
const LENGTHS: [u64; 14] = [
    1, 1, 2, 3, 10, 100, 497, 499, 998, 999, 1000, 1001, 1500, 2500,
];
const EVENTS_MAX: u64 = 6_000;
const WINDOWS: usize = 6;

/// The expected journal: events 1 to `last`, without those up to `deleted`.
struct Model {
    random: Random,
    last: u64,
    deleted: u64,
    /// Where commits end.
    ends: Vec<u64>,
}

fn payloads(first: u64, count: u64) -> Vec<NewEvent> {
    let numbers = first..first + count;
    numbers.map(|n| text(format!("event {n}"))).collect()
}

impl Model {
    /// A number near a boundary.
    fn interesting(&self) -> u64 {
        let near = match self.random.below(5) {
            0 => 1,
            1 => 1_000 * self.random.below(8),
            2 if !self.ends.is_empty() => {
                self.ends[self.random.below(self.ends.len() as u64) as usize]
            }
            3 => self.deleted,
            _ => self.last,
        };
        (near + self.random.below(5)).saturating_sub(2).max(1)
    }

    async fn check_window(&self, journal: &Journal) {
        let (from, to) = match self.random.below(4) {
            0 => (1, u64::MAX),
            1 => (self.interesting(), u64::MAX),
            _ => (self.interesting(), self.interesting()),
        };
        let max = [u64::MAX, u64::MAX, 1, 3, 1_000][self.random.below(5) as usize];
        let want = from.max(self.deleted + 1)..=to.min(self.last);
        let want: Vec<u64> = want.take(max.min(10_000) as usize).collect();
        let found = replay(journal, window(from..=to, max)).await.unwrap();
        let numbers: Vec<u64> = found.iter().map(|e| e.sequence_number.get()).collect();
        assert_eq!(numbers, want, "from {from} to {to}, at most {max}");
        for event in found {
            let n = event.sequence_number;
            assert_eq!(event.data.payload, format!("event {n}"));
        }
    }

    async fn check_highest(&self, journal: &Journal) {
        let highest = journal.highest(&id()).await.unwrap();
        assert_eq!(highest.map_or(0, |highest| highest.get()), self.last);
    }

    async fn grow(&mut self, journal: &Journal) {
        let count = LENGTHS[self.random.below(LENGTHS.len() as u64) as usize];
        let expected = match self.random.below(4) {
            0 => Expected::Any,
            _ => after(self.last),
        };
        let events = payloads(self.last + 1, count);
        let appended = journal.append(&id(), expected, events).await.unwrap();
        assert_eq!(appended.first.get(), self.last + 1);
        self.last += count;
        self.ends.push(self.last);
    }

    /// Wrong expectations: inside a commit, past the end, or outdated.
    async fn check_refused(&self, journal: &Journal) {
        let believed = self.interesting();
        if believed != self.last {
            let outcome = journal.append(&id(), after(believed), text("x")).await;
            outcome.expect_err("a conflict");
        }
    }

    async fn shrink(&mut self, journal: &Journal) {
        let to = self.interesting();
        journal.delete_to(&id(), number(to)).await.unwrap();
        self.deleted = self.deleted.max(to.min(self.last));
    }
}

async fn history(items: &Arc<dyn Items>, seed: u64) {
    let random = Random::seeded(seed);
    let mut model = Model {
        random,
        last: 0,
        deleted: 0,
        ends: Vec::new(),
    };
    let mut journal = open(items).await;
    while model.last < EVENTS_MAX {
        if model.random.below(3) == 0 {
            journal = open(items).await;
        }
        match model.random.below(8) {
            0 => model.shrink(&journal).await,
            1 => model.check_window(&journal).await,
            2 => model.check_highest(&journal).await,
            3 => model.check_refused(&journal).await,
            _ => model.grow(&journal).await,
        }
    }
    for _ in 0..WINDOWS {
        if model.random.below(2) == 0 {
            journal = open(items).await;
        }
        model.check_window(&journal).await;
        model.check_highest(&journal).await;
        if model.random.below(3) == 0 {
            model.shrink(&journal).await;
        }
    }
}

/// Runs a history, saying which one fails.
async fn run(items: Arc<dyn Items>, seed: u64) {
    create(&*items).await;
    let ended = tokio::spawn(async move { history(&items, seed).await }).await;
    assert!(ended.is_ok(), "seed {seed}: {ended:?}");
}

#[tokio::test]
async fn histories_in_memory_match_the_model() {
    for seed in 0..300 {
        run(Arc::new(Memory::new()), seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_on_disk_match_the_model() {
    for seed in 1_000..1_010 {
        let folder = TempDir::new().unwrap();
        let items = Embedded::open(folder.path(), &Default::default()).unwrap();
        run(Arc::new(items), seed).await;
    }
}

/// A counting store with commits of 100 events up to `last`.
async fn hundreds(last: u64) -> (Store, Arc<dyn Items>) {
    let counting = Store::from(Arc::new(Memory::new()));
    let items: Arc<dyn Items> = counting.items().clone();
    create(&*items).await;
    let journal = open(&items).await;
    for n in 0..last / 100 {
        append(&journal, 100 * n, payloads(100 * n + 1, 100)).await;
    }
    (counting, items)
}

#[tokio::test]
async fn the_highest_number_takes_twice_the_logarithm_of_buckets() {
    for (last, without_hint) in [
        (0, 1),
        (100, 1),
        (900, 1),
        (1_000, 2),
        (10_000, 8),
        (64_000, 14),
    ] {
        let (counting, items) = hundreds(last).await;
        let journal = open(&items).await;
        for want in [without_hint, 1] {
            counting.take_counts();
            let highest = journal.highest(&id()).await.unwrap();
            assert_eq!(highest.map_or(0, |highest| highest.get()), last);
            let spent = counting.take_counts().total().cost;
            assert_eq!(spent.requests, want, "up to {last}");
        }
    }
}

#[tokio::test]
async fn a_stale_hint_only_costs_requests() {
    let (counting, items) = hundreds(1_500).await;
    let lagging = open(&items).await;
    assert_eq!(lagging.highest(&id()).await.unwrap(), Some(number(1_500)));
    let other = open(&items).await;
    for n in 15..93 {
        append(&other, 100 * n, payloads(100 * n + 1, 100)).await;
    }
    counting.take_counts();
    assert_eq!(lagging.highest(&id()).await.unwrap(), Some(number(9_300)));
    assert!(counting.take_counts().total().cost.requests <= 8);
}

#[tokio::test]
async fn a_number_far_past_the_end_is_a_conflict_after_a_few_requests() {
    let (counting, items) = hundreds(3_000).await;
    for far in [3_001, 5_000, 1_000_000, i64::MAX as u64] {
        let journal = open(&items).await;
        counting.take_counts();
        let outcome = journal.append(&id(), after(far), text("x")).await;
        outcome.expect_err("a conflict");
        let found = replay(&journal, window(far..=u64::MAX, 1)).await.unwrap();
        assert!(found.is_empty());
        let requests = counting.take_counts().total().cost.requests;
        assert!(requests <= 14, "{far}: {requests}");
        assert_eq!(journal.highest(&id()).await.unwrap(), Some(number(3_000)));
    }
}

#[tokio::test]
async fn deleting_the_next_hundred_does_not_read_deleted_events() {
    let counting = Store::from(Arc::new(Memory::new()));
    let items: Arc<dyn Items> = counting.items().clone();
    create(&*items).await;
    let journal = open(&items).await;
    for n in 0..10_100 {
        append(&journal, n, vec![text("x")]).await;
    }
    let mut costs = Vec::new();
    for n in 1..=100 {
        counting.take_counts();
        journal.delete_to(&id(), number(100 * n)).await.unwrap();
        costs.push(counting.take_counts().total().cost);
    }
    let (second, last) = (costs[1], costs[99]);
    // The first commit, the hundred, four batches of tombstones, the low marker read and put.
    assert_eq!((second.requests, last.requests), (8, 8), "{costs:?}");
    assert_eq!((second.write_units, last.write_units), (101, 101));
    counting.take_counts();
    let left = replay(&journal, window(1..=u64::MAX, u64::MAX))
        .await
        .unwrap();
    assert_eq!(left.len(), 100);
    // The tombstone of the first commit, then the remaining events: not ten thousand tombstones.
    let spent = counting.take_counts().total().cost;
    assert!(spent.requests <= 3, "{spent:?}");
    assert_eq!(journal.highest(&id()).await.unwrap(), Some(number(10_100)));
}
