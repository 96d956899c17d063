//! The exact cost of the journal and the snapshots of the `akka` layout, in requests and units,
//! compared with the JVM plugin's own requests. `--nocapture` prints the table.
//!
//! No operation takes more units than the plugin's. Two take more requests: a batch, since each
//! event is a conditional put, and reading the end if the last event is the last of its hundred,
//! since the next hundred is read too. Recovery and deletion take no more requests.
//!
//! Assumptions as in the plugin's description: payloads of 1,024 bytes, ids of 36 characters, ten
//! shards, all reads consistent. Opening the journal is not part of an operation; appends come from
//! a process that has recovered the id.

use std::sync::Arc;

use annals::items::{Cost, Items};
use annals::journal::{Journal, Window};
use annals::layout::Layout;
use annals::memory::Memory;
use annals::snapshot::Criteria;
use annals::store::Store;
use annals::{Codec, ManualClock, NewEvent, Payload, PersistenceId, Random, SequenceNumber};
use annals_testkit::store;
use futures::TryStreamExt;

use crate::akka_plugin::{ID, Plugin, akka};
use annals_testkit::gate::Gate;
use annals_testkit::journals::{after, number, open_as};

/// Requests, write units, read units.
type Spent = (u64, u64, u64);

fn id() -> PersistenceId {
    "0f8fad5b-d9cb-469f-a165-70867728950e".parse().unwrap()
}

fn event() -> NewEvent {
    NewEvent::new(Codec::Bytes, vec![7; 1_024])
}

struct Bed {
    counting: Store,
    items: Arc<dyn Items>,
}

impl Bed {
    async fn new() -> Self {
        let counting = Store::from(Arc::new(Memory::new()));
        let items: Arc<dyn Items> = counting.items().clone();
        let settings = akka();
        for table in settings.tables().unwrap().all() {
            let created = items.create_table(table, Default::default());
            created.await.unwrap();
        }
        Self { counting, items }
    }

    /// An id with this many events, appended one by one, and a journal that has recovered it.
    async fn with(events: u64) -> (Self, Journal) {
        let bed = Self::new().await;
        let journal = open_as(&bed.items, &akka()).await;
        for n in 0..events {
            append(&journal, n, 1).await;
        }
        let journal = open_as(&bed.items, &akka()).await;
        // So that writing the journal's record is not part of an operation.
        let other: PersistenceId = "other".parse().unwrap();
        journal.append(&other, after(0), event()).await.unwrap();
        let read: Vec<_> = journal
            .replay(&id(), Window::ALL)
            .try_collect()
            .await
            .unwrap();
        assert_eq!(read.len() as u64, events);
        bed.counting.take_counts();
        (bed, journal)
    }

    fn spent(&self) -> Spent {
        let Cost {
            requests,
            write_units,
            read_half_units,
        } = self.counting.take_counts().total().cost;
        assert_eq!(read_half_units % 2, 0, "all reads are consistent");
        (requests, write_units, read_half_units / 2)
    }
}

async fn append(journal: &Journal, last: u64, count: usize) {
    let events = vec![event(); count];
    let appended = journal.append(&id(), after(last), events).await.unwrap();
    assert_eq!(appended.first.get(), last + 1);
}

async fn persist(last: u64, count: usize) -> Spent {
    let (bed, journal) = Bed::with(last).await;
    append(&journal, last, count).await;
    bed.spent()
}

async fn highest(events: u64) -> Spent {
    let (bed, _) = Bed::with(events).await;
    let journal = open_as(&bed.items, &akka()).await;
    bed.counting.take_counts();
    let found = journal.highest(&id()).await.unwrap();
    assert_eq!(found, SequenceNumber::new(events));
    bed.spent()
}

async fn recover(events: u64) -> Spent {
    let (bed, _) = Bed::with(events).await;
    let journal = open_as(&bed.items, &akka()).await;
    bed.counting.take_counts();
    let read: Vec<_> = journal
        .replay(&id(), Window::ALL)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(read.len() as u64, events);
    bed.spent()
}

async fn delete(events: u64, to: SequenceNumber) -> Spent {
    let (bed, journal) = Bed::with(events).await;
    journal.delete_to(&id(), to).await.unwrap();
    bed.spent()
}

