//! A process that is killed loses nothing it acknowledged.
//!
//! The test starts itself again as a child that writes with many writers and reports each
//! acknowledgement on a pipe. The child is killed after a number of acknowledgements drawn by
//! seed, again and again on the same folder; after each kill the folder is opened here and every
//! acknowledged write must be complete, in the table and in its index.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use annals::embedded::Embedded;
use annals::items::{
    Condition, IndexSpec, Item, Items, Key, KeyAttribute, KeySchema, Query, Scan, TableSpec, Value,
    Write, query_all, scan_all,
};
use annals::settings::EmbeddedSettings;
use annals::{ErrorKind, Random};
use futures::TryStreamExt;
use tempfile::TempDir;

const KILLS: u64 = 60;
const WRITERS: u64 = 16;
/// In some rounds another writer puts so much that the engine flushes and rotates.
const BULK_WRITER: u64 = 99;
const FOLDER: &str = "ANNALS_CRASH_FOLDER";
const ROUND: &str = "ANNALS_CRASH_ROUND";

fn table() -> TableSpec {
    let key = KeySchema::new(KeyAttribute::text("p")).sorted(KeyAttribute::number("n"));
    let by_round = KeySchema::new(KeyAttribute::number("round")).sorted(KeyAttribute::text("p"));
    let index = IndexSpec::global("by-round".parse().unwrap(), by_round);
    let spec = TableSpec::new("events".parse().unwrap(), key).unwrap();
    spec.with_index(index).unwrap()
}

/// An item that can be checked: its body is drawn from its own number.
fn event(writer: u64, n: u64, round: u64) -> Item {
    let random = Random::seeded(writer << 32 | n);
    let words = match writer {
        BULK_WRITER => 12_500,
        _ => random.below(100),
    };
    let words = (0..words).map(|_| random.bits());
    let body: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let item = Item::new().with("p", format!("w{writer}")).with("n", n);
    item.with("round", round).with("body", body)
}

fn is_whole(item: &Item) -> bool {
    let number = |name: &str| item.get(name).and_then(Value::as_u64).unwrap();
    let writer = item.get("p").and_then(Value::as_str).unwrap();
    let writer = writer.strip_prefix('w').unwrap().parse().unwrap();
    *item == event(writer, number("n"), number("round"))
}

fn counter(revision: u64) -> Item {
    Item::new()
        .with("p", "counter")
        .with("n", 0u64)
        .with("revision", revision)
}

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, &EmbeddedSettings::default()).unwrap()
}

/// The child process.
#[ignore = "the child process of another test"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let items = Arc::new(open(Path::new(&folder)));
    match items.create_table(&table(), Default::default()).await {
        Ok(()) => acknowledge("table"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
    }
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(items.clone(), writer, round)));
    let bulk = is_bulk(round).then(|| tokio::spawn(write_bulk(items.clone(), round)));
    let counter = tokio::spawn(count(items.clone()));
    futures::future::try_join_all(writers.chain([counter]).chain(bulk))
        .await
        .unwrap();
}

