//! Deletions of the `akka` layout: the last events are read before they are emptied, older ones are
//! not. Which repeated appends are recognised, and what happens to stalled writers.

use std::sync::Arc;

use annals::items::{Condition, Item, Items};
use annals::journal::{Append, AppendError, Appended, Expected, Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::verify::Verify;
use annals::{Event, Random, Token};
use annals_testkit::faulty::{Faults, Faulty};
use futures::TryStreamExt;

use crate::akka_plugin::{ID, Plugin, akka};
use annals_testkit::gate::{Gate, Hold, turns};
use annals_testkit::journals::{after, number, open_as, text};

/// How many of the last events keep their token after a deletion.
const KEPT: u64 = 32;

fn id() -> annals::PersistenceId {
    ID.parse().unwrap()
}

struct Bed {
    items: Arc<dyn Items>,
    plugin: Plugin,
}

impl Bed {
    async fn new() -> Self {
        let items: Arc<dyn Items> = Arc::new(Memory::new());
        let settings = akka();
        for table in settings.tables().unwrap().all() {
            let created = items.create_table(table, Default::default());
            created.await.unwrap();
        }
        let plugin = Plugin::new(&items, 10);
        Self { items, plugin }
    }

    async fn journal(&self) -> Journal {
        open_as(&self.items, &akka()).await
    }

    /// Events up to this number, one per append.
    async fn fill(&self, to: u64) {
        let journal = self.journal().await;
        let last = journal.highest(&id()).await.unwrap();
        for n in last.map_or(0, |last| last.get()) + 1..=to {
            append(&journal, after(n - 1), events(1)).await.unwrap();
        }
    }

    async fn delete_to(&self, to: u64) {
        let journal = self.journal().await;
        journal.delete_to(&id(), number(to)).await.unwrap();
    }

    async fn row(&self, n: u64) -> Option<Item> {
        let key = vec![Plugin::key(n)];
        let got = self.items.get(&self.plugin.table, key).await.unwrap();
        got.items.into_iter().next().unwrap()
    }

    async fn replayed(&self) -> Vec<u64> {
        let all = self.journal().await.replay(&id(), Window::ALL);
        let all: Vec<Event> = all.try_collect().await.unwrap();
        all.iter().map(|e| e.sequence_number.get()).collect()
    }

    /// There are no findings, and the next event comes after this one.
    async fn check_end(&self, last: u64) {
        let journal = self.journal().await;
        assert_eq!(journal.verify(&id(), Verify::Check).await.unwrap(), []);
        let highest = journal.highest(&id()).await.unwrap();
        assert_eq!(highest, Some(number(last)));
        let appended = append(&journal, after(last), events(1)).await.unwrap();
        assert_eq!(appended.first, number(last + 1));
    }
}

fn events(count: u64) -> Append {
    Append::of((0..count).map(|n| text(format!("{n}"))).collect::<Vec<_>>())
}

async fn append(
    journal: &Journal,
    expected: Expected,
    append: Append,
) -> Result<Appended, AppendError> {
    journal.append(&id(), expected, append).await
}

fn is_conflict(outcome: &Result<Appended, AppendError>) -> bool {
    matches!(outcome, Err(AppendError::Conflict(_)))
}

fn is_emptied(row: &Item) -> bool {
    row.get("deleted").is_some() && row.get("event").is_none()
}

#[tokio::test]
async fn the_last_deleted_events_keep_their_append() {
    for to in [5, 31, 32, 33, 99, 100, 131, 150, 260] {
        let bed = Bed::new().await;
        bed.fill(260).await;
        bed.delete_to(to).await;
        for n in 1..=to {
            let row = bed.row(n).await.unwrap();
            assert!(is_emptied(&row), "{to}: {n}");
            let is_kept = row.get("writer_uuid").is_some() && row.get("time").is_some();
            assert_eq!(is_kept, n + KEPT > to, "{to}: {n}");
        }
        assert_eq!(bed.replayed().await, (to + 1..=260).collect::<Vec<_>>());
        // Events that were deleted before are not emptied again.
        bed.delete_to(260).await;
        let row = bed.row(to).await.unwrap();
        assert!(row.get("writer_uuid").is_some(), "{to}");
        bed.check_end(260).await;
    }
}

/// A batch without one of its members is not replayed, even if a deletion ends inside it: the missing
/// member is not taken as deleted.
#[tokio::test]
async fn a_deletion_inside_an_incomplete_batch_brings_nothing_back() {
    // The last member is stored, or its number was used by another append.
    for (missing, taken, left) in [(2, false, 6..=6), (2, true, 5..=6), (4, true, 5..=6)] {
        for to in 1..=4 {
            let bed = Bed::new().await;
            let journal = bed.journal().await;
            append(&journal, after(0), events(5)).await.unwrap();
            append(&journal, after(5), events(1)).await.unwrap();
            // As the plugin writes them: a batch of ours with its last member was complete.
            for n in 1..=5 {
                let mut row = bed.row(n).await.unwrap().with("writer_uuid", "w-1");
                row.remove("crc");
                bed.plugin.put(row).await;
            }
            let gone = Plugin::key(missing);
            let removed = bed.items.delete(&bed.plugin.table, gone, Condition::Always);
            removed.await.unwrap();
            if taken {
                let mut alone = bed.row(5).await.unwrap();
                alone.remove("idx");
                alone.remove("cnt");
                // The plugin writes no checksum.
                alone.remove("crc");
                bed.plugin.put(alone).await;
            }
            let left: Vec<u64> = left.clone().collect();
            assert_eq!(bed.replayed().await, left);
            bed.delete_to(to).await;
            assert_eq!(bed.replayed().await, left, "deleted to {to}");
            bed.delete_to(4).await;
            assert_eq!(bed.replayed().await, left);
        }
    }
}

#[tokio::test]
async fn rows_before_a_gap_are_read() {
    let bed = Bed::new().await;
    bed.plugin.write_all(1..=99).await;
    for n in [10, 50] {
        bed.plugin.remove(n).await;
    }
    bed.delete_to(50).await;
    for n in 1..=50 {
        let row = bed.row(n).await;
        assert_eq!(row.is_some(), ![10, 50].contains(&n), "{n}");
        assert!(row.is_none_or(|row| row.get("writer_uuid").is_some()));
    }
    assert_eq!(bed.replayed().await, (51..=99).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_interrupted_deletion_is_finished_the_same_way() {
    let bed = Bed::new().await;
    bed.fill(250).await;
    let lossy = Faults {
        unprocessed: 1_000,
        ..Faults::none()
    };
    let faulty = Faulty::new(bed.items.clone(), Random::seeded(1), lossy);
    let faulty: Arc<dyn Items> = Arc::new(faulty);
    let journal = open_as(&faulty, &akka()).await;
    assert!(journal.delete_to(&id(), number(200)).await.is_err());
    assert_eq!(bed.replayed().await, (201..=250).collect::<Vec<_>>());
    // By the next deletion, even a smaller one, or by a verification.
    let journal = bed.journal().await;
    let found = journal.verify(&id(), Verify::Check).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    bed.delete_to(3).await;
    for n in 1..=200 {
        let row = bed.row(n).await.unwrap();
        assert!(is_emptied(&row), "{n}");
        let is_kept = row.get("writer_uuid").is_some();
        assert_eq!(is_kept, n + KEPT > 200, "{n}");
    }
    bed.check_end(250).await;
}

/// An append whose response was lost, repeated after a deletion.
async fn check_repeated(count: u64, deleted_to: u64, is_known: bool) {
    let what = format!("{count} events, deleted to {deleted_to}");
    let bed = Bed::new().await;
    bed.fill(1).await;
    let token = bed.journal().await.token();
    let landed = append(&bed.journal().await, after(1), events(count).token(token)).await;
    let landed = landed.unwrap();
    bed.fill(150).await;
    bed.delete_to(deleted_to).await;
    for _ in 0..2 {
        let journal = bed.journal().await;
        let again = append(&journal, after(1), events(count).token(token)).await;
        match is_known {
            true => assert_eq!(again.unwrap(), landed, "{what}"),
            false => assert!(is_conflict(&again), "{what}: {again:?}"),
        }
        // Another writer's append with this expectation is always a conflict.
        let other = append(&journal, after(1), events(count)).await;
        assert!(is_conflict(&other), "{what}: {other:?}");
    }
    bed.check_end(150).await;
}

#[tokio::test]
async fn an_append_is_recognised_while_its_last_token_is_kept() {
    for (count, deleted_to, is_known) in [
        (1, 2, true),
        (1, 33, true),
        (1, 34, false),
        (1, 150, false),
        // Partly deleted; its last token is kept; its last token is lost.
        (50, 20, true),
        (50, 51, true),
        (50, 82, true),
        (50, 83, false),
        (50, 150, false),
    ] {
        check_repeated(count, deleted_to, is_known).await;
    }
}

#[tokio::test]
async fn an_append_without_expectation_is_not_stored_twice_after_its_token_is_lost() {
    let bed = Bed::new().await;
    bed.fill(3).await;
    let gate = Gate::new(&bed.items);
    let items: Arc<dyn Items> = gate.clone();
    let journal = open_as(&items, &akka()).await;
    let token = journal.token();
    gate.hold(Hold::Answer(4));
    let lost = append(&journal, Expected::Any, events(1).token(token)).await;
    assert!(matches!(lost, Err(AppendError::Store(_))), "{lost:?}");
    gate.hold(Hold::Nothing);
    bed.fill(100).await;
    bed.delete_to(100).await;
    for _ in 0..2 {
        let again = append(&journal, Expected::Any, events(1).token(token)).await;
        assert!(is_conflict(&again), "{again:?}");
    }
    assert_eq!(bed.replayed().await, [0u64; 0]);
    // Any other append goes after the last event.
    let other = append(&journal, Expected::Any, events(1)).await.unwrap();
    assert_eq!(other.first, number(101));
}

#[tokio::test]
async fn a_zombie_gets_a_conflict_after_events_were_deleted_unread() {
    for count in [1, 2, 40] {
        let bed = Bed::new().await;
        bed.fill(3).await;
        let (zombie, other) = (bed.journal().await, bed.journal().await);
        for journal in [&zombie, &other] {
            let read: Vec<Event> = journal
                .replay(&id(), Window::ALL)
                .try_collect()
                .await
                .unwrap();
            assert_eq!(read.len(), 3);
        }
        bed.fill(100).await;
        bed.delete_to(100).await;
        // Also with the token that an item without one might be read as.
        let nobody = Token::from_bytes([0; 8]);
        for append_ in [events(count), events(count).token(nobody)] {
            let refused = append(&zombie, after(3), append_).await;
            assert!(is_conflict(&refused), "{count}: {refused:?}");
        }
        // It has the old end cached, and finds the current one.
        let appended = append(&other, Expected::Any, events(count)).await;
        assert_eq!(appended.unwrap().first, number(101));
        bed.check_end(100 + count).await;
    }
}

/// A batch from 2 to 60 of which only 10 and the last are missing; and the gate before 10.
async fn in_flight(
    bed: &Bed,
) -> (
    Arc<Gate>,
    tokio::task::JoinHandle<Result<Appended, AppendError>>,
) {
    bed.fill(1).await;
    let gate = Gate::new(&bed.items);
    let items: Arc<dyn Items> = gate.clone();
    let journal = open_as(&items, &akka()).await;
    gate.hold(Hold::Put(10));
    let run = async move { append(&journal, after(1), events(59)).await };
    let running = tokio::spawn(run);
    turns().await;
    for (n, is_there) in [(9, true), (10, false), (11, true), (59, true), (60, false)] {
        assert_eq!(bed.row(n).await.is_some(), is_there, "{n}");
    }
    (gate, running)
}

#[tokio::test]
async fn a_batch_in_flight_is_not_stopped_by_a_deletion_inside_it() {
    for to in [11, 50, 59] {
        let bed = Bed::new().await;
        let (gate, running) = in_flight(&bed).await;
        bed.delete_to(to).await;
        assert!(bed.row(10).await.is_none(), "its number is left alone");
        assert_eq!(gate.lift(), 1);
        let appended = running.await.unwrap().unwrap();
        assert_eq!((appended.first, appended.last), (number(2), number(60)));
        assert_eq!(bed.replayed().await, (to + 1..=60).collect::<Vec<_>>());
        let behind = append(&bed.journal().await, after(60), events(1)).await;
        assert_eq!(behind.unwrap().first, number(61));
    }
}

#[tokio::test]
async fn an_abandoned_batch_is_stopped_by_emptied_items() {
    let bed = Bed::new().await;
    let (gate, running) = in_flight(&bed).await;
    // Another writer uses the number of its last member.
    let other = append(&bed.journal().await, after(1), events(1)).await;
    assert_eq!(other.unwrap().first, number(60));
    bed.fill(120).await;
    bed.delete_to(110).await;
    assert!(is_emptied(&bed.row(10).await.unwrap()));
    gate.lift();
    let refused = running.await.unwrap();
    assert!(is_conflict(&refused), "{refused:?}");
    assert_eq!(bed.replayed().await, (111..=120).collect::<Vec<_>>());
    bed.check_end(120).await;
}