async fn purge() -> Spent {
    let (bed, journal) = Bed::with(0).await;
    journal.purge(&id()).await.unwrap();
    bed.spent()
}

/// Saving a snapshot of 100 KB, and loading the latest.
async fn snapshot() -> [Spent; 2] {
    let bed = Bed::new().await;
    let clock = Arc::new(ManualClock::at_ms(1_000));
    let store = store(bed.items.clone(), clock, Random::seeded(1));
    let snapshots = akka().snapshots(&store);
    let snapshots = snapshots.unwrap();
    let state = Payload::new(Codec::Bytes, vec![7; 100 * 1_024]);
    bed.counting.take_counts();
    snapshots.save(&id(), number(1), state).await.unwrap();
    let saved = bed.spent();
    snapshots.load(&id(), Criteria::ALL).await.unwrap().unwrap();
    [saved, bed.spent()]
}

/// An operation, what it costs here, and what the plugin's requests cost.
struct Line {
    what: &'static str,
    ours: Spent,
    plugins: Spent,
}

impl Line {
    /// If ours takes more.
    fn verdict(&self) -> String {
        let (ours, plugins) = (self.ours, self.plugins);
        let more = |ours: u64, plugins: u64, what: &str| {
            let more = ours.checked_sub(plugins).filter(|more| *more > 0);
            more.map(|more| format!("{more} {what} more"))
        };
        let all = [
            more(ours.0, plugins.0, "requests"),
            more(ours.1, plugins.1, "write units"),
            more(ours.2, plugins.2, "read units"),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

async fn lines() -> Vec<Line> {
    let [saved, loaded] = snapshot().await;
    let all = SequenceNumber::LAST;
    let line = |what, ours, plugins| Line {
        what,
        ours,
        plugins,
    };
    vec![
        line("persist 1", persist(5, 1).await, (1, 2, 0)),
        line(
            "persist 1, every hundredth",
            persist(99, 1).await,
            (1, 3, 0),
        ),
        line("persist 10 at once", persist(5, 10).await, (1, 20, 0)),
        line("persist 100 at once", persist(5, 100).await, (5, 201, 0)),
        line("highest of 1", highest(1).await, (2, 0, 11)),
        line("highest of 3", highest(3).await, (2, 0, 11)),
        line("highest of 50", highest(50).await, (2, 0, 26)),
        line("highest of 99", highest(99).await, (2, 0, 40)),
        line("highest of 100", highest(100).await, (2, 0, 11)),
        line("highest of 199", highest(199).await, (2, 0, 41)),
        line("highest of an unknown id", highest(0).await, (3, 0, 21)),
        line("recover 1", recover(1).await, (4, 0, 22)),
        line("recover 99", recover(99).await, (4, 0, 80)),
        line("recover 100", recover(100).await, (5, 0, 52)),
        line("recover 10,000", recover(10_000).await, (104, 0, 3_121)),
        line("delete 5", delete(5, number(5)).await, (5, 12, 22)),
        line("delete 5, and all", delete(5, all).await, (5, 12, 22)),
        line(
            "delete 10,000",
            delete(10_000, number(10_000)).await,
            (405, 20_002, 21),
        ),
        line("purge of an empty id", purge().await, (6, 21, 21)),
        // Twice the item: the index by time projects everything.
        line("save a snapshot of 100 KB", saved, (1, 202, 0)),
        line("load the latest snapshot", loaded, (1, 0, 26)),
    ]
}

#[tokio::test]
async fn every_operation_has_its_documented_cost() {
    let lines = lines().await;
    println!("requests, write units, read units");
    for line in &lines {
        let (ours, plugins) = (format!("{:?}", line.ours), format!("{:?}", line.plugins));
        let (what, verdict) = (line.what, line.verdict());
        println!("{what:26} {ours:20} plugin {plugins:20} {verdict}");
    }
    let ours: Vec<(&str, Spent)> = lines.iter().map(|line| (line.what, line.ours)).collect();
    let written = [
        ("persist 1", (1, 2, 0)),
        ("persist 1, every hundredth", (2, 3, 0)),
        ("persist 10 at once", (10, 20, 0)),
        ("persist 100 at once", (101, 201, 0)),
        ("highest of 1", (2, 0, 11)),
        ("highest of 3", (2, 0, 11)),
        ("highest of 50", (2, 0, 11)),
        ("highest of 99", (3, 0, 12)),
        ("highest of 100", (2, 0, 11)),
        ("highest of 199", (3, 0, 12)),
        ("highest of an unknown id", (3, 0, 21)),
        ("recover 1", (3, 0, 22)),
        ("recover 99", (3, 0, 51)),
        ("recover 100", (4, 0, 52)),
        ("recover 10,000", (103, 0, 3_022)),
        ("delete 5", (5, 12, 12)),
        ("delete 5, and all", (5, 12, 22)),
        ("delete 10,000", (405, 20_002, 21)),
        ("purge of an empty id", (3, 20, 21)),
        ("save a snapshot of 100 KB", (1, 202, 0)),
        ("load the latest snapshot", (1, 0, 26)),
    ];
    assert_eq!(ours, written);
    let is_dearer = |line: &&Line| {
        let ((_, write, read), (_, plugins_write, plugins_read)) = (line.ours, line.plugins);
        write > plugins_write || read > plugins_read
    };
    let dearer: Vec<&str> = lines
        .iter()
        .filter(is_dearer)
        .map(|line| line.what)
        .collect();
    assert_eq!(dearer, [""; 0]);
}

/// Round trips determine the latency. The plugin takes four to recover one event (the high markers,
/// the last hundred, the low markers, the events), two for the highest, and three for an unknown id.
#[tokio::test]
async fn recovery_and_highest_take_two_rounds() {
    let recovered = recover(1).await;
    assert!(recovered.0 <= 3 && recovered.2 <= 23, "{recovered:?}");
    for (events, recovery, highest) in [
        // The markers and the first hundred concurrently; then the next hundred.
        (1, vec![2, 1], vec![1, 1]),
        (50, vec![2, 1], vec![1, 1]),
        (99, vec![2, 1], vec![1, 1, 1]),
        (150, vec![2, 1, 1], vec![1, 1]),
        (0, vec![2, 1], vec![1, 1, 1]),
    ] {
        let (bed, _) = Bed::with(events).await;
        let gate = Gate::new(&bed.items);
        let items: Arc<dyn Items> = gate.clone();
        let journal = open_as(&items, &akka()).await;
        let replay = journal.replay(&id(), Window::ALL);
        let read = async move {
            let read: Vec<_> = replay.try_collect().await.unwrap();
            assert_eq!(read.len() as u64, events);
        };
        assert_eq!(gate.rounds(read).await, recovery, "recover {events}");
        let find = async move {
            journal.highest(&id()).await.unwrap();
        };
        assert_eq!(gate.rounds(find).await, highest, "highest of {events}");
    }
}

/// The one operation that can take more than the plugin's: an event of the JVM is proven to be the
/// last only by the low markers next to it and the next hundred. The plugin reads neither, and is
/// wrong after a failed deletion, marker or put (`akka_hazards`).
#[tokio::test]
async fn the_highest_after_an_event_of_the_jvm_takes_more_reads() {
    let id: PersistenceId = ID.parse().unwrap();
    for events in [1, 3, 13, 50, 99, 100, 113, 199] {
        let (bed, _) = Bed::with(0).await;
        let plugin = Plugin::new(&bed.items, 10);
        for n in 1..=events {
            plugin.write(n, &"7".repeat(1_024)).await;
        }
        bed.counting.take_counts();
        assert_eq!(plugin.highest().await, events);
        let (_, _, plugins) = bed.spent();
        let journal = open_as(&bed.items, &akka()).await;
        bed.counting.take_counts();
        let found = journal.highest(&id).await.unwrap();
        assert_eq!(found, SequenceNumber::new(events));
        assert_eq!(bed.spent(), (4, 0, 14));
        let in_last = events % 100 + u64::from(events >= 100);
        assert_eq!(plugins < 14, in_last < 13, "{plugins} units for {events}");
    }
}