fn acknowledge(what: &str) {
    // One write of less than a pipe's atomic size: a kill cuts between lines, not inside one.
    let line = format!("ack {what}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Half the writers put one by one, the others in batches.
async fn write(items: Arc<Embedded>, writer: u64, round: u64) {
    let spec = table();
    for step in 0..2_000 {
        let first = round * 100_000 + step * 10;
        if writer.is_multiple_of(2) {
            let item = event(writer, first, round);
            items.put(&spec, item, Condition::Absent).await.unwrap();
            acknowledge(&format!("{writer} {first} 1"));
        } else {
            let events = (first..first + 10).map(|n| Write::Put(event(writer, n, round)));
            items.write(&spec, events.collect()).await.unwrap();
            acknowledge(&format!("{writer} {first} 10"));
        }
    }
}

fn is_bulk(round: u64) -> bool {
    round % 30 == 13
}

/// Two megabytes at a time: some thirty of these fill the engine's memory.
async fn write_bulk(items: Arc<Embedded>, round: u64) {
    let spec = table();
    for step in 0..200 {
        let first = round * 100_000 + step * 20;
        let events = (first..first + 20).map(|n| Write::Put(event(BULK_WRITER, n, round)));
        items.write(&spec, events.collect()).await.unwrap();
        acknowledge(&format!("{BULK_WRITER} {first} 20"));
    }
}

/// Keeps raising a revision, each time on the condition that it is the one before.
async fn count(items: Arc<Embedded>) {
    let spec = table();
    let key = Key::new("counter").sorted(0u64);
    let found = items.get(&spec, vec![key]).await.unwrap().items;
    let found = found.first().and_then(Option::as_ref).map(revision);
    let mut revision = found.unwrap_or(0);
    for _ in 0..20_000 {
        let condition = match revision {
            0 => Condition::Absent,
            _ => Condition::Equals("revision".to_owned(), revision.into()),
        };
        revision += 1;
        items
            .put(&spec, counter(revision), condition)
            .await
            .unwrap();
        acknowledge(&format!("revision {revision}"));
    }
}

fn revision(item: &Item) -> u64 {
    item.get("revision").and_then(Value::as_u64).unwrap()
}

/// Acknowledged by the children: a round for each event, the table, the last revision.
#[derive(Default)]
struct Acknowledged {
    events: BTreeMap<(u64, u64), u64>,
    has_table: bool,
    revision: u64,
}

impl Acknowledged {
    /// Handles one line of a child's output; returns whether it was an acknowledgement.
    fn take(&mut self, line: &str, round: u64) -> bool {
        let Some(what) = line.strip_prefix("ack ") else {
            return false;
        };
        match what.split(' ').collect::<Vec<_>>()[..] {
            ["table"] => self.has_table = true,
            ["revision", n] => self.revision = n.parse().unwrap(),
            [writer, first, count] => {
                let (writer, first): (u64, u64) = (writer.parse().unwrap(), first.parse().unwrap());
                let count: u64 = count.parse().unwrap();
                self.events
                    .extend((first..first + count).map(|n| ((writer, n), round)));
            }
            _ => panic!("a line that is no acknowledgement: {line}"),
        }
        true
    }
}

/// Runs a child until it has acknowledged `until` times, then kills it.
fn run_and_kill(folder: &Path, round: u64, until: u64, acknowledged: &mut Acknowledged) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "crash::child_that_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = 0;
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    if until == 0 {
        child.kill().unwrap();
    }
    let mut line = String::new();
    // Lines in the pipe before the kill were acknowledged too.
    while lines.read_line(&mut line).unwrap() > 0 {
        if line.ends_with('\n') && acknowledged.take(line.trim_end(), round) {
            seen += 1;
            if seen == until {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    let status = child.wait().unwrap();
    let mut complaint = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut complaint).unwrap();
    assert_eq!(
        status.code(),
        None,
        "the child must die of the kill alone: {complaint}"
    );
}

/// Every acknowledged write is stored, and every stored item is complete and indexed.
async fn check(folder: &Path, acknowledged: &Acknowledged, rounds: u64) {
    let items: Arc<dyn Items> = Arc::new(open(folder));
    let spec = Arc::new(table());
    let Some(found) = items.describe_table(spec.name()).await.unwrap() else {
        assert!(
            !acknowledged.has_table,
            "a table that was acknowledged is gone"
        );
        return;
    };
    assert_eq!(found, *spec);
    let all = scan_all(items.clone(), spec.clone(), Scan::whole());
    let all: Vec<Item> = all.try_collect().await.unwrap();
    let mut there = BTreeMap::new();
    for item in all {
        let key = spec.key_of(&item).unwrap();
        if item.get("revision").is_some() {
            assert!(
                revision(&item) >= acknowledged.revision,
                "a revision went back"
            );
        } else {
            assert!(is_whole(&item), "a half-written item at {key}");
            there.insert(key, item);
        }
    }
    for ((writer, n), round) in &acknowledged.events {
        let found = there.get(&Key::new(format!("w{writer}")).sorted(*n));
        assert_eq!(
            found,
            Some(&event(*writer, *n, *round)),
            "an acknowledged item is gone"
        );
    }
    let mut indexed = 0;
    for round in 0..=rounds {
        let query = Query::of(round).on("by-round");
        let entries = query_all(items.clone(), spec.clone(), query);
        let entries: Vec<Item> = entries.try_collect().await.unwrap();
        indexed += entries.len();
        for entry in entries {
            let key = spec.key_of(&entry).unwrap();
            assert_eq!(
                there.get(&key),
                Some(&entry),
                "the index and the table differ"
            );
        }
    }
    assert_eq!(indexed, there.len(), "the index lacks items of the table");
}

#[tokio::test]
async fn a_killed_process_loses_nothing_it_acknowledged() {
    let seed = std::env::var("ANNALS_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("seed {seed}; ANNALS_SEED sets another");
    let random = Random::seeded(seed);
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let mut acknowledged = Acknowledged::default();
    let mut kills = 0;
    for round in 0..KILLS {
        // Every tenth child is killed as it starts: while it opens, recovers or creates.
        let until = match round {
            _ if round.is_multiple_of(10) => 0,
            _ if is_bulk(round) => 600 + random.below(200),
            _ => 1 + random.below(150),
        };
        run_and_kill(&data, round, until, &mut acknowledged);
        kills += 1;
        // Checking everything each time would be quadratic; the last check does it.
        if round % 15 == 14 || round + 1 == KILLS {
            check(&data, &acknowledged, round).await;
        } else {
            drop(open(&data));
        }
    }
    println!(
        "{kills} kills, {} events acknowledged",
        acknowledged.events.len()
    );
    assert!(acknowledged.has_table && acknowledged.revision > 0);
    assert!(
        acknowledged.events.len() > 1_000,
        "the children got too little done"
    );
}
